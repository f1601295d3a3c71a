"""gate(): one decision on a candidate beside the incumbent, with what it could have seen."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators.labels import resolve_estimator
from ipseval.evaluation import Evaluation
from ipseval.evaluation.differences import EvaluationDiff
from ipseval.evaluation.evaluation import find_label
from ipseval.evaluation.verdict import Verdict, choose_headline
from ipseval.evaluation.verdict_text import describe_assumption
from ipseval.metrics import metric as parse_metric
from ipseval.metrics.rating_metrics import RATING_METRICS
from ipseval.reporting import Tables
from ipseval.reporting.formatting import decimals, deliver, fixed, signed_at
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Notes, Remark
from ipseval.testing._bounds import Difference
from ipseval.utils.checks import check_bool, check_fraction, check_positive_int, check_real, check_type
from ipseval.utils.peer_names import suggest_replacement

Outcome: TypeAlias = Literal["better", "not worse", "worse", "suspicious", "cannot tell"]
EXIT_CODES: dict[Outcome, int] = {"better": 0, "not worse": 0, "worse": 1, "suspicious": 3, "cannot tell": 4}
LENIENT: dict[Outcome, int] = {**EXIT_CODES, "cannot tell": 0}
RELEVANT = 0.2  # without a margin, a loss of this share of the incumbent's value must be excluded
FEW_USERS = "too few users"


@dataclass(frozen=True, eq=False, repr=False)
class Gate(Result):
    """The decision on a candidate beside the incumbent: Δ = new − old, paired by user.

    Attributes
    ----------
    outcome : {"better", "not worse", "worse", "suspicious", "cannot tell"}
    candidate, incumbent, metric, estimator : str
    old, new : float
    std_error : float
        Of the difference.
    low, high : float
        Bounds of Δ. Each errs with probability (1 − confidence_level)/weeks.
    smallest_visible_loss : float
        The true loss that would be called "worse" with probability .8, rounded up to two digits; NaN with too
        few users to say.
    n_users : int
    margin, relevant_loss : float
        Losses >= 0, in the unit of the metric: up to the margin they are tolerated, and unless the relevant
        loss is excluded, the gate cannot tell.
    weeks : int
    confidence_level : float
    strict : bool
        Whether "cannot tell" fails.
    reason : str
        Why it cannot tell.
    record : dict
        Versions, options and hash of the data of the candidate's evaluation.
    diff : EvaluationDiff
        All estimates of both, for information.
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
    weeks: int
    confidence_level: float
    strict: bool
    reason: str
    record: dict[str, str]
    diff: EvaluationDiff

    @property
    def difference(self) -> float:
        """Return new − old."""
        return self.new - self.old

    @property
    def names(self) -> str:
        """The candidate, and the incumbent where it has another name."""
        return self.candidate + f" (was {self.incumbent})" * (self.incumbent != self.candidate)

    @property
    def passed(self) -> bool:
        """Whether the candidate may take the place of the incumbent."""
        return not self.exit_code

    @property
    def exit_code(self) -> int:
        """0: better, or not shown to be worse. 1: worse. 3: suspiciously better. 4: cannot tell, strictly."""
        return (EXIT_CODES if self.strict else LENIENT)[self.outcome]

    @property
    def verdict(self) -> str:
        """The decision in one line."""
        by = f"by {self.metric} ({self.estimator})"
        unseen = unseen_below(self.smallest_visible_loss, self.old)
        differs = self.low != 0 or self.high != 0
        words: dict[Outcome, str] = {
            "worse": f"WORSE {by}",
            "suspicious": f"suspiciously better {by}: look for leakage",
            "better": f"better {by}",
            "cannot tell": f"cannot tell {by}: {self.reason}"
            + (f"; {unseen}" if self.reason == FEW_USERS else ""),
            "not worse": f"not shown to be worse {by}"
            + (f"; {unseen}" if differs else ": every user has the same value"),
        }
        return words[self.outcome]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows of `diff.frame`, and `decides`: whether the decision rests on this one."""
        frame = self.diff.frame
        return frame.assign(decides=(frame["metric"] == self.metric) & (frame["estimator"] == self.estimator))

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: what decides, each other difference for information, and the decision."""
        whole = self.diff.tables(digits=digits, page=page)
        bounds = f"[{self._signed(self.low)}, {self._signed(self.high)}]"
        summary = (
            f"{self.names} by {self.metric} ({self.estimator}): {self._at(self.old)} -> "
            f"{self._at(self.new)}, difference {self._signed(self.difference)} {bounds}, "
            f"{self.n_users:,} users",
            f"False alarms: at most {1 - self.confidence_level:.2g} {said_of(self.weeks)}. Smallest visible "
            f"loss, with 80% power: {shown(self.smallest_visible_loss)}. Tolerated: {self.margin:.2g}.",
        )
        note = Notes((f"Differences below are information, each by a test of its own: {whole.summary[0]}.",))
        parts = (note, *whole.parts)
        return Tables(
            summary,
            parts if page else (*parts, self.verdict),
            title="Gate" if page else "",
            warnings=whole.warnings,
            verdict=(Remark("Verdict", (self.verdict,)),) if page else (),
        )

    def _at(self, value: float) -> str:
        return fixed(value, decimals([self.high - self.low]) + 1)

    def _signed(self, value: float) -> str:
        return "0" if value == 0 else signed_at(value, decimals([self.high - self.low]) + 1)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the decision, its numbers and all differences as JSON; NaN becomes null."""
        names = [one for one in type(self).__dataclass_fields__ if one not in ("record", "diff")]
        frame = self.frame.astype(object).where(self.frame.notna(), None)
        values = {one: getattr(self, one) for one in (*names, "difference", "verdict", "passed", "exit_code")}
        numbers = {name: None if value != value else value for name, value in values.items()}
        record = numbers | {"record": self.record, "differences": frame.to_dict(orient="records")}
        return deliver(json.dumps(record, indent=2), path)


def gate(
    new: Evaluation,
    old: Evaluation | None = None,
    *,
    candidate: str | None = None,
    incumbent: str | None = None,
    metric: str | None = None,
    estimator: str | None = None,
    margin: float | None = None,
    weeks: int = 26,
    suspicious: float = 0.5,
    strict: bool = True,
    confidence_level: float = 0.95,
) -> Gate:
    """Return whether a candidate is worse than the incumbent, and which loss could have been seen.

    Worse: the whole interval of Δ = new − old lies below −margin. Better: above 0. Suspicious: above 0, and Δ
    is more than `suspicious` times what the incumbent has, or what it lacks to 1 if that is less. Not worse:
    the interval excludes the relevant loss, and a loss of less than all could have been seen. Else the gate
    cannot tell.

    Parameters
    ----------
    new, old : Evaluation
        That of the candidate and that of the incumbent, as they are or loaded; None: one holds both.
    candidate, incumbent : str, optional
        Names. Default: the only recommender that both have, or the only one of each.
    metric : label, optional
        Default: the first that keeps a claim after weighting, as in the verdict.
    estimator : label, optional
        Default: the weighted one where its propensity was measured and its weights are neither thin nor
        unreliable, else the plain average. Weights that were not measured and contradict it: cannot tell.
    margin : float, optional
        Loss >= 0 that is tolerated, and that must be excluded. None: no loss is tolerated, and one of a fifth
        of the incumbent's value must be excluded.
    weeks : int
        How many decisions share one probability of a false alarm, by Bonferroni's inequality.
    suspicious : float
        An improvement of this share is implausible.
    strict : bool
        Whether "cannot tell" fails.
    confidence_level : float
        1 − the probability that one of `weeks` equally good candidates is called worse.

    Raises
    ------
    InputError
        When data, options or the definition of the metric differ, an estimate is missing or undefined, or it
        is not clear who the candidate is.
    """
    check_gate_options(
        {
            "candidate": candidate,
            "incumbent": incumbent,
            "metric": metric,
            "estimator": estimator,
            "margin": margin,
            "weeks": weeks,
            "suspicious": suspicious,
            "strict": strict,
            "confidence_level": confidence_level,
        }
    )
    old = new if old is None else old
    pair = _named(new, old, candidate, incumbent)
    level = (1 - confidence_level) / weeks
    verdict = _verdict(new, old, metric)
    metric, estimator, chosen = verdict.metric, _estimator(verdict, estimator, new), estimator is not None
    _check_comparable(new, old, metric, estimator)
    keys = [(name, metric, estimator) for name in pair]
    first, second = new.estimate(*keys[0]), old.estimate(*keys[1])
    for name, key, each in (("new", keys[0], first), ("old", keys[1], second)):
        if not np.isfinite([each.value, each.standard_error]).all():
            raise InputError(f"{key} of the {name} result is undefined, or has no standard error.")
    found = Difference.of(first, second)
    relevant = RELEVANT * abs(second.value) if margin is None else margin
    margin = 0.0 if margin is None else relevant
    low, high = found.bounds(level)
    smallest = rounded_up(found.smallest_visible(level, margin))
    lacking = 1 - second.value if second.value < 1 else second.value
    implausible = found.gap > suspicious * min(second.value, lacking)
    outcome: Outcome = "cannot tell"
    reason = (
        first.flag or second.flag or ("" if chosen else _against(verdict, new, old, pair, low, high, level))
    )
    seen = low == high == 0 or (smallest <= second.value and not implausible)
    if not reason:
        if high < -margin:
            outcome = "worse"
        elif low > 0:
            outcome = "suspicious" if implausible else "better"
        elif low >= -relevant and first.value > 0 and seen:
            outcome = "not worse"
        else:
            reason = FEW_USERS
    return Gate(
        outcome, *pair, metric, estimator, second.value, first.value, found.std_error, low, high,
        smallest, found.n_users, margin, relevant, weeks, confidence_level, strict,
        reason, {name: str(value) for name, value in new._record.items()},
        replace(new.diff(old, models={pair[0]: pair[1]}), only_new=(), only_old=()),
    )  # fmt: skip


GATE_OPTIONS = (
    *("candidate", "incumbent", "metric", "estimator"),
    *("margin", "weeks", "suspicious", "strict", "confidence_level"),
)


def check_gate_options(options: Mapping[str, Any]) -> None:
    """Raise an error for an option that `gate` does not have, or with a value that it does not accept.

    Functions that pass options on to `gate` call this first, also where no gate is computed.

    Raises
    ------
    UnknownNameError
        For an unknown option.
    InputError
        For a value of the wrong type or out of range.
    """
    for name in options:
        if name not in GATE_OPTIONS:
            raise UnknownNameError("option", name, GATE_OPTIONS, suggest_replacement(name))
    for name in ("candidate", "incumbent", "metric", "estimator"):
        check_type(name, options.get(name), (str, type(None)))
    if options.get("margin") is not None:
        check_real("margin, the loss that is tolerated,", options["margin"], low=0.0, low_open=False)
    if "weeks" in options:
        check_positive_int("weeks", options["weeks"])
    if "suspicious" in options:
        check_real("suspicious, a share,", options["suspicious"], low=0.0)
    if "strict" in options:
        check_bool("strict", options["strict"])
    if "confidence_level" in options:
        check_fraction("confidence_level", options["confidence_level"])


def _check_has_model(role: str, name: str | None, evaluation: Evaluation) -> None:
    """Raise `UnknownNameError` for a candidate or incumbent that the evaluation does not contain."""
    if name is not None and name not in evaluation.models:
        raise UnknownNameError(f"{role}:", name, evaluation.models)


def _named(new: Evaluation, old: Evaluation, candidate: str | None, incumbent: str | None) -> tuple[str, str]:
    """Return the names of candidate and incumbent."""
    for one in (new, old):
        if not isinstance(one, Evaluation):
            raise InputError(f"a gate takes evaluations; got {type(one).__name__}.")
    _check_has_model("candidate", candidate, new)
    _check_has_model("incumbent", incumbent, old)
    first, second = [candidate] if candidate else new.models, [incumbent] if incumbent else old.models
    if new is old and len(new.models) == 2 and first != second:
        first = [one for one in first if [one] != second]
        second = [one for one in second if [one] != first]
    shared = [one for one in first if one in second]
    first, second = (shared, shared) if len(shared) == 1 and new is not old else (first, second)
    try:
        (name,), (other,) = first, second
    except ValueError:
        raise InputError(
            f"name candidate= and incumbent=: the new result has {', '.join(first)}, the old one "
            f"{', '.join(second)}."
        ) from None
    if new is old and name == other:
        raise InputError(f"{name} is candidate and incumbent of the same result; name two recommenders.")
    return name, other


def _verdict(new: Evaluation, old: Evaluation, metric: str | None) -> Verdict:
    """Return the incumbent's verdict by the metric that decides."""
    verdicts = [verdict for verdict in old.verdicts if verdict.metric in new.metrics]
    if metric is not None:
        label = find_label(metric, old.metrics, parse_metric)
        verdicts = [verdict for verdict in verdicts if verdict.metric == label]
    verdicts = [verdict for verdict in verdicts if verdict.metric not in RATING_METRICS]
    if not verdicts:
        raise InputError(
            f"no metric {metric or 'in common'} in both results of which more is better; the new one has "
            f"{', '.join(new.metrics)}, the old one {', '.join(old.metrics)}."
        )
    return choose_headline(verdicts)


