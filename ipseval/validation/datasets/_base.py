"""Cards of data sets, studies of a biased log against random exposure, and checks of values and sizes."""

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
from ipseval.propensity import CountedPropensity, Propensity
from ipseval.utils.checks import check_counts, check_positive_int, check_real
from ipseval.utils.ids import is_member, same_ids
from ipseval.utils.public import public_class
from ipseval.utils.types import IntArray, as_readonly


@public_class
@dataclass(frozen=True)
class DataCard:
    """Source, licence and citation of a data set, with the sizes and checksums of complete files.

    Parameters
    ----------
    name : str
        Name in error messages and in `CARDS`.
    title : str
        Title in reports.
    url : str
        Page of the authors.
    how_to_get : str
        Instructions in one sentence, printed when a file is missing.
    licence : str
        Conditions of use, in short.
    citation : str
        Publication to cite.
    sizes : mapping
        Published sizes, e.g. {"users": 290}.
    sha256 : mapping of file name to checksum
        For files that do not change between releases.
    caveats : str
        What conclusions from the data set depend on; empty if nothing is special.

    See Also
    --------
    CARDS : The cards of the data sets that have a loader.

    Examples
    --------
    >>> from ipseval.validation.datasets import CARDS
    >>> card = CARDS["coat"]
    >>> card
    DataCard(Coat Shopping)
    >>> card.sizes["users"], card.licence
    (290, 'made public by the authors for research; no licence text')
    """

    name: str
    title: str
    url: str
    how_to_get: str
    licence: str
    citation: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    caveats: str = ""

    def __repr__(self) -> str:
        return f"DataCard({self.title})"

    def __str__(self) -> str:
        sizes = ", ".join(f"{count:,} {noun}" for noun, count in self.sizes.items())
        text = (
            f"{self.title}\n  sizes     {sizes or 'depend on the release'}\n  source    {self.url}\n"
            f"  get it    {self.how_to_get}\n  licence   {self.licence}\n  cite      {self.citation}"
        )
        if self.caveats:
            text += f"\n  caveats   {self.caveats}"
        return text


def _load_cards() -> dict[str, DataCard]:
    """Return the cards of all data sets by name."""
    text = (Path(__file__).parent / "cards.toml").read_text("utf-8")
    cards: dict[str, DataCard] = {}
    for name, fields in tomllib.loads(text).items():
        cards[name] = DataCard(name, **fields)

    return cards


CARDS = _load_cards()


