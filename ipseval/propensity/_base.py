"""Propensity: the probability that a relevant item is observed, per item, per pair or as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from ipseval.data.interactions import Interactions, check_codes, check_interactions
from ipseval.data.random_exposure import RandomExposure
from ipseval.errors import DataWarning, PropensityError
from ipseval.propensity.fit_error import FitError
from ipseval.propensity.steps import GammaPath, PropensityTransform
from ipseval.utils.checks import (
    as_float_vector,
    check_bool,
    check_choice,
    check_fraction,
    check_real,
    format_examples,
    warn_user,
)
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, FloatArray, HasIds, IntArray, as_readonly, freeze

# Squares of weights enter standard errors and effective sample sizes. Within these limits they neither
# overflow nor become 0, with gains between 1e-50 and 1e50 (`ipseval.metrics`) included.
SMALLEST_PROPENSITY = 1e-100
LARGEST_PROPENSITY = 1e100

# Decimals of n* without smoothing, as the subtraction rounds.
COUNT_DIGITS = 9

Basis = Literal["design", "exposure", "logged", "fitted", "assumed"]
BASES: tuple[Basis, ...] = ("design", "exposure", "logged", "fitted", "assumed")  # the strongest first

PairFunction = Callable[[IntArray, IntArray], FloatArray]


def check_shrinkage(value: object) -> None:
    """Raise `InputError` unless this is "fit" or a number > 0."""
    if isinstance(value, str):
        check_choice("shrinkage", value, ("fit",))
    else:
        check_real("shrinkage", value, low=0.0)


def check_range(values: FloatArray, *, is_probability: bool) -> None:
    """Raise `PropensityError`, with the count, unless all are in (0, 1] or, for relative propensities, in (0, ∞)."""
    if is_probability:
        interval = "(0, 1]"
        is_in_range = (values > 0) & (values <= 1)
    else:
        interval = "(0, inf)"
        is_in_range = (values > 0) & np.isfinite(values)

    invalid_values = values[~is_in_range]
    if invalid_values.size:
        detail = f"{invalid_values.size} are not (e.g. {invalid_values[0]:g})"
        if not invalid_values.any():
            detail = f"{invalid_values.size} are 0"
        raise PropensityError(
            f"propensity must be in {interval}; of {values.size:,} values {detail}. An item that can never "
            "be observed cannot be weighted: give it a positive propensity, or NaN to leave its positives "
            "out."
        )
    _check_weight_size(values, is_probability=is_probability)


def _check_weight_size(values: FloatArray, *, is_probability: bool) -> None:
    """Raise `PropensityError`, with the count, for values with weights that cannot be squared."""
    is_extreme = (values < SMALLEST_PROPENSITY) | (values > LARGEST_PROPENSITY)
    if not is_extreme.any():
        return
    if is_probability:
        requirement = f"at least {SMALLEST_PROPENSITY:g}"
        advice = "Raise the smallest values, for example with numpy.maximum(values, 1e-6)."
    else:
        requirement = f"between {SMALLEST_PROPENSITY:g} and {LARGEST_PROPENSITY:g}"
        advice = "Multiply all values by the same number; relative propensities keep their meaning."
    raise PropensityError(
        f"propensity must be {requirement}, because squared weights (1/P)^2 leave the range of "
        f"floating-point numbers otherwise; got {values[is_extreme][0]:g} (in {int(is_extreme.sum()):,} of "
        f"{values.size:,} values). {advice}"
    )


def check_same_ids(exposure: RandomExposure, train: Interactions) -> None:
    """Raise unless `train` is a training log in the id space of the exposure."""
    check_interactions(train, "train", "split.train")
    exposure.check_ids(train, "training log")


def check_unseen(counts: FloatArray, unseen: str, choices: tuple[str, ...]) -> None:
    """Raise `PropensityError` for items without training interactions under `unseen="raise"`.

    `choices` are the other values of `unseen` that the model takes.
    """
    n_unseen = int((counts == 0).sum())
    if n_unseen and unseen == "raise":
        advice = " or ".join(f"{{unseen={choice}}}" for choice in choices)
        raise PropensityError(
            f"{n_unseen} of {counts.size} items have no training interaction, so P = 0.",
            advice=f"Use {advice}",
            shell_advice=f"Use {advice} in place of raise",
        )


def cap_at_one(item: FloatArray) -> tuple[FloatArray, int]:
    """Return propensities with values above 1 set to 1, after a warning, and their number."""
    n_above = int((item > 1).sum())
    if n_above:
        warn_user(
            f"{n_above} of {item.size} items came out with a propensity above 1 (at most "
            f"{np.nanmax(item):.3g}) and were set to 1: n* exceeds the users who seem to like the item.",
            DataWarning,
        )
    return np.minimum(item, 1.0), n_above


def weakest_basis(*bases: Basis) -> Basis:
    """Return the weakest of several bases, which is the basis of a propensity that combines them."""
    return max(bases, key=BASES.index)


@public_class
@dataclass(frozen=True, eq=False)
class Propensity:
    """P_ui = P(O_ui = 1 | i ∈ S_u), or a quantity proportional to it.

    Exactly one of `item`, `pair`, `rank_one` and `function` holds the values. `for_pairs` returns them for pairs.

    Parameters
    ----------
    item : (n_items,) float array or None
        One propensity per item, > 0. NaN: the item has none, and its positives are excluded from all
        estimators.
    is_probability : bool
        True: calibrated, probabilities in (0, 1]. False: known up to a common factor only.
    model : str
        Description of the model, for the report.
    n_items : int
        Size of the catalogue.
    pair : (n_known,) float array or None
        One propensity per user–item pair, > 0, for the pairs in `pair_key`.
    pair_key : (n_known,) sorted int array or None
        `user * n_items + item` of each entry of `pair`.
    gamma, eta : float or None
        Exponents of the power law P_i = κ (n*_i)^η, η = (γ+1)/2, that it starts from, if any.
    popularity : (n_items,) float array or None
        The n*_i that it was computed from: the numbers of training interactions, plus `smoothing`. Reports state
        them as such. None for a propensity that was computed from anything else.
    fit : object or None
        The fit that gave γ, with its standard error.
    unclipped_propensity : Propensity or None
        The propensity before clipping.
    n_capped : int
        Number of values that a calibration of the scale put above 1 and that were set to 1.
    item_ids, user_ids : arrays or None
        Ids of the entries, in order. None: not known, and only the number of items can be checked.
    rank_one : pair of (n_users,) and (n_items,) float arrays, or None
        a and p of P_ui = a_u p_i; no array of users × items is ever made.
    function : callable or None
        (user codes, item codes) -> propensities, NaN where there is none.
    steps : tuple of PropensityTransform
        Transforms in order: power-law, cap, clip, held_out. `gamma_chain` repeats those after a power law at any γ.
    error : FitError or None
        Error of the fit, which evaluations add to the error of their users. None: P is taken as known.
    basis : {"design", "exposure", "logged", "fitted", "assumed"}
        Evidence for the values: a logged randomisation ("design"); a fit to random exposure ("exposure");
        probabilities that were logged, without evidence that items were drawn at random ("logged"); a fit to
        impressions or recommendations, which knows those pairs only ("fitted"); or no measurement ("assumed").
    smoothing : float, default 0.0
        Number that was added to every n*_i in `popularity`; 0 without smoothing. With smoothing, reports state
        how many positives have a smoothed propensity.

    See Also
    --------
    PowerLawPropensity : Model P as a power of popularity.
    KnownPropensity : Use values of P that are known.
    DensityRatioPropensity : Estimate P from random exposure.
    ImpressionPropensity : Estimate P from a log of impressions.

    Examples
    --------
    >>> propensity = Propensity(np.array([0.5, 0.01]), True, "known", 2)
    >>> propensity.clip(floor=0.1).for_pairs(np.array([0, 0]), np.array([0, 1]))
    array([0.5, 0.1])
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
    unclipped_propensity: Propensity | None = None
    n_capped: int = 0
    item_ids: AnyArray | None = None
    user_ids: AnyArray | None = None
    rank_one: tuple[FloatArray, FloatArray] | None = None
    function: PairFunction | None = None
    steps: tuple[PropensityTransform, ...] = ()
    error: FitError | None = None
    basis: Basis = "assumed"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_bool("is_probability", self.is_probability)
        check_choice("basis", self.basis, BASES)
        sources = (self.item, self.pair, self.rank_one, self.function)
        n_sources = sum(source is not None for source in sources)
        if n_sources != 1:
            raise PropensityError(
                "a propensity has its values in one of item, pair, rank_one, function; "
                f"{n_sources} are given."
            )
        self._freeze_arrays()
        self._check_fields()

        values = self._select_values_to_check()
        if values is None:
            return
        known_values = values[~np.isnan(values)]
        if known_values.size == 0:
            raise PropensityError("no item or pair has a propensity: all values are NaN.")
        check_range(known_values, is_probability=self.is_probability)

    def _freeze_arrays(self) -> None:
        freeze(self, "item", "pair", "pair_key", "popularity", "item_ids", "user_ids")
        if self.rank_one is not None:
            user_factor, item_factor = self.rank_one
            object.__setattr__(self, "rank_one", (as_readonly(user_factor), as_readonly(item_factor)))

    def _check_fields(self) -> None:
        """Raise unless vectors have one entry per item, exponents are numbers and `pair` has its keys."""
        for name in ("item", "popularity"):
            vector = getattr(self, name)
            if vector is not None:
                as_float_vector(name, vector, size=self.n_items)
        for name in ("gamma", "eta"):
            exponent = getattr(self, name)
            if exponent is not None:
                check_real(name, exponent)
        check_real("smoothing", self.smoothing, low=0.0, low_open=False)
        if getattr(self.pair, "shape", None) != getattr(self.pair_key, "shape", None):
            raise PropensityError("pair and pair_key go together, with one entry for each known pair.")

    def _select_values_to_check(self) -> FloatArray | None:
        """Return the values to check: all, the extremes of rank one, or None for a function."""
        if self.item is not None:
            return self.item
        if self.rank_one is None:
            return self.pair
        with np.errstate(over="ignore", under="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # all NaN: the caller raises
            smallest_factors = np.array([np.nanmin(factor) for factor in self.rank_one])
            largest_factors = np.array([np.nanmax(factor) for factor in self.rank_one])
            if (smallest_factors <= 0).any():
                return smallest_factors
            return np.array([np.prod(smallest_factors), np.prod(largest_factors)])

    @property
    def training_popularity(self) -> FloatArray | None:
        """n*_i of every item without smoothing, (n_items,); None where n* is not known."""
        if self.popularity is None:
            return None
        return np.round(self.popularity - self.smoothing, COUNT_DIGITS)

    def __repr__(self) -> str:
        scale = "probability" if self.is_probability else "relative"
        return f"Propensity({self.model}; {self._describe_kind()}; {scale})"

    def _describe_kind(self) -> str:
        """Return which of the four kinds of values this propensity has, as text."""
        if self.item is not None:
            return "per item"
        if self.pair is not None:
            return "per user–item pair"
        if self.rank_one is not None:
            return "user factor × item factor"
        return "a function"

    def for_pairs(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the propensity of each pair.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the users and of the items.

        Returns
        -------
        (n_pairs,) float array
            NaN where there is no propensity.

        Raises
        ------
        PropensityError
            When a function returns another shape, or values out of range.
        """
        item = check_codes("item", np.asarray(item), self.n_items)
        if self.item is not None:
            return self.item[item]
        if self.rank_one is not None:
            user_factor, item_factor = self.rank_one
            user = check_codes("user", np.asarray(user), user_factor.size)
            return np.asarray(user_factor[user] * item_factor[item])
        if self.function is not None:
            return self._call_function(self.function, user, item)
        return self._look_up_pairs(user, item)

    def _call_function(self, function: PairFunction, user: IntArray, item: IntArray) -> FloatArray:
        """Return the values of a function for pairs, after a check of their shape and range."""
        values = np.asarray(function(user, item), dtype=np.float64)
        if values.shape != np.shape(user):
            raise PropensityError(
                f"the propensity function gave shape {values.shape} for {np.size(user)} pairs."
            )
        check_range(values[~np.isnan(values)], is_probability=self.is_probability)
        return values

    def _look_up_pairs(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the values of `pair`, NaN for pairs without an entry."""
        assert self.pair is not None
        assert self.pair_key is not None
        keys = user * np.int64(self.n_items) + item
        rows = np.minimum(np.searchsorted(self.pair_key, keys), self.pair_key.size - 1)
        return np.where(self.pair_key[rows] == keys, self.pair[rows], np.nan)

    def check_ids(self, ids: HasIds) -> None:
        """Check that the propensity belongs to the ids of a split, of interactions or of ranks.

        Parameters
        ----------
        ids : object with `user_ids` and `item_ids`
            The split, interactions or ranks.

        Raises
        ------
        PropensityError
            When the number, the values or the order of the ids differ.
        """
        if self.n_items != ids.item_ids.size:
            raise PropensityError(
                f"the propensity covers {self.n_items:,} items, the split has {ids.item_ids.size:,}; "
                "fit it to the training part of this split."
            )
        _check_equal_ids("items", self.item_ids, ids.item_ids)
        _check_equal_ids("users", self.user_ids, ids.user_ids)

    def clip(self, *, floor: float) -> Propensity:
        """Raise the propensity to `floor` where it is smaller.

        Clipping trades variance for bias: with w = 1/P, the share Σ(w − w_clip)/Σw of the weight is cut.

        Parameters
        ----------
        floor : float
            In (0, 1] for a probability; in the units of the propensity where it is known up to a constant factor.

        Returns
        -------
        Propensity
            The clipped propensity. Its field `unclipped_propensity` holds the original.

        Raises
        ------
        PropensityError
            When `floor` is not positive and finite, or above 1 for a probability.
        """
        floor = check_real("floor", floor)
        if floor <= 0 or (self.is_probability and floor > 1):
            interval = "(0, 1], as propensities are" if self.is_probability else "(0, inf)"
            raise PropensityError(f"floor must be in {interval}; got {floor:g}.")
        step = PropensityTransform("clip", {"floor": floor})
        return self._apply_step(
            step, f"clipped at {floor:g}", unclipped_propensity=self.unclipped_propensity or self
        )

    def cut_weight(self, user: IntArray, item: IntArray) -> tuple[float, float]:
        """Return the weight over pairs that clipping removed, and the total weight before clipping.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the users and of the items.

        Returns
        -------
        tuple of float
            Σ (w − w') and Σ w, with w = 1/P before clipping and w' after.

        Notes
        -----
        Their ratio is the share of the weight that is gone. For a metric in [0, 1] it bounds the bias of
        pooled ips relative to the total weight.
        """
        original_weights = 1 / (self.unclipped_propensity or self).for_pairs(user, item)
        clipped_weights = 1 / self.for_pairs(user, item)
        removed_weight = float(np.nansum(original_weights - clipped_weights))
        return removed_weight, float(np.nansum(original_weights))

    def held_out(
        self, *, test_fraction: float, popularity_source: Literal["train", "log"] = "train"
    ) -> Propensity:
        """Return the propensity of a held-out positive: observed, and sent to test by a random split.

        Parameters
        ----------
        test_fraction : float
            ρ in (0, 1).
        popularity_source : {"train", "log"}, default "train"
            Whether this propensity is of being in the training part, (1−ρ)P (as when n* is counted there),
            or in the whole log, P.

        Returns
        -------
        Propensity
            P(in test | not in train).

        Raises
        ------
        PropensityError
            When the propensity is known up to a constant factor only, or P exceeds 1 for some item.

        Notes
        -----
        With P the propensity of the whole log and ρ the test share, P(in test | not in train) is
        ρP / (1 − (1−ρ)P). It is close to ρP while P is small.

        Examples
        --------
        Half of the relevant pairs are observed, a fifth of those held out: 0.1 of the 0.6 not in train.

        >>> known = Propensity(np.array([0.5]), True, "known", 1)
        >>> known.held_out(test_fraction=0.2, popularity_source="log").item.round(4)
        array([0.1667])
        """
        rho = check_fraction("test_fraction", test_fraction)
        check_choice("popularity_source", popularity_source, ("train", "log"))
        if not self.is_probability:
            raise PropensityError(
                f"{self.model} is relative, but a held-out propensity requires probabilities. Use a model whose "
                "propensities are calibrated, such as PowerLawPropensity with scale='max'."
            )
        step = PropensityTransform("held_out", {"test_fraction": rho, "popularity_source": popularity_source})
        unclipped = None
        if self.unclipped_propensity is not None:
            unclipped = self.unclipped_propensity.held_out(
                test_fraction=rho, popularity_source=popularity_source
            )
        return self._apply_step(step, f"held out by a split of {rho:g}", unclipped_propensity=unclipped)

    def gamma_chain(self) -> GammaPath:
        """Return the power law and its later transforms as functions of γ.

        Returns
        -------
        GammaPath
            P of each popularity level, and its derivative, at any γ.

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
        return GammaPath.from_popularity(self.popularity, self.steps)

    def _apply_step(
        self, step: PropensityTransform, description: str, *, unclipped_propensity: Propensity | None
    ) -> Propensity:
        """Return the propensity after a further transform."""
        changes: dict[str, Any] = {
            "model": f"{self.model}, {description}",
            "steps": (*self.steps, step),
            "unclipped_propensity": unclipped_propensity,
        }
        if self.item is not None:
            changes["item"] = step.apply(self.item)[0]
        elif self.pair is not None:
            changes["pair"] = step.apply(self.pair)[0]
        else:
            changes["rank_one"] = None
            changes["function"] = _TransformedFunction(self, step)
        if self.error is not None:
            changes["error"] = replace(self.error, change=_TransformedDerivative(self, step))
        return replace(self, **changes)


def _check_equal_ids(noun: str, propensity_ids: AnyArray | None, split_ids: AnyArray) -> None:
    """Raise `PropensityError` unless known ids equal the ids of the split, in the same order."""
    if propensity_ids is None or np.array_equal(propensity_ids, split_ids):
        return
    raise PropensityError(
        f"the propensity is for other {noun}, or the same in another order ({format_examples(propensity_ids)}), "
        f"than the split has ({format_examples(split_ids)}); fit it to the training part of this split."
    )


@dataclass(frozen=True, eq=False)
class _TransformedFunction:
    """Values of a propensity after a further transform, computed for pairs on request."""

    source: Propensity
    step: PropensityTransform

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        return self.step.apply(self.source.for_pairs(user, item))[0]


@dataclass(frozen=True, eq=False)
class _TransformedDerivative:
    """Change of ln P per axis of the fit's error, after a further transform."""

    source: Propensity
    step: PropensityTransform

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        assert self.source.error is not None
        values = self.source.for_pairs(user, item)
        changes = self.source.error.change(user, item)
        return np.column_stack([self.step.apply(values, axis_change)[1] for axis_change in changes.T])


@public_class
class PropensityModel(Protocol):
    """An unfitted propensity, as `evaluate` takes it: all options but the log are in its constructor.

    See Also
    --------
    Propensity : The fitted propensity.
    PowerLawPropensity : A model with one exponent.
    ipseval.evaluate : Fits the model to the training log of its split.

    Examples
    --------
    A user-defined model, which takes the propensity as proportional to the square root of popularity:

    >>> import numpy as np
    >>> from ipseval import evaluate, simulation
    >>> class SquareRoot:
    ...     def fit(self, train):
    ...         item = np.sqrt(np.maximum(train.popularity, 1))
    ...         return Propensity(item, False, "square root of popularity", train.n_items)
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> evaluation = evaluate(models, split, propensity=SquareRoot(), metrics=["recall@10"])
    >>> evaluation.frame[["metric", "estimator", "estimate"]].round(3)
          metric     estimator  estimate
    0  recall@10           aoa     0.599
    1  recall@10  snips-global     0.313
    """

    def fit(self, train: Any) -> Propensity:
        """Fit the propensity to the training interactions.

        Parameters
        ----------
        train : Interactions
            Training log.

        Returns
        -------
        Propensity
            The fitted propensity.
        """
