"""Result of an evaluation of policies: values, differences, and the overlap of the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ipseval.data import ImpressionLog
from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators.labels import IPS
from ipseval.inference.comparisons import adjust_p_values, list_pairs
from ipseval.policies._click_rates import count_interval, difference_interval
from ipseval.policies._estimators import DM, DR, SNIPS
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, count_decimals, format_p_value, join_names
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.utils.checks import check_positive_int, check_type
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray

GIVEN_CHANCES = "given the logged chances, where they cover the policy"
GIVEN_CHANCES_OR_MODEL = "consistent given the logged chances or a right reward model"
CLAIMS = {
    IPS: f"exactly unbiased {GIVEN_CHANCES}",
    "ips-cv": f"consistent {GIVEN_CHANCES}",
    SNIPS: f"consistent {GIVEN_CHANCES}",
    DM: "consistent given a right reward model",
    DR: GIVEN_CHANCES_OR_MODEL,
    "dr-sn": GIVEN_CHANCES_OR_MODEL,
    "dcg": f"exactly unbiased {GIVEN_CHANCES}, for items that can be shown at every position",
}
RECORD_ORDER = (DR, "dr-sn", SNIPS, "ips-cv", IPS)  # the verdict uses the first of these in the result


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """Value of a policy with the influence of each unit, (n_units,), of mean 0.

    Attributes
    ----------
    value : float
    influence : (n_units,) float array
    clicks : PolicyValue, optional
        The weighted clicks in the value, all of one sign: few large steps, where clicks are rare.
    extra_click : float
        The contribution of one more click: Σw²/Σw over impressions, in parts of the mass. NaN: not known,
        because no impression has a weight.
    """

    value: float
    influence: FloatArray
    clicks: PolicyValue | None = None
    extra_click: float = 0.0

    @property
    def standard_error(self) -> float:
        """√(Σψ²/(n(n − 1)))."""
        n = self.influence.size
        if n <= 1:
            return float("nan")
        return float(np.sqrt((self.influence**2).sum() / (n * (n - 1.0))))

    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Return (low, high): gamma limits of the clicks and normal ones of the rest, or normal ones.

        The variance of the clicks is the smaller of their own variance and the variance of the value, which
        another part may lower. The remaining variance of the value is added as for independent parts.
        """
        error = self.standard_error
        z = float(ndtri((1 + confidence_level) / 2))
        if self.clicks is None:
            return self.value - z * error, self.value + z * error
        if np.isnan([self.extra_click, error, self.value]).any():
            return float("nan"), float("nan")
        clicks = self.clicks.value
        click_variance = min(error, self.clicks.standard_error) ** 2
        low, high = count_interval(
            clicks, click_variance, self.extra_click, self.extra_click**2, confidence_level=confidence_level
        )
        normal_margin = z * np.sqrt(max(error**2 - click_variance, 0.0))
        lower_margin = float(np.hypot(low - clicks, normal_margin))
        upper_margin = float(np.hypot(high - clicks, normal_margin))
        return self.value - lower_margin, self.value + upper_margin

    def to_row(self, confidence_level: float) -> tuple[float, float, float, float]:
        """Return value, standard error and the limits of the interval."""
        low, high = self.interval(confidence_level)
        return self.value, self.standard_error, low, high


def estimate_ratio(values: FloatArray, mass: FloatArray) -> PolicyValue:
    """Return Σ values / Σ mass over units, with the influence of each unit."""
    ratio = float("nan")
    if mass.sum():
        ratio = float(values.sum() / mass.sum())
    return PolicyValue(ratio, (values - ratio * mass) / mass.mean())


