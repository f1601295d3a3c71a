"""preflight(): whether the gate rejects candidates that are known to be worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.estimators.estimate import estimate
from ipseval.evaluation import Evaluation
from ipseval.ranking import RankedPositives
from ipseval.reporting import Tables
from ipseval.reporting.formatting import join_names
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.testing._gate import (
    Gate,
    Outcome,
    check_gate_options,
    describe_detected_loss,
    gate,
    name_interval,
)
from ipseval.utils.checks import as_generator
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray, RngLike

POPULARITY = "popularity"
IMPROVED: tuple[Outcome, ...] = ("better", "suspicious")
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
    """

    gates: dict[str, Gate]
    skip_reason: str = ""

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
        table = Table.from_frame(self.frame, formats=f".{digits + 1}f", n_keys=3)
        if page:
            return Tables(
                summary,
                (table,),
                title="Preflight of a gate",
                remarks=(Remark("Verdict", (self.verdict,)),),
            )
        return Tables(summary, (table, self.verdict))


@public_function
def preflight(
    evaluation: Evaluation, *, incumbent: str | None = None, rng: RngLike = None, **options: Any
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
    incumbent : str, optional
        Default: the only recommender other than popularity.
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
    incumbent = _resolve_incumbent(evaluation, incumbent)
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
    return Preflight(gates, untried)


def _resolve_incumbent(evaluation: Evaluation, incumbent: str | None) -> str:
    """Return the name of the incumbent; raise `InputError` where it is ambiguous."""
    if incumbent:
        return incumbent
    names = []
    for name in evaluation.models:
        if name != POPULARITY:
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