def _estimator(verdict: Verdict, estimator: str | None, new: Evaluation) -> str:
    """Return the estimator that decides: weights that are known by design and sufficient, else AOA."""
    if estimator is not None:
        return find_label(estimator, new.estimators, resolve_estimator)
    return verdict.weighted if _weights_decide(verdict) else verdict.unweighted or verdict.weighted


def _weights_decide(verdict: Verdict) -> bool:
    support = verdict.support
    return support is not None and support.basis == "design" and support.quality == "sufficient"


def _against(
    verdict: Verdict,
    new: Evaluation,
    old: Evaluation,
    pair: tuple[str, str],
    low: float,
    high: float,
    level: float,
) -> str:
    """Return that the weights contradict AOA, which decides; "" where they do not."""
    support = verdict.support
    if support is None or _weights_decide(verdict):
        return ""
    if support.basis == "assumed" and support.quality == "sufficient":
        return ""  # an assumption contradicts nothing
    label = verdict.weighted
    if label in new.estimators and not _differing(new, old, verdict.metric, label):
        candidate, incumbent = ((name, verdict.metric, label) for name in pair)
        weighted = Difference.of(new.estimate(*candidate), old.estimate(*incumbent))
        upper_bound = weighted.bounds(level)[1]
        opposed = weighted.gap < 0 < low or weighted.gap > 0 > high
        contradicts = opposed or upper_bound < 0 <= high
    else:
        first = verdict.first_by_weights
        contradicts = new is old and ((first == pair[0] and high < 0) or (first == pair[1] and low > 0))
    return f"AOA and SNIPS ({describe_assumption(support)}) contradict each other" if contradicts else ""


