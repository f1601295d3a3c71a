"""gate_metrics(): one decision from gates and absolute limits of several metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Remark, Table
from ipseval.testing._gate import (
    NOT_WORSE,
    Gate,
    check_gate_options,
    check_has_model,
    choose_criterion,
    describe_false_alarms,
    gate,
    get_defined_estimate,
)
from ipseval.testing._limits import Limit
from ipseval.testing._rules import Rule, Rules, parse_limits, parse_rules, read_rules
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_class, public_function

HEADER = ("metric", "requirement", "old", "new", "difference or bound", "outcome")
WORD_COLUMNS = frozenset({0, 1, 5})
SEVERITY = (1, 3, 5, 4)  # exit codes, the most serious first


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class MetricGates(Result):
    """Decisions on a candidate by several metrics, which share one probability of a false alarm.

    Parameters
    ----------
    gates : dict
        Metric -> Gate.
    limits : dict
        Metric -> Limit, the decision on an absolute limit.
    confidence_level : float
        1 − the probability that an equally good candidate is called worse by any of the decisions of
        `n_comparisons` comparisons.
    n_comparisons : int
        Number of comparisons that share one probability of a false alarm.

    See Also
    --------
    gate_metrics : Compute the decisions.

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"incumbent": examples["popular"], "candidate": examples["random"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10", "ndcg@10"])
    >>> gates = gate_metrics(
    ...     evaluation,
    ...     rules={"recall@10": {"margin": 0.02}},
    ...     limits={"ndcg@10": 0.05},
    ...     candidate="candidate",
    ...     incumbent="incumbent",
    ... )
    >>> gates.frame[["metric", "requirement", "new", "outcome", "passed"]].round(2)
          metric    requirement   new  outcome  passed
    0  recall@10      not worse  0.13    worse   False
    1    ndcg@10  at least 0.05  0.06  reached    True
    >>> gates.exit_code
    1
    """

    gates: dict[str, Gate]
    limits: dict[str, Limit]
    confidence_level: float
    n_comparisons: int

    @property
    def decisions(self) -> list[Gate | Limit]:
        """Gates and limits, in the order of the rules."""
        return [*self.gates.values(), *self.limits.values()]

    @property
    def exit_code(self) -> int:
        """Exit code of the most serious decision: 1 worse or below a limit, 3 suspicious, then 5 and 4."""
        codes = {decision.exit_code for decision in self.decisions}
        for code in SEVERITY:
            if code in codes:
                return code
        return 0

    @property
    def has_passed(self) -> bool:
        """Whether every decision lets the candidate pass."""
        return not self.exit_code

    @property
    def verdict(self) -> str:
        """Number of requirements that are met, and the others, the most serious first."""
        decisions = self.decisions
        failures = sorted(
            (decision for decision in decisions if not decision.has_passed),
            key=lambda decision: SEVERITY.index(decision.exit_code),
        )
        n_met = len(decisions) - len(failures)
        clauses = [f"{n_met} of {format_count(len(decisions), 'requirement')} met"]
        clauses += [decision.verdict for decision in failures]
        return "; ".join(clauses)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per decision; a limit has no old value, and its interval is open below.

        model, metric, estimator, requirement, old, new, difference, ci_low, ci_high, outcome, passed.
        """
        rows: list[dict[str, Any]] = []
        for decision in self.gates.values():
            rows.append(
                {
                    "model": decision.candidate,
                    "metric": decision.metric,
                    "estimator": decision.estimator,
                    "requirement": NOT_WORSE,
                    "old": decision.old,
                    "new": decision.new,
                    "difference": decision.difference,
                    "ci_low": decision.low,
                    "ci_high": decision.high,
                    "outcome": decision.outcome,
                    "passed": decision.has_passed,
                }
            )
        for limit in self.limits.values():
            rows.append(
                {
                    "model": limit.candidate,
                    "metric": limit.metric,
                    "estimator": limit.estimator,
                    "requirement": f"at least {limit.threshold:g}",
                    "old": float("nan"),
                    "new": limit.value,
                    "difference": float("nan"),
                    "ci_low": float("-inf"),
                    "ci_high": limit.high,
                    "outcome": limit.outcome,
                    "passed": limit.has_passed,
                }
            )
        return pd.DataFrame(rows)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per decision, and the conclusion.

        Parameters
        ----------
        digits : int, default 2
            Not used: the widths of the intervals determine the digits.
        page : bool, default False
            Whether the conclusion is returned as verdict, with a title, as HTML pages show it.

        Returns
        -------
        Tables
            One row per decision, and the conclusion.
        """
        del digits  # the widths of the intervals decide
        rows = [decision._build_row() for decision in self.gates.values()]
        rows += [_build_limit_row(limit) for limit in self.limits.values()]
        table = Table(HEADER, tuple(rows), words=WORD_COLUMNS, signed=True)
        n_decisions = format_count(len(rows), "requirement")
        summary = (
            f"{self._names}: {n_decisions}, which share one probability of a false alarm",
            describe_false_alarms(self.confidence_level, self.n_comparisons),
        )
        if page:
            return Tables(summary, (table,), title="Gate", remarks=(Remark("Verdict", (self.verdict,)),))
        return Tables(summary, (table, self.verdict))

    @property
    def _names(self) -> str:
        """Name of the candidate, and of the incumbent where it differs."""
        for decision in self.gates.values():
            return decision.names
        return next(iter(self.limits.values())).candidate


def _build_limit_row(limit: Limit) -> tuple[Cell, ...]:
    """Return the cells of an absolute limit under `HEADER`."""
    return (
        Cell(f"{limit.metric} ({limit.estimator})"),
        Cell(f"at least {limit.threshold:g}"),
        Cell(""),
        Cell(limit.format_value()),
        Cell(f"{limit.format_bound()}"),
        Cell(limit.outcome),
    )


@public_function
def gate_metrics(
    new: Evaluation,
    old: Evaluation | None = None,
    *,
    rules: Rules | None = None,
    limits: Mapping[str, float] | None = None,
    candidate: str | None = None,
    incumbent: str | None = None,
    metric: str | None = None,
    estimator: str | None = None,
    margin: float | None = None,
    n_comparisons: int = 26,
    suspicious: float = 0.5,
    strict: bool = True,
    confidence_level: float = 0.95,
) -> MetricGates:
    """Decide on a candidate by rules of several metrics: not worse than the incumbent, and absolute limits.

    Parameters
    ----------
    new : Evaluation
        Evaluation of the candidate, computed or loaded.
    old : Evaluation, optional
        Evaluation of the incumbent; not needed for absolute limits. Default: `new`.
    rules : path or {metric: {option: value}}, optional
        Options of each metric: margin, suspicious and estimator, as in `gate`, and at_least (absolute limit).
        The candidate is compared with the incumbent unless at_least is the only requirement. A path is a
        TOML file with these tables in the table `gate`, or in `tool.ipseval.gate` of a pyproject.toml.
        Default: one comparison by `metric`, `estimator` and `margin` where `old` or `incumbent` is passed.
    limits : {metric: value}, optional
        Further absolute limits.
    candidate, incumbent : str, optional
        Names of the recommenders, as in `gate`.
    metric, estimator, margin : optional
        Options of the comparison, as in `gate`; with `rules` they are options of each rule instead.
    n_comparisons : int, default 26
        Number of comparisons, each with all decisions, that share one probability of a false alarm.
    suspicious : float, default 0.5
        Share from which an improvement is implausible, for metrics whose rule has none.
    strict : bool, default True
        Whether "cannot tell" and "no difference" fail.
    confidence_level : float, default 0.95
        1 − the probability of a false alarm, which all decisions of all comparisons share.

    Returns
    -------
    MetricGates
        The decision on each rule, and one exit code.

    Raises
    ------
    InputError
        When results are not comparable, names are ambiguous, or there is no rule.
    UnknownNameError
        For an unknown recommender, or an unknown option of a rule.

    See Also
    --------
    gate : The decision by one metric.

    Examples
    --------
    The candidate must not be worse than the incumbent by recall@10, and must reach 0.3 by ndcg@10:

    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"incumbent": examples["popular"], "candidate": examples["taste"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10", "ndcg@10"])
    >>> gates = gate_metrics(
    ...     evaluation,
    ...     rules={"recall@10": {"margin": 0.2}, "ndcg@10": {"at_least": 0.3}},
    ...     candidate="candidate",
    ...     incumbent="incumbent",
    ... )
    >>> gates.frame[["metric", "requirement", "new", "outcome", "passed"]].round(2)
          metric   requirement   new    outcome  passed
    0  recall@10     not worse  0.62  not worse    True
    1    ndcg@10  at least 0.3  0.40    reached    True
    """
    single = {"metric": metric, "estimator": estimator, "margin": margin}
    names = {"candidate": candidate, "incumbent": incumbent}
    check_gate_options(
        names
        | single
        | {
            "n_comparisons": n_comparisons,
            "suspicious": suspicious,
            "strict": strict,
            "confidence_level": confidence_level,
        }
    )
    for name, value in single.items():
        if rules is not None and value is not None:
            raise InputError("is an option of each rule where rules are passed. Put it there.", argument=name)
    default_rules: dict[str | None, Rule] = {}
    if rules is None and (old is not None or incumbent is not None):
        default_rules[metric] = Rule(margin=margin, estimator=estimator)
    compared_rules, limited_rules = _split_rules(_parse_rules(rules), limits)
    compared_rules |= default_rules

    n_decisions = len(compared_rules) + len(limited_rules)
    if not n_decisions:
        raise InputError("there is no rule. Pass rules=, limits= or the incumbent.")
    side = (1 - confidence_level) / n_decisions

    gates = {}
    for compared_metric, rule in compared_rules.items():
        decision = gate(
            new,
            old,
            candidate=candidate,
            incumbent=incumbent,
            metric=compared_metric,
            estimator=rule.estimator,
            margin=rule.margin,
            n_comparisons=n_comparisons,
            suspicious=suspicious if rule.suspicious is None else rule.suspicious,
            strict=strict,
            confidence_level=1 - side,
        )
        gates[decision.metric] = decision
        candidate = decision.candidate
    decided_limits = {}
    for limited_metric, rule in limited_rules.items():
        limit = _decide_limit(new, candidate, limited_metric, rule, level=side / n_comparisons, strict=strict)
        decided_limits[limit.metric] = limit
    return MetricGates(
        gates=gates, limits=decided_limits, confidence_level=confidence_level, n_comparisons=n_comparisons
    )


def _parse_rules(rules: Rules | None) -> dict[str, Rule]:
    """Return the rule of each metric from a mapping or a file."""
    if rules is None:
        return {}
    if isinstance(rules, Mapping):
        return parse_rules(rules)
    return read_rules(rules)


def _split_rules(
    rules: Mapping[str, Rule], limits: Mapping[str, float] | None
) -> tuple[dict[str | None, Rule], dict[str, Rule]]:
    """Return the rules that compare with the incumbent and those with an absolute limit, by metric."""
    compared_rules: dict[str | None, Rule] = {}
    limited_rules: dict[str, Rule] = {}
    for metric, rule in rules.items():
        if rule.compares:
            compared_rules[metric] = rule
        if rule.threshold is not None:
            limited_rules[metric] = rule
    for metric, rule in parse_limits(limits or {}).items():
        limited_rules[metric] = rule
    return compared_rules, limited_rules


def _decide_limit(
    new: Evaluation, candidate: str | None, metric: str, rule: Rule, *, level: float, strict: bool
) -> Limit:
    """Return the decision on the absolute limit of one metric."""
    name = _resolve_candidate(new, candidate)
    metric, estimator = choose_criterion(new, new, metric, rule.estimator)
    estimate = get_defined_estimate("new", new, (name, metric, estimator))
    return Limit.decide(estimate, name, rule.limit, level=level, strict=strict)


def _resolve_candidate(new: Evaluation, candidate: str | None) -> str:
    """Return the name of the candidate; raise `InputError` where it is ambiguous."""
    check_has_model("candidate", candidate, new)
    if candidate is not None:
        return candidate
    if len(new.models) > 1:
        raise InputError(
            f"The new result has {', '.join(new.models)}.",
            advice="Name the recommender by {candidate}",
            shell_advice="Name it by --model NAME",
        )
    return new.models[0]
