"""preflight(): whether the gate rejects candidates that are known to be worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.estimators.estimate import estimate
from ipseval.evaluation import Evaluation
from ipseval.ranking import RankedPositives
from ipseval.reporting import Tables
from ipseval.reporting.formatting import format_fixed, join_names
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Part, Remark, Table
from ipseval.testing._gate import (
    Gate,
    Outcome,
    check_gate_options,
    describe_detected_loss,
    format_pass_probability,
    gate,
    name_interval,
    round_up,
)
from ipseval.utils.checks import as_generator
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray, RngLike

POPULARITY = "popularity"
IMPROVED: tuple[Outcome, ...] = ("better", "suspicious")
LOSS_SHARE = 0.1  # of the incumbent's value: the loss for which a margin is stated
ERROR = 0.05  # with enough users, such a loss passes and an equally good candidate fails at most this often
COLUMNS = ("old", "new", "difference", "low", "high", "smallest_visible_loss", "outcome")


@dataclass(frozen=True, eq=False, repr=False)
class Preflight(Result):
    """Decisions of the gate on candidates that it must stop.

    Attributes
    ----------
    gates : dict
        "shuffled", "truncated", "popularity" -> Gate.
    skip_reason : str
        Candidate that was not tried, and the reason; "" where all were.
    candidate_gate : Gate or None
        The decision on the named candidate; None if none is named.
    """

    gates: dict[str, Gate]
    skip_reason: str = ""
    candidate_gate: Gate | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row per candidate: its numbers with ci_low and ci_high, outcome, and whether the gate stops it."""
        rows = []
        for name, decision in self.gates.items():
            row: dict[str, Any] = {"model": name, "metric": decision.metric, "estimator": decision.estimator}
            for column in COLUMNS:
                row[column] = getattr(decision, column)
            row["stopped"] = not decision.has_passed
            rows.append(row)
        return pd.DataFrame(rows).rename(columns={"low": "ci_low", "high": "ci_high"})

    @property
    def has_passed(self) -> bool:
        """Whether all candidates were tried and stopped, and none of them is better than the incumbent."""
        if self.skip_reason or self._names_with_outcome(*IMPROVED):
            return False
        return bool(self.frame["stopped"].all())

    @property
    def exit_code(self) -> int:
        """Exit code: 0 all candidates were tried and stopped, and none is better; 4 otherwise."""
        return 0 if self.has_passed else 4

    @property
    def verdict(self) -> str:
        """Names of the candidates that the gate stops, that it does not stop, and that are better."""
        better_names = self._names_with_outcome(*IMPROVED)
        doubtful_names = []
        stopped_names = []
        missed_names = []
        for name, decision in self.gates.items():
            if name in better_names:
                continue
            if decision.has_passed:
                missed_names.append(name)
                continue
            stopped_names.append(name)
            if decision.outcome != "worse":
                doubtful_names.append(name)

        clauses = []
        if stopped_names:
            clauses.append(
                f"the gate stops {join_names(stopped_names)}{self._describe_doubt(doubtful_names)}"
            )
        if missed_names:
            detected = self._describe_least_sensitive(missed_names)
            clauses.append(f"the gate does not stop {join_names(missed_names)}: {detected}")
        if better_names:
            verb = "is" if len(better_names) == 1 else "are"
            clauses.append(f"{join_names(better_names)} {verb} better than the incumbent")
        if self.skip_reason:
            clauses.append(self.skip_reason)
        return "; ".join(clauses)

    def _describe_doubt(self, names: list[str]) -> str:
        """Return which candidates are stopped although they are not called worse, in brackets; "" for none."""
        if not names:
            return ""
        return f" ({join_names(names)} without calling it WORSE; {self._describe_least_sensitive(names)})"

    def _describe_least_sensitive(self, names: list[str]) -> str:
        """Return the loss that is called WORSE, as text, for the candidate where it is largest."""
        gates = [self.gates[name] for name in names]
        least_sensitive = max(gates, key=lambda decision: decision.smallest_visible_loss)
        return describe_detected_loss(least_sensitive.smallest_visible_loss, least_sensitive.old)

    def _names_with_outcome(self, *outcomes: Outcome) -> list[str]:
        """Return the names of the candidates with one of these outcomes."""
        names: list[str] = []
        for name, decision in self.gates.items():
            if decision.outcome in outcomes:
                names.append(name)

        return names

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per candidate."""
        first_gate = next(iter(self.gates.values()))
        summary = (
            f"Preflight of the gate on {first_gate.incumbent} by {first_gate.metric} "
            f"({first_gate.estimator}), with {name_interval(first_gate.interval_level)}s",
        )
        parts: list[Part] = [Table.from_frame(self.frame, formats=f".{digits + 1}f", n_keys=3)]
        if self.candidate_gate is not None:
            parts.append(describe_passing_loss(self.candidate_gate))
        if page:
            return Tables(
                summary,
                tuple(parts),
                title="Preflight of a gate",
                remarks=(Remark("Verdict", (self.verdict,)),),
            )
        return Tables(summary, (*parts, self.verdict))


def compute_pass_probability(decision: Gate, loss: float, margin: float | None) -> float:
    """Return the probability that a candidate with a true loss L passes with a margin M, or without one.

    With a margin, it passes if its lower bound is >= −M: Φ((M − h − L)/s), with the standard error s and the distance h
    of the lower bound from the difference. Without a margin, its upper bound must be >= 0 and its lower bound must
    exclude the relevant loss R: Φ((min(k, R − h) − L)/s), with the distance k of the upper bound. It is assumed that
    the differences of its users are distributed as those of the candidate of `decision` around their mean, and that
    the candidate is not suspicious.
    """
    to_low = decision.difference - decision.low
    if margin is None:
        to_high = decision.high - decision.difference
        threshold = min(to_high, decision.relevant_loss - to_low)
    else:
        threshold = margin - to_low
    return float(ndtr((threshold - loss) / decision.std_error))


def compute_margin(decision: Gate, loss: float) -> float:
    """Return the margin L/2 + h, with which a loss L passes as often as an equally good candidate fails."""
    return loss / 2 + decision.difference - decision.low


def compute_users_needed(decision: Gate, loss: float) -> float:
    """Return the users with which a loss L passes in 5% of cases, and an equally good candidate in 95%.

    With the margin L/2 + h, the threshold is L/2 from both, so z_0.95 standard errors must be L/2.
    """
    n_errors = loss / 2 / decision.std_error
    return round_up(decision.n_users * (float(ndtri(1 - ERROR)) / n_errors) ** 2)


def describe_passing_loss(decision: Gate) -> str:
    """Return how often a loss and an equally good candidate pass, and with which margin, as text.

    Without a margin, the loss is 10% of the incumbent's value. With a margin M, it is the loss L = 2 (M − h), which
    passes as often as an equally good candidate fails.
    """
    if not decision.std_error or decision.old <= 0:
        return f"{decision.candidate} does not show how often a loss passes, because no user differs."
    condition = f"If the differences of users vary as those of {decision.candidate}"
    if decision.relevant_loss == decision.margin:
        return f"{condition}, {_describe_given_margin(decision)}"
    loss = LOSS_SHARE * decision.old
    passing = format_pass_probability(compute_pass_probability(decision, loss, None))
    equal_passing = format_pass_probability(compute_pass_probability(decision, 0.0, None))
    without_margin = (
        f"{condition}, a candidate that truly loses {_format_loss(decision, loss)} passes with probability {passing} "
        f"without a margin, and an equally good one with probability {equal_passing}. "
    )
    n_users = f"{compute_users_needed(decision, loss):,.0f}"
    margin = float(f"{compute_margin(decision, loss):.2g}")
    if decision.smallest_visible_loss + margin > decision.old:
        return f"{without_margin}There are too few users for a margin against this loss; about {n_users} are needed."
    passing_probability = compute_pass_probability(decision, loss, margin)
    passing = format_pass_probability(passing_probability)
    equal_passing = format_pass_probability(compute_pass_probability(decision, 0.0, margin))
    with_margin = (
        f"With a margin of {margin:#.2g}, it passes with probability {passing}, and an equally good one "
        f"with probability {equal_passing}."
    )
    if passing_probability > ERROR:
        with_margin += f" For {ERROR:g} and {1 - ERROR:g}, about {n_users} users are needed."
    return without_margin + with_margin


def _describe_given_margin(decision: Gate) -> str:
    """Return how often candidates pass with the margin of a decision, as the end of a sentence."""
    margin = decision.margin
    to_low = decision.difference - decision.low
    equal_passing = format_pass_probability(compute_pass_probability(decision, 0.0, margin))
    equally_good = (
        f"an equally good candidate passes with probability {equal_passing} with the margin of {margin:g}"
    )
    loss = 2 * (margin - to_low)
    if loss <= 0:
        return (
            f"{equally_good}, because the interval reaches {format_fixed(to_low, 4)} below the difference; a larger "
            "margin is needed."
        )
    passing = format_pass_probability(compute_pass_probability(decision, loss, margin))
    return (
        f"{equally_good}, and one that truly loses {_format_loss(decision, loss)} with probability {passing}."
    )


def _format_loss(decision: Gate, loss: float) -> str:
    """Format a loss as a share of the incumbent's value, and in units of the metric."""
    return f"{100 * loss / decision.old:.2g}% of the old value ({loss:.3g})"


