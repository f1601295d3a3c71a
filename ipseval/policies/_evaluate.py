"""evaluate_policies: the value of other policies under the item–position model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data import ImpressionLog
from ipseval.errors import InputError, PropensityError
from ipseval.estimators.labels import IPS, SNIPS
from ipseval.policies._click_rates import cross_fitted
from ipseval.policies._estimators import DM, DR
from ipseval.policies._result import CLAIMS, PolicyEvaluation, Value, controlled, mean_of
from ipseval.propensity import ExaminationCurve
from ipseval.utils.checks import (
    as_generator,
    as_list,
    check_choice,
    check_fraction,
    check_positive_int,
    check_real,
    check_type,
    examples,
)
from ipseval.utils.columns import columns_of
from ipseval.utils.ids import places
from ipseval.utils.types import FloatArray, IntArray, RngLike

LISTS_COLUMNS = ("user", "item", "position")


@dataclass(frozen=True, eq=False)
class Target:
    """What a policy does in the situations of a log.

    Attributes
    ----------
    chance : (n,) float array
        P_new of the logged item at its place.
    held : (n,) int array or None
        For lists of users: the code of the item that the list has at the row's place, −1 for none.
    discounted : (n,) float array
        Σ_p P_new(item at p)/log2(1 + p) of the logged item, wherever it was shown.
    table : (n_items, n_places) float array or None
        For a policy that does not depend on the user: all its chances.
    """

    chance: FloatArray
    held: IntArray | None
    discounted: FloatArray
    table: FloatArray | None

    def modelled(self, reward: FloatArray, place: IntArray, fold: IntArray) -> FloatArray:
        """Return Σ_i P_new(i at p) m̂(i, p) of each row, (n,); `reward` is (n_folds, n_items, n_places)."""
        if self.table is not None:
            by_place = (self.table * reward).sum(axis=1)
            return np.asarray(by_place[fold, place])
        assert self.held is not None
        return np.where(self.held >= 0, reward[fold, self.held, place], 0.0)


def as_target(policy: Any, log: ImpressionLog, held: IntArray, place: IntArray, name: str) -> Target:
    """Return a policy that is a table (n_items, n_places) or a frame of lists with the rows of a log."""
    if isinstance(policy, np.ndarray):
        target = _of_table(policy, log, place, held, name)
    elif hasattr(policy, "columns"):
        target = _of_lists(policy, log, held[place], name)
    else:
        raise InputError(
            f"policy {name!r} must be an array of chances (n_items, n_places), or a frame of lists with "
            f"columns user, item and position; got {type(policy).__name__}."
        )
    if target.held is not None and (target.held < 0).all():
        raise InputError(
            f"policy {name!r} meets no row of the log: its lists have no item of a user at a position of the "
            f"log (which are {examples(held)})."
        )
    return target


def _of_table(policy: Any, log: ImpressionLog, place: IntArray, held: IntArray, name: str) -> Target:
    shape = (log.n_items, held.size)
    if policy.dtype.kind not in "iufb" or policy.shape != shape:
        raise InputError(f"policy {name!r} must be numbers of shape {shape}; got shape {policy.shape}.")
    table = policy.astype(np.float64)
    off = np.abs(table.sum(axis=0) - 1)
    if (table < 0).any() or not (off <= 1e-6).all():
        raise InputError(
            f"policy {name!r}: the chances at each place must be >= 0 and sum to 1; the largest gap is "
            f"{float(np.max(off)):.3g}."
        )
    discounted = table @ (1 / np.log2(1 + np.maximum(held, 1)))
    return Target(table[log.item, place], None, discounted[log.item], table)


def _of_lists(policy: Any, log: ImpressionLog, position: IntArray, name: str) -> Target:
    columns = columns_of(policy, list(LISTS_COLUMNS))
    user = places(columns["user"], log.user_ids, f"policy {name!r}: users")
    item = places(columns["item"], log.item_ids, f"policy {name!r}: items")
    lists = pd.DataFrame({"user": user, "position": columns["position"], "item": item})[user >= 0]
    if lists[["user", "position"]].duplicated().any() or columns["position"].dtype.kind not in "iu":
        raise InputError(
            f"policy {name!r} must have one item at each position of a user, positions 1, 2, 3, …."
        )
    if columns["position"].min(initial=1) < position.min(initial=1):
        raise InputError(f"policy {name!r} has positions below 1; the first position of a list is 1.")
    rows = pd.DataFrame({"user": log.user, "position": position})
    found = rows.merge(lists, on=["user", "position"], how="left")["item"]
    held = found.fillna(-1).to_numpy().astype(np.int64)
    if lists[["user", "item"]][lists["item"] >= 0].duplicated().any():
        raise InputError(f"policy {name!r} lists an item twice for one user.")
    pairs = pd.DataFrame({"user": log.user, "item": log.item})
    rank = pairs.merge(lists, on=["user", "item"], how="left")["position"].to_numpy(float)
    discounted = np.nan_to_num(1 / np.log2(1 + np.maximum(rank, 1)))  # 0: a log without positions
    return Target((held == log.item).astype(np.float64), held, discounted, None)


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
    """Return the clicks per impression that other policies would have had, from a log with its chances.

    Item–position model: a click depends on the item, its place and the user, not on what stands beside it.
    With p the logged chance of the item at its place, w = P_new(item at place)/p, n impressions:

    * `ips`: (1/n) Σ w y; `snips`: Σ w y/Σ w;
    * `ips-cv`: ips − β(mean w − 1) with the β of the smallest variance;
    * `dm`: (1/n) Σ_t Σ_i P_new(i at p_t) m̂(i, p_t);
    * `dr`: dm + (1/n) Σ w (y − m̂); `dr-sn`: dm + Σ w (y − m̂)/Σ w;
    * `dcg`: (1/n) Σ y d(r)/(p θ), r the item's place under the new policy, d(r) = 1/log2(1 + r), θ the
      examination of the logged place. Its expectation is Σ_i m_i d(r_i), the DCG of what users like.

    m̂ is the click rate of the item at the place, cross-fitted over users: the place's rate × the item's
    factor × a factor of the cell, both shrunk as much as the counts say (`shrinkage`). The cell's is shrunk
    to 1, the item's to m s^β with s its share of the impressions and β ~ N(0, ¼): a policy that learns shows
    more of what is clicked more, so that its choice tells of items that it hardly showed (for the propensity
    as a regressor see Little & An). Where the share tells nothing, β is near 0. Users are the units of all
    standard errors.

    Intervals: clicks are few and unequal, so that Σ w y has the limits of weighted counts, quantiles of gamma
    distributions with the estimate's variance. The upper one counts in a further click of the weight Σw²/Σw,
    which is 1/ess in `snips`. With many clicks they become normal ones. Those of `dm` are normal, and leave
    out the noise of m̂.

    `dcg` is the value of a ranking, reward-weighted, if a click needs
    examination and liking alone, places are examined as 1/log2(1 + r) under the new policy, and every item
    could stand at every place of the log. Where p θ is the same for all clicks it is the plain DCG of the
    clicked items up to a factor (Jeunen et al.); otherwise plain DCG is biased.

    Parameters
    ----------
    log : ImpressionLog
        With propensities: the chance of the shown item at its place, given the situation.
    policies : mapping
        Name -> chances (n_items, n_places), the same for all users, columns by ascending position, each
        summing to 1; or a frame of lists with columns user, item and position.
    estimators : labels
        Of those above.
    examination : ExaminationCurve, optional
        θ of the log's places, for `dcg`; without it each is 1.
    confidence_level : float
    shrinkage : float >= 0, optional
        Impressions that the place's click rate counts for in m̂, which is then the shrunk rate of each cell.
        Default: the strength of the largest likelihood of the counts, for items and for cells.
    n_folds, rng
        Of the cross-fitting.

    Raises
    ------
    InputError
        For policies of another form, and labels that are none of those above.
    PropensityError
        For a log without propensities.

    References
    ----------
    Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay & Wen, Offline evaluation of ranking policies with click
    models, KDD 2018, doi 10.1145/3219819.3220028. Jeunen, Potapov & Ustimenko, On (normalised) discounted
    cumulative gain as an off-policy evaluation metric for top-n recommendation, KDD 2024,
    doi 10.1145/3637528.3671687. Fay & Feuer, Confidence intervals for directly standardized rates, Statistics
    in Medicine 16, 1997. Morris, Parametric empirical Bayes inference, JASA 78, 1983,
    doi 10.1080/01621459.1983.10477920. Little & An, Robust likelihood-based analysis of multivariate data
    with missing values, Statistica Sinica 14, 2004. Jeunen & Gupta, SIGIR 2026, arXiv 2602.14914 (`ips-cv`).

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
    _, unit = np.unique(log.user, return_inverse=True)
    position = np.zeros(len(log), np.int64) if log.position is None else log.position
    held, place = np.unique(position, return_inverse=True)
    n_units = int(unit.max()) + 1
    fold = (as_generator(rng).permutation(n_units) % n_folds)[unit]
    theta = np.ones(len(log)) if examination is None else examination.at(held[place])
    reward = cross_fitted(log, place, held.size, fold, n_folds, shrinkage)
    predicted = reward[fold, log.item, place]

    def by_unit(values: FloatArray) -> FloatArray:
        return np.bincount(unit, values, minlength=n_units).astype(np.float64)

    rows = by_unit(np.ones(len(log)))
    values: dict[tuple[str, str], Value] = {}
    gains, weights, overlap = {}, {}, []
    for name, policy in policies.items():
        target = as_target(policy, log, held, place, name)
        w = target.chance / log.propensity
        gains[name], weights[name] = by_unit(w * log.clicked), by_unit(w)
        modelled = mean_of(by_unit(target.modelled(reward, place, fold)), rows)
        rest = by_unit(w * (log.clicked - predicted))
        ips = _clicked(gains[name], rows, w)
        snips = _clicked(gains[name], weights[name], w)
        discount = target.discounted / (log.propensity * theta)
        made = {
            IPS: ips,
            "ips-cv": _of(ips, controlled(gains[name], weights[name], rows, 1.0)),
            SNIPS: snips,
            DM: modelled,
            DR: _of(ips, modelled, mean_of(rest, rows)),
            "dr-sn": _of(snips, modelled, mean_of(rest, weights[name])),
            "dcg": _clicked(by_unit(discount * log.clicked), rows, discount),
        }
        values |= {(name, label): made[label] for label in labels}
        overlap.append(_overlap(name, w))
    return PolicyEvaluation(values, gains, weights, rows, pd.DataFrame(overlap), confidence_level)


def _clicked(values: FloatArray, mass: FloatArray, weight: FloatArray) -> Value:
    """Return Σ values / Σ mass, where the values are clicks with the weights of the impressions."""
    found, total = mean_of(values, mass), float(weight.sum())
    further = float(weight @ weight / (total * mass.sum())) if total else float("nan")
    return replace(found, clicks=found, further=further)


def _of(clicks: Value, *parts: Value) -> Value:
    """Return the sum of parts, in which the clicks of another value are."""
    influence = np.sum([one.influence for one in parts], axis=0)
    return Value(sum(one.value for one in parts), influence, clicks, clicks.further)


def _overlap(name: str, weight: FloatArray) -> dict[str, Any]:
    total, squares = float(weight.sum()), float((weight**2).sum())
    return {
        "policy": name,
        "ess": total**2 / squares if squares else 0.0,
        "max_weight": float(weight.max()),
        "max_weight_share": float(weight.max() / total) if total else float("nan"),
        "mean_weight": float(weight.mean()),
        "share_unmatched": float((weight == 0).mean()),
    }
