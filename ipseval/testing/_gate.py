"""gate(): one decision on a candidate compared with the incumbent, with the smallest loss it could detect."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Estimate
from ipseval.estimators.labels import display_names, resolve_estimator
from ipseval.evaluation import Evaluation
from ipseval.evaluation.differences import EvaluationDiff, build_difference_cells
from ipseval.evaluation.evaluation import match_label
from ipseval.evaluation.sanity import find_failing_models, word_warning
from ipseval.evaluation.verdict import Verdict, choose_headline
from ipseval.evaluation.verdict_text import describe_assumption
from ipseval.metrics import metric as parse_metric
from ipseval.metrics.rating_metrics import RATING_METRICS
from ipseval.reporting import Tables
from ipseval.reporting.formatting import (
    LEVEL,
    count_decimals,
    format_fixed,
    format_level,
    format_signed,
    join_names,
    write_or_return,
)
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Heading, Part, Remark, Table
from ipseval.testing._bounds import (
    MOST_USERS,
    POWER,
    Difference,
    check_margin,
    parse_percentage,
    refuse_percentage,
)
from ipseval.utils.checks import check_bool, check_fraction, check_positive_int, check_real, check_type
from ipseval.utils.peer_names import suggest_replacement
from ipseval.utils.public import public_class, public_function

Outcome: TypeAlias = Literal[
    "better", "identical", "not worse", "worse", "suspicious", "cannot tell", "no difference"
]
EXIT_CODES: dict[Outcome, int] = {
    "better": 0,
    "identical": 0,
    "not worse": 0,
    "worse": 1,
    "suspicious": 3,
    "cannot tell": 4,
    "no difference": 5,
}
INCONCLUSIVE: tuple[Outcome, ...] = ("cannot tell", "no difference")
DEFAULT_RELEVANT_SHARE = 0.2  # of the incumbent's value: without a margin, such a loss must be excluded
NOT_WORSE = "not worse"  # the requirement of a gate
FEW_USERS = "too few users"
TEST_SET = "positives_sha256"
# Hash of data in a result -> clause about another hash.
DATA_CHANGES = {
    TEST_SET: "the test set differs",
    "users_sha256": "the users differ",
    "gains_sha256": "the values of the test interactions differ",
    "n_relevant_sha256": "the numbers of relevant items differ",
    "propensity_sha256": "the propensities differ",
}
LEAKED = "test-like-training"  # sanity warning of training on the test part
COMPARISON_ADVICE = (
    "Score both recommenders on one test set with the same options, in one evaluation, and call "
    "ipseval.testing.gate(evaluation, candidate=NEW, incumbent=OLD). Do not store this result instead of the old one: "
    "the unchecked candidate would become the incumbent"
)
SHELL_COMPARISON_ADVICE = (
    "Score both recommenders on one test set with the same options, ipseval evaluate --model NEW=FILE --model OLD=FILE "
    "--out both.npz, and compare them within this file, ipseval compare both.npz --model NEW=OLD. Do not store this "
    "result instead of the old one: the unchecked candidate would become the incumbent"
)
HASH_LENGTH = 64  # hexadecimal digits of a SHA-256 hash
N_HASH_DIGITS_SHOWN = 12
NAME_OPTIONS = ("candidate", "incumbent", "metric", "estimator")
ROLE_NAMES = ("model", "models", "name", "new")  # names of an option that stand for the candidate
MARGIN_NAMES = ("tolerance", "tol", "max_loss", "atol")
GATE_OPTIONS = (*NAME_OPTIONS, "margin", "n_comparisons", "suspicious", "strict", "confidence_level")


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Gate(Result):
    """Decision on a candidate compared with the incumbent: Δ = new − old, paired by user.

    Parameters
    ----------
    outcome : {"better", "identical", "not worse", "worse", "suspicious", "cannot tell", "no difference"}
        "identical": both rank every held-out interaction equally, or have the same lists. "no difference": no
        user has another value, and a margin of 0 was asked for, which no number of users can exclude.
    candidate, incumbent : str
        Names of the recommenders.
    metric : str
        Label of the metric that decides.
    estimator : str
        Label of the estimator that decides.
    old, new : float
        Estimates of the incumbent and of the candidate.
    std_error : float
        Standard error of the difference.
    low, high : float
        Bounds of Δ. The error probability of each is (1 − confidence_level)/n_comparisons.
    smallest_visible_loss : float
        The true loss that would be called "worse" with probability 0.8, rounded up to two digits; NaN when
        there are too few users to compute it. Where no user has a difference: the loss if the users who lose
        anything lose everything.
    n_users : int
        Users of the difference.
    margin, relevant_loss : float
        Losses >= 0, in the unit of the metric. Losses up to the margin are tolerated. Unless the relevant
        loss is excluded, the gate cannot tell.
    n_comparisons : int
        Number of comparisons that share one probability of a false alarm.
    confidence_level : float
        1 − the probability that one of `n_comparisons` equally good candidates is called worse.
    strict : bool
        Whether "cannot tell" and "no difference" fail.
    reason : str
        Reason why the gate cannot tell; the sanity warning of training on the test part; or "".
    record : dict
        Versions, options and hash of the data of the candidate's evaluation.
    diff : EvaluationDiff
        All estimates of both recommenders, for information.
    pass_probability : float, default NaN
        With too few users: the probability that an equally good candidate passes, if the differences of its
        users vary as those of this candidate. NaN in all other cases.
    n_users_needed : float, default NaN
        Number of users with which such a candidate passes with probability 0.8, rounded up to two digits. NaN
        wherever `pass_probability` is, and above 10 million.

    See Also
    --------
    gate : Compute the decision.
    assert_not_worse : Use the decision in a test.

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"incumbent": examples["popular"], "candidate": examples["random"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"])
    >>> decision = gate(evaluation, candidate="candidate", incumbent="incumbent")
    >>> decision.outcome, decision.has_passed, decision.exit_code
    ('worse', False, 1)
    >>> round(decision.low, 2), round(decision.high, 2)
    (-0.56, -0.35)
    """

    outcome: Outcome
    candidate: str
    incumbent: str
    metric: str
    estimator: str
    old: float
    new: float
    std_error: float
    low: float
    high: float
    smallest_visible_loss: float
    n_users: int
    margin: float
    relevant_loss: float
    n_comparisons: int
    confidence_level: float
    strict: bool
    reason: str
    record: dict[str, str]
    diff: EvaluationDiff
    pass_probability: float = math.nan
    n_users_needed: float = math.nan

    @property
    def difference(self) -> float:
        """Difference new − old."""
        return self.new - self.old

    @property
    def names(self) -> str:
        """Name of the candidate, followed by the name of the incumbent where it differs."""
        if self.incumbent == self.candidate:
            return self.candidate
        return f"{self.candidate} (was {self.incumbent})"

    @property
    def has_passed(self) -> bool:
        """Whether the candidate may replace the incumbent."""
        return not self.exit_code

    @property
    def exit_code(self) -> int:
        """Exit code: 0 better, identical, or not shown to be worse; 1 worse; 3 suspicious.

        4 means cannot tell, and 5 no difference with a margin of 0; both are 0 with `strict=False`, unless the
        loss is significant.
        """
        if self.outcome in INCONCLUSIVE and not self.strict and not self._is_significantly_worse:
            return 0
        return EXIT_CODES[self.outcome]

    @property
    def _is_significantly_worse(self) -> bool:
        """Whether the whole interval of Δ is below 0. A margin may tolerate such a loss."""
        return self.high < 0

    @property
    def interval_level(self) -> float:
        """Confidence level of the interval between both bounds: 1 − 2 (1 − confidence_level)/n_comparisons."""
        return 1 - 2 * (1 - self.confidence_level) / self.n_comparisons

    @property
    def verdict(self) -> str:
        """Decision in one line."""
        criterion = f"by {self.metric} ({self.estimator})"
        if self.outcome == "worse":
            return f"WORSE {criterion}"
        if self.outcome == "suspicious" and self.reason:
            return f"suspicious {criterion}: {self.reason}"
        if self.outcome == "suspicious":
            return f"suspiciously better {criterion}: look for leakage"
        if self.outcome == "better":
            return f"better {criterion}"
        if self.outcome == "identical":
            return f"identical {criterion}: every rank is the same"
        if self.outcome == "no difference":
            return f"no difference {criterion} in any user, but a margin of 0 requires a better candidate"
        if self.outcome == "cannot tell":
            return f"cannot tell {criterion}: {self._describe_doubt()}"
        return self._describe_pass(criterion)

    def _describe_doubt(self) -> str:
        """Return why the gate cannot tell; with too few users, also which losses they do not exclude."""
        if self.reason != FEW_USERS:
            return self.reason
        if self.margin >= self.old > 0:
            return (
                f"the margin of {self.margin:g} tolerates every loss, because it is not below the old value"
            )
        if self.low >= -self.relevant_loss:
            return f"{self.reason}; {describe_detected_loss(self.smallest_visible_loss, self.old)}"
        if self.relevant_loss == 0:
            return "not shown to be better, as a margin of 0 requires"
        return f"{self.reason} to exclude a loss of {self._format_excluded_loss()}; {self._describe_allowed_loss()}"

    def _describe_pass(self, criterion: str) -> str:
        """Return the decision "not worse" in one line."""
        if self._is_significantly_worse:
            return (
                f"significantly worse {criterion}, but by less than the margin of {self.margin:g}, which "
                "tolerates such a loss"
            )
        if self.margin > 0:
            return f"not worse {criterion} by more than the margin of {self.margin:g}"
        if self.difference == 0 and self.std_error == 0:
            return f"not shown to be worse {criterion}: no user differs; {self._describe_allowed_loss()}"
        return f"not shown to be worse {criterion}; {self._describe_allowed_loss()}"

    def _describe_allowed_loss(self) -> str:
        """Return the largest loss within the interval, as text."""
        if -self.low >= self.old:
            return "the data allow a loss of the whole value"
        return f"the data allow a loss of up to {self._format_value(-self.low)}"

    def _describe_plan(self) -> str:
        """Return how often an equally good candidate passes, and the users that it needs, as a sentence."""
        if math.isnan(self.pass_probability):
            return ""
        n_users = f"more than {MOST_USERS:,}"
        if not math.isnan(self.n_users_needed):
            n_users = f"about {self.n_users_needed:,.0f}"
        probability = format_pass_probability(self.pass_probability)
        return (
            f"If the differences of users vary as here, an equally good candidate passes with probability "
            f"{probability}; for a probability of {POWER:g}, {n_users} users are needed."
        )

    def _describe_figures(self) -> str:
        """Return the outcome and its figures in one line, for a list of gates."""
        outcome = "WORSE" if self.outcome == "worse" else self.outcome
        return (
            f"{outcome} by {self.metric} ({self.estimator}): {self._format_value(self.old)} -> "
            f"{self._format_value(self.new)}, difference {self._format_difference()}, smallest visible loss "
            f"{format_loss(self.smallest_visible_loss)}"
        )

    @property
    def frame(self) -> pd.DataFrame:
        """Rows of `diff.frame`, with the column `decides`: whether the decision is based on this row."""
        frame = self.diff.frame
        return frame.assign(decides=(frame["metric"] == self.metric) & (frame["estimator"] == self.estimator))

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the estimates that decide, the other ones for information, and the decision.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors of the estimates that do not decide.
        page : bool, default False
            Whether the decision is returned as verdict, with a title, as HTML pages show it.

        Returns
        -------
        Tables
            The decision, with the estimates that decide in the summary and the remaining ones in a table.
        """
        parts, warnings = self._describe_other_estimates(digits)
        explanations = (*self._explain_interval(), *self._list_other_losses())
        if page:
            return Tables(
                self._summary,
                parts,
                title="Gate",
                warnings=warnings,
                remarks=(Remark("Verdict", (self.verdict, *explanations)),),
            )
        return Tables(self._summary, (*parts, *explanations, self.verdict), warnings=warnings)

    def _list_other_losses(self) -> tuple[str, ...]:
        """Return a sentence with the reliable estimates that do not decide and are significantly lower; else ()."""
        frame = self.frame
        is_lower = (frame["difference"] < 0) & (frame["p_adjusted"] < LEVEL) & (frame["note"] == "")
        names = []
        for row in frame[is_lower & ~frame["decides"]].to_dict("records"):
            names.append(f"{row['metric']} ({row['estimator']})")
        if not names:
            return ()
        verb = "does"
        if len(names) > 1:
            verb = "do"
        return (
            f"The candidate is significantly lower by {join_names(names)}, which {verb} not decide (adjusted "
            f"p < {LEVEL:g}).",
        )

    def _explain_interval(self) -> tuple[str, ...]:
        """Return why the interval contains 0, if a normal interval of the same level would not; else ()."""
        if self.reason != FEW_USERS or not self.std_error or self.n_users < 2 or not self.low < 0 < self.high:
            return ()
        level = (1 + self.interval_level) / 2
        half_width = float(stdtrit(self.n_users - 1, level)) * self.std_error
        low = self.difference - half_width
        high = self.difference + half_width
        if low <= 0 <= high:
            return ()
        return (
            f"A normal interval of the same level would be [{self._format_signed(low)}, "
            f"{self._format_signed(high)}]. The interval above is wider because it is valid for any distribution "
            "(Gaffke's method), also if the log lacks a few users with a large difference.",
        )

    @property
    def _summary(self) -> tuple[str, ...]:
        """Lines: the difference with its interval, promised error rates, visible loss, and users needed."""
        estimates = (
            f"{self.names} by {self.metric} ({self.estimator}): {self._format_value(self.old)} -> "
            f"{self._format_value(self.new)}, difference {self._format_difference()}, {self.n_users:,} users"
        )
        visible_loss = (
            f"Smallest visible loss, with 80% power: {format_loss(self.smallest_visible_loss)}. "
            f"Tolerated: {self.margin:g}. A pass excludes {self._describe_excluded_loss()}."
        )
        lines = [estimates, describe_false_alarms(self.confidence_level, self.n_comparisons), visible_loss]
        plan = self._describe_plan()
        if plan:
            lines.append(plan)
        return tuple(lines)

    def _describe_excluded_loss(self) -> str:
        """Return the loss that a pass excludes, as text: the margin, or by default a share of the old value."""
        if self.relevant_loss == 0:
            return "every loss"
        excluded = f"a loss of {self._format_excluded_loss()}"
        if self.relevant_loss == self.margin:
            return excluded
        return f"{excluded}, which is {DEFAULT_RELEVANT_SHARE:.0%} of the old value"

    def _format_excluded_loss(self) -> str:
        """Format the loss that a pass excludes."""
        if self.relevant_loss == self.margin:
            return f"{self.margin:g}"
        n_decimals = max(self._n_decimals, count_decimals([self.relevant_loss]))
        return format_fixed(self.relevant_loss, n_decimals)

    def _build_row(self) -> tuple[Cell, ...]:
        """Return the cells metric, requirement, old, new, difference and outcome of a table of gates."""
        return (
            Cell(f"{self.metric} ({self.estimator})"),
            Cell(NOT_WORSE),
            Cell(self._format_value(self.old)),
            Cell(self._format_value(self.new)),
            Cell(self._format_difference()),
            Cell(self.outcome),
        )

    def _format_difference(self) -> str:
        """Format the difference with its interval and level."""
        bounds = f"[{self._format_signed(self.low)}, {self._format_signed(self.high)}]"
        return f"{self._format_signed(self.difference)} ({name_interval(self.interval_level)} {bounds})"

    def _describe_other_estimates(self, digits: int) -> tuple[tuple[Part, ...], tuple[str, ...]]:
        """Return a table of the estimates that do not decide, changed options, and warnings of the differences.

        The estimate that decides is not among them, because it has its own interval.
        """
        frame = self.frame
        other_rows = frame[~frame["decides"]]
        names = display_names(list(frame["estimator"].unique()))
        rows = []
        for row in other_rows.to_dict("records"):
            label = f"{row['metric']} {names[row['estimator']]}"
            rows.append((Cell(label), *build_difference_cells(row, digits)))
        parts: list[Part] = []
        if rows:
            title = f"other estimates ({format_level(self.diff.confidence_level)} intervals, adjusted p)"
            parts.append(Table(("estimate", "old", "new", "difference"), tuple(rows), title, signed=True))
        if len(self.diff.changed):
            parts += [
                Heading("What else changed"),
                Table.from_frame(self.diff.changed, "Versions, options and data"),
            ]
        return tuple(parts), self.diff.tables(digits=digits).warnings

    @property
    def _n_decimals(self) -> int:
        """Number of decimals that suits the width of the interval."""
        return count_decimals([self.high - self.low]) + 1

    def _format_value(self, value: float) -> str:
        """Format an estimate with the decimals of the interval."""
        return format_fixed(value, self._n_decimals)

    def _format_signed(self, value: float) -> str:
        """Format a difference with its sign and the decimals of the interval."""
        if value == 0:
            return "0"
        return format_signed(value, self._n_decimals)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the decision, its numbers and all differences as JSON; NaN becomes null.

        `low` and `high` are the interval of the decision at `interval_level`. `ci_low` and `ci_high` of each
        difference are the interval at the confidence level of the evaluations.

        Parameters
        ----------
        path : str or Path, optional
            File to write; its path is returned then.

        Returns
        -------
        str
            The JSON text, or the path of the file.
        """
        fields = []
        for name in type(self).__dataclass_fields__:
            if name not in ("record", "diff"):
                fields.append(name)

        record: dict[str, object] = {}
        for name in (*fields, "difference", "verdict"):
            value = getattr(self, name)
            is_nan = value != value
            record[name] = None if is_nan else value
        record["interval_level"] = self.interval_level
        record["passed"] = self.has_passed
        record["exit_code"] = self.exit_code
        frame = self.frame.astype(object).where(self.frame.notna(), None)
        record["record"] = self.record
        record["differences"] = frame.to_dict(orient="records")
        return write_or_return(json.dumps(record, indent=2), path)


@public_function
def gate(
    new: Evaluation,
    old: Evaluation | None = None,
    *,
    candidate: str | None = None,
    incumbent: str | None = None,
    metric: str | None = None,
    estimator: str | None = None,
    margin: float | None = None,
    n_comparisons: int = 26,
    suspicious: float = 0.5,
    strict: bool = True,
    confidence_level: float = 0.95,
) -> Gate:
    """Decide whether a candidate is worse than the incumbent, and report the smallest loss it could detect.

    The decision is "worse" when the whole interval of Δ = new − old lies below −margin, and "better" when it
    lies above 0. It is "suspicious" instead of "better" when Δ is also more than `suspicious` times the
    incumbent's value, or `suspicious` times its distance to 1 if that is less. Unless it is "worse", it is also
    "suspicious" if `new.sanity` warns that the candidate was trained on the test part. It is "not worse" when the
    interval excludes the relevant loss and the smallest loss that could be detected is not larger than the
    incumbent's value. It is "identical" when both rank every held-out interaction equally or have the same lists,
    and "no difference" when the rankings differ, no user has another value, and `margin=0` asks to exclude every
    loss. In all other cases the gate cannot tell.

    Parameters
    ----------
    new : Evaluation
        Evaluation of the candidate, computed or loaded.
    old : Evaluation, optional
        Evaluation of the incumbent. Default: `new` contains both recommenders.
    candidate, incumbent : str, optional
        Names of the recommenders. Default: the only recommender that both evaluations contain, or the only
        one of each.
    metric : str, optional
        Label. Default: the first metric that has a guarantee after weighting, as in the verdict.
    estimator : str, optional
        Label. Default: the weighted estimator if its propensities are known by design and its weights are
        reliable and have a sufficient effective sample size, else AOA. Where weights from other propensities
        contradict AOA, the gate cannot tell, unless the propensities are only assumed.
    margin : float, optional
        Loss >= 0 in units of the metric that is tolerated, and that must be excluded. Default: no loss is
        tolerated, and a loss of a fifth of the incumbent's value must be excluded.
    n_comparisons : int, default 26
        Number of comparisons that share one probability of a false alarm, by Bonferroni's inequality.
    suspicious : float, default 0.5
        Share from which an improvement is implausible.
    strict : bool, default True
        Whether "cannot tell" and "no difference" fail. If False, "cannot tell" still fails if the whole interval of
        Δ is below 0.
    confidence_level : float, default 0.95
        1 − the probability that one of `n_comparisons` equally good candidates is called worse. The probability that
        one is called better or suspicious is at most as large, so that of either is at most twice as large.

    Returns
    -------
    Gate
        The outcome with its interval, its exit code and a report.

    Raises
    ------
    InputError
        When data, options or the definition of the metric differ, an estimate is missing or undefined, or
        the names of the candidate and the incumbent are ambiguous.

    Notes
    -----
    With too few users, `pass_probability` and `n_users_needed` state what an equally good candidate needs, under the
    assumption that the differences of its users are distributed as those of this candidate around their mean.
    They do not depend on the observed difference itself.

    See Also
    --------
    assert_not_worse : Use the decision in a test.
    history : The gates of several weeks.
    preflight : Check that the gate stops candidates that are worse.

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"incumbent": examples["popular"], "candidate": examples["taste"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"])
    >>> decision = gate(evaluation, candidate="candidate", incumbent="incumbent")
    >>> decision.outcome
    'not worse'
    >>> decision.verdict
    'not shown to be worse by recall@10 (aoa); the data allow a loss of up to 0.067'
    """
    check_gate_options(
        {
            "candidate": candidate,
            "incumbent": incumbent,
            "metric": metric,
            "estimator": estimator,
            "margin": margin,
            "n_comparisons": n_comparisons,
            "suspicious": suspicious,
            "strict": strict,
            "confidence_level": confidence_level,
        }
    )
    if old is None:
        old = new
    candidate, incumbent = _resolve_pair(new, old, candidate, incumbent)
    level = (1 - confidence_level) / n_comparisons
    verdict = _choose_verdict(new, old, metric)
    is_estimator_named = estimator is not None
    metric, estimator = choose_criterion(new, old, metric, estimator)
    _check_comparable(new, old, metric, estimator)
    new_estimate = get_defined_estimate("new", new, (candidate, metric, estimator))
    old_estimate = get_defined_estimate("old", old, (incumbent, metric, estimator))
    refuse_percentage(margin, old_estimate)

    difference = Difference.from_estimates(new_estimate, old_estimate)
    tolerated_loss, relevant_loss = _resolve_margin(margin, old_estimate.value)
    low, high = difference.bounds(level)
    smallest_loss = round_up(difference.smallest_visible(level, tolerated_loss))

    reason = ""
    is_identical = _have_equal_ranks(new, old, candidate, incumbent) and new_estimate.value > 0
    if not is_identical:
        reason = new_estimate.flag or old_estimate.flag
    if not reason and not is_identical and not is_estimator_named:
        reason = _describe_contradiction(
            verdict=verdict, new=new, old=old, pair=(candidate, incumbent), low=low, high=high, level=level
        )
    outcome: Outcome = "cannot tell"
    if is_identical:
        outcome = "identical"
    elif not reason and difference.is_zero and margin == 0:
        outcome = "no difference"
    elif not reason:
        outcome = _decide_outcome(
            new_value=new_estimate.value,
            old_value=old_estimate.value,
            low=low,
            high=high,
            margin=tolerated_loss,
            relevant_loss=relevant_loss,
            smallest_loss=smallest_loss,
            is_implausible=_is_implausible(difference.value, old_estimate.value, suspicious),
        )
        if outcome == "cannot tell":
            reason = _explain_doubt(high, tolerated_loss)

    leak_warning = _describe_leak(new, candidate)
    if leak_warning and outcome != "worse":
        outcome = "suspicious"
        reason = leak_warning

    pass_probability = math.nan
    n_users_needed = math.nan
    # The smallest visible loss, about the margin plus the excluded loss, must not exceed the old value.
    excluded_loss = min(relevant_loss, old_estimate.value - tolerated_loss)
    if _has_too_few_users(reason, low, relevant_loss) and excluded_loss > 0:
        pass_probability = difference.pass_probability(level, excluded_loss)
        n_users_needed = round_up(difference.users_needed(level, excluded_loss))

    diff = new.diff(old, models={candidate: incumbent})
    return Gate(
        outcome=outcome,
        candidate=candidate,
        incumbent=incumbent,
        metric=metric,
        estimator=estimator,
        old=old_estimate.value,
        new=new_estimate.value,
        std_error=difference.std_error,
        low=low,
        high=high,
        smallest_visible_loss=smallest_loss,
        n_users=difference.n_users,
        margin=tolerated_loss,
        relevant_loss=relevant_loss,
        n_comparisons=n_comparisons,
        confidence_level=confidence_level,
        strict=strict,
        reason=reason,
        record={name: str(value) for name, value in new._record.items()},
        diff=replace(diff, only_new=(), only_old=()),
        pass_probability=pass_probability,
        n_users_needed=n_users_needed,
    )


def _resolve_margin(margin: float | None, old_value: float) -> tuple[float, float]:
    """Return the loss that is tolerated and the loss that a pass must exclude."""
    if margin is None:
        return 0.0, DEFAULT_RELEVANT_SHARE * abs(old_value)
    return margin, margin


def _has_too_few_users(reason: str, low: float, relevant_loss: float) -> bool:
    """Return whether the gate cannot tell because the interval contains the loss that a pass excludes."""
    return reason == FEW_USERS and low < -relevant_loss


def get_defined_estimate(role: str, evaluation: Evaluation, key: tuple[str, str, str]) -> Estimate:
    """Return one estimate; raise `InputError` unless it and its standard error are finite."""
    estimate = evaluation.estimate(*key)
    if not np.isfinite([estimate.value, estimate.standard_error]).all():
        raise InputError(f"{key} of the {role} result is undefined, or has no standard error.")
    return estimate


def _have_equal_ranks(new: Evaluation, old: Evaluation, candidate: str, incumbent: str) -> bool:
    """Return whether both recommenders are known to rank every held-out interaction equally, or have the same lists."""
    new_hash = new._rank_hashes.get(candidate, "")
    old_hash = old._rank_hashes.get(incumbent, "")
    return new_hash == old_hash != ""


def _explain_doubt(high: float, margin: float) -> str:
    """Return why the bounds of the difference do not decide."""
    if high < 0:
        return f"significantly worse, but not shown to be worse by more than the margin of {margin:g}"
    return FEW_USERS


def _describe_leak(evaluation: Evaluation, model: str) -> str:
    """Return the warning that a model was probably trained on the test part; "" if there is none."""
    for warning in evaluation.sanity:
        if warning.code == LEAKED and warning.model == model:
            return word_warning(warning)
    return ""


def _is_implausible(difference: float, old_value: float, suspicious: float) -> bool:
    """Return whether an improvement is larger than the share `suspicious` of the incumbent's value allows.

    For a value below 1, the distance to 1 counts instead where it is less than the value.
    """
    reference = old_value
    if old_value < 1:
        reference = min(old_value, 1 - old_value)
    return difference > suspicious * reference


def _decide_outcome(
    *,
    new_value: float,
    old_value: float,
    low: float,
    high: float,
    margin: float,
    relevant_loss: float,
    smallest_loss: float,
    is_implausible: bool,
) -> Outcome:
    """Return the decision from the bounds of the difference and the smallest loss that could be detected."""
    if high < -margin:
        return "worse"
    if low > 0:
        return "suspicious" if is_implausible else "better"
    could_detect_loss = smallest_loss <= old_value and not is_implausible
    if low >= -relevant_loss and new_value > 0 and could_detect_loss:
        return "not worse"
    return "cannot tell"


def check_gate_options(options: Mapping[str, Any]) -> None:
    """Raise an error for an option that `gate` does not have, or with a value that it does not accept.

    Functions that pass options on to `gate` call this first, also where no gate is computed. A margin such as 10% is
    left to `gate`, which names the loss in units of the metric.

    Raises
    ------
    UnknownNameError
        For an unknown option.
    InputError
        For a value of the wrong type or out of range.
    """
    for name in options:
        if name not in GATE_OPTIONS:
            raise UnknownNameError("option", name, GATE_OPTIONS, _suggest_gate_option(name, options[name]))
    for name in NAME_OPTIONS:
        check_type(name, options.get(name), (str, type(None)))
    margin = options.get("margin")
    if margin is not None and parse_percentage(margin) is None:
        check_margin("margin, the loss that is tolerated,", margin)
    if "n_comparisons" in options:
        check_positive_int("n_comparisons", options["n_comparisons"])
    if "suspicious" in options:
        check_real("suspicious, a share,", options["suspicious"], low=0.0)
    if "strict" in options:
        check_bool("strict", options["strict"])
    if "confidence_level" in options:
        check_fraction("confidence_level", options["confidence_level"])


def _suggest_gate_option(name: str, value: object) -> str:
    """Return a sentence with the option of `gate` in place of an unknown one, and "" for other names."""
    if name in ROLE_NAMES:
        text = repr(value) if isinstance(value, str) else "…"
        new, has_both, old = text.strip("'").partition("=")
        if has_both:
            return f"Use candidate={new!r} and incumbent={old!r}."
        return f"Use candidate={text} for the new recommender, and incumbent= for the old."
    if name in MARGIN_NAMES:
        return f"Use margin={value!r:.60}."
    return suggest_replacement(name)


def check_has_model(role: str, name: str | None, evaluation: Evaluation) -> None:
    """Raise `UnknownNameError` for a candidate or incumbent that the evaluation does not contain."""
    if name is not None and name not in evaluation.models:
        raise UnknownNameError(f"{role}:", name, evaluation.models)


def _resolve_pair(
    new: Evaluation, old: Evaluation, candidate: str | None, incumbent: str | None
) -> tuple[str, str]:
    """Return the names of the candidate and the incumbent; raise `InputError` where they are ambiguous."""
    for evaluation in (new, old):
        if not isinstance(evaluation, Evaluation):
            raise InputError(f"new and old must be evaluations; got {type(evaluation).__name__}.")
    check_has_model("candidate", candidate, new)
    check_has_model("incumbent", incumbent, old)
    new_names = [candidate] if candidate else new.models
    old_names = [incumbent] if incumbent else old.models
    if new is old and len(new.models) == 2 and new_names != old_names:
        # One of two recommenders is named, so the other role belongs to the other recommender.
        new_names = [name for name in new_names if [name] != old_names]
        old_names = [name for name in old_names if [name] != new_names]
    elif new is not old:
        common_names = []
        for name in new_names:
            if name in old_names:
                common_names.append(name)

        if len(common_names) == 1:
            new_names = common_names
            old_names = common_names
    if len(new_names) != 1 or len(old_names) != 1:
        raise InputError(
            f"The new result has {', '.join(new_names)}, and the old one has {', '.join(old_names)}.",
            advice="Name the pair by {candidate} and {incumbent}",
            shell_advice="Name the pair by --model CANDIDATE=INCUMBENT",
        )
    if new is old and new_names == old_names:
        raise InputError(
            f"{new_names[0]} is candidate and incumbent of the same result.",
            advice="Name two recommenders by {candidate} and {incumbent}, or pass the result of the incumbent as old",
            shell_advice="Name two recommenders by --model CANDIDATE=INCUMBENT, or the file of the incumbent as OLD",
        )
    return new_names[0], old_names[0]


def choose_criterion(
    new: Evaluation, old: Evaluation, metric: str | None, estimator: str | None
) -> tuple[str, str]:
    """Return the labels of the metric and the estimator that decide; None: the default."""
    verdict = _choose_verdict(new, old, metric)
    return verdict.metric, _choose_estimator(verdict, estimator, new)


def _choose_verdict(new: Evaluation, old: Evaluation, metric: str | None) -> Verdict:
    """Return the incumbent's verdict for the metric that decides."""
    verdicts = []
    for verdict in old.verdicts:
        if verdict.metric in new.metrics:
            verdicts.append(verdict)

    if metric is not None:
        label = match_label(metric, old.metrics, parse_metric)
        verdicts = [verdict for verdict in verdicts if verdict.metric == label]
    verdicts = [verdict for verdict in verdicts if verdict.metric not in RATING_METRICS]
    if not verdicts and metric is not None:
        _raise_missing_metric(metric, new, old)
    if not verdicts:
        raise InputError(
            f"no metric in common in both results of which more is better; the new one has "
            f"{', '.join(new.metrics)}, the old one {', '.join(old.metrics)}."
        )
    return choose_headline(verdicts)


def _raise_missing_metric(metric: str, new: Evaluation, old: Evaluation) -> NoReturn:
    """Raise an error for a metric that cannot decide, with the metrics of both results."""
    common_metrics = []
    for label in new.metrics:
        if label in old.metrics and label not in RATING_METRICS:
            common_metrics.append(label)
    label = match_label(metric, [*new.metrics, *old.metrics], parse_metric)
    if label in RATING_METRICS:
        raise InputError(
            f"metric must be one of which more is better; got {label}. Choices: {', '.join(common_metrics) or 'none'}."
        )
    raise UnknownNameError(
        "metric",
        metric,
        common_metrics,
        advice="These are the metrics of both results. For another one, evaluate both recommenders with {metrics}",
    )


def _choose_estimator(verdict: Verdict, estimator: str | None, new: Evaluation) -> str:
    """Return the estimator that decides: weights that are known by design and sufficient, else AOA."""
    if estimator is not None:
        return match_label(estimator, new.estimators, resolve_estimator)
    if _weights_decide(verdict) or not verdict.unweighted:
        return verdict.weighted
    return verdict.unweighted


def _weights_decide(verdict: Verdict) -> bool:
    """Return whether the propensities are known by design and the weights are sufficient."""
    support = verdict.support
    return support is not None and support.basis == "design" and support.quality == "sufficient"


def _describe_contradiction(
    verdict: Verdict,
    new: Evaluation,
    old: Evaluation,
    pair: tuple[str, str],
    low: float,
    high: float,
    level: float,
) -> str:
    """Return that the weights contradict the decision by AOA; "" where they do not."""
    support = verdict.support
    if support is None or _weights_decide(verdict):
        return ""
    if support.basis == "assumed" or find_failing_models((*new.sanity, *old.sanity)):
        return ""  # weights that are only assumed, or that do not fit the lists, contradict nothing
    label = verdict.weighted
    if label in new.estimators and not find_changes(new, old, verdict.metric, label):
        candidate, incumbent = pair
        weighted = Difference.from_estimates(
            new.estimate(candidate, verdict.metric, label), old.estimate(incumbent, verdict.metric, label)
        )
        has_opposite_sign = weighted.value < 0 < low or weighted.value > 0 > high
        upper_bound = weighted.bounds(level)[1]
        contradicts = has_opposite_sign or upper_bound < 0 <= high
    else:
        contradicts = new is old and _has_opposite_leader(verdict, pair, low, high)
    if not contradicts:
        return ""
    return f"AOA and SNIPS ({describe_assumption(support)}) contradict each other"


def _has_opposite_leader(verdict: Verdict, pair: tuple[str, str], low: float, high: float) -> bool:
    """Return whether the weights rank the recommender first that the bounds show to be worse."""
    candidate, incumbent = pair
    leader = verdict.highest_by_weights
    return (leader == candidate and high < 0) or (leader == incumbent and low > 0)


def find_comparable_estimators(
    new: Evaluation, old: Evaluation, metric: str, estimator: str | None
) -> list[str]:
    """Return the estimators that two results can be compared by: the named one, or all that both contain.

    Raises
    ------
    InputError
        When there is no such estimator, or data, options or the definition of the metric differ.
    """
    metric = match_label(metric, new.metrics, parse_metric)
    if estimator is not None:
        labels = [match_label(estimator, new.estimators, resolve_estimator)]
    else:
        old_labels = _list_estimators(old, metric)
        labels = []
        for label in _list_estimators(new, metric):
            if label in old_labels:
                labels.append(label)

    if not labels:
        raise InputError(
            f"the results share no estimator of {metric}; the new one has {_describe_metrics_and_estimators(new)}, "
            f"the old one {_describe_metrics_and_estimators(old)}."
        )
    for label in labels:
        _check_comparable(new, old, metric, label)
    return labels


def _list_estimators(evaluation: Evaluation, metric: str) -> list[str]:
    """Return the labels of the estimators that an evaluation has of a metric."""
    labels: list[str] = []
    for _, metric_label, estimator_label in evaluation.estimates:
        if metric_label == metric and estimator_label not in labels:
            labels.append(estimator_label)
    return labels


def _describe_metrics_and_estimators(evaluation: Evaluation) -> str:
    """Return the metrics and estimators of an evaluation as text."""
    return f"{', '.join(evaluation.metrics)} by {', '.join(evaluation.estimators)}"


def find_changes(new: Evaluation, old: Evaluation, metric: str, estimator: str) -> list[str]:
    """Return the inputs of one estimator that differ between two results, each with its two values.

    Changes of the propensity count for weighted estimators only. Another test set implies that all other data
    differ, so they are not named then.
    """
    old_inputs = _list_inputs(old, metric)
    new_inputs = _list_inputs(new, metric)
    uses_propensity = _may_be_weighted(estimator, new, old)
    has_other_test_set = old_inputs.get(TEST_SET) != new_inputs.get(TEST_SET)
    changes = []
    for name in dict.fromkeys([*old_inputs, *new_inputs]):
        if name.startswith("propensity") and not uses_propensity:
            continue
        if has_other_test_set and name in DATA_CHANGES and name != TEST_SET:
            continue
        old_value = old_inputs.get(name)
        new_value = new_inputs.get(name)
        if old_value == new_value:
            continue
        if name in DATA_CHANGES:
            changes.append(DATA_CHANGES[name])
        else:
            changes.append(f"{name} {_format_input(old_value)} -> {_format_input(new_value)}")
    return changes


def _may_be_weighted(estimator: str, new: Evaluation, old: Evaluation) -> bool:
    """Return whether an estimator is weighted in either result; True where neither records it."""
    weights = []
    for result in (new, old):
        if estimator in result.weights:
            weights.append(result.weights[estimator])

    if not weights:
        return True
    return any(diagnostics.weighted for diagnostics in weights)


def _check_comparable(new: Evaluation, old: Evaluation, metric: str, estimator: str) -> None:
    """Raise `InputError`, naming the differences, when two results estimate different quantities."""
    changes = find_changes(new, old, metric, estimator)
    if changes:
        raise InputError(
            f"the results cannot be compared: {'; '.join(changes)}.",
            advice=COMPARISON_ADVICE,
            shell_advice=SHELL_COMPARISON_ADVICE,
        )


def _list_inputs(evaluation: Evaluation, metric: str) -> dict[str, object]:
    """Return the data, the options and the definition of one metric of an evaluation, by name."""
    inputs = {**evaluation.basis["data"], **evaluation.basis["options"]}
    definition = evaluation.basis["metrics"].get(metric) or {}
    for name, value in definition.items():
        inputs[f"definition of {metric}: {name}"] = value
    return inputs


def _format_input(value: object) -> str:
    """Return an input of an evaluation as text; a hash is shortened."""
    if isinstance(value, str) and len(value) == HASH_LENGTH:
        return f"{value[:N_HASH_DIGITS_SHOWN]}…"
    return repr(value)


def format_loss(loss: float) -> str:
    """Return a loss with two significant digits."""
    if math.isnan(loss):
        return "not known"
    return format_fixed(loss, count_decimals([loss]))


def round_up(value: float) -> float:
    """Return a loss or a number of users rounded up to two significant digits.

    Examples
    --------
    >>> round_up(0.01401), round_up(0.37), round_up(1.0)
    (0.015, 0.37, 1.0)
    """
    if not value > 0 or math.isinf(value):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")


def describe_detected_loss(loss: float, value: float) -> str:
    """Return which loss of an incumbent's value is called WORSE in 80% of cases, as text."""
    if not loss <= value:
        return "no loss is called WORSE in 80% of cases"
    return f"a loss of {format_loss(loss)} is called WORSE in 80% of cases"


def format_pass_probability(probability: float) -> str:
    """Return the probability that a candidate passes with two decimals, or as below 0.01 or above 0.99.

    Examples
    --------
    >>> format_pass_probability(0.0687), format_pass_probability(0.001), format_pass_probability(0.999)
    ('0.07', 'below 0.01', 'above 0.99')
    """
    if probability < 0.01:
        return "below 0.01"
    if probability > 0.99:
        return "above 0.99"
    return f"{probability:.2f}"


def describe_false_alarms(confidence_level: float, n_comparisons: int) -> str:
    """Return how often an equally good candidate is called worse or suspicious at most, as a sentence."""
    side = 1 - confidence_level
    either = min(2 * side, 1.0)
    return (
        f"False alarms {describe_comparisons(n_comparisons)}: WORSE at most {side:.2g}, suspicious at most {side:.2g}, "
        f"either at most {either:.2g}."
    )


def describe_comparisons(n_comparisons: int) -> str:
    """Return the number of comparisons over which false alarms are counted, as text."""
    if n_comparisons == 1:
        return "in a single comparison"
    return f"in {n_comparisons:,} comparisons"


def name_interval(level: float) -> str:
    """Return the name of an interval with its level.

    Where each bound has an error probability of one half or more, there is no level.

    Examples
    --------
    >>> name_interval(0.9962), name_interval(-0.2)
    ('99.62% interval', 'bounds with error probability 0.6 each')
    """
    if level <= 0:
        return f"bounds with error probability {(1 - level) / 2:.2g} each"
    return f"{format_level(level)} interval"