def same_quantity(new: Evaluation, old: Evaluation, metric: str, estimator: str | None) -> list[str]:
    """Return the estimators by which two results can be compared: the one that is named, or all of both."""
    metric = find_label(metric, new.metrics, parse_metric)
    held = {key[2] for key in old.estimates if key[1] == metric}
    labels = list(dict.fromkeys(key[2] for key in new.estimates if key[1] == metric and key[2] in held))
    if estimator is not None:
        labels = [find_label(estimator, new.estimators, resolve_estimator)]
    if not labels:
        has = [f"{', '.join(one.metrics)} by {', '.join(one.estimators)}" for one in (new, old)]
        raise InputError(
            f"the results share no estimator of {metric}; the new one has {has[0]}, the old one {has[1]}."
        )
    for label in labels:
        _check_comparable(new, old, metric, label)
    return labels


def _differing(new: Evaluation, old: Evaluation, metric: str, estimator: str) -> list[str]:
    """Return in what two results differ that have to be the same for one estimator to be of one quantity."""
    known = [one.weights[estimator].weighted for one in (new, old) if estimator in one.weights]
    weighted = any(known) or not known  # without weights, all that could matter has to be the same
    before, after = _basis(old, metric), _basis(new, metric)
    return [
        f"{name} {_of_basis(before.get(name))} -> {_of_basis(after.get(name))}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name) and (weighted or not name.startswith("propensity"))
    ]