@public_class
@dataclass(frozen=True, eq=False)
class StudyPositives:
    """A study with ratings turned into positives and negatives at a threshold.

    Parameters
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

    See Also
    --------
    RandomExposureStudy.positives : Turn the ratings of a study into positives and negatives.

    Examples
    --------
    >>> from ipseval import simulation
    >>> study = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0).study(rng=2)
    >>> positives = study.positives(threshold=5)
    >>> positives
    StudyPositives(431 biased and 588 random positives, from 5; 300 users, 60 items)
    >>> int(positives.n_positive.sum()), int(positives.n_exposed.sum())
    (588, 4800)
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


@public_class
@dataclass(frozen=True, eq=False)
class RandomExposureStudy:
    """A biased log and a random-exposure log of the same users and items, to measure bias against.

    Parameters
    ----------
    name : str
        Name of the study in reports.
    biased : Interactions
        Ratings of items that users chose; value = rating.
    random : Interactions
        Ratings of items that were shown at random (or all pairs of a fully observed block); value = rating.
    threshold : float
        Rating from which a pair is positive, unless `positives` is given another threshold.
    propensity : Propensity or None
        Published propensities of the biased log, where there are any.
    card : DataCard or None
        Source, licence and citation.
    calibration : Interactions or None
        Further ratings of items that were shown at random, in neither log, to calibrate propensities on.
    counted_propensity : CountedPropensity or None
        Counts of observed pairs in `calibration`, where observation was measured.

    See Also
    --------
    ipseval.validate : Measure the bias of estimators on a study.
    ipseval.simulation.World.study : Draw a study from a simulation.

    Examples
    --------
    Two users rated two items of their choice, and two that were shown at random:

    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> ids = {"user_ids": np.arange(2), "item_ids": np.arange(3)}
    >>> biased = Interactions(np.array([0, 1]), np.array([0, 0]), **ids, value=np.array([5.0, 4.0]))
    >>> random = Interactions(np.array([0, 1]), np.array([1, 2]), **ids, value=np.array([1.0, 4.0]))
    >>> study = RandomExposureStudy("example", biased, random, threshold=4)
    >>> study
    RandomExposureStudy(example: 2 biased and 2 random ratings; 2 users, 3 items; positive from 4)
    """

    name: str
    biased: Interactions
    random: Interactions
    threshold: float
    propensity: Propensity | None = None
    card: DataCard | None = None
    calibration: Interactions | None = None
    counted_propensity: CountedPropensity | None = None

    def __post_init__(self) -> None:
        check_real("threshold", self.threshold)
        check_interactions(self.biased, "biased")
        check_interactions(self.random, "random")
        logs = {"biased": self.biased, "random-exposure": self.random}
        if self.calibration is not None:
            check_interactions(self.calibration, "calibration")
            logs["calibration"] = self.calibration
        for name, log in logs.items():
            if log.value is None:
                raise InputError(f"the {name} log of a study needs ratings as value.")
            if not same_ids(self.biased, log):
                raise InputError("all logs of a study must be over the same user_ids and item_ids.")

    def __repr__(self) -> str:
        return (
            f"RandomExposureStudy({self.name}: {len(self.biased):,} biased and {len(self.random):,} random "
            f"ratings; {self.biased.n_users:,} users, {self.biased.n_items:,} items; "
            f"positive from {self.threshold:g})"
        )

    @cached_property
    def n_in_both(self) -> int:
        """Number of pairs that are in both logs."""
        return int(is_member(self.random.pair_key, self.biased.pair_key).sum())

    def positives(self, threshold: float | None = None) -> StudyPositives:
        """Return positives and negatives at a rating threshold, without values.

        Parameters
        ----------
        threshold : float, optional
            Rating from which a pair is positive. Default: `self.threshold`.

        Returns
        -------
        StudyPositives
            Positives of the biased log, and positives and negatives of the random sample.

        Raises
        ------
        InputError
            When either log has no positive.
        """
        if threshold is None:
            threshold = self.threshold
        check_real("threshold", threshold)
        assert self.biased.value is not None
        assert self.random.value is not None
        is_biased_positive = self.biased.value >= threshold
        is_random_positive = self.random.value >= threshold
        for is_positive, name in ((is_biased_positive, "biased"), (is_random_positive, "random-exposure")):
            if not is_positive.any():
                raise InputError(f"no rating of the {name} log is >= {threshold:g}: there is no positive.")
        random = replace(self.random, value=None, timestamp=None)
        random_positives = random.select(is_random_positive)
        return StudyPositives(
            biased=replace(self.biased.select(is_biased_positive), value=None),
            random=random_positives,
            random_negatives=random.select(~is_random_positive),
            n_exposed=as_readonly(self.random.popularity),
            n_positive=as_readonly(random_positives.popularity),
            n_in_both=self.n_in_both,
            threshold=threshold,
        )


def check_values(card: DataCard, requirement: str, is_valid: npt.ArrayLike, values: npt.ArrayLike) -> None:
    """Raise `InputError` with the number of invalid values and the first of them, unless all are valid."""
    is_invalid = ~np.asarray(is_valid)
    if is_invalid.any():
        first = np.asarray(values)[is_invalid][0]
        raise InputError(
            f"{card.name}: {requirement}; {int(is_invalid.sum())} of {is_invalid.size:,} are not "
            f"(e.g. {first:g})."
        )


def check_sizes(card: DataCard, sizes: Mapping[str, int]) -> None:
    """Raise `InputError` unless every size agrees with the published one."""
    for noun, count in sizes.items():
        if count != card.sizes[noun]:
            raise InputError(
                f"{card.name}: expected {card.sizes[noun]:,} {noun}; the files have {count:,}. They are "
                "truncated, changed, or another release; get them again, or pass verify=False to read them "
                "as they are."
            )
