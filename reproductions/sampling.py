"""What sampling does to the order of recommenders: from exact ranks, and with draws on real data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ipseval import SampledCandidates, Split, metric, order_agreement, rank_positives
from ipseval.metrics import Metric
from ipseval.metrics.sampled import correct_sampled
from ipseval.ranking import RankedPositives

SETTING = ["metric", "distribution", "n_sampled", "method"]


def chances_to_be_first(
    ranks: Mapping[str, list[int]], n: int, m: int, table: Any, *, n_repeats: int = 1000, rng: int = 0
) -> dict[str, float]:
    """Return how often each recommender is first when m candidates are drawn with replacement; ties share.

    `table` (m + 1,) holds the value of each sampled rank. Draws of different positives are independent.
    """
    generator = np.random.default_rng(rng)
    means = np.empty((len(ranks), n_repeats))
    for row, one in enumerate(ranks.values()):
        chance = (np.array(one) - 1) / (n - 1)
        means[row] = table[generator.binomial(m, chance, (n_repeats, chance.size))].mean(axis=1)
    # Means of the same values in another order differ in the last bits: that is a tie.
    best = np.isclose(means, means.max(axis=0), rtol=1e-12, atol=1e-15)
    return dict(zip(ranks, (best / best.sum(axis=0)).mean(axis=1).tolist(), strict=True))


def sampling_study(
    models: Mapping[str, Any],
    split: Split,
    *,
    n_sampled: Iterable[int],
    distributions: Mapping[str, Any],
    metrics: Iterable[str],
    methods: Iterable[Any],
    n_repeats: int = 3,
    rng: int = 0,
) -> pd.DataFrame:
    """Return model, metric, distribution, n_sampled, method, repeat, estimate, std_error, exact.

    `exact` is the full ranking. Repeat j draws with the seed rng + j, the same candidates for every
    recommender. Draws with unequal probabilities get "none" and "importance", equal ones `methods`.
    """
    rows = []
    targets = [metric(one) for one in metrics]
    for name, model in models.items():
        full = rank_positives(model, split, name=name)
        exact = {target.label: full_ranking_value(full, target) for target in targets}
        for (scheme, distribution), m, repeat in product(
            distributions.items(), tuple(n_sampled), range(n_repeats)
        ):
            candidates = SampledCandidates(m, distribution=distribution, rng=rng + repeat)
            ranked = rank_positives(model, split, candidates=candidates, name=name)
            assert ranked.sampling is not None
            chosen = tuple(methods) if ranked.sampling.uniform else ("none", "importance")
            for target, method in product(targets, chosen):
                result = correct_sampled(ranked, metric=target, method=method)
                setting = (name, target.label, scheme, m, method, repeat)
                rows.append((*setting, result.estimate, result.standard_error, exact[target.label]))
    return pd.DataFrame(rows, columns=["model", *SETTING, "repeat", "estimate", "std_error", "exact"])


def agreement(study: pd.DataFrame) -> pd.DataFrame:
    """Return OR@1, SRC and IPC against full ranking, and the mean |error|, means over the repeats."""
    rows = []
    for setting, group in study.groupby(SETTING, sort=False):
        found = pd.DataFrame(
            [
                order_agreement(one["exact"].to_numpy(), one["estimate"].to_numpy(), k=[1]).values
                for _, one in group.groupby("repeat")
            ]
        )
        means = found[["or@1", "src", "ipc"]].mean().to_dict()
        error = float((group["estimate"] - group["exact"]).abs().mean())
        rows.append(dict(zip(SETTING, setting, strict=True)) | means | {"error": error})
    return pd.DataFrame(rows)


def full_ranking_value(ranked: RankedPositives, target: Metric) -> float:
    """Return the mean over users of the mean of M(r) over their positives; ties count in expectation."""
    n = int(ranked.n_candidates.max())
    at_rank = np.r_[0, target.value_at_rank(np.arange(1.0, n + 1), float(n)).cumsum()]
    if target.linear_in_rank:
        middle = 1 + ranked.n_above + ranked.n_tied / 2
        value = target.value_at_rank(middle, ranked.n_candidates.astype(float))
    else:
        size = ranked.n_tied + 1
        value = (at_rank[ranked.n_above + size] - at_rank[ranked.n_above]) / size
    return float((ranked.sum_by_user(value) / ranked.counts).mean())