def _check_comparable(new: Evaluation, old: Evaluation, metric: str, estimator: str) -> None:
    """Raise `InputError`, naming what differs, when the numbers are not of the same quantity."""
    differing = _differing(new, old, metric, estimator)
    if differing:
        raise InputError(
            f"the results cannot be compared: {'; '.join(differing)}. If the change is meant, store the "
            "result anew (evaluation.save, or pytest --ipseval-update)."
        )


def _basis(one: Evaluation, metric: str) -> dict[str, Any]:
    """Return what one metric of an evaluation is of, by name."""
    definition = one.basis["metrics"].get(metric) or {}
    defined = {f"definition of {metric}: {name}": value for name, value in definition.items()}
    return {**one.basis["data"], **one.basis["options"], **defined}


def _of_basis(value: Any) -> str:
    is_hash = isinstance(value, str) and len(value) == 64
    return f"{value[:12]}…" if is_hash else repr(value)


def shown(loss: float) -> str:
    """Return a loss with two significant digits."""
    return "not known" if math.isnan(loss) else fixed(loss, decimals([loss]))


def rounded_up(loss: float) -> float:
    """Return a loss rounded up to two significant digits.

    Examples
    --------
    >>> rounded_up(0.01401), rounded_up(0.37), rounded_up(1.0)
    (0.015, 0.37, 1.0)
    """
    if not loss > 0 or math.isinf(loss):
        return loss
    step = 10.0 ** (math.floor(math.log10(loss)) - 1)
    return float(f"{math.ceil(loss / step - 1e-9) * step:.3g}")


def unseen_below(loss: float, value: float) -> str:
    """Return which loss of a value could not have been seen."""
    if not loss <= value:
        return "no loss could have been seen"
    return f"a loss below {shown(loss)} could not have been seen"


def said_of(weeks: int) -> str:
    """Return the span over which false alarms are counted."""
    return f"in a season of {weeks:,} weeks" if weeks > 1 else "of a single decision"