@public_function
def preflight(
    evaluation: Evaluation,
    *,
    candidate: str | None = None,
    incumbent: str | None = None,
    rng: RngLike = None,
    **options: Any,
) -> Preflight:
    """Check that the gate stops candidates that are worse, built from the incumbent's own ranks.

    In the candidate "shuffled", every positive has a random rank. In "truncated", a random half of the items
    is not retrieved and ranks last; in lists, the items that remain move up, so the lists are about half as
    long. "popularity" is the recommender of this name, which the evaluation must contain in addition to the
    incumbent.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation with its ranks, so saved without `ranks=False`.
    candidate : str, optional
        A real candidate in the evaluation. From the differences of its users, the report states how often a
        candidate that loses 10% of the incumbent's value passes, and with which margin it is stopped; with `margin`,
        which loss it stops. Default: none, because the candidates above differ more from the incumbent than a
        retrained recommender.
    incumbent : str, optional
        Default: the only recommender other than popularity and `candidate`.
    rng : int, Generator or None, default None
        Source of the random ranks.
    **options
        Options of `gate`, as they will be used later.

    Returns
    -------
    Preflight
        The decision on each candidate, and whether all were stopped.

    Raises
    ------
    InputError
        When the evaluation has no ranks, or has several recommenders and no incumbent is named.

    Notes
    -----
    The margin against a loss L is L/2 + h, with the distance h of the lower bound from the difference. The threshold
    of a pass is then L/2 below 0, so a candidate with the loss L passes with probability Φ(−L/2s), and an equally
    good one with Φ(L/2s), with the standard error s.

    See Also
    --------
    gate : The decision that is checked.

    Examples
    --------
    The gate stops shuffled and truncated ranks, but not popularity, so this check fails:

    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"popularity": examples["popular"], "incumbent": examples["taste"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"])
    >>> check = preflight(evaluation, rng=3)
    >>> check.frame[["model", "outcome"]]
            model    outcome
    0    shuffled      worse
    1   truncated      worse
    2  popularity  not worse
    >>> check.has_passed
    False
    """
    check_gate_options(options)
    incumbent = _resolve_incumbent(evaluation, candidate, incumbent)
    candidate_gate = None
    if candidate is not None:
        candidate_gate = gate(evaluation, candidate=candidate, incumbent=incumbent, **options)
    samples = evaluation._need_samples()
    if incumbent not in samples:
        raise InputError(
            f"there is no recommender {incumbent!r}; the evaluation has {', '.join(evaluation.models)}."
        )
    sample = samples[incumbent]
    generator = as_generator(rng)
    damaged_ranks = {
        "shuffled": _shuffle_ranks(sample.ranked, generator),
        "truncated": _truncate_ranks(sample.ranked, generator),
    }
    damaged_evaluation = _evaluate_ranks(evaluation, sample, {incumbent: sample.ranked, **damaged_ranks})
    candidates = dict.fromkeys(damaged_ranks, damaged_evaluation)
    untried = ""
    if incumbent != POPULARITY:
        if POPULARITY in evaluation.models:
            candidates[POPULARITY] = evaluation
        else:
            untried = f"{POPULARITY} was not tried: evaluate it together with {incumbent}"
    gates = {}
    for name, candidate_evaluation in candidates.items():
        gates[name] = gate(candidate_evaluation, candidate=name, incumbent=incumbent, **options)
    return Preflight(gates, untried, candidate_gate)


