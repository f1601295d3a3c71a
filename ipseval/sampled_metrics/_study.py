"""What sampling does to the order of recommenders: from exact ranks, and with real draws on real data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._checks import as_generator, check_positive_int, counted
from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval._types import AnyArray, FloatArray, RngLike
from ipseval.adapters import adapt
from ipseval.agreement import order_agreement
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives, SampledCandidates, rank_positives
from ipseval.report import Table, Tables, to_text
from ipseval.sampled_metrics._correct import Method, correct_sampled
from ipseval.sampled_metrics._expected import check_ranks, expected_sampled, std_sampled
from ipseval.sampled_metrics._metric import SampledMetric
from ipseval.sampled_metrics._metric import metric as find_metric
from ipseval.sampled_metrics._tables import mean_over_ties

DEFAULT_SIZES = (10, 50, 100, 500, 1000)
SETTING = ["metric", "distribution", "n_sampled", "method"]
COLUMNS = ("model", *SETTING, "repeat", "estimate", "std_error", "exact")


def sampling_curve(
    ranks: Mapping[str, npt.ArrayLike],
    n_candidates: int,
    *,
    n_sampled: Iterable[int] = DEFAULT_SIZES,
    metric: Any = "recall@10",
    replacement: bool = True,
    n_repeats: int = 1000,
    rng: RngLike = None,
) -> pd.DataFrame:
    """Return, for each recommender and m, what a sampled metric is expected to be and how often it wins.

    From exact ranks, uniform draws and, for `ipseval.metric(label, sampled=method, prior="uniform")`, a table
    of corrections. The draws of different positives and recommenders are independent.

    Returns
    -------
    DataFrame
        model, n_sampled, method, exact (the full-ranking metric), expected (exact expectation of the sampled
        one), std (standard deviation of its mean over the positives), chance_first (share of `n_repeats`
        simulated draws in which the recommender is best; ties share) and is_best (best in full ranking).

    Raises
    ------
    InputError
        For ranks outside 1 … n, fewer than two recommenders, or a method that needs data.

    Examples
    --------
    One positive each, ranks 2 and 90 of 100: one sampled competitor often cannot tell them apart.

    >>> curve = sampling_curve({"a": [2], "b": [90]}, 100, n_sampled=[1], metric="recall@1")
    >>> curve[["model", "exact", "expected"]].round(3).to_dict("list")
    {'model': ['a', 'b'], 'exact': [0.0, 0.0], 'expected': [0.99, 0.101]}
    """
    if len(ranks) < 2:
        raise InputError(f"at least two recommenders are needed for an order; got {len(ranks)}.")
    chosen = find_metric(metric)
    if not isinstance(chosen, SampledMetric):
        chosen = find_metric(chosen, sampled="none")
    assert isinstance(chosen, SampledMetric)
    target, method = chosen.base, chosen.method
    generator = as_generator(rng)
    check_positive_int("n_repeats", n_repeats)
    given = {name: check_ranks(one, n_candidates, 1, True)[0] for name, one in ranks.items()}
    exact = {name: float(target.at_rank(one, float(n_candidates)).mean()) for name, one in given.items()}
    frames = []
    for m in _sizes(n_sampled):
        table = chosen.table(n_candidates, m, replacement=replacement).values
        arguments = (n_candidates, m, table, replacement)
        frame = pd.DataFrame(
            {"model": list(given), "n_sampled": m, "method": method, "exact": exact.values()}
        )
        frame["expected"] = [expected_sampled(one, *arguments).mean() for one in given.values()]
        frame["std"] = [
            float(np.sqrt((std_sampled(one, *arguments) ** 2).sum())) / one.size for one in given.values()
        ]
        means = [
            _simulate(one, n_candidates, m, table, replacement, n_repeats, generator)
            for one in given.values()
        ]
        frame["chance_first"] = _shares_of_first(np.array(means))
        frame["is_best"] = frame["exact"] == frame["exact"].max()
        frames.append(frame)
    if not frames:
        raise InputError("n_sampled is empty; give at least one number of sampled items.")
    return pd.concat(frames, ignore_index=True)


def _sizes(n_sampled: Iterable[int]) -> list[int]:
    """Return the numbers of competitors as a list, or raise `InputError`."""
    sizes = [check_positive_int("n_sampled", m) for m in n_sampled]
    if not sizes:
        raise InputError("n_sampled is empty: give at least one number of competitors.")
    return sizes


def _simulate(
    rank: FloatArray,
    n: int,
    m: int,
    table: FloatArray,
    replacement: bool,
    n_repeats: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the mean of `table` at simulated sampled ranks, (n_repeats,)."""
    means = np.empty(n_repeats)
    above = (rank - 1).astype(np.int64)
    for repeat in range(n_repeats):
        if replacement:
            drawn = generator.binomial(m, above / (n - 1))
        else:
            drawn = generator.hypergeometric(above, n - 1 - above, m)
        means[repeat] = table[drawn].mean()
    return means


