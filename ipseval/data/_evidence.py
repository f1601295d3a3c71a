"""What is known of the truth beside the log: pairs shown at random, and pairs that are no positives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ipseval._base.border import guard
from ipseval._base.checks import check_positive_int, check_real, check_type, examples
from ipseval._base.ids import among, distinct, repeated
from ipseval._base.types import AnyArray, BoolArray, HasIds, IntArray, assign, readonly
from ipseval.data._interactions import Interactions, check_codes, check_interactions, chosen_rows
from ipseval.errors import InputError

__all__ = ["Evidence", "Exposure"]


@dataclass(frozen=True, eq=False)
class Exposure:
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
    """

    user: IntArray
    item: IntArray
    positive: BoolArray
    n_users: int
    n_items: int
    n_dropped: int = 0
    user_ids: AnyArray | None = None
    item_ids: AnyArray | None = None

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_dropped"):
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
        n_repeated = int(repeated(self.pair_key).sum())
        if n_repeated:
            raise InputError(f"{n_repeated} of {self.user.size} exposures repeat a user–item pair.")

    @classmethod
    def from_frame(
        cls, frame: Any, ids: HasIds, *, user: str = "user", item: str = "item", positive: str = "positive"
    ) -> Exposure:
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
        >>> exposure = Exposure.from_frame(shown, Interactions.from_frame(shown))
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
    def from_ratings(cls, log: Interactions, *, threshold: float) -> Exposure:
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
    def _of(cls, log: Interactions, positive: BoolArray) -> Exposure:
        return cls(log.user, log.item, positive, log.n_users, log.n_items, 0, log.user_ids, log.item_ids)

    def check_ids(self, ids: HasIds, what: str) -> None:
        """Raise `InputError` unless the exposure is in the id space of a split or log."""
        sizes = (int(ids.user_ids.size), int(ids.item_ids.size))
        if (self.n_users, self.n_items) != sizes:
            raise InputError(
                f"the exposure has {self.n_users} users and {self.n_items} items, the {what} {sizes[0]} and "
                f"{sizes[1]}; build it with Exposure.from_frame(frame, split)."
            )
        for name, own, other in (
            ("users", self.user_ids, ids.user_ids),
            ("items", self.item_ids, ids.item_ids),
        ):
            if own is not None and not np.array_equal(own, other):
                raise InputError(
                    f"the exposure is of other {name}, or the same in another order ({examples(own)}), than "
                    f"the {what} has ({examples(other)}); build it with Exposure.from_frame(frame, split)."
                )

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return (
            f"Exposure({len(self):,} pairs, {int(self.positive.sum()):,} positive; "
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

    def select(self, keep: BoolArray | IntArray) -> Exposure:
        """Return the chosen rows (a mask or row numbers) in the same id space."""
        rows = chosen_rows(keep, len(self))
        return replace(self, user=self.user[rows], item=self.item[rows], positive=self.positive[rows])

    def without(self, log: Interactions) -> Exposure:
        """Return the exposures that are not pairs of `log`; the others are counted in `n_dropped`."""
        keep = ~among(self.pair_key, log.pair_key)
        return replace(self.select(keep), n_dropped=self.n_dropped + int((~keep).sum()))


def check_exposure(exposure: object) -> None:
    """Raise `InputError` unless it is an `Exposure`."""
    check_type("exposure", exposure, Exposure, " Pass Exposure.from_frame(frame, split).")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the truth beside the log; `evaluate` and `correct` join it with the log.

    Parameters
    ----------
    exposure : Exposure, optional
        Pairs that were shown at random to users drawn at random. Those of the training log are left out.
    interactions : Interactions, optional
        Every pair of the log, liked or not, such as all ratings, over the ids of the split. Their odds show
        exposure more directly than those of positives do.

    Raises
    ------
    InputError
        For values of another type.

    Examples
    --------
    >>> import pandas as pd
    >>> shown = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "positive": [1, 0, 1]})
    >>> Evidence(exposure=Exposure.from_frame(shown, Interactions.from_frame(shown)))
    Evidence(exposure=Exposure(3 pairs, 2 positive; 2 of 2 users), interactions=None)
    """

    exposure: Exposure | None = None
    interactions: Interactions | None = None

    def __post_init__(self) -> None:
        if self.exposure is not None:
            check_exposure(self.exposure)
        if self.interactions is not None:
            check_interactions(self.interactions, "interactions")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known beside the log."""
        return self.exposure is None and self.interactions is None


def check_evidence(evidence: Any) -> Evidence:
    """Return the evidence, empty for None; raise `InputError` for another type."""
    if evidence is None:
        return Evidence()
    check_type("evidence", evidence, Evidence, " Pass Evidence(exposure=…) or Evidence(interactions=…).")
    found: Evidence = evidence
    return found


guard(__name__)
