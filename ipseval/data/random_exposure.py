"""Random exposure: pairs that were shown to users at random, and whether the users liked the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ipseval.data.exposure_design import read_answers
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions, check_codes, check_interactions, to_row_selection
from ipseval.data.reading.column_names import match_columns
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import (
    as_float_vector,
    check_fraction,
    check_mask,
    check_positive_int,
    check_real,
    check_type,
    format_count,
    format_examples,
    warn_user,
)
from ipseval.utils.columns import frame_columns
from ipseval.utils.ids import align_rows, find_positions, is_member, mark_repeats, unique_keys
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, HasIds, IntArray, as_readonly, assign

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

__all__ = ["RandomExposure"]

# Randomised slots that follow popularity were not drawn at random. The test needs a minimum number of slots;
# it warns if the slope differs from 0 at p < 0.01 (in standard errors) and is not negligible in size.
MIN_SLOTS = 30
CRITICAL_Z = 2.576
NEGLIGIBLE_SLOPE = 0.05
MAX_SLOPE = 10.0  # limit of the fitted slope on both sides
READ_ADVICE = " Pass RandomExposure.from_frame(frame, split)."


@public_class
@dataclass(frozen=True, eq=False)
class RandomExposure:
    """Store pairs that were shown at random, and whether the user liked the item.

    Parameters
    ----------
    user, item : (n,) int arrays
        Codes in the id space of the split with which it is used. No pair occurs twice.
    positive : (n,) bool array
        Whether the pair is positive by the rule that also defines the positives of the log.
    n_users, n_items : int
        Size of the id space.
    n_dropped : int
        Pairs left out because they are also in the biased log (`without`).
    user_ids, item_ids : arrays or None
        Ids of the codes. None: the ids are not known, and only the sizes can be checked.
    weight : (n,) array or None
        1/P(the pair was shown), up to a constant factor. None: all pairs were shown with equal probability.
    n_uncovered : int
        Number of users to whom nothing could be shown; the data contain no information about them.
    slope : (float, float) or None
        For pairs from randomised slots: the power of popularity with which items were shown, from −10 to 10,
        and its standard error under random slots, for which the power is 0.
    is_designed : bool
        Whether the weights are 1/π of an experiment with known inclusion probabilities π.
    n_unanswered : int
        Users of the experiment who are left out because an answer is missing.

    Raises
    ------
    InputError
        For codes outside the id space, arrays of different lengths, weights that are not above 0, and
        repeated pairs.

    See Also
    --------
    RandomExposure.from_frame : Read a data frame of pairs shown at random.
    RandomExposure.from_log : Use the randomised slots of an impression log.

    Examples
    --------
    Three pairs of two users and three items were shown at random, and two of them were liked:

    >>> exposure = RandomExposure(
    ...     user=[0, 0, 1], item=[0, 1, 1], positive=[True, False, True], n_users=2, n_items=3
    ... )
    >>> exposure
    RandomExposure(3 pairs, 2 positive; 2 of 2 users)
    >>> exposure.n_positive
    array([1, 1, 0])
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
    is_designed: bool = False
    n_unanswered: int = 0

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_dropped", "n_uncovered", "n_unanswered"):
            check_positive_int(name, getattr(self, name), minimum=0)
        self._check_codes("user", self.n_users)
        self._check_codes("item", self.n_items)
        positive = np.asarray(self.positive)
        if positive.dtype != bool or not self.user.shape == self.item.shape == positive.shape:
            raise InputError("user, item and positive must have one length, and positive must be bool.")
        assign(self, positive=as_readonly(positive))
        if self.weight is not None:
            weight = as_float_vector("weight", self.weight)
            if weight.shape != self.user.shape or not (weight > 0).all():
                raise InputError("weight must hold one number above 0 for each pair.")
            assign(self, weight=as_readonly(weight))
        n_repeats = int(mark_repeats(self.pair_key).sum())
        if n_repeats:
            raise InputError(f"{n_repeats} of {self.user.size} exposures repeat a user–item pair.")

    def _check_codes(self, name: str, size: int) -> None:
        """Check the codes of users or items and set them read-only; check the number of their ids."""
        codes = check_codes(name, np.asarray(getattr(self, name)), size)
        assign(self, **{name: as_readonly(codes)})
        ids = getattr(self, f"{name}_ids")
        if ids is not None and np.shape(ids) != (size,):
            raise InputError(f"{name}_ids must hold {size} ids; got shape {np.shape(ids)}.")

    @classmethod
    def from_frame(
        cls,
        frame: IntoFrame,
        ids: HasIds,
        *,
        user: str | None = None,
        item: str | None = None,
        positive: str | None = None,
        inclusion_probability: str | IntoFrame | None = None,
        missing: Literal["raise", "drop"] = "raise",
    ) -> RandomExposure:
        """Read pairs that were shown at random from a data frame.

        Parameters
        ----------
        frame : data frame
            One row per pair that was shown at random.
        ids : Split, Interactions or another object with user_ids and item_ids
            The universe of ids.
        user, item, positive : str, optional
            Names of the columns; the column of positives holds True/False or 1/0. Default: the names of the
            parameters, or their usual names, such as user_id, sku and label.
        inclusion_probability : str or data frame, optional
            The allocation of `plan_exposure(design=…)`, to which the frame has the answers; or the name of a
            column of the frame with the probability that each pair is shown. Default: all pairs were shown
            with equal probability.
        missing : {"raise", "drop"}, default "raise"
            Treatment of allocated pairs without an answer: an error, or the users with such a pair are left
            out and counted. Used with `inclusion_probability`.

        Returns
        -------
        RandomExposure
            The pairs, in the id space of `ids`.

        Raises
        ------
        InputError
            For unknown ids, repeated pairs, missing entries, or positives other than 0 and 1; for shown pairs
            that were never allocated, and inclusion probabilities that are outside (0, 1] or do not add up to
            the slots of a user.

        Warns
        -----
        DataWarning
            If the inverse probabilities of a column add up to another number of items than the users have
            outside the training part of a split.

        See Also
        --------
        RandomExposure.from_ratings : Apply a threshold to ratings of items shown at random.
        plan_exposure : Allocate pairs to users with known inclusion probabilities.

        Notes
        -----
        With inclusion probabilities π, a pair has the weight 1/π: Σ c/π over the positive pairs is unbiased for
        the total of c over all positive pairs of the exposed users [1]_, and a mean is the ratio of two such
        totals.

        References
        ----------
        .. [1] Horvitz and Thompson, "A generalization of sampling without replacement from a finite
           universe", JASA 1952, doi:10.1080/01621459.1952.10483446

        Examples
        --------
        >>> import pandas as pd
        >>> shown = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "positive": [1, 0, 1]})
        >>> exposure = RandomExposure.from_frame(shown, Interactions.from_frame(shown))
        >>> exposure.n_exposed, exposure.n_positive
        (array([1, 2]), array([1, 1]))

        Two of four items were shown to each user, item 1 with probability 0.75:

        >>> shown["probability"] = [0.25, 0.75, 0.75]
        >>> RandomExposure.from_frame(
        ...     shown, Interactions.from_frame(shown), inclusion_probability="probability").weight.round(2)
        array([4.  , 1.33, 1.33])
        """
        named_columns = {"user": user, "item": item, "positive": positive}
        user, item, positive = _find_columns(frame, named_columns)
        if inclusion_probability is None:
            if missing != "raise":
                raise InputError(
                    f"missing must be left out without inclusion_probability; got {missing!r}. Pass the allocation."
                )
            log = Interactions.from_frame(
                frame, user=user, item=item, value=positive, users=ids.user_ids, items=ids.item_ids
            )
            assert log.value is not None
            _check_positives(log.value, positive)
            return cls._from_rows(log, log.value.astype(bool))
        answers = read_answers(
            frame,
            ids,
            names=(user, item, positive),
            inclusion_probability=inclusion_probability,
            missing=missing,
        )
        _check_positives(answers.positive, positive)
        return cls(
            user=answers.user,
            item=answers.item,
            positive=answers.positive.astype(bool),
            n_users=int(ids.user_ids.size),
            n_items=int(ids.item_ids.size),
            user_ids=ids.user_ids,
            item_ids=ids.item_ids,
            weight=1 / answers.probability,
            is_designed=True,
            n_unanswered=answers.n_unanswered,
        )

    @classmethod
    def from_ratings(cls, log: Interactions, *, threshold: float) -> RandomExposure:
        """Use a log of items that were shown at random and rated.

        Parameters
        ----------
        log : Interactions
            Ratings of items that were shown at random, with the rating as `value`.
        threshold : float
            Smallest rating that is positive.

        Returns
        -------
        RandomExposure
            The pairs of the log, in its id space.

        Raises
        ------
        InputError
            If the log has no values, or the threshold is not a finite number.
        """
        check_interactions(log, "log", "study.random")
        if log.value is None:
            raise InputError("the random-exposure log needs ratings as value.")
        is_positive = log.value >= check_real("threshold", threshold)
        return cls._from_rows(log, np.asarray(is_positive))

    @classmethod
    def from_log(
        cls, log: ImpressionLog, ids: HasIds, *, where: npt.ArrayLike, rate: float
    ) -> RandomExposure:
        """Use the randomised slots of an impression log, in which items were drawn at random.

        Parameters
        ----------
        log : ImpressionLog
            All rows, over ids of the split.
        ids : Split, Interactions or another object with user_ids and item_ids
            The universe of ids.
        where : (n_rows,) bool array or Series
            The randomised slots: rows whose item was drawn at random from all items. A Series whose labels
            are the row numbers from 0 is aligned by label.
        rate : float
            Share of rows that are randomised slots, in (0, 1].

        Returns
        -------
        RandomExposure
            The distinct pairs of the randomised slots, positive if clicked in one of them.

        Raises
        ------
        InputError
            For ids that are not in the universe, a mask of another length, or a mask without a true row.

        Warns
        -----
        DataWarning
            If at least 30 slots follow popularity with a power above 0.05 in size (p < 0.01), because they
            were not drawn at random. If the split is one by time and there are slots before its test part.

        Notes
        -----
        A user with S rows in the log is shown a given one of m items in some randomised slot with
        probability π = 1 − (1 − rate/m)^S. Pairs have the weight 1/π [1]_, because active users have more
        such slots. Estimates assume that users look at these slots as at the others, and that no click depends
        on the policy that fills a slot.

        Estimates are about pairs outside training, so every such pair must have the same probability to be in a
        randomised slot. Therefore, split the log by time, and pass the rows of the test period only. Many services
        do not show an item again that a user has seen. A pair that was in a randomised slot before the test period
        then cannot enter training by a later recommendation, as other pairs can. Such pairs are too frequent among
        the pairs outside training, mostly those with items that the service would have recommended.

        References
        ----------
        .. [1] Horvitz and Thompson, "A generalization of sampling without replacement from a finite
           universe", JASA 1952, doi:10.1080/01621459.1952.10483446

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
        in_slot = check_mask("where", align_rows(where, "where"), len(log))
        if not in_slot.any():
            raise InputError("where must be true in at least one row; got a mask without a true row.")
        _warn_about_training_period(log, in_slot, ids)
        user = _recode_to_universe(log.user, log.user_ids, ids.user_ids, "user")
        item = _recode_to_universe(log.item, log.item_ids, ids.item_ids, "item")
        n_users = int(ids.user_ids.size)
        n_items = int(ids.item_ids.size)

        slot_keys = user[in_slot] * np.int64(n_items) + item[in_slot]
        pair_key, pair_of_slot = np.unique(slot_keys, return_inverse=True)
        pair_user = pair_key // n_items
        positive = np.bincount(pair_of_slot, log.clicked[in_slot]) > 0
        n_rows = np.bincount(user, minlength=n_users)
        with np.errstate(divide="ignore"):  # a single item that is always drawn
            weight = -1 / np.expm1(n_rows[pair_user] * np.log1p(-rate / n_items))
        has_equal_weights = bool((weight == weight[0]).all())

        clicks_outside_slots = ~in_slot & log.clicked
        popularity = np.bincount(item[clicks_outside_slots], minlength=n_items)
        n_shown = np.bincount(item[in_slot], minlength=n_items)
        popularity_slope = _fit_popularity_slope(n_shown, popularity)
        slope = None
        if popularity_slope is not None:
            _warn_about_slope(popularity_slope, int(in_slot.sum()))
            slope = (popularity_slope.slope, popularity_slope.standard_error)
        return cls(
            user=pair_user,
            item=pair_key % n_items,
            positive=positive,
            n_users=n_users,
            n_items=n_items,
            user_ids=ids.user_ids,
            item_ids=ids.item_ids,
            weight=None if has_equal_weights else weight,
            n_uncovered=int((n_rows == 0).sum()),
            slope=slope,
        )

    @classmethod
    def _from_rows(cls, log: Interactions | ImpressionLog, positive: BoolArray) -> RandomExposure:
        """Return the exposure of the pairs of a log, with a truth value for each of its rows."""
        return cls(
            user=log.user,
            item=log.item,
            positive=positive,
            n_users=log.n_users,
            n_items=log.n_items,
            user_ids=log.user_ids,
            item_ids=log.item_ids,
        )

    def check_ids(self, ids: HasIds, description: str) -> None:
        """Check that the exposure is in the id space of a split or of a log.

        Parameters
        ----------
        ids : object with `user_ids` and `item_ids`
            The split or the log.
        description : str
            Name of the split or log in the error message, such as "split".

        Raises
        ------
        InputError
            When the number, the values or the order of the users or items differ.
        """
        n_users = int(ids.user_ids.size)
        n_items = int(ids.item_ids.size)
        if (self.n_users, self.n_items) != (n_users, n_items):
            raise InputError(
                f"the exposure has {self.n_users} users and {self.n_items} items, the {description} {n_users} and "
                f"{n_items}; build it with RandomExposure.from_frame(frame, split)."
            )
        _check_equal_ids("users", self.user_ids, ids.user_ids, description)
        _check_equal_ids("items", self.item_ids, ids.item_ids, description)

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        return (
            f"RandomExposure({len(self):,} pairs, {int(self.positive.sum()):,} positive; "
            f"{unique_keys(self.user).size:,} of {self.n_users:,} users)"
        )

    @cached_property
    def pair_key(self) -> IntArray:
        """`user * n_items + item`, (n,): one integer per pair, for joins."""
        return as_readonly(self.user * np.int64(self.n_items) + self.item)

    @cached_property
    def n_exposed(self) -> IntArray:
        """Number of times that each item was shown, (n_items,), whatever its weight."""
        return as_readonly(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def n_positive(self) -> IntArray:
        """Number of times that each item was shown and liked, (n_items,), whatever its weight."""
        return as_readonly(np.bincount(self.item[self.positive], minlength=self.n_items))

    def select(self, keep: BoolArray | IntArray) -> RandomExposure:
        """Select pairs in the same id space.

        Parameters
        ----------
        keep : (n,) bool array or int array
            Mask of the pairs, or their row numbers.

        Returns
        -------
        RandomExposure
            The selected pairs.
        """
        rows = to_row_selection(keep, len(self))
        weight = None
        if self.weight is not None:
            weight = self.weight[rows]
        return replace(
            self, user=self.user[rows], item=self.item[rows], positive=self.positive[rows], weight=weight
        )

    def exclude(self, log: Interactions) -> RandomExposure:
        """Remove the pairs of a log.

        Parameters
        ----------
        log : Interactions
            Log in the same id space.

        Returns
        -------
        RandomExposure
            The pairs that are not in `log`; `n_dropped` counts the removed pairs.
        """
        keep = ~is_member(self.pair_key, log.pair_key)
        n_removed = int((~keep).sum())
        return replace(self.select(keep), n_dropped=self.n_dropped + n_removed)


def _find_columns(frame: IntoFrame, names: Mapping[str, str | None]) -> tuple[str, str, str]:
    """Return the columns of users, items and positives: named by the caller, or with the usual names."""
    columns = sorted(frame_columns(frame), key=str)
    known_names = dict(names)
    for role in ("user", "item", "positive"):
        if known_names[role] is None and role in columns:
            known_names[role] = role
    roles = {"user": known_names["user"], "item": known_names["item"], "outcome": known_names["positive"]}
    match = match_columns(columns, roles, ("user", "item", "outcome", "clicked"), essential=())
    outcome = match.columns.get("outcome", match.columns.get("clicked"))
    # A column that is missing is named in the error of the reader.
    return (
        known_names["user"] or match.columns.get("user", "user"),
        known_names["item"] or match.columns.get("item", "item"),
        known_names["positive"] or outcome or "positive",
    )


def _check_positives(value: FloatArray, name: str) -> None:
    """Raise `InputError` unless the values of a column are 0 and 1."""
    is_invalid = ~np.isin(value, (0, 1))
    if is_invalid.any():
        raise InputError(
            f"column {name!r} must hold 0/1 or False/True; {int(is_invalid.sum())} of "
            f"{is_invalid.size} rows do not (e.g. {value[is_invalid][0]}). Compare ratings with a "
            "threshold first."
        )


def _recode_to_universe(codes: IntArray, ids: AnyArray, universe: AnyArray, role: str) -> IntArray:
    """Return the codes of users or items in another universe, or raise `InputError` for unknown ids."""
    positions = find_positions(ids, universe, f"{role}s of the log and of ids")
    new_codes = positions[codes]
    if (new_codes < 0).any():
        raise InputError(f"the log has {role}s that ids do not hold; pass ids with all of them.")
    return new_codes


def _check_equal_ids(noun: str, ids: AnyArray | None, other_ids: AnyArray, owner: str) -> None:
    """Raise `InputError` if the ids of an exposure are known and differ from the ids of the owner."""
    if ids is None or np.array_equal(ids, other_ids):
        return
    raise InputError(
        f"the exposure must have the {noun} of the {owner} in the same order; it has {format_examples(ids)}, and "
        f"the {owner} has {format_examples(other_ids)}. Build it with RandomExposure.from_frame(frame, split)."
    )


@dataclass(frozen=True)
class _PopularitySlope:
    """Describe how randomised slots follow popularity: P(an item is shown) ∝ (1 + popularity)^slope."""

    slope: float
    standard_error: float  # for a slope of 0
    z: float  # of the score test for a slope of 0


def _fit_popularity_slope(n_shown: IntArray, popularity: IntArray) -> _PopularitySlope | None:
    """Return the maximum-likelihood slope of P(shown) ∝ (1 + popularity)^slope; None for equal popularity."""
    from scipy.optimize import brentq

    log_popularity = np.log1p(popularity)
    n_slots = n_shown.sum()
    if not np.ptp(log_popularity):
        return None

    def compute_score(slope: float) -> float:
        """Return the derivative of the log-likelihood, which decreases in the slope."""
        # Relative to the item that dominates at a steep slope, the small probabilities of the other items are
        # not rounded away.
        reference = log_popularity.max() if slope > 0 else log_popularity.min()
        relative = log_popularity - reference
        probability = np.exp(slope * relative)
        expected = n_slots * (probability @ relative) / probability.sum()
        return float(n_shown @ relative - expected)

    standard_error = float((n_slots * log_popularity.var()) ** -0.5)
    z = compute_score(0.0) * standard_error
    # Few slots may have no finite maximum-likelihood slope. Newton's method may not converge.
    for limit in (-MAX_SLOPE, MAX_SLOPE):
        if limit * compute_score(limit) >= 0:
            return _PopularitySlope(limit, standard_error, z)
    slope = float(brentq(compute_score, -MAX_SLOPE, MAX_SLOPE))
    return _PopularitySlope(slope, standard_error, z)


def _warn_about_training_period(log: ImpressionLog, in_slot: BoolArray, ids: HasIds) -> None:
    """Warn if a split is one by time, and slots are before its test part."""
    train = getattr(ids, "train", None)
    test = getattr(ids, "test", None)
    if log.timestamp is None or train is None or test is None:
        return
    if train.timestamp is None or test.timestamp is None or not len(train) or not len(test):
        return
    last_training_time = train.timestamp.max()
    if test.timestamp.min() <= last_training_time:
        return
    n_early = int((in_slot & (log.timestamp <= last_training_time)).sum())
    if n_early:
        warn_user(
            f"where marks {format_count(n_early, 'row')} of the training period. If the service does not show items "
            "again, the pairs of these rows are too frequent outside training, and estimates can be far too high. Pass "
            "the rows of the test period only, as in RandomExposure.from_log(log.select(in_test), split, "
            "where=is_random[in_test], rate=…).",
            DataWarning,
        )


def _warn_about_slope(fit: _PopularitySlope, n_slots: int) -> None:
    """Warn if enough randomised slots follow popularity by more than chance."""
    is_significant = abs(fit.z) > CRITICAL_Z and abs(fit.slope) > NEGLIGIBLE_SLOPE
    if is_significant and n_slots >= MIN_SLOTS:
        warn_user(
            f"randomised slots follow popularity: times shown grow as its power of {fit.slope:.2f} ± "
            f"{fit.standard_error:.2f}. They were not drawn at random, so that they are not random exposure. "
            "Check the mask of randomised slots.",
            DataWarning,
        )


def check_exposure(exposure: object, name: str = "exposure") -> None:
    """Raise `InputError` unless it is a `RandomExposure` with equal weights."""
    check_type(name, exposure, RandomExposure, READ_ADVICE)
    assert isinstance(exposure, RandomExposure)
    if exposure.weight is not None:
        raise InputError(
            f"{name} must have equal weights, because propensity models count exposures and likes of items as "
            "draws with equal probability; got unequal weights. Pass it to ipseval.correct as random_exposure "
            "instead."
        )