def _shares_of_first(means: AnyArray) -> FloatArray:
    """Return how often each row is the best of its column; ties share, (n_models,)."""
    # Means of the same values in another order differ in the last bits: that is a tie.
    best = np.isclose(means, means.max(axis=0), rtol=1e-12, atol=1e-15)
    return np.asarray((best / best.sum(axis=0)).mean(axis=1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SamplingStudy:
    """Full-ranking, sampled and corrected metrics of the same recommenders.

    Attributes
    ----------
    frame : DataFrame
        model, metric, distribution, n_sampled, method, repeat, estimate, std_error, and exact: the
        full-ranking value. Repeats draw anew; within a repeat all recommenders face the same draws.
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        n_models, n_repeats = self.frame["model"].nunique(), self.frame["repeat"].nunique()
        size = f"{counted(n_models, 'recommender')}, {counted(n_repeats, 'repeat')}"
        table = Table.of(self.agreement, n_keys=0)
        return to_text(Tables((), (table,), title=f"SamplingStudy({size}; agreement with full ranking)"))

    @property
    def agreement(self) -> pd.DataFrame:
        """One row per metric, distribution, m and method, averaged over the repeats.

        or@1, src and ipc of the order against full ranking; wrong_pairs: share of the pairs of recommenders
        in the wrong order; error: mean |estimate − exact|; n_repeats.
        """
        rows = []
        for setting, group in self.frame.groupby(SETTING, sort=False):
            rows.append(dict(zip(SETTING, setting, strict=True)) | _agreement(group))
        return pd.DataFrame(rows)


def _agreement(group: pd.DataFrame) -> dict[str, float]:
    """Return the agreement measures of one setting, averaged over its repeats."""
    totals: dict[str, list[float]] = {"or@1": [], "src": [], "ipc": []}
    for _, one in group.groupby("repeat"):
        result = order_agreement(one["exact"].to_numpy(), one["estimate"].to_numpy(), k=[1])
        for name, values in totals.items():
            values.append(result.values[name])
    means = {name: float(np.mean(values)) for name, values in totals.items()}
    n_models = group["model"].nunique()
    return means | {
        "wrong_pairs": means["ipc"] / (n_models * (n_models - 1) / 2),
        "error": float((group["estimate"] - group["exact"]).abs().mean()),
        "n_repeats": group["repeat"].nunique(),
    }


def sampling_study(
    models: Mapping[str, Any],
    split: Any,
    *,
    n_sampled: Iterable[int] = DEFAULT_SIZES,
    distributions: Mapping[str, Any] | None = None,
    metrics: Iterable[Any] = ("recall@10", "ndcg@10"),
    methods: Iterable[Method] = ("none", "bv", "mle"),
    per: Any = "user",
    replacement: bool = True,
    n_repeats: int = 3,
    variance_weight: float = 0.01,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> SamplingStudy:
    """Return how sampled and corrected metrics order recommenders, against full ranking.

    Metrics are those of one relevant item (see `correct_sampled`), averaged over users.

    Parameters
    ----------
    models : mapping
        Name → scorer or a library's trained model, see `rank_positives`. An array is scored once; a callable
        again for every draw.
    split : Split
    n_sampled : ints
        The numbers m of competitors.
    distributions : mapping, optional
        Name → distribution of `SampledCandidates`. Default: uniform only.
    methods : names
        As in `correct_sampled`. Draws with unequal probabilities get "none" and "importance", equal ones
        every method but "importance".
    per, replacement
        As in `SampledCandidates`.
    n_repeats : int
        Draws of each setting.
    rng : int, Generator or None
        Repeat j draws with the seed rng + j, the same candidates for every recommender. A Generator or None
        gives the first seed.
    compute : ComputeOptions
        As in `rank_positives`.

    Raises
    ------
    InputError
        For fewer than two recommenders, and as `rank_positives` and `correct_sampled` do.
    """
    if len(models) < 2:
        raise InputError(f"at least two recommenders are needed for an order; got {len(models)}.")
    check_positive_int("n_repeats", n_repeats)
    targets = [find_metric(metric) for metric in metrics]
    schemes = {"uniform": "uniform"} if distributions is None else dict(distributions)
    sizes, asked = _sizes(n_sampled), list(methods)
    if not (targets and sizes and asked and schemes):
        raise InputError("n_sampled, distributions, metrics and methods must not be empty.")
    generator = as_generator(rng)
    seed = int(rng) if isinstance(rng, (int, np.integer)) else int(generator.integers(2**31))
    rows = []
    for name, model in models.items():
        scorer = adapt(model, split, name=name)
        full = rank_positives(scorer, split, name=name, compute=compute)
        exact = {target.label: full_ranking_value(full, target) for target in targets}
        for (scheme, distribution), m, repeat in product(schemes.items(), sizes, range(n_repeats)):
            candidates = SampledCandidates(
                m, distribution=distribution, per=per, replacement=replacement, rng=seed + repeat
            )
            ranked = rank_positives(scorer, split, candidates=candidates, name=name, compute=compute)
            chosen: list[Method] = ["none", "importance"]
            if ranked.sampling is not None and ranked.sampling.uniform:
                chosen = [one for one in asked if one != "importance"]
            for target, method in product(targets, chosen):
                result = correct_sampled(
                    ranked, metric=target, method=method, variance_weight=variance_weight
                )
                setting = (name, target.label, scheme, m, method, repeat)
                rows.append((*setting, result.estimate, result.standard_error, exact[target.label]))
    return SamplingStudy(pd.DataFrame(rows, columns=list(COLUMNS)))


def full_ranking_value(ranked: RankedPositives, target: Metric) -> float:
    """Return the mean over users of the mean of M(r) over their positives, expected over ties."""
    if target.linear_in_rank:
        mean_rank = 1 + ranked.n_above + ranked.n_tied / 2
        value = target.at_rank(mean_rank, ranked.n_candidates.astype(np.float64))
    else:
        every_rank = np.arange(1.0, ranked.n_candidates.max() + 1)
        value = mean_over_ties(target.at_rank(every_rank, every_rank.size), ranked.n_above, ranked.n_tied)
    return float((ranked.sum_by_user(value) / ranked.counts).mean())
