"""What a data set is: its card, a study of biased against random exposure, and careful reading of files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.errors import InputError
from ipseval.propensity import Propensity
from ipseval.utils.checks import check_counts, check_positive_int, check_real
from ipseval.utils.ids import among, same_ids
from ipseval.utils.types import IntArray, readonly


@dataclass(frozen=True)
class DataCard:
    """Where a data set comes from, on what terms, and how to tell that it is complete.

    Attributes
    ----------
    name, title : str
    url : str
        Page of the authors.
    how_to_get : str
        What to do, in one sentence; printed when a file is missing.
    licence, citation : str
    sizes : mapping
        Published sizes, e.g. {"users": 290}.
    sha256 : mapping of file name to checksum
        For files that do not change between releases.
    """

    name: str
    title: str
    url: str
    how_to_get: str
    licence: str
    citation: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"DataCard({self.title})"

    def __str__(self) -> str:
        sizes = ", ".join(f"{count:,} {what}" for what, count in self.sizes.items())
        return (
            f"{self.title}\n  sizes     {sizes or 'depend on the release'}\n  source    {self.url}\n"
            f"  get it    {self.how_to_get}\n  licence   {self.licence}\n  cite      {self.citation}"
        )


CARDS = {
    name: DataCard(name, **card)
    for name, card in tomllib.loads((Path(__file__).parent / "cards.toml").read_text("utf-8")).items()
}


@dataclass(frozen=True, eq=False)
class StudyPositives:
    """A study with ratings turned into positives and negatives at a threshold.

    Attributes
    ----------
    biased : Interactions
        Positives of the biased log.
    random, random_negatives : Interactions
        Positives and negatives among the randomly exposed pairs; the positives of a user are a simple random
        sample of its relevant items.
    n_exposed, n_positive : (n_items,) int arrays
        Random exposures of each item, and positives among them.
    n_in_both : int
        Pairs that are in the biased log (whatever the rating) and in the random-exposure log.
    threshold : float
        Ratings >= threshold are positive.
    """

    biased: Interactions
    random: Interactions
    random_negatives: Interactions
    n_exposed: IntArray
    n_positive: IntArray
    n_in_both: int
    threshold: float

    def __post_init__(self) -> None:
        for name in ("biased", "random", "random_negatives"):
            check_interactions(getattr(self, name), name)
        check_positive_int("n_in_both", self.n_in_both, minimum=0)
        check_real("threshold", self.threshold)
        for name in ("n_exposed", "n_positive"):
            check_counts(name, getattr(self, name), size=self.biased.n_items)

    def __repr__(self) -> str:
        return (
            f"StudyPositives({len(self.biased):,} biased and {len(self.random):,} random positives, from "
            f"{self.threshold:g}; {self.biased.n_users:,} users, {self.biased.n_items:,} items)"
        )


@dataclass(frozen=True, eq=False)
class RandomExposureStudy:
    """A biased log and a random-exposure log of the same users and items: what bias can be measured against.

    Attributes
    ----------
    name : str
    biased : Interactions
        What users chose to rate; value = rating.
    random : Interactions
        Ratings of items that were shown at random (or all pairs of a fully observed block); value = rating.
    threshold : float
        Rating from which a pair counts as positive, unless `positives` is told otherwise.
    propensity : Propensity or None
        Published propensities of the biased log, where there are any.
    card : DataCard or None
        Source, licence and citation.
    """

    name: str
    biased: Interactions
    random: Interactions
    threshold: float
    propensity: Propensity | None = None
    card: DataCard | None = None

    def __post_init__(self) -> None:
        check_real("threshold", self.threshold)
        check_interactions(self.biased, "biased")
        check_interactions(self.random, "random")
        for log, what in ((self.biased, "biased"), (self.random, "random-exposure")):
            if log.value is None:
                raise InputError(f"the {what} log of a study needs ratings as value.")
        if not same_ids(self.biased, self.random):
            raise InputError("both logs of a study must be over the same user_ids and item_ids.")

    def __repr__(self) -> str:
        return (
            f"RandomExposureStudy({self.name}: {len(self.biased):,} biased and {len(self.random):,} random "
            f"ratings; {self.biased.n_users:,} users, {self.biased.n_items:,} items; "
            f"positive from {self.threshold:g})"
        )

    @cached_property
    def n_in_both(self) -> int:
        """Number of pairs that are in both logs."""
        return int(among(self.random.pair_key, self.biased.pair_key).sum())

    def positives(self, threshold: float | None = None) -> StudyPositives:
        """Return positives and negatives at a rating threshold (default: `self.threshold`), without values.

        Raises
        ------
        InputError
            When either log has no positive.
        """
        cut = self.threshold if threshold is None else check_real("threshold", threshold)
        assert self.biased.value is not None
        assert self.random.value is not None
        liked, shown_liked = self.biased.value >= cut, self.random.value >= cut
        for mask, what in ((liked, "biased"), (shown_liked, "random-exposure")):
            if not mask.any():
                raise InputError(f"no rating of the {what} log is >= {cut:g}: there is no positive.")
        random = replace(self.random, value=None, timestamp=None)
        positive = random.select(shown_liked)
        return StudyPositives(
            biased=replace(self.biased.select(liked), value=None),
            random=positive,
            random_negatives=random.select(~shown_liked),
            n_exposed=readonly(self.random.popularity),
            n_positive=readonly(positive.popularity),
            n_in_both=self.n_in_both,
            threshold=cut,
        )


def check_values(card: DataCard, what: str, good: npt.ArrayLike, values: npt.ArrayLike) -> None:
    """Raise `InputError` with the number of bad values, and the first of them, unless all are good."""
    bad = ~np.asarray(good)
    if bad.any():
        first = np.asarray(values)[bad][0]
        raise InputError(f"{card.name}: {what}; {int(bad.sum())} of {bad.size:,} are not (e.g. {first:g}).")


def check_sizes(card: DataCard, found: Mapping[str, int]) -> None:
    """Raise `InputError` unless every size agrees with the published one."""
    for what, count in found.items():
        if count != card.sizes[what]:
            raise InputError(
                f"{card.name}: expected {card.sizes[what]:,} {what}; the files have {count:,}. They are "
                "truncated, changed, or another release; get them again, or pass verify=False to read them "
                "as they are."
            )
