"""preflight(): whether the gate rejects what it must reject."""

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
from ipseval.reporting.formatting import listed
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Remark, Table
from ipseval.testing._gate import Gate, Outcome, check_gate_options, gate, unseen_below
from ipseval.utils.checks import as_generator
from ipseval.utils.types import IntArray, RngLike

POPULARITY = "popularity"
COLUMNS = ("old", "new", "difference", "low", "high", "smallest_visible_loss", "outcome")


@dataclass(frozen=True, eq=False, repr=False)
class Preflight(Result):
    """What the gate makes of candidates that it must reject.

    Attributes
    ----------
    gates : dict
        "shuffled", "truncated", "popularity" -> Gate.
    untried : str
        What was not tried, and why; "" where all were.
    """

    gates: dict[str, Gate]
    untried: str = ""

    @property
    def frame(self) -> pd.DataFrame:
        """One row per candidate: its numbers with ci_low and ci_high, outcome, and whether it is rejected."""
        rows = [
            {"model": name, "metric": one.metric, "estimator": one.estimator}
            | {each: getattr(one, each) for each in COLUMNS}
            | {"rejected": name in self._with("worse")}
            for name, one in self.gates.items()
        ]
        return pd.DataFrame(rows).rename(columns={"low": "ci_low", "high": "ci_high"})

    @property
    def passed(self) -> bool:
        """Whether everything was tried, and called worse."""
        return not self.untried and bool(self.frame["rejected"].all())

    @property
    def exit_code(self) -> int:
        """0: passed. 4: the gate cannot tell."""
        return 0 if self.passed else 4

    @property
    def verdict(self) -> str:
        """Which of them the gate could not reject."""
        rejected, better = self._with("worse"), self._with("better", "suspicious")
        missed = self._with("not worse", "cannot tell")
        lines = [f"the gate rejects {listed(rejected)}"] if rejected else []
        if missed:
            blind = max((self.gates[name] for name in missed), key=lambda one: one.smallest_visible_loss)
            unseen = unseen_below(blind.smallest_visible_loss, blind.old)
            lines.append(f"the gate could not reject {listed(missed)}: {unseen}")
        if better:
            lines.append(f"{listed(better)} {'is' if len(better) == 1 else 'are'} better than the incumbent")
        return "; ".join([*lines, *filter(None, [self.untried])])

    def _with(self, *outcomes: Outcome) -> list[str]:
        """Return the candidates with such an outcome."""
        return [name for name, one in self.gates.items() if one.outcome in outcomes]

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per candidate."""
        one = next(iter(self.gates.values()))
        table = Table.of(self.frame, formats=f".{digits + 1}f", n_keys=3)
        return Tables(
            (f"Preflight of the gate on {one.incumbent} by {one.metric} ({one.estimator})",),
            (table, *([] if page else [self.verdict])),
            title="Preflight of a gate" if page else "",
            verdict=(Remark("Verdict", (self.verdict,)),) if page else (),
        )


def preflight(
    evaluation: Evaluation, *, incumbent: str | None = None, rng: RngLike = None, **options: Any
) -> Preflight:
    """Return whether the gate calls candidates worse that are: tried on the incumbent's own ranks.

    shuffled: every positive has a random rank. truncated: a random half of the items is not retrieved and
    ranks last. popularity: the recommender of this name, which the evaluation must hold beside the incumbent.

    Parameters
    ----------
    evaluation : Evaluation
        With its ranks, so saved without `ranks=False`.
    incumbent : str, optional
        Default: the only recommender beside popularity.
    rng : int, Generator or None
    **options
        Of `gate`, as they will run.

    Raises
    ------
    InputError
        When the evaluation has no ranks, or several recommenders and no incumbent is named.
    """
    check_gate_options(options)
    others = [one for one in evaluation.models if one != POPULARITY] or evaluation.models
    if incumbent is None and len(others) > 1:
        raise InputError(f"name incumbent=: the evaluation has {', '.join(evaluation.models)}.")
    name = incumbent or others[0]
    samples = evaluation._need_samples()
    if name not in samples:
        raise InputError(
            f"there is no recommender {name!r}; the evaluation has {', '.join(evaluation.models)}."
        )
    generator, own = as_generator(rng), samples[name]
    ranked = own.ranked
    worse = {"shuffled": _shuffled(ranked, generator), "truncated": _truncated(ranked, generator)}
    estimates = {}
    for label, ranks in {name: ranked, **worse}.items():
        sample: Sample = replace(own, ranked=ranks, _values={})
        for metric in evaluation.definitions[0]:
            for estimator in evaluation.definitions[1]:
                estimates[label, metric.label, estimator.label] = estimate(sample, metric, estimator)
    whole = replace(evaluation, estimates=estimates)
    tried, untried = dict.fromkeys(worse, whole), ""
    if POPULARITY in evaluation.models and name != POPULARITY:
        tried[POPULARITY] = evaluation
    elif name != POPULARITY:
        untried = f"{POPULARITY} was not tried: evaluate it beside {name}"
    gates = {one: gate(held, candidate=one, incumbent=name, **options) for one, held in tried.items()}
    return Preflight(gates, untried)


def _shuffled(ranked: RankedPositives, rng: np.random.Generator) -> RankedPositives:
    return _placed(ranked, rng.integers(0, ranked.n_candidates))


def _truncated(ranked: RankedPositives, rng: np.random.Generator) -> RankedPositives:
    kept = rng.random(ranked.item_ids.size) < 0.5
    above = rng.binomial(ranked.n_above + ranked.n_tied // 2, 0.5)
    return _placed(ranked, np.where(kept[ranked.item], above, ranked.n_candidates - 1))


def _placed(ranked: RankedPositives, n_above: IntArray) -> RankedPositives:
    """Return the same positives with so many candidates above each, and none tied."""
    above = n_above if ranked.max_rank is None else np.minimum(n_above, ranked.max_rank)
    return replace(ranked, n_above=above, n_tied=np.zeros_like(ranked.n_tied), top=None)
