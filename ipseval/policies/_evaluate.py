"""evaluate_policies: estimate the value of policies under the item–position model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data import ImpressionLog
from ipseval.errors import InputError, PropensityError
from ipseval.estimators.labels import IPS
from ipseval.policies._click_rates import cross_fit_click_rates
from ipseval.policies._estimators import DM, DR, SNIPS
from ipseval.policies._result import (
    CLAIMS,
    PolicyEvaluation,
    PolicyValue,
    estimate_ratio,
    subtract_control_variate,
)
from ipseval.propensity import ExaminationCurve
from ipseval.utils.checks import (
    as_generator,
    as_list,
    check_choice,
    check_fraction,
    check_positive_int,
    check_real,
    check_type,
    format_examples,
)
from ipseval.utils.columns import extract_columns
from ipseval.utils.ids import find_positions
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray, IntArray, RngLike

LISTS_COLUMNS = ("user", "item", "position")


@dataclass(frozen=True, eq=False)
class PolicyTarget:
    """Probabilities and discounts of a policy for the rows of a log.

    Attributes
    ----------
    probability : (n,) float array
        P_new of the logged item at its position.
    list_item : (n,) int array or None
        For lists of users: the code of the item that the list has at the row's position, −1 for none.
    discount : (n,) float array
        Σ_p P_new(item at p)/log2(1 + p) of the logged item, at whichever position it was shown.
    table : (n_items, n_positions) float array or None
        All probabilities, for a policy that does not depend on the user.
    """

    probability: FloatArray
    list_item: IntArray | None
    discount: FloatArray
    table: FloatArray | None

    def predict_rewards(self, click_rates: FloatArray, position_code: IntArray, fold: IntArray) -> FloatArray:
        """Return Σ_i P_new(i at p) m̂(i, p) of each row, from m̂ (n_folds, n_items, n_positions)."""
        if self.table is not None:
            position_rewards = (self.table * click_rates).sum(axis=1)
            return np.asarray(position_rewards[fold, position_code])
        assert self.list_item is not None
        list_rates = click_rates[fold, self.list_item, position_code]
        return np.where(self.list_item >= 0, list_rates, 0.0)


def build_target(
    policy: object, log: ImpressionLog, positions: IntArray, position_code: IntArray, name: str
) -> PolicyTarget:
    """Return the target of a table (n_items, n_positions) or of a frame of lists, for the rows of a log."""
    if isinstance(policy, np.ndarray):
        target = _build_table_target(policy, log, positions, position_code, name)
    elif hasattr(policy, "columns"):
        target = _build_list_target(policy, log, positions[position_code], name)
    else:
        raise InputError(
            f"policy {name!r} must be an array of chances (n_items, n_places), or a frame of lists with "
            f"columns user, item and position; got {type(policy).__name__}."
        )
    if target.list_item is not None and (target.list_item < 0).all():
        raise InputError(
            f"policy {name!r} meets no row of the log: its lists have no item of a user at a position of the "
            f"log (which are {format_examples(positions)})."
        )
    return target


def _build_table_target(
    policy: Any, log: ImpressionLog, positions: IntArray, position_code: IntArray, name: str
) -> PolicyTarget:
    """Return the target of a policy that is the same for all users, after a check of its probabilities."""
    shape = (log.n_items, positions.size)
    if policy.dtype.kind not in "iufb" or policy.shape != shape:
        raise InputError(f"policy {name!r} must be numbers of shape {shape}; got shape {policy.shape}.")
    table = policy.astype(np.float64)
    gaps = np.abs(table.sum(axis=0) - 1)
    if (table < 0).any() or not (gaps <= 1e-6).all():
        raise InputError(
            f"policy {name!r}: the chances at each place must be >= 0 and sum to 1; the largest gap is "
            f"{float(np.max(gaps)):.3g}."
        )
    item_discount = table @ (1 / np.log2(1 + np.maximum(positions, 1)))
    return PolicyTarget(
        probability=table[log.item, position_code],
        list_item=None,
        discount=item_discount[log.item],
        table=table,
    )


def _build_list_target(policy: object, log: ImpressionLog, position: IntArray, name: str) -> PolicyTarget:
    """Return the target of lists of users, after a check of their positions and items."""
    columns = extract_columns(policy, list(LISTS_COLUMNS))
    user = find_positions(columns["user"], log.user_ids, f"policy {name!r}: users")
    item = find_positions(columns["item"], log.item_ids, f"policy {name!r}: items")
    all_lists = pd.DataFrame({"user": user, "position": columns["position"], "item": item})
    lists = all_lists[user >= 0]
    if lists[["user", "position"]].duplicated().any() or columns["position"].dtype.kind not in "iu":
        raise InputError(
            f"policy {name!r} must have one item at each position of a user, positions 1, 2, 3, …."
        )
    if columns["position"].min(initial=1) < position.min(initial=1):
        raise InputError(f"policy {name!r} has positions below 1; the first position of a list is 1.")
    if lists[["user", "item"]][lists["item"] >= 0].duplicated().any():
        raise InputError(f"policy {name!r} lists an item twice for one user.")

    log_positions = pd.DataFrame({"user": log.user, "position": position})
    list_item = log_positions.merge(lists, on=["user", "position"], how="left")["item"]
    item_codes = list_item.fillna(-1).to_numpy().astype(np.int64)
    log_items = pd.DataFrame({"user": log.user, "item": log.item})
    list_position = log_items.merge(lists, on=["user", "item"], how="left")["position"].to_numpy(float)
    discount = 1 / np.log2(1 + np.maximum(list_position, 1))
    return PolicyTarget(
        probability=(item_codes == log.item).astype(np.float64),
        list_item=item_codes,
        discount=np.nan_to_num(discount),  # 0 for items that are not in the list
        table=None,
    )


@public_function
def evaluate_policies(
    log: ImpressionLog,
    policies: Mapping[str, Any],
    *,
    estimators: Iterable[str] = (IPS, SNIPS, DR),
    examination: ExaminationCurve | None = None,
    confidence_level: float = 0.95,
    shrinkage: float | None = None,
    n_folds: int = 5,
    rng: RngLike = None,
) -> PolicyEvaluation:
    """Estimate the clicks per impression that policies would have had, from a log with propensities.

    Parameters
    ----------
    log : ImpressionLog
        With propensities: the probability of the shown item at its position, given the situation.
    policies : mapping
        Name -> probabilities (n_items, n_positions), the same for all users, rows in the order of `log.item_ids`
        and columns by ascending position, each summing to 1; or a frame of lists with columns user, item and position.
    estimators : labels, default ("ips", "snips", "dr")
        Labels of the notes.
    examination : ExaminationCurve, optional
        θ of the log's positions, for `dcg`; without it each is 1.
    confidence_level : float, default 0.95
        In (0, 1).
    shrinkage : float >= 0, optional
        Impressions that the position's click rate counts for in m̂, which is then the shrunk rate of each
        cell. Default: the strength of the largest likelihood of the counts, for items and for cells.
    n_folds : int, default 5
        Folds of users for the cross-fitting, >= 2.
    rng : int, Generator or None, default None
        Assigns the users to folds.

    Returns
    -------
    PolicyEvaluation
        Values of the policies with intervals, differences between them, and diagnostics of the weights.

    Raises
    ------
    InputError
        For policies of another form, and labels that are not in the notes.
    PropensityError
        For a log without propensities.

    See Also
    --------
    evaluate_rewards : Evaluate recommenders from impressions and a reward model.

    Notes
    -----
    Item–position model: a click depends on the item, its position and the user, not on the neighbouring
    items. With p the logged probability of the item at its position, w = P_new(item at position)/p, and n
    impressions:

    * `ips`: (1/n) Σ w y; `snips`: Σ w y/Σ w;
    * `ips-cv` [1]_: ips − β(mean w − 1) with the β of the smallest variance;
    * `dm`: (1/n) Σ_t Σ_i P_new(i at p_t) m̂(i, p_t);
    * `dr`: dm + (1/n) Σ w (y − m̂); `dr-sn`: dm + Σ w (y − m̂)/Σ w;
    * `dcg` [2]_: (1/n) Σ y d(r)/(p θ), r the item's position under the new policy, d(r) = 1/log2(1 + r), θ
      the examination of the logged position. Its expectation is Σ_i m_i d(r_i), the DCG of the items that
      users like.

    m̂ is the click rate of the item at the position, cross-fitted over users: the rate of the position × the
    factor of the item × a factor of the cell, both shrunk by empirical Bayes [3]_ (`shrinkage`). The factor
    of the cell is shrunk to 1, the factor of the item to m s^β with s its share of the impressions and
    β ~ N(0, 1/4). A policy that learns shows more of the items that are clicked more, so that its choice is
    informative about items with few impressions (for the propensity as a regressor see [4]_). Where the share
    is not informative, β is near 0. Users are the units of all standard errors.

    Intervals: clicks are few and unequal, so that Σ w y has the limits of weighted counts [5]_, quantiles of
    gamma distributions with the estimate's variance. The upper limit includes one more click of the weight
    Σw²/Σw, which is 1/ess in `snips`. With many clicks the limits become normal. The limits of `dm` are
    normal, and do not account for the noise of m̂.

    `dcg` is the reward-weighted value of a ranking, if a click needs examination and liking alone, positions
    are examined as 1/log2(1 + r) under the new policy, and every item could be shown at every position of the
    log. Where p θ is the same for all clicks it is the unweighted DCG of the clicked items, up to a constant factor
    [2]_; otherwise the unweighted DCG is biased. The item–position model is from [6]_.

    References
    ----------
    .. [1] Jeunen & Gupta, SIGIR 2026, arXiv:2602.14914
    .. [2] Jeunen, Potapov & Ustimenko, On (normalised) discounted cumulative gain as an off-policy evaluation
       metric for top-n recommendation, KDD 2024, doi:10.1145/3637528.3671687
    .. [3] Morris, Parametric empirical Bayes inference, JASA 78, 1983, doi:10.1080/01621459.1983.10477920
    .. [4] Little & An, Robust likelihood-based analysis of multivariate data with missing values, Statistica
       Sinica 14, 2004
    .. [5] Fay & Feuer, Confidence intervals for directly standardized rates, Statistics in Medicine 16, 1997
    .. [6] Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay & Wen, Offline evaluation of ranking policies with
       click models, KDD 2018, doi:10.1145/3219819.3220028

    Examples
    --------
    >>> frame = pd.DataFrame({"user": [1, 2, 3, 4], "item": ["a", "b", "a", "b"], "clicked": [1, 0, 1, 1]})
    >>> log = ImpressionLog.from_frame(frame.assign(p=0.5), propensity="p")
    >>> always_a = np.array([[1.0], [0.0]])
    >>> evaluate_policies(log, {"always a": always_a}, estimators=["ips", "snips"]).frame["estimate"].tolist()
    [1.0, 1.0]
    """
    check_type("log", log, ImpressionLog, " Read one with ImpressionLog.from_frame(frame).")
    if log.propensity is None:
        raise PropensityError("the log has no propensities; name their column with propensity=.")
    if not isinstance(policies, Mapping) or not policies:
        raise InputError("policies must be a mapping of names to policies, with at least one.")
    labels = as_list(estimators, "estimators")
    for label in labels:
        check_choice("estimators", label, CLAIMS)
    check_fraction("confidence_level", confidence_level)
    if shrinkage is not None:
        check_real("shrinkage", shrinkage, low=0.0, low_open=False)
    check_positive_int("n_folds", n_folds, minimum=2)

    data = _prepare_log(
        log, log.propensity, examination=examination, shrinkage=shrinkage, n_folds=n_folds, rng=rng
    )
    values: dict[tuple[str, str], PolicyValue] = {}
    gains: dict[str, FloatArray] = {}
    weights: dict[str, FloatArray] = {}
    overlap_rows = []
    for name, policy in policies.items():
        target = build_target(policy, log, data.positions, data.position_code, name)
        weight = target.probability / log.propensity
        gains[name] = data.sum_by_unit(weight * log.clicked)
        weights[name] = data.sum_by_unit(weight)
        estimates = _estimate_values(data, target, weight, gains[name], weights[name])
        for label in labels:
            values[name, label] = estimates[label]
        overlap_rows.append(_describe_overlap(name, weight))
    return PolicyEvaluation(
        values=values,
        gains=gains,
        weights=weights,
        rows=data.unit_sizes,
        overlap=pd.DataFrame(overlap_rows),
        confidence_level=confidence_level,
    )


@dataclass(frozen=True, eq=False)
class _PreparedLog:
    """A log with the units, folds, positions and click rates that all policies share."""

    log: ImpressionLog
    propensity: FloatArray  # (n,) logged
    unit: IntArray  # (n,) unit of each row: its user
    n_units: int
    fold: IntArray  # (n,)
    positions: IntArray  # (n_positions,) ascending
    position_code: IntArray  # (n,)
    theta: FloatArray  # (n,) examination
    click_rates: FloatArray  # (n_folds, n_items, n_positions) m̂

    def sum_by_unit(self, values: FloatArray) -> FloatArray:
        """Return the sum of values of rows over each unit, (n_units,)."""
        return np.bincount(self.unit, values, minlength=self.n_units).astype(np.float64)

    @property
    def unit_sizes(self) -> FloatArray:
        """Number of impressions of each unit, (n_units,)."""
        return self.sum_by_unit(np.ones(len(self.log)))


def _prepare_log(
    log: ImpressionLog,
    propensity: FloatArray,
    examination: ExaminationCurve | None,
    shrinkage: float | None,
    n_folds: int,
    rng: RngLike,
) -> _PreparedLog:
    """Assign the users to folds and cross-fit the click rates."""
    unit = np.unique(log.user, return_inverse=True)[1]
    n_units = int(unit.max()) + 1
    position = log.position
    if position is None:
        position = np.zeros(len(log), np.int64)
    positions, position_code = np.unique(position, return_inverse=True)
    unit_fold = as_generator(rng).permutation(n_units) % n_folds
    fold = unit_fold[unit]
    theta: FloatArray = np.ones(len(log))
    if examination is not None:
        theta = examination.for_positions(position)
    return _PreparedLog(
        log=log,
        propensity=propensity,
        unit=unit,
        n_units=n_units,
        fold=fold,
        positions=positions,
        position_code=position_code,
        theta=theta,
        click_rates=cross_fit_click_rates(
            log, position_code, positions.size, fold=fold, n_folds=n_folds, shrinkage=shrinkage
        ),
    )


def _estimate_values(
    data: _PreparedLog,
    target: PolicyTarget,
    weight: FloatArray,
    gain: FloatArray,
    unit_weight: FloatArray,
) -> dict[str, PolicyValue]:
    """Return the value of a policy by each estimator; `gain` and `unit_weight` are Σ w y and Σ w of units."""
    log = data.log
    unit_sizes = data.unit_sizes
    ips = _estimate_from_clicks(gain, unit_sizes, weight)
    snips = _estimate_from_clicks(gain, unit_weight, weight)
    ips_cv = subtract_control_variate(gain, unit_weight, unit_sizes, expected=1.0)

    policy_rewards = target.predict_rewards(data.click_rates, data.position_code, data.fold)
    dm = estimate_ratio(data.sum_by_unit(policy_rewards), unit_sizes)
    predicted_clicks = data.click_rates[data.fold, log.item, data.position_code]
    residual = data.sum_by_unit(weight * (log.clicked - predicted_clicks))
    mean_residual = estimate_ratio(residual, unit_sizes)
    normalized_residual = estimate_ratio(residual, unit_weight)

    dcg_weight = target.discount / (data.propensity * data.theta)
    dcg_gain = data.sum_by_unit(dcg_weight * log.clicked)
    return {
        IPS: ips,
        "ips-cv": _add_values(ips, ips_cv),
        SNIPS: snips,
        DM: dm,
        DR: _add_values(ips, dm, mean_residual),
        "dr-sn": _add_values(snips, dm, normalized_residual),
        "dcg": _estimate_from_clicks(dcg_gain, unit_sizes, dcg_weight),
    }


def _estimate_from_clicks(gain: FloatArray, mass: FloatArray, weight: FloatArray) -> PolicyValue:
    """Return Σ gain / Σ mass, where gains are clicks with the weights of the impressions."""
    estimate = estimate_ratio(gain, mass)
    total = float(weight.sum())
    extra_click = float("nan")
    if total:
        extra_click = float(weight @ weight / (total * mass.sum()))
    return replace(estimate, clicks=estimate, extra_click=extra_click)


def _add_values(clicks: PolicyValue, *parts: PolicyValue) -> PolicyValue:
    """Return the sum of some parts, with the weighted clicks of another value."""
    influences = [part.influence for part in parts]
    return PolicyValue(
        value=sum(part.value for part in parts),
        influence=np.sum(influences, axis=0),
        clicks=clicks,
        extra_click=clicks.extra_click,
    )


def _describe_overlap(name: str, weight: FloatArray) -> dict[str, str | float]:
    """Return the row of a policy in the table of overlap."""
    total = float(weight.sum())
    sum_of_squares = float((weight**2).sum())
    return {
        "policy": name,
        "ess": total**2 / sum_of_squares if sum_of_squares else 0.0,
        "max_weight": float(weight.max()),
        "max_weight_share": float(weight.max() / total) if total else float("nan"),
        "mean_weight": float(weight.mean()),
        "share_unmatched": float((weight == 0).mean()),
    }
