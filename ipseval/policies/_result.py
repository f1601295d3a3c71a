"""The result of an evaluation of policies: values, differences, and what the weights allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ipseval.data import ImpressionLog
from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators.labels import IPS, SNIPS
from ipseval.inference.comparisons import adjust, pairs_of
from ipseval.policies._click_rates import count_interval, difference_interval
from ipseval.policies._estimators import DM, DR
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, decimals, listed, shown_p
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.utils.checks import check_positive_int, check_type
from ipseval.utils.types import FloatArray

COVERED = "given the logged chances, where they cover the policy"
EITHER = "consistent given the logged chances or a right reward model"
CLAIMS = {
    IPS: f"exactly unbiased {COVERED}",
    "ips-cv": f"consistent {COVERED}",
    SNIPS: f"consistent {COVERED}",
    DM: "consistent given a right reward model",
    DR: EITHER,
    "dr-sn": EITHER,
    "dcg": f"exactly unbiased {COVERED}, for items that can stand at every place",
}
OF_RECORD = (DR, "dr-sn", SNIPS, "ips-cv", IPS)  # the first of these that was asked for


@dataclass(frozen=True, eq=False)
class Value:
    """One value with the influence of each unit, (n_units,), of mean 0.

    Attributes
    ----------
    value : float
    influence : (n_units,) float array
    clicks : Value, optional
        The weighted clicks in the value, all of one sign: few large steps, where clicks are rare.
    further : float
        What one further click would add: Σw²/Σw over impressions, in parts of the mass. NaN: nothing is
        known of it, as no impression has a weight.
    """

    value: float
    influence: FloatArray
    clicks: Value | None = None
    further: float = 0.0

    @property
    def standard_error(self) -> float:
        """√(Σψ²/(n(n − 1)))."""
        n = self.influence.size
        return float(np.sqrt((self.influence**2).sum() / (n * (n - 1.0)))) if n > 1 else float("nan")

    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Return (low, high): gamma limits of the clicks and normal ones of the rest, or normal ones.

        The clicks have the smaller of their own variance and that of the value, which another part may
        lower; what is left of the variance of the value is added as for independent parts.
        """
        error, z = self.standard_error, float(ndtri((1 + confidence_level) / 2))
        if self.clicks is None:
            return self.value - z * error, self.value + z * error
        if np.isnan([self.further, error, self.value]).any():
            return float("nan"), float("nan")
        total, variance = self.clicks.value, min(error, self.clicks.standard_error) ** 2
        low, high = count_interval(
            total, variance, self.further, self.further**2, confidence_level=confidence_level
        )
        rest = z * np.sqrt(max(error**2 - variance, 0.0))
        below, above = (float(np.hypot(end - total, rest)) for end in (low, high))
        return self.value - below, self.value + above


def mean_of(values: FloatArray, mass: FloatArray) -> Value:
    """Return Σ values / Σ mass over units."""
    ratio = float(values.sum() / mass.sum()) if mass.sum() else float("nan")
    return Value(ratio, (values - ratio * mass) / mass.mean())


