"""Verdicts of recommenders with given estimates, for the tests of the rules and of the sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

import ipseval
from ipseval.evaluation.verdict import Evidence, ModelRanking, Verdict, decide_verdicts
from tests.inside.estimators import resolve_estimator
from tests.inside.inference import PairTests, WeightDiagnostics

AOA = "aoa"
SNIPS = "snips-global"
METRIC = "recall@10"
AB = {"a": 0.3, "b": 0.2}
BA = {"a": 0.2, "b": 0.3}
ABC = {"a": 0.3, "b": 0.2, "c": 0.1}


def paired(values: dict[str, float], significant: tuple[str, ...]) -> PairTests:
    """Return tests in which the pairs named by two letters have p = 0.002, and all others p = 0.4."""
    estimates = np.array(list(values.values()))
    names = list(values)
    p_values = np.full((len(names), len(names)), 0.4)
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            if f"{first}{second}" in significant or f"{second}{first}" in significant:
                p_values[row, column] = 0.002
    places = {model: row for row, model in enumerate(names)}
    return PairTests(places, estimates[:, None] - estimates, p_values)


def rows(estimator: str, values: dict[str, float], metric: str = METRIC) -> pd.DataFrame:
    """Return the rows of a tidy frame."""
    columns = {"model": list(values), "estimate": list(values.values())}
    return pd.DataFrame(columns | {"estimator": estimator, "metric": metric})


def standing(estimator: str, values: dict[str, float], significant: tuple[str, ...]) -> ModelRanking:
    """Return how recommenders rank by an estimator."""
    return ModelRanking.from_rows(rows(estimator, values), paired(values, significant))


def decide(
    unweighted: dict[str, float] | None,
    weighted: dict[str, float] | None = None,
    basis: str = "assumed",
    ess: float = 900.0,
    *,
    gamma: float | None = None,
    significant: tuple[str, ...] = (),
    flag: str = "",
    has_guarantee: bool = True,
    failing_models: tuple[str, ...] = (),
    metric: str = METRIC,
) -> Verdict:
    """Return the verdict on estimates by AOA, and by SNIPS with `ess` of 1,000 effective interactions."""
    frames = []
    tests = {}
    for label, values in ((AOA, unweighted), (SNIPS, weighted)):
        if values is not None:
            frames.append(rows(label, values, metric))
            tests[metric, label] = paired(values, significant)
    labels = [str(frame["estimator"].iloc[0]) for frame in frames]
    diagnostics = WeightDiagnostics(ess, ess, 0.01, 2000, ess_own=ess, ess_equal=1000.0)
    propensity = ipseval.propensity.Propensity(
        np.array([0.5]), True, "known per item", 1, basis=basis, gamma=gamma
    )
    evidence = Evidence(
        estimators=[resolve_estimator(label) for label in labels],
        propensity=propensity if weighted is not None else None,
        weights={AOA: replace(diagnostics, ess_own=1000.0), SNIPS: diagnostics},
        flags={(metric, SNIPS): flag},
        cells_with_guarantee=frozenset({(metric, AOA), (metric, SNIPS)} if has_guarantee else ()),
        consistent_cells=frozenset({(metric, SNIPS)} if has_guarantee else ()),
        cells_with_equal_exposure=frozenset({(metric, SNIPS)}),
        failing_models=failing_models,
    )
    return decide_verdicts(pd.concat(frames), tests, evidence)[0]