def subtract_control_variate(
    gain: FloatArray, weight: FloatArray, rows: FloatArray, *, expected: float
) -> PolicyValue:
    """Return Σ gain/Σ rows − β(Σ weight/Σ rows − expected) with the β of the smallest variance."""
    mean_gain = estimate_ratio(gain, rows)
    mean_weight = estimate_ratio(weight, rows)
    weight_variance = float(mean_weight.influence @ mean_weight.influence)
    beta = 0.0
    if weight_variance > 0:
        beta = float(mean_gain.influence @ mean_weight.influence) / weight_variance
    return PolicyValue(
        value=mean_gain.value - beta * (mean_weight.value - expected),
        influence=mean_gain.influence - beta * mean_weight.influence,
    )


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class PolicyEvaluation(Result):
    """Values of policies, per impression, with intervals and diagnostics of the weights.

    Parameters
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
    confidence_level : float, default 0.95
        Level of the intervals.

    See Also
    --------
    evaluate_policies : Compute the result.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from ipseval import ImpressionLog
    >>> from ipseval.policies import evaluate_policies
    >>> frame = pd.DataFrame({"user": range(6), "item": ["a", "b"] * 3, "clicked": [1, 0, 1, 1, 0, 0]})
    >>> log = ImpressionLog.from_frame(frame.assign(p=0.5), propensity="p")
    >>> policies = {"always a": np.array([[1.0], [0.0]]), "uniform": np.array([[0.5], [0.5]])}
    >>> evaluation = evaluate_policies(log, policies, estimators=["snips"])
    >>> evaluation.frame[["policy", "estimator", "estimate", "std_error", "ess"]].round(3)
         policy estimator  estimate  std_error  ess
    0  always a     snips     0.667      0.298  3.0
    1   uniform     snips     0.500      0.224  6.0
    """

    values: dict[tuple[str, str], PolicyValue]
    gains: dict[str, FloatArray]
    weights: dict[str, FloatArray]
    rows: FloatArray
    overlap: pd.DataFrame
    confidence_level: float = 0.95

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a row per policy, the verdict, the overlap of the weights and the guarantees.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of half the width of the intervals.
        page : bool, default False
            Not used.

        Returns
        -------
        Tables
            The report.
        """
        del page
        check_positive_int("digits", digits)
        frame = self.frame
        labels = list(frame["estimator"].unique())
        record = _select_record_estimator(labels)
        record_rows = frame[frame["estimator"] == record]
        policies = list(record_rows.sort_values("estimate", ascending=False, kind="stable")["policy"])
        half_widths = ((frame["ci_high"] - frame["ci_low"]) / 2).dropna()
        table = Table.from_frame(
            _arrange_by_policy(frame, policies, labels), formats=f".{count_decimals(half_widths, digits)}f"
        )

        n_impressions = int(self.rows.sum())
        level = f"{self.confidence_level:.0%} intervals in brackets"
        claims = frame.groupby("claim", sort=False)["estimator"].unique()
        claim_lines = []
        for claim, names in claims.items():
            claim_lines.append(f"{join_names(list(names))}: {claim}.")

        return Tables(
            summary=(f"{n_impressions:,} impressions · clicks per impression · {level}",),
            parts=(table,),
            remarks=(
                Remark("Verdict", (_describe_verdict(self, policies, record),)),
                Remark("Weights", tuple(_describe_policy_weights(self.overlap, n_impressions))),
                Remark("Claim", tuple(claim_lines)),
            ),
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per policy and estimator: estimate, std_error, ci_low, ci_high, ess, claim."""
        ess = self.overlap.set_index("policy")["ess"]
        rows = []
        for (policy, estimator), value in self.values.items():
            numbers = value.to_row(self.confidence_level)
            rows.append((policy, estimator, *numbers, float(ess[policy]), CLAIMS[estimator]))
        columns = ["policy", "estimator", "estimate", "std_error", "ci_low", "ci_high", "ess", "claim"]
        return pd.DataFrame(rows, columns=columns)

    def compare_with_log(self, log: ImpressionLog, policy: str | None = None) -> pd.DataFrame:
        """Compare the estimates of a policy with the click rate that it had in a log of its own.

        The interval is for the difference and accounts for the noise of both logs: the estimate agrees with
        the observed click rate where it contains 0.

        Parameters
        ----------
        log : ImpressionLog
            Impressions of the policy, independent of the log of the estimates.
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

        Notes
        -----
        The limits of both intervals are combined by the MOVER method [1]_.

        References
        ----------
        .. [1] Zou & Donner, Statistics in Medicine 27, 2008, doi:10.1002/sim.3095
        """
        check_type("log", log, ImpressionLog, " Read one with ImpressionLog.from_frame(frame).")
        names = list(self.weights)
        if policy is None and len(names) > 1:
            raise InputError(f"policy must name the one that made the log: one of {', '.join(names)}.")
        name = names[0] if policy is None else policy
        if name not in names:
            raise UnknownNameError("policy", name, names)

        observed = _observe_click_rate(log)
        observed_interval = (observed.value, *observed.interval(self.confidence_level))
        rows = []
        for (policy_name, estimator), value in self.values.items():
            if policy_name != name:
                continue
            estimate_interval = (value.value, *value.interval(self.confidence_level))
            low, high = difference_interval(estimate_interval, observed_interval)
            rows.append(
                {
                    "policy": name,
                    "estimator": estimator,
                    "estimate": value.value,
                    "observed": observed.value,
                    "difference": value.value - observed.value,
                    "ci_low": low,
                    "ci_high": high,
                    "agrees": low <= 0 <= high,
                }
            )
        return pd.DataFrame(rows)

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Return differences of policies with a control variate, and of their other estimates.

        Intervals and p-values are normal: with few clicks the intervals are too narrow.

        Parameters
        ----------
        reference : str, optional
            Compare all others with this policy; default: all pairs.

        Returns
        -------
        DataFrame
            policy, reference, estimator, difference, std_error, ci_low, ci_high, p_value.

        Notes
        -----
        `delta-ips` [1]_ is mean (w_a − w_b)(y − β) with the β of the smallest estimated variance. It is unbiased
        for a fixed β, because w_a − w_b has mean 0 where both policies are covered. Estimating β from the same
        log adds a bias that vanishes as the log grows. Other rows subtract estimates, paired by unit.

        References
        ----------
        .. [1] Jeunen & Ustimenko, Δ-OPE: off-policy estimation with pairs of policies, RecSys 2024,
           doi:10.1145/3640457.3688162
        """
        rows = []
        for policy, other_policy in list_pairs(list(self.weights), reference, "policy"):
            for estimator, difference in self._subtract_values(policy, other_policy).items():
                z = float("nan")
                if difference.standard_error > 0:
                    z = abs(difference.value) / difference.standard_error
                numbers = difference.to_row(self.confidence_level)
                rows.append((policy, other_policy, estimator, *numbers, float(2 * ndtr(-z))))
        columns = ["policy", "reference", "estimator", "difference", "std_error", "ci_low", "ci_high"]
        return pd.DataFrame(rows, columns=[*columns, "p_value"])

    def _subtract_values(self, policy: str, reference: str) -> dict[str, PolicyValue]:
        """Return the difference of two policies by each estimator, with `delta-ips` first."""
        gain = self.gains[policy] - self.gains[reference]
        weight = self.weights[policy] - self.weights[reference]
        differences = {"delta-ips": subtract_control_variate(gain, weight, self.rows, expected=0.0)}
        for estimator in dict.fromkeys(estimator for _, estimator in self.values):
            policy_value = self.values[policy, estimator]
            reference_value = self.values[reference, estimator]
            differences[estimator] = PolicyValue(
                value=policy_value.value - reference_value.value,
                influence=policy_value.influence - reference_value.influence,
            )
        return differences


def _select_record_estimator(labels: list[str]) -> str:
    """Return the estimator of the verdict: the first of `RECORD_ORDER` in the result, else its first."""
    for label in RECORD_ORDER:
        if label in labels:
            return label
    return labels[0]


def _arrange_by_policy(frame: pd.DataFrame, policies: list[str], labels: list[str]) -> pd.DataFrame:
    """Return one row per policy, with the estimate and the limits of each estimator in columns."""
    columns = {"policy": np.array(policies, dtype=object)}
    for label in labels:
        rows = frame[frame["estimator"] == label].set_index("policy").loc[policies]
        columns[label] = rows["estimate"].to_numpy()
        columns[f"{label}_low"] = rows["ci_low"].to_numpy()
        columns[f"{label}_high"] = rows["ci_high"].to_numpy()
    return pd.DataFrame(columns)


def _observe_click_rate(log: ImpressionLog) -> PolicyValue:
    """Return the click rate of a log, with users as units."""
    unit = np.unique(log.user, return_inverse=True)[1]
    clicks = np.bincount(unit, log.clicked).astype(float)
    impressions = np.bincount(unit).astype(float)
    rate = estimate_ratio(clicks, impressions)
    return replace(rate, clicks=rate, extra_click=1 / len(log))


def _describe_verdict(evaluation: PolicyEvaluation, policies: list[str], record: str) -> str:
    """Return which policy earns most by an estimator, and which differences are significant (Holm)."""
    first, *later_policies = policies
    if not later_policies:
        return f"One policy: its value by {record} is in the table above."
    tests = evaluation.compare()
    has_first = (tests["policy"] == first) | (tests["reference"] == first)
    tests = tests[(tests["estimator"] == record) & has_first]
    opponents = np.where(tests["policy"] == first, tests["reference"], tests["policy"])
    p_values = pd.Series(adjust_p_values(tests, "holm", ["estimator"]), index=opponents)
    significant = []
    not_significant = []
    for policy in later_policies:
        if p_values[policy] < LEVEL:
            significant.append(policy)
        else:
            not_significant.append(policy)

    sentences = [f"By {record}, {first} earns most."]
    if significant:
        p_value = format_p_value(float(p_values[significant].max()), most=len(significant) > 1)
        sentences.append(f"It differs significantly from {join_names(significant)} ({p_value}).")
    if not_significant:
        sentences.append(f"It does not differ significantly from {join_names(not_significant)}.")
    return " ".join(sentences)


def _describe_policy_weights(overlap: pd.DataFrame, n_impressions: int) -> list[str]:
    """Return a sentence per policy: its effective number of impressions, and the share without a weight."""
    lines = []
    for row in overlap.to_dict("records"):
        text = f"{row['policy']}: {row['ess']:,.0f} effective impressions of {n_impressions:,}"
        if row["share_unmatched"] > 0:
            text += f"; {row['share_unmatched']:.0%} show items that it never shows there"
        lines.append(f"{text}.")
    return lines
