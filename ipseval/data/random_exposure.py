"""Random exposure: pairs that were shown to users at random, and whether the users liked the items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions, check_codes, check_interactions, chosen_rows
from ipseval.errors import DataWarning, InputError
from ipseval.utils.border import guard
from ipseval.utils.checks import (
    as_float_vector,
    check_fraction,
    check_mask,
    check_positive_int,
    check_real,
    check_type,
    examples,
    warn_user,
)
from ipseval.utils.ids import among, by_row, distinct, places, repeated
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, HasIds, IntArray, assign, readonly

__all__ = ["RandomExposure"]

# Of exploration slots on popularity: standard errors of the slope, p = .01, and its size, that are too much.
NOT_RANDOM, SLIGHT, STEEPEST = 2.576, 0.05, 10.0
FEWEST = 30  # slots from which the test is made
INSTEAD = " Pass RandomExposure.from_frame(frame, split)."


@dataclass(frozen=True, eq=False)
class RandomExposure:
    """Random-exposure log: pairs that were shown by chance, and whether the user liked the item.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes in the id space of the split it goes with. No pair occurs twice.
    positive : (n,) bool array
        Whether the pair is positive by the rule that also defines the positives of the log.
    n_users, n_items : int
        Size of the id space.
    n_dropped : int
        Pairs left out because they are also in the biased log (`without`).
    user_ids, item_ids : arrays or None
        What the codes stand for; None: not known, and only the sizes can be checked.
    weight : (n,) array or None
        1/P(the pair was shown), up to a factor; None: all pairs were shown with one probability.
    n_uncovered : int
        Users who could be shown nothing; nothing is said of them.
    slope : (float, float) or None
        Where pairs come from exploration slots: the power of popularity by which items were shown, from −10
        to 10, and its standard error if slots were random, which makes it 0.
    """

    user: IntArray
    item: IntArray
    positive: BoolArray
    n_users: int
    n_items: int
    n_dropped: int = 0
    user_ids: AnyArray | None = None
    item_ids: AnyArray | None = None
    weight: FloatArray | None = None
    n_uncovered: int = 0
    slope: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_dropped", "n_uncovered"):
            check_positive_int(name, getattr(self, name), minimum=0)
        for name, size in (("user", self.n_users), ("item", self.n_items)):
            assign(self, **{name: readonly(check_codes(name, np.asarray(getattr(self, name)), size))})
            ids = getattr(self, f"{name}_ids")
            if ids is not None and np.shape(ids) != (size,):
                raise InputError(f"{name}_ids must hold {size} ids; got shape {np.shape(ids)}.")
        positive = np.asarray(self.positive)
        if positive.dtype != bool or not self.user.shape == self.item.shape == positive.shape:
            raise InputError("user, item and positive must have one length, and positive must be bool.")
        assign(self, positive=readonly(positive))
        if self.weight is not None:
            weight = as_float_vector("weight", self.weight)
            if weight.shape != self.user.shape or not (weight > 0).all():
                raise InputError("weight must hold one number above 0 for each pair.")
            assign(self, weight=readonly(weight))
        n_repeated = int(repeated(self.pair_key).sum())
        if n_repeated:
            raise InputError(f"{n_repeated} of {self.user.size} exposures repeat a user–item pair.")

    @classmethod
    def from_frame(
        cls, frame: Any, ids: HasIds, *, user: str = "user", item: str = "item", positive: str = "positive"
    ) -> RandomExposure:
        """Return the exposures of a data frame, in the id space of a split or log.

        Parameters
        ----------
        frame : data frame
            One row per pair that was shown at random; `positive` holds True/False or 1/0.
        ids : Split, Interactions or anything with user_ids and item_ids
            The universe of ids.

        Raises
        ------
        InputError
            For unknown ids, repeated pairs, missing entries, or `positive` other than 0 and 1.

        Examples
        --------
        >>> import pandas as pd
        >>> shown = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "positive": [1, 0, 1]})
        >>> exposure = RandomExposure.from_frame(shown, Interactions.from_frame(shown))
        >>> exposure.n_exposed, exposure.n_positive
        (array([1, 2]), array([1, 1]))
        """
        log = Interactions.from_frame(
            frame, user=user, item=item, value=positive, users=ids.user_ids, items=ids.item_ids
        )
        assert log.value is not None
        bad = ~np.isin(log.value, (0, 1))
        if bad.any():
            raise InputError(
                f"column {positive!r} must hold 0/1 or False/True; {int(bad.sum())} of {bad.size} rows do "
                f"not (e.g. {log.value[bad][0]}). Compare ratings with a threshold first."
            )
        return cls._of(log, log.value.astype(bool))

    @classmethod
    def from_ratings(cls, log: Interactions, *, threshold: float) -> RandomExposure:
        """Return the exposures of a log of randomly shown and rated items; positive from `threshold`.

        Raises
        ------
        InputError
            When the log has no ratings as `value`.
        """
        check_interactions(log, "log", "study.random")
        if log.value is None:
            raise InputError("the random-exposure log needs ratings as value.")
        return cls._of(log, np.asarray(log.value >= check_real("threshold", threshold)))

    @classmethod
    def from_log(
        cls, log: ImpressionLog, ids: HasIds, *, where: npt.ArrayLike, rate: float
    ) -> RandomExposure:
        """Return what exploration slots of an ordinary log showed: each row is one with probability `rate`.

        A user with S rows in the log is shown a given one of m items in some exploration slot with
        probability π = 1 − (1 − rate/m)^S. Pairs have the weight 1/π (Horvitz and Thompson 1952,
        doi:10.1080/01621459.1952.10483446), as active users have more such slots. A pair is positive if it
        was clicked in one of them. Make the split from the other rows: clicks that train are no test.
        Estimates take it that users look at these slots alike, and that no click depends on who fills a slot.

        Parameters
        ----------
        log : ImpressionLog
            All rows, over ids of the split.
        ids : Split, Interactions or anything with user_ids and item_ids
        where : (n_rows,) bool array or Series
            The rows whose item was drawn at random from all items. A Series with the numbers of the rows,
            from 0, as labels is read by label.
        rate : float
            Share of rows that are drawn so, in (0, 1].

        Warns
        -----
        DataWarning
            Where 30 slots or more follow popularity, p < .01, by a power above .05: they were not random.

        Raises
        ------
        InputError
            For ids that the split does not have, a mask of another length, or no row in it.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [0, 1, 2, 1], "clicked": [1, 0, 1, 1]})
        >>> log, explored = ImpressionLog.from_frame(frame), [False, True, False, True]
        >>> exposure = RandomExposure.from_log(log, log.positives, where=explored, rate=0.5)
        >>> exposure, exposure.weight.round(1)
        (RandomExposure(2 pairs, 1 positive; 2 of 2 users), array([2.4, 6. ]))
        """
        check_type("log", log, ImpressionLog, " Read it with ImpressionLog.from_frame(frame).")
        check_fraction("rate", rate, high_open=False)
        explored = check_mask("where", by_row(where, "where"), len(log))
        if not explored.any():
            raise InputError("where is true in no row, so no slot was explored.")
        codes = {}
        for name, universe in (("user", ids.user_ids), ("item", ids.item_ids)):
            code = places(getattr(log, f"{name}_ids"), universe, f"{name}s of the log and of ids")
            codes[name] = code[getattr(log, name)]
            if (codes[name] < 0).any():
                raise InputError(f"the log has {name}s that ids do not hold; pass ids with all of them.")
        n_users, n_items = int(ids.user_ids.size), int(ids.item_ids.size)
        n_rows = np.bincount(codes["user"], minlength=n_users)
        key = codes["user"][explored] * np.int64(n_items) + codes["item"][explored]
        pair, place = np.unique(key, return_inverse=True)
        positive = np.bincount(place, log.clicked[explored]) > 0
        with np.errstate(divide="ignore"):  # one item that is always drawn
            weight = -1 / np.expm1(n_rows[pair // n_items] * np.log1p(-rate / n_items))
        popularity = np.bincount(codes["item"][~explored & log.clicked], minlength=n_items)
        slope = _slope(np.bincount(codes["item"][explored], minlength=n_items), popularity)
        follows = slope is not None and abs(slope[2]) > NOT_RANDOM and abs(slope[0]) > SLIGHT
        if slope is not None and follows and explored.sum() >= FEWEST:
            warn_user(
                f"exploration slots follow popularity: times shown grow as its power of {slope[0]:.2f} ± "
                f"{slope[1]:.2f}. They were not drawn at random, so what they show is no random exposure.",
                DataWarning,
            )
        equal = bool((weight == weight[0]).all())
        return cls(
            *(pair // n_items, pair % n_items, positive, n_users, n_items, 0, ids.user_ids, ids.item_ids),
            weight=None if equal else weight,
            n_uncovered=int((n_rows == 0).sum()),
            slope=None if slope is None else slope[:2],
        )

    @classmethod
    def _of(cls, log: Interactions, positive: BoolArray) -> RandomExposure:
        return cls(log.user, log.item, positive, log.n_users, log.n_items, 0, log.user_ids, log.item_ids)

    def check_ids(self, ids: HasIds, what: str) -> None:
        """Raise `InputError` unless the exposure is in the id space of a split or log."""
        sizes = (int(ids.user_ids.size), int(ids.item_ids.size))
        if (self.n_users, self.n_items) != sizes:
            raise InputError(
                f"the exposure has {self.n_users} users and {self.n_items} items, the {what} {sizes[0]} and "
                f"{sizes[1]}; build it with RandomExposure.from_frame(frame, split)."
            )
        for name, own, other in (
            ("users", self.user_ids, ids.user_ids),
            ("items", self.item_ids, ids.item_ids),
        ):
            if own is not None and not np.array_equal(own, other):
                raise InputError(
                    f"the exposure is of other {name}, or the same in another order ({examples(own)}), than "
                    f"the {what} has ({examples(other)}); build it with "
                    "RandomExposure.from_frame(frame, split)."
                )

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return (
            f"RandomExposure({len(self):,} pairs, {int(self.positive.sum()):,} positive; "
            f"{distinct(self.user).size:,} of {self.n_users:,} users)"
        )

    @cached_property
    def pair_key(self) -> IntArray:
        """`user * n_items + item`, (n,)."""
        return readonly(self.user * np.int64(self.n_items) + self.item)

    @cached_property
    def n_exposed(self) -> IntArray:
        """How often each item was shown, (n_items,)."""
        return readonly(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def n_positive(self) -> IntArray:
        """How often each item was shown and liked, (n_items,)."""
        return readonly(np.bincount(self.item[self.positive], minlength=self.n_items))

    def select(self, keep: BoolArray | IntArray) -> RandomExposure:
        """Return the chosen rows (a mask or row numbers) in the same id space."""
        rows = chosen_rows(keep, len(self))
        weight = None if self.weight is None else self.weight[rows]
        own = self.user[rows], self.item[rows], self.positive[rows]
        return replace(self, user=own[0], item=own[1], positive=own[2], weight=weight)

    def without(self, log: Interactions) -> RandomExposure:
        """Return the exposures that are not pairs of `log`; the others are counted in `n_dropped`."""
        keep = ~among(self.pair_key, log.pair_key)
        return replace(self.select(keep), n_dropped=self.n_dropped + int((~keep).sum()))


def _slope(shown: IntArray, popularity: IntArray) -> tuple[float, float, float] | None:
    """Return b of P(an item is shown) ∝ (1 + popularity)^b, its error if b = 0, and the z of a score test."""
    from scipy.optimize import brentq

    x, n = np.log1p(popularity), shown.sum()
    if not np.ptp(x):
        return None

    def score(power: float) -> float:
        """Return the derivative of the log-likelihood, which falls."""
        # Beside the item that a steep power leaves alone, as little as the others have is not rounded away.
        beside = x - (x.max() if power > 0 else x.min())
        chance = np.exp(power * beside)
        return float(shown @ beside - n * (chance @ beside) / chance.sum())

    # Few slots may have no finite likeliest slope. Steps of Newton's can go back and forth for ever.
    steepest = [end for end in (-STEEPEST, STEEPEST) if end * score(end) >= 0]
    slope = steepest[0] if steepest else float(brentq(score, -STEEPEST, STEEPEST))
    error = float((n * x.var()) ** -0.5)
    return slope, error, score(0.0) * error


def check_exposure(exposure: Any, name: str = "exposure") -> None:
    """Raise `InputError` unless it is a `RandomExposure` whose pairs were shown with equal probability."""
    check_type(name, exposure, RandomExposure, INSTEAD)
    if exposure.weight is not None:
        raise InputError(
            f"{name} must have equal weights, because propensity models do not use weights; got unequal "
            "weights. Pass it to ipseval.correct as random_exposure instead."
        )


guard(__name__)