@dataclass(frozen=True, eq=False, repr=False)
class PolicyEvaluation(Result):
    """Values of policies, per impression, with intervals and the state of the weights.

    Attributes
    ----------
    values : dict
        (policy, estimator) -> value with influences.
    gains, weights : dict
        Policy -> Σ w y and Σ w of each unit, for differences.
    rows : (n_units,) float array
        Impressions of each unit.
    overlap : DataFrame
        policy, ess (of the impressions' weights), max_weight, max_weight_share, mean_weight (1 in
        expectation), share_unmatched: the share of impressions whose item the policy never shows there.
    confidence_level : float
    """

    values: dict[tuple[str, str], Value]
    gains: dict[str, FloatArray]
    weights: dict[str, FloatArray]
    rows: FloatArray
    overlap: pd.DataFrame
    confidence_level: float = 0.95

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a row per policy, who earns most, what the weights allow, what is claimed."""
        del page
        check_positive_int("digits", digits)
        frame, n_impressions = self.frame, int(self.rows.sum())
        labels = list(frame["estimator"].unique())
        record = next((one for one in OF_RECORD if one in labels), labels[0])
        own = frame[frame["estimator"] == record].sort_values("estimate", ascending=False, kind="stable")
        shown = pd.DataFrame({"policy": own["policy"].to_numpy()})
        for label in labels:
            rows = frame[frame["estimator"] == label].set_index("policy").loc[shown["policy"]]
            for end, name in (("", "estimate"), ("_low", "ci_low"), ("_high", "ci_high")):
                shown[label + end] = rows[name].to_numpy()
        places = decimals(((frame["ci_high"] - frame["ci_low"]) / 2).dropna(), digits)
        claims = frame.groupby("claim", sort=False)["estimator"].unique()
        level = f"{self.confidence_level:.0%} intervals in brackets"
        return Tables(
            summary=(f"{n_impressions:,} impressions · clicks per impression · {level}",),
            parts=(Table.of(shown, formats=f".{places}f"),),
            verdict=(
                Remark("Verdict", (_verdict(self, list(own["policy"]), record),)),
                Remark("Weights", tuple(_weights(self.overlap, n_impressions))),
                Remark("Claim", tuple(f"{listed(list(names))}: {text}." for text, names in claims.items())),
            ),
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per policy and estimator: estimate, std_error, ci_low, ci_high, ess, claim."""
        ess = self.overlap.set_index("policy")["ess"]
        rows = [
            (name, one, *self._interval(value), float(ess[name]), CLAIMS[one])
            for (name, one), value in self.values.items()
        ]
        columns = ["policy", "estimator", "estimate", "std_error", "ci_low", "ci_high", "ess", "claim"]
        return pd.DataFrame(rows, columns=columns)

    def against(self, log: ImpressionLog, policy: str | None = None) -> pd.DataFrame:
        """Return how far the estimates of a policy are from the click rate that it had in a log of its own.

        The interval is one for the difference, which holds the noise of both logs: the estimate agrees with
        what was seen where it contains 0. Both limits are joined by the MOVER method (Zou & Donner 2008,
        doi 10.1002/sim.3095).

        Parameters
        ----------
        log : ImpressionLog
            What the policy showed, independent of the log of the estimates.
        policy : str, optional
            Its name; needed where several were evaluated.

        Returns
        -------
        DataFrame
            policy, estimator, estimate, observed, difference, ci_low, ci_high, agrees.

        Raises
        ------
        UnknownNameError
            For a policy that was not evaluated.
        InputError
            Where several were and none is named.
        """
        check_type("log", log, ImpressionLog, " Read one with ImpressionLog.from_frame(frame).")
        names = list(self.weights)
        if policy is None and len(names) > 1:
            raise InputError(f"policy must name the one that made the log: one of {', '.join(names)}.")
        name = names[0] if policy is None else policy
        if name not in names:
            raise UnknownNameError("policy", name, names)
        _, unit = np.unique(log.user, return_inverse=True)
        own = mean_of(np.bincount(unit, log.clicked).astype(float), np.bincount(unit).astype(float))
        own = replace(own, clicks=own, further=1 / len(log))
        seen = own.value, *own.interval(self.confidence_level)
        rows = []
        for (of, estimator), value in self.values.items():
            if of == name:
                given = value.value, *value.interval(self.confidence_level)
                low, high = difference_interval(given, seen)
                gap = value.value - own.value
                rows.append((name, estimator, value.value, own.value, gap, low, high, low <= 0 <= high))
        columns = ["policy", "estimator", "estimate", "observed", "difference", "ci_low", "ci_high", "agrees"]
        return pd.DataFrame(rows, columns=columns)

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Return differences of policies with a control variate, and of their other estimates.

        `delta-ips` is mean (w_a − w_b)(y − β) with the β of the smallest variance, which costs no bias in
        expectation, as w_a − w_b has mean 0 where both policies are covered. Other rows subtract estimates,
        paired by unit. Intervals and p-values are normal ones: with few clicks they are too sure.

        Parameters
        ----------
        reference : str, optional
            Compare all others with this policy; default: all pairs.

        References
        ----------
        Jeunen & Ustimenko, Δ-OPE: off-policy estimation with pairs of policies, RecSys 2024,
        doi 10.1145/3640457.3688162.
        """
        rows = []
        for a, b in pairs_of(list(self.weights), reference, "policy"):
            gain, weight = self.gains[a] - self.gains[b], self.weights[a] - self.weights[b]
            found = {"delta-ips": controlled(gain, weight, self.rows, 0.0)}
            for estimator in dict.fromkeys(one for _, one in self.values):
                one, other = self.values[a, estimator], self.values[b, estimator]
                found[estimator] = Value(one.value - other.value, one.influence - other.influence)
            for estimator, value in found.items():
                z = abs(value.value) / value.standard_error if value.standard_error > 0 else float("nan")
                rows.append((a, b, estimator, *self._interval(value), float(2 * ndtr(-z))))
        columns = ["policy", "reference", "estimator", "difference", "std_error", "ci_low", "ci_high"]
        return pd.DataFrame(rows, columns=[*columns, "p_value"])

    def _interval(self, value: Value) -> tuple[float, float, float, float]:
        return value.value, value.standard_error, *value.interval(self.confidence_level)


def controlled(gain: FloatArray, weight: FloatArray, rows: FloatArray, expected: float) -> Value:
    """Return Σ gain/Σ rows − β(Σ weight/Σ rows − expected) with the β of the smallest variance."""
    plain, normal = mean_of(gain, rows), mean_of(weight, rows)
    spread = float(normal.influence @ normal.influence)
    beta = float(plain.influence @ normal.influence) / spread if spread > 0 else 0.0
    return Value(plain.value - beta * (normal.value - expected), plain.influence - beta * normal.influence)


def _verdict(found: PolicyEvaluation, policies: list[str], record: str) -> str:
    """Return who earns most by the estimator of record, and from whom that is told (Holm)."""
    first, *others = policies
    if not others:
        return f"One policy: its value by {record} stands above."
    tests = found.compare()
    with_first = (tests["policy"] == first) | (tests["reference"] == first)
    tests = tests[(tests["estimator"] == record) & with_first]
    name = np.where(tests["policy"] == first, tests["reference"], tests["policy"])
    adjusted = pd.Series(adjust(tests, "holm", ["estimator"]), index=name)
    told = [one for one in others if adjusted[one] < LEVEL]
    untold = [one for one in others if one not in told]
    parts = [f"By {record}, {first} earns most."]
    if told:
        p_value = shown_p(float(adjusted[told].max()), most=len(told) > 1)
        parts.append(f"It is told from {listed(told)} ({p_value}).")
    if untold:
        parts.append(f"These data do not tell it from {listed(untold)}.")
    return " ".join(parts)


def _weights(overlap: pd.DataFrame, n_impressions: int) -> list[str]:
    """Return the effective number of impressions of each policy, and how much of the log serves none."""
    lines = []
    for row in overlap.to_dict("records"):
        text = f"{row['policy']}: {row['ess']:,.0f} effective impressions of {n_impressions:,}"
        if row["share_unmatched"] > 0:
            text += f"; {row['share_unmatched']:.0%} show items that it never shows there"
        lines.append(f"{text}.")
    return lines
