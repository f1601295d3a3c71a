"""Propensity: the chance that a relevant item is observed, per item, per pair, of rank one or a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from ipseval.data.interactions import check_codes, check_interactions
from ipseval.errors import DataWarning, PropensityError
from ipseval.propensity.steps import FitError, GammaChain, Step
from ipseval.utils.checks import (
    as_float_vector,
    check_bool,
    check_choice,
    check_fraction,
    check_real,
    examples,
    warn_user,
)
from ipseval.utils.types import AnyArray, FloatArray, HasIds, IntArray, freeze, readonly


def check_shrinkage(value: object) -> None:
    """Raise `InputError` unless this is "fit" or a number > 0."""
    if isinstance(value, str):
        check_choice("shrinkage", value, ("fit",))
    else:
        check_real("shrinkage", value, low=0.0)


def check_range(values: FloatArray, *, is_probability: bool) -> None:
    """Raise `PropensityError`, with the count, unless all are in (0, 1] or, up to a factor, in (0, ∞)."""
    bad = ~((values > 0) & ((values <= 1) if is_probability else np.isfinite(values)))
    if bad.any():
        n_bad, interval = int(bad.sum()), "(0, 1]" if is_probability else "(0, inf)"
        only_zeros = not values[bad].any()
        detail = f"{n_bad} are 0" if only_zeros else f"{n_bad} are not (e.g. {values[bad][0]:g})"
        raise PropensityError(
            f"propensity must be in {interval}; of {values.size:,} values {detail}. An item that can never "
            "be observed cannot be weighted: give it a positive propensity, or NaN to leave its positives "
            "out."
        )
    _check_size_of_weights(values, is_probability=is_probability)


# Squares of weights enter standard errors and effective sample sizes. Within these limits they neither
# overflow nor become 0, with gains between 1e-50 and 1e50 (`ipseval.metrics`) included.
SMALLEST_PROPENSITY = 1e-100
LARGEST_PROPENSITY = 1e100


def _check_size_of_weights(values: FloatArray, *, is_probability: bool) -> None:
    """Raise `PropensityError`, with the count, for values whose weights cannot be squared."""
    outside = (values < SMALLEST_PROPENSITY) | (values > LARGEST_PROPENSITY)
    if not outside.any():
        return
    if is_probability:
        requirement = f"at least {SMALLEST_PROPENSITY:g}"
        advice = "Raise the smallest values, for example with numpy.maximum(values, 1e-6)."
    else:
        requirement = f"between {SMALLEST_PROPENSITY:g} and {LARGEST_PROPENSITY:g}"
        advice = "Multiply all values by the same number; relative propensities keep their meaning."
    raise PropensityError(
        f"propensity must be {requirement}, because squared weights (1/P)^2 leave the range of "
        f"floating-point numbers otherwise; got {values[outside][0]:g} (in {int(outside.sum()):,} of "
        f"{values.size:,} values). {advice}"
    )


def check_same_ids(exposure: Any, train: Any) -> FloatArray:
    """Return n* of `train` after a check that the exposure has its id space."""
    check_interactions(train, "train", "split.train")
    exposure.check_ids(train, "training log")
    return np.asarray(train.popularity, dtype=np.float64)


def refuse_unseen(counts: FloatArray, unseen: str, ways: str) -> None:
    """Raise `PropensityError` for items without training interactions under `unseen="raise"`."""
    n_unseen = int((counts == 0).sum())
    if n_unseen and unseen == "raise":
        raise PropensityError(
            f"{n_unseen} of {counts.size} items have no training interaction, so P = 0. Use {ways}."
        )


def cap(item: FloatArray) -> tuple[FloatArray, int]:
    """Return propensities with values above 1 set to 1, after a warning, and their number."""
    n_above = int((item > 1).sum())
    if n_above:
        warn_user(
            f"{n_above} of {item.size} items came out with a propensity above 1 (at most "
            f"{np.nanmax(item):.3g}) and were set to 1: n* exceeds the users who seem to like the item.",
            DataWarning,
        )
    return np.minimum(item, 1.0), n_above


Basis = Literal["design", "exposure", "fitted", "assumed"]
BASES: tuple[Basis, ...] = ("design", "exposure", "fitted", "assumed")  # the strongest first


def weakest(*bases: Basis) -> Basis:
    """Return the weakest of what propensities rest on: that of anything made of all of them."""
    return max(bases, key=BASES.index)


PairFunction = Callable[[IntArray, IntArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Propensity:
    """P_ui = P(O_ui = 1 | i ∈ S_u), or a quantity proportional to it.

    Exactly one of `item`, `pair`, `rank_one` and `function` holds the values; `at` answers for each.

    Attributes
    ----------
    item : (n_items,) float array or None
        One propensity per item, > 0. NaN: the item has none, and its positives leave every estimator.
    is_probability : bool
        True: on the scale of probabilities, in (0, 1]. False: known up to a common factor only.
    model : str
        What it is, for the report.
    n_items : int
        Size of the catalogue.
    pair : (n_known,) float array or None
        One propensity per user–item pair, > 0, for the pairs in `pair_key`.
    pair_key : (n_known,) sorted int array or None
        `user * n_items + item` of each entry of `pair`.
    rank_one : pair of (n_users,) and (n_items,) float arrays, or None
        a and p of P_ui = a_u p_i; no array of users × items is ever made.
    function : callable or None
        (user codes, item codes) -> propensities, NaN where there is none.
    gamma, eta : float or None
        Exponents of the power law P_i = κ (n*_i)^η, η = (γ+1)/2, that it starts from, where there is one.
    popularity : (n_items,) float array or None
        The n*_i that it was computed from.
    fit : object or None
        The fit that gave γ, with its standard error.
    unclipped : Propensity or None
        The propensity without the clipping that cut weights.
    n_capped : int
        Values that came out above 1 and were set to 1 by a model that calibrates the scale.
    item_ids, user_ids : arrays or None
        What the entries are for, in order; None: not known, and only the number of items can be checked.
    steps : tuple of Step
        What was done, in order: power-law, cap, clip, held_out; `gamma_chain` does it at any γ.
    error : FitError or None
        The error of the fit, which evaluations add to that of their users. None: P is taken as known.
    basis : {"design", "exposure", "fitted", "assumed"}
        What it rests on: a randomisation that was logged; a fit to random exposure; a fit to what was shown
        or recommended, which knows those pairs only; or nothing that was measured.
    """

    item: FloatArray | None
    is_probability: bool
    model: str
    n_items: int
    pair: FloatArray | None = None
    pair_key: IntArray | None = None
    gamma: float | None = None
    eta: float | None = None
    popularity: FloatArray | None = None
    fit: Any | None = None
    unclipped: Propensity | None = None
    n_capped: int = 0
    item_ids: AnyArray | None = None
    user_ids: AnyArray | None = None
    rank_one: tuple[FloatArray, FloatArray] | None = None
    function: PairFunction | None = None
    steps: tuple[Step, ...] = ()
    error: FitError | None = None
    basis: Basis = "assumed"

    def __post_init__(self) -> None:
        check_bool("is_probability", self.is_probability)
        check_choice("basis", self.basis, BASES)
        n_given = sum(one is not None for one in (self.item, self.pair, self.rank_one, self.function))
        if n_given != 1:
            raise PropensityError(
                f"a propensity has its values in one of item, pair, rank_one, function; {n_given} are given."
            )
        freeze(self, "item", "pair", "pair_key", "popularity", "item_ids", "user_ids")
        if self.rank_one is not None:
            object.__setattr__(self, "rank_one", (readonly(self.rank_one[0]), readonly(self.rank_one[1])))
        for name in ("item", "popularity"):
            if getattr(self, name) is not None:
                as_float_vector(name, getattr(self, name), size=self.n_items)
        for name in ("gamma", "eta"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name))
        if getattr(self.pair, "shape", None) != getattr(self.pair_key, "shape", None):
            raise PropensityError("pair and pair_key go together, with one entry for each known pair.")
        values = self._extremes()
        if values is None:
            return
        known = values[~np.isnan(values)]
        if known.size == 0:
            raise PropensityError("no item or pair has a propensity: all values are NaN.")
        check_range(known, is_probability=self.is_probability)

    def _extremes(self) -> FloatArray | None:
        """Return the values to check: all of them; of rank one the two ends; None of a function."""
        if self.rank_one is None:
            return self.item if self.item is not None else self.pair
        with np.errstate(over="ignore", under="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # all NaN: said by the caller
            low, high = (np.array([end(one) for one in self.rank_one]) for end in (np.nanmin, np.nanmax))
            if (low <= 0).any():
                return low
            return np.array([np.prod(low), np.prod(high)])

    def __repr__(self) -> str:
        scale = "probability" if self.is_probability else "up to a factor"
        kinds = {"item": "per item", "pair": "per user–item pair", "rank_one": "user factor × item factor"}
        kind = next((text for name, text in kinds.items() if getattr(self, name) is not None), "a function")
        return f"Propensity({self.model}; {kind}; {scale})"

    def at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the propensity of each pair, (n_pairs,); NaN where there is none.

        Raises
        ------
        PropensityError
            When a function answers with another shape, or with values out of range.
        """
        item = check_codes("item", np.asarray(item), self.n_items)
        if self.item is not None:
            return self.item[item]
        if self.rank_one is not None:
            user = check_codes("user", np.asarray(user), self.rank_one[0].size)
            return np.asarray(self.rank_one[0][user] * self.rank_one[1][item])
        if self.function is not None:
            values = np.asarray(self.function(user, item), dtype=np.float64)
            if values.shape != np.shape(user):
                raise PropensityError(
                    f"the propensity function gave shape {values.shape} for {np.size(user)} pairs."
                )
            check_range(values[~np.isnan(values)], is_probability=self.is_probability)
            return values
        assert self.pair is not None
        assert self.pair_key is not None
        key = user * np.int64(self.n_items) + item
        place = np.minimum(np.searchsorted(self.pair_key, key), self.pair_key.size - 1)
        return np.where(self.pair_key[place] == key, self.pair[place], np.nan)

    def check_ids(self, ids: HasIds) -> None:
        """Raise `PropensityError` unless it belongs to the ids of a split, of interactions or of ranks."""
        if self.n_items != ids.item_ids.size:
            raise PropensityError(
                f"the propensity covers {self.n_items:,} items, the split has {ids.item_ids.size:,}; "
                "fit it to the training part of this split."
            )
        for what, own, other in (
            ("items", self.item_ids, ids.item_ids),
            ("users", self.user_ids, ids.user_ids),
        ):
            if own is not None and not np.array_equal(own, other):
                raise PropensityError(
                    f"the propensity is for other {what}, or the same in another order ({examples(own)}), "
                    f"than the split has ({examples(other)}); fit it to the training part of this split."
                )

    def _then(self, step: Step, text: str, **fields: Any) -> Propensity:
        """Return the propensity after one more step."""
        if self.item is not None:
            fields["item"] = step.apply(self.item)[0]
        elif self.pair is not None:
            fields["pair"] = step.apply(self.pair)[0]
        else:
            fields |= {"rank_one": None, "function": _Stepped(self, step)}
        if self.error is not None:
            fields["error"] = replace(self.error, change=_SteppedChange(self, step))
        return replace(self, model=f"{self.model}, {text}", steps=(*self.steps, step), **fields)

    def clip(self, *, floor: float) -> Propensity:
        """Return a propensity raised to `floor` where it is smaller; the original stays in `unclipped`.

        Clipping trades variance for bias: with w = 1/P, the share Σ(w − w_clip)/Σw of the weight is cut.

        Parameters
        ----------
        floor : float
            In (0, 1] for a probability; in the units of the propensity where it is known up to a factor.

        Raises
        ------
        PropensityError
            When `floor` is not positive and finite, or above 1 for a probability.
        """
        floor = check_real("floor", floor)
        if floor <= 0 or (self.is_probability and floor > 1):
            interval = "(0, 1], as propensities are" if self.is_probability else "(0, inf)"
            raise PropensityError(f"floor must be in {interval}; got {floor:g}.")
        step = Step("clip", {"floor": floor})
        return self._then(step, f"clipped at {floor:g}", unclipped=self.unclipped or self)

    def cut_weight(self, user: IntArray, item: IntArray) -> tuple[float, float]:
        """Return Σ (w − w') and Σ w over pairs, w = 1/P before clipping and w' after: what it cut, of what.

        Their ratio is the share of the weight that is gone. For a metric in [0, 1] it bounds the bias of
        pooled ips relative to the weight's total.
        """
        before = 1 / (self.unclipped or self).at(user, item)
        return float(np.nansum(before - 1 / self.at(user, item))), float(np.nansum(before))

    def held_out(self, *, test_fraction: float, counted_on: Literal["train", "log"] = "train") -> Propensity:
        """Return the propensity of a held-out positive: observed, and sent to test by a random split.

        With P the propensity of the whole log and ρ the test share, P(in test | not in train) is
        ρP / (1 − (1−ρ)P). Close to ρP while P is small.

        Parameters
        ----------
        test_fraction : float
            ρ in (0, 1).
        counted_on : {"train", "log"}
            Whether this propensity is of being in the training part, (1−ρ)P (as when n* is counted there),
            or in the whole log, P.

        Raises
        ------
        PropensityError
            When the propensity is known up to a factor only, or P exceeds 1 for some item.

        Examples
        --------
        Half of the relevant pairs are observed, a fifth of those held out: .1 of the .6 not in train.

        >>> known = Propensity(np.array([0.5]), True, "known", 1)
        >>> known.held_out(test_fraction=0.2, counted_on="log").item.round(4)
        array([0.1667])
        """
        rho = check_fraction("test_fraction", test_fraction)
        check_choice("counted_on", counted_on, ("train", "log"))
        if not self.is_probability:
            raise PropensityError(
                f"{self.model} is known up to a factor; a held-out propensity needs the scale: "
                "scale='max', a number, or a calibration on random exposure."
            )
        step = Step("held_out", {"test_fraction": rho, "counted_on": counted_on})
        whole = self.unclipped and self.unclipped.held_out(test_fraction=rho, counted_on=counted_on)
        return self._then(step, f"held out by a split of {rho:g}", unclipped=whole)

    def gamma_chain(self) -> GammaChain:
        """Return the power law and the steps after it, as functions of γ.

        Raises
        ------
        PropensityError
            When it does not start from a power law.
        """
        if not self.steps or self.steps[0].name != "power-law" or self.popularity is None:
            raise PropensityError(
                "sensitivity to γ needs a power-law propensity, P_i ∝ (n*_i)^((γ+1)/2); this one is "
                f"{self.model}. Evaluate with propensity=PowerLawPropensity(gamma=…)."
            )
        return GammaChain.of(self.popularity, self.steps)


@dataclass(frozen=True, eq=False)
class _Stepped:
    """A function with one more step: of pairs that are asked for, as they are asked for."""

    before: Propensity
    step: Step

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        return self.step.apply(self.before.at(user, item))[0]


@dataclass(frozen=True, eq=False)
class _SteppedChange:
    """The change of ln P after one more step."""

    before: Propensity
    step: Step

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        assert self.before.error is not None
        values, change = self.before.at(user, item), self.before.error.change(user, item)
        return np.column_stack([self.step.apply(values, column)[1] for column in change.T])


class PropensityModel(Protocol):
    """What `evaluate` takes as an unfitted propensity: everything but the log goes into its constructor."""

    def fit(self, train: Any) -> Propensity:
        """Return the propensity, fitted to the training interactions."""
