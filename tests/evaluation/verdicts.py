"""Verdicts of recommenders by averages that are given, for the tests of rules and of sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from ipseval.correction import OrderPosterior
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import (
    Known,
    Standing,
    Verdict,
    verdicts,
)
from tests.inside.inference import PairTests, WeightDiagnostics

PLAIN, WEIGHTED = "aoa", "snips-global"


def paired(values: dict[str, float], apart: tuple[str, ...]) -> PairTests:
    """Return tests by which the pairs named by two letters are told apart."""
    found = np.array(list(values.values()))
    p_values = [[0.002 if f"{a}{b}" in apart or f"{b}{a}" in apart else 0.4 for b in values] for a in values]
    places = {model: row for row, model in enumerate(values)}
    return PairTests(places, found[:, None] - found, np.array(p_values))


def rows(estimator: str, values: dict[str, float], metric: str = "recall@10") -> pd.DataFrame:
    columns = {"model": list(values), "estimate": list(values.values())}
    return pd.DataFrame(columns | {"estimator": estimator, "metric": metric})


def standing(estimator: str, values: dict[str, float], apart: tuple[str, ...]) -> Standing:
    return Standing.of(rows(estimator, values), paired(values, apart))


def posterior(
    plain: dict[str, float], ahead: float, evidence: str = "log", loss: float = 0.01
) -> OrderPosterior:
    """Return the posterior in which everybody is ahead of everybody after it with one probability."""
    values = np.array(list(plain.values()))
    later = np.triu(np.full((values.size, values.size), ahead), 1)
    chances = later + np.tril(1 - later.T, -1) + np.eye(values.size) / 2
    losses = np.full(values.size, loss)
    return OrderPosterior(tuple(plain), values, values / 2, values / 4, values, losses, chances, evidence)


def decided(
    plain: dict[str, float],
    weighted: dict[str, float] | None = None,
    basis: str = "assumed",
    ess: float = 900.0,
    *,
    apart: tuple[str, ...] = (),
    flag: str = "",
    **known: Any,
) -> Verdict:
    """Return the verdict of recommenders by a plain average and by weights worth `ess` of 1,000 positives."""
    frames, tests = [rows(PLAIN, plain)], {("recall@10", PLAIN): paired(plain, ())}
    if weighted is not None:
        frames.append(rows(WEIGHTED, weighted))
        tests["recall@10", WEIGHTED] = paired(weighted, apart)
    labels = [PLAIN] if weighted is None else [PLAIN, WEIGHTED]
    size = WeightDiagnostics(ess, ess, 0.01, 1000, ess_own=ess, ess_equal=1000.0)
    item = ipseval.propensity.Propensity(np.array([0.5]), True, "known per item", 1, basis=basis)
    found = Known(
        [resolve_estimator(one) for one in labels],
        {("recall@10", WEIGHTED): flag} if flag else {},
        {WEIGHTED: size},
        item,
        **{"averages": frozenset({"recall@10"}), "unknown": "the training data are not known", **known},
    )
    return verdicts(pd.concat(frames), tests, found)[0]


def with_posterior(*args: Any, sure: float, evidence: str = "log", **options: Any) -> Verdict:
    return decided(*args, posteriors={"recall@10": posterior(args[0], sure, evidence)}, unknown="", **options)


AB, BA = {"a": 0.3, "b": 0.2}, {"a": 0.1, "b": 0.2}


ABC = {"a": 0.3, "b": 0.2, "c": 0.1}


def of_dcg(*args: Any, **options: Any) -> Verdict:
    return replace(decided(*args, **options), metric="mean_dcg@10")