def _resolve_incumbent(evaluation: Evaluation, candidate: str | None, incumbent: str | None) -> str:
    """Return the name of the incumbent; raise `InputError` where it is ambiguous."""
    if incumbent:
        return incumbent
    names = []
    for name in evaluation.models:
        if name not in (POPULARITY, candidate):
            names.append(name)

    if not names:
        names = evaluation.models
    if incumbent is None and len(names) > 1:
        raise InputError(
            f"The evaluation has {', '.join(evaluation.models)}.",
            advice="Name the incumbent by {incumbent}",
            shell_advice="Name it by --model NAME",
        )
    return names[0]


def _evaluate_ranks(
    evaluation: Evaluation, sample: Sample, ranks_by_name: dict[str, RankedPositives]
) -> Evaluation:
    """Return the evaluation with estimates from other ranks of the positives of a sample."""
    metrics, estimators = evaluation.definitions
    estimates = {}
    for name, ranked in ranks_by_name.items():
        new_sample = replace(sample, ranked=ranked)
        for metric in metrics:
            for estimator in estimators:
                estimates[name, metric.label, estimator.label] = estimate(new_sample, metric, estimator)
    return replace(evaluation, estimates=estimates)


def _shuffle_ranks(positives: RankedPositives, rng: np.random.Generator) -> RankedPositives:
    """Return the positives with uniformly random ranks."""
    return _with_ranks(positives, rng.integers(0, positives.n_candidates))


def _truncate_ranks(positives: RankedPositives, rng: np.random.Generator) -> RankedPositives:
    """Return the positives as ranked when a random half of the items is not retrieved and ranks last.

    In lists, the items that remain move up, and nothing fills the end. The number of items above a positive
    that is in no list is unknown, so it stays beyond the list.
    """
    is_retrieved = rng.random(positives.item_ids.size) < 0.5
    is_listed = is_retrieved[positives.item]
    if positives.max_rank is not None:
        is_listed &= positives.n_above < positives.max_rank
    n_above = rng.binomial(positives.n_above + positives.n_tied // 2, 0.5)
    return _with_ranks(positives, np.where(is_listed, n_above, positives.n_candidates - 1))


def _with_ranks(positives: RankedPositives, n_above: IntArray) -> RankedPositives:
    """Return the same positives with other numbers of candidates above each, and without ties."""
    if positives.max_rank is not None:
        n_above = np.minimum(n_above, positives.max_rank)
    return replace(positives, n_above=n_above, n_tied=np.zeros_like(positives.n_tied), top=None, list_hash="")
