r"""How true `correct` is: level, coverage, order and calls over two simulators, Coat and KuaiRand.

    python -m reproductions.correction_truth --cache FOLDER --data PATH [--write]
    python -m reproductions.correction_truth --cache FOLDER --data PATH --sources kuairand --splits 3 --draws 20

The first command makes all tables, from N_CASES worlds or splits of each source and five draws of exposed users;
the second makes those of one source. Standard errors are over worlds and splits. The table of coverage says which
cells cover significantly less than 90%, and is made where all sources but `evidence` are asked for. `likes` are
worlds with likes and exposure by factor models of KuaiRand, and `evidence` are worlds in which PPI is computed,
too. `kuairand, others` has other recommenders.

What is slow is kept in the folder: a prepared world or split in `prepared`, its scores in a folder of a name,
and a run goes on where another ended. Simulated worlds are judged by the truth, logs by the random positives
of users outside the exposed sample. The error of these judges, by the variance between all users, is part of
the coverage of every estimator.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.stats import kendalltau
from statsmodels.stats.multitest import multipletests

from ipseval import Interactions, split_random
from ipseval.correction import CORRECTED, CorrectionPath, correct, correct_path, correction_path
from ipseval.correction._posterior import RandomSample
from ipseval.estimators.labels import AOA_POOLED
from ipseval.ranking import RankedPositives, baselines
from ipseval.validation._curve import WITH_INTERACTIONS
from ipseval.validation._population import (
    exposure_outside_training,
    positive_pair_keys,
    rank_with_pairs,
    select_pairs,
)
from ipseval.validation.datasets import RandomExposureStudy, load_coat, load_kuairand
from ipseval.validation.validation_study import Trainer
from reproductions import correction_family, correction_summary, feedback_worlds, leaderboard_models
from reproductions.correction_coat import recommenders
from reproductions.correction_family import METRICS
from reproductions.kuairand_worlds import fit_kuairand
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "correction-accuracy.md"
SEED = 37
EVIDENCE = "evidence"  # a source that the table of coverage leaves out
SIZES = {
    "first": (0, 25, 100, 400),
    "second": (0, 25, 100, 400),
    EVIDENCE: (25, 100, 400),
    "likes": (0, 25, 100, 400),
    "coat": (0, 25, 50, 100, 200),
    "kuairand": (0, 25, 100, 500, 2000),
    "kuairand, others": (0, 25, 100, 500),
}
# Worlds of a simulator, a whole number of each kind of exposure; splits of a log.
N_CASES = {
    "first": 63,
    "second": 63,
    EVIDENCE: 18,
    "likes": 14,
    "coat": 24,
    "kuairand": 6,
    "kuairand, others": 4,
}
KUAIRAND_METRICS = ("atop", "recall@10", "mean_dcg@10")
LOG_METRICS = {"coat": METRICS, "kuairand": KUAIRAND_METRICS, "kuairand, others": KUAIRAND_METRICS}
N_SHOWN = 20
DIGITS = 12  # what differs by less is tied: no order hangs on rounding
CALLED = 0.975
LOWEST_COVERAGE = 0.9
BINS = np.linspace(0.5, 1, 6)
KEYS = ["source", "number", "kind", "size", "draw", "metric", "estimator"]


@dataclass(frozen=True, eq=False)
class Case:
    """A log that can be judged: its paths, and ranks of what random exposure may show."""

    kind: str
    paths: dict[str, CorrectionPath]
    ranks: dict[str, RankedPositives]
    simulated: correction_family.Simulated | None

    def draw(
        self, size: int, rng: np.random.Generator
    ) -> tuple[dict[str, RankedPositives] | None, np.ndarray, np.ndarray]:
        """Return the ranks of one sample of users, the truth of each cell, and the error of that truth."""
        if self.simulated is not None:
            truth, first = self.simulated.truth, next(iter(self.ranks.values()))
            n = min(size, first.n_population)
            return (self.simulated.expose(n, N_SHOWN, rng) if n else None), truth, np.zeros(truth.size)
        first = next(iter(self.ranks.values()))
        users = rng.choice(first.users, size, replace=False)
        mine = np.isin(first.user, users)
        path = next(iter(self.paths.values()))
        everyone = RandomSample.from_ranks(self.ranks, path)
        judge = RandomSample.from_ranks({name: one.select(~mine) for name, one in self.ranks.items()}, path)
        shown = {name: one.select(mine) for name, one in self.ranks.items()} if size else None
        # Of few judges the variance goes with the mean; that of all users is the same for every draw.
        spread = everyone.sample_covariance * (everyone.n_positives / judge.n_positives)
        return shown, judge.value, np.sqrt(np.diag(spread))


def prepared(source: str, number: int, data: Path | None, cache: Path) -> Case:
    """Return a simulated world, or a split of a log; the folder keeps the model of likes."""
    if source == "first":
        return of_world(correction_family.world_of(number, SEED, correction_family.HELD_OUT))
    if source == "second":
        world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
        return of_world(world.simulated(np.random.default_rng(number)))
    if data is None:
        raise SystemExit(f"--data is needed for {source}")
    if source == "likes":
        model = fit_kuairand(data / "kuairand", cache)
        world = model.build_world(np.random.default_rng([SEED, number]))
        return of_world(world.simulated(np.random.default_rng(number)))
    study = load_coat(data / "coat") if source == "coat" else load_kuairand(data / "kuairand")
    trainers = other_recommenders() if source == "kuairand, others" else recommenders()
    return of_study(study, number, LOG_METRICS[source], trainers=trainers)


def other_recommenders() -> dict[str, Trainer]:
    """Return trainers of eight recommenders of which none had a part in the choice of a constant."""
    return {
        "popularity": baselines.popularity,
        "rarity": rank_rare_first,
        "random": partial(baselines.random, rng=0),
        "item-kNN 50": partial(baselines.item_knn, n_neighbors=50),
        "EASE 100": partial(baselines.ease, regularization=100.0),
        "SVD 16": partial(baselines.pure_svd, n_factors=16),
        "SVD 64": partial(baselines.pure_svd, n_factors=64),
        "RP3beta": partial(leaderboard_models.walk, beta=0.5),
    }


def rank_rare_first(train: Interactions) -> np.ndarray:
    """Return scores by which the items with the fewest interactions come first."""
    return -baselines.popularity(train)


def of_world(world: correction_family.Simulated) -> Case:
    """Return the case of a simulated world."""
    paths = {CORRECTED: world.path, WITH_INTERACTIONS: world.path_with_skipped}
    return Case(world.kind, paths, world.ranks, world)


def of_study(
    study: RandomExposureStudy,
    number: int,
    metrics: tuple[str, ...],
    test_fraction: float = 0.2,
    trainers: Mapping[str, Trainer] | None = None,
) -> Case:
    """Return the case of a split of a log: trained recommenders, and what users liked at random."""
    rng = np.random.default_rng(number)
    split = split_random(study.positives().biased, test_fraction=test_fraction, rng=rng)
    random = positive_pair_keys(exposure_outside_training(study, split))
    trainers = recommenders() if trainers is None else trainers
    ranks = rank_with_pairs({name: one(split.train) for name, one in trainers.items()}, split, random)
    test, liked = (select_pairs(ranks, one, split.n_items) for one in (split.test.pair_key, random))
    everything = {CORRECTED: None}
    if len(study.biased) > len(study.positives().biased):
        everything[WITH_INTERACTIONS] = study.biased
    paths = {
        name: correction_path(test, split, metrics=metrics, interactions=one, rng=number)
        for name, one in everything.items()
    }
    return Case(study.name, paths, liked, None)


def judge(case: Case, sizes: tuple[int, ...], n_draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the scores of one case at every size; one draw where nobody is exposed."""
    for size in sizes:
        for draw in range(n_draws if size else 1):
            shown, truth, error = case.draw(size, np.random.default_rng([seed, size, draw]))
            for name, path in case.paths.items():
                found = correct_path(path, shown)
                for row in scores(found, truth, error):
                    if row["estimator"] == CORRECTED:
                        row["estimator"] = name
                    elif name != CORRECTED:
                        continue
                    yield {"kind": case.kind, "size": size, "draw": draw} | row


def scores(found: Any, truth: np.ndarray, error: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield the scores of each metric and estimator of a correction."""
    models = len(found.path.models)
    warned = not found.explained
    alpha = {"alpha": found.alpha.mean, "warned": float(warned)}
    for number, one in enumerate(found.path.metrics):
        cells = slice(number * models, (number + 1) * models)
        right, noise = np.round(truth[cells], DIGITS), 1.96 * error[cells]
        part = found.frame[found.frame["metric"] == one.label]
        for name, rows in part.groupby("estimator", sort=False):
            estimate = rows["estimate"].to_numpy()
            if name == CORRECTED:  # the frame has no estimates from the log alone
                estimate = found.posterior.total_mean[cells]
            own = np.round(estimate, DIGITS)
            half = (rows["ci_high"] - rows["ci_low"]).to_numpy() / 2
            middle = (rows["ci_high"] + rows["ci_low"]).to_numpy() / 2
            row = {
                "metric": one.label,
                "estimator": str(name),
                "error": np.abs(own - right).mean(),
                "covered": (np.abs(middle - right) <= np.hypot(half, noise)).mean(),
                "half_width": half.mean(),
                "tau": kendalltau(own, right).statistic,
                "regret": right.max() - right[own.argmax()],
            }
            yield row | (alpha | calls(found, cells, right) if name == CORRECTED else {})


def calls(found: Any, cells: slice, right: np.ndarray) -> dict[str, float]:
    """Return how many pairs are called apart, how many of them wrongly, and counts by probability."""
    unit = np.eye(found.posterior.total_mean.size)[cells]
    first, second = np.triu_indices(len(right), 1)
    higher = found.posterior.probability_positive(unit[first] - unit[second])
    gap = right[first] - right[second]
    differ = gap != 0
    sure, agree = np.maximum(higher, 1 - higher)[differ], ((higher > 0.5) == (gap > 0))[differ]
    place = np.digitize(sure, BINS[1:-1])
    made = {"called": float((sure >= CALLED).sum()), "wrong": float((~agree[sure >= CALLED]).sum())}
    for one in range(BINS.size - 1):
        made |= {f"n{one}": float((place == one).sum()), f"right{one}": float(agree[place == one].sum())}
    return made


def judge_evidence(number: int, sizes: tuple[int, ...], n_draws: int) -> Iterator[dict[str, Any]]:
    """Yield the scores of a world of the second simulator by `correct` itself, which ranks all exposures."""
    world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
    truth = world.truth()
    for size in sizes:
        for draw in range(n_draws):
            shown = world.random_exposure(size, N_SHOWN, np.random.default_rng([number, size, draw]))
            found = correct(world.models, world.split, random_exposure=shown, metrics=METRICS, rng=number)
            assert found.sample is not None
            common = {"kind": world.kind, "size": size, "draw": draw, "positives": found.sample.n_positives}
            yield from (common | row for row in scores(found, truth, np.zeros(truth.size)))


def cached(
    folder: Path, name: str, source: str, number: int, n_draws: int, data: Path | None
) -> pd.DataFrame:
    """Return the scores of a case; what the folder holds is not made again."""
    scored = folder / name / f"{source}-{number}-{n_draws}.csv"
    if not scored.exists():
        if source == EVIDENCE:
            rows = pd.DataFrame(judge_evidence(number, SIZES[source], n_draws))
        else:
            case = kept_case(folder / "prepared" / f"{source}-{number}.pickle", source, number, data)
            rows = pd.DataFrame(judge(case, SIZES[source], n_draws, number))
        scored.parent.mkdir(parents=True, exist_ok=True)
        rows.assign(source=source, number=number).to_csv(scored, index=False)
    return pd.read_csv(scored)


def kept_case(file: Path, source: str, number: int, data: Path | None) -> Case:
    """Return a case from its file, which is written where it is not there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(vars(prepared(source, number, data, file.parent))))
    return Case(**pickle.loads(file.read_bytes()))


def table(rows: pd.DataFrame) -> str:
    """Return the table of one source: per cell, one number for each metric."""
    metrics, lines = list(rows["metric"].unique()), []
    keys = ["size", "estimator", "metric"]
    mean = rows.groupby(keys)[["error", "covered", "half_width", "tau", "regret"]].mean()
    by_case = rows.groupby([*keys, "number"])[["error", "covered"]].mean()
    covered_error = by_case["covered"].groupby(keys).sem()
    low = rows.groupby([*keys, "number"])["covered"].mean().groupby(keys).quantile(0.1)
    sums = rows.groupby(keys)[["called", "wrong"]].sum()
    told = rows.groupby(keys)["warned"].mean()

    def cell(source: pd.Series, form: str, at: tuple[int, str]) -> str:
        return " ".join(format(source[(*at, one)], form) for one in metrics)

    for size in rows["size"].unique():
        plain = mean["error"].xs((size, AOA_POOLED), level=("size", "estimator"))
        plain_by_case = by_case["error"].xs((size, AOA_POOLED), level=("size", "estimator"))
        for name in rows.loc[rows["size"] == size, "estimator"].unique():
            at = (size, name)
            error_by_case = by_case["error"].xs(at, level=("size", "estimator"))
            removed_error = pd.Series(
                {(*at, m): 100 * ratio_error(error_by_case[m], plain_by_case[m]) for m in metrics}
            )
            removed = pd.Series({(*at, m): 100 * (1 - mean["error"][(*at, m)] / plain[m]) for m in metrics})
            own = name in (CORRECTED, WITH_INTERACTIONS)
            wrong = 100 * sums["wrong"] / sums["called"].clip(lower=1)
            lines.append(
                (
                    *(f"{size:,}", name, cell(removed, ".0f", at), cell(removed_error, ".0f", at)),
                    *(cell(100 * mean["covered"], ".0f", at), cell(100 * covered_error, ".0f", at)),
                    *(cell(100 * low, ".0f", at), cell(mean["half_width"], ".3f", at)),
                    *(cell(mean["tau"], ".2f", at), cell(1000 * mean["regret"], ".1f", at)),
                    cell(wrong, ".1f", at) if own else "",
                    f"{100 * told[(*at, metrics[0])]:.0f}" if own else "",
                )
            )
    header = (
        "exposed users|estimator|error reduction, %|its standard error|coverage, %|its standard error, %|"
    )
    header += "coverage, 10th percentile, %|half-width|"
    return markdown(f"{header}Kendall τ|regret × 1000|sign errors, %|warned, %".split("|"), lines)


def ratio_error(numerator: pd.Series, denominator: pd.Series) -> float:
    """Return the standard error of a ratio of means over the same worlds or splits, by its linear part."""
    ratio = numerator.mean() / denominator.mean()
    return float((numerator - ratio * denominator).sem() / denominator.mean())


def order(rows: pd.DataFrame) -> str:
    """Return Kendall's τ less AOA's in the same draws, with its standard error over worlds or splits."""
    metrics, keys = list(rows["metric"].unique()), ["size", "metric", "number"]
    tau = rows.groupby([*keys, "estimator"])["tau"].mean().unstack()
    lines = []
    for size in rows["size"].unique():
        for name in (one for one in (CORRECTED, WITH_INTERACTIONS) if one in tau):
            ahead = (tau[name] - tau[AOA_POOLED]).loc[size]
            each = (f"{ahead[one].mean():+.3f} ± {ahead[one].sem():.3f}" for one in metrics)
            lines.append((f"{size:,}", name, *each))
    return markdown(("exposed users", "estimator", *metrics), lines)


def by_kind(rows: pd.DataFrame) -> str:
    """Return the table of kinds of exposure, correction strength only."""
    metrics, lines = list(rows["metric"].unique()), []
    for name in (CORRECTED, WITH_INTERACTIONS):
        for kind in sorted(rows["kind"].unique()):
            own, texts = rows[(rows["kind"] == kind) & (rows["estimator"] == name)], []
            for size in rows["size"].unique()[:3]:
                part = own[own["size"] == size].groupby("metric")
                texts.append(" ".join(f"{100 * part['covered'].mean()[one]:.0f}" for one in metrics))
                texts.append(f"{100 * part['warned'].mean()[metrics[0]]:.0f}")
            wrong = 100 * own["wrong"].sum() / max(own["called"].sum(), 1)
            lines.append((kind, name, *texts, f"{wrong:.1f}"))
    sizes = "|".join(f"coverage, {size} users|warned" for size in rows["size"].unique()[:3])
    return markdown(f"exposure|estimator|{sizes}|sign errors, %".split("|"), lines)


def reliability(rows: pd.DataFrame) -> str:
    """Return how often the more probable of two recommenders is the better, by its probability."""
    own, lines = rows[rows["estimator"].isin((CORRECTED, WITH_INTERACTIONS))], []
    for number, (low, high) in enumerate(pairwise(BINS)):
        n, right = own[f"n{number}"].sum(), own[f"right{number}"].sum()
        lines.append((f"{low:.1f} to {high:.1f}", f"{n:,.0f}", f"{100 * right / max(n, 1):.1f}"))
    return markdown(("probability", "pairs", "right, %"), lines)


def coverage(rows: pd.DataFrame) -> str:
    """Return the coverage of the correction by number of users, and which cells cover significantly too little.

    The test of a cell is one-sided, against LOWEST_COVERAGE, by the variance between worlds or splits, with
    Holm's correction over all cells of the table.
    """
    rows = rows[rows["estimator"].isin((CORRECTED, WITH_INTERACTIONS)) & (rows["source"] != EVIDENCE)]
    keys = ["source", "size", "estimator"]
    cells = []
    p_values = []
    for (*key, metric), part in rows.groupby([*keys, "metric"], sort=False):
        by_number = part.groupby("number")["covered"].mean()
        error = by_number.sem()
        distance = by_number.mean() - LOWEST_COVERAGE
        p_values.append(
            float(stats.t.cdf(distance / error, len(by_number) - 1)) if error > 0 else float(distance >= 0)
        )
        cells.append((tuple(key), metric, f"{100 * by_number.mean():.0f} ± {100 * error:.0f}"))
    is_low = multipletests(p_values, method="holm")[0]
    lines = []
    for key, part in rows.groupby(keys, sort=False):
        by_number = part.groupby("number")["covered"].mean()
        texts = []
        for (cell_key, metric, text), low in zip(cells, is_low, strict=True):
            if cell_key == key:
                texts.append(f"{metric} {text}{' (too low)' if low else ''}")
        mean = f"{100 * by_number.mean():.1f} ± {100 * by_number.sem():.1f}"
        source, size, estimator = key
        lines.append((str(source), f"{size:,}", str(estimator), f"{len(by_number)}", mean, ", ".join(texts)))
    header = (
        "source",
        "exposed users",
        "estimator",
        "worlds or splits",
        "mean coverage, % ± SE",
        "by metric",
    )
    return markdown(header, lines)


def tables(rows: pd.DataFrame) -> Mapping[str, str]:
    """Return the tables of all sources that there are scores of."""
    made = {}
    for source, part in rows.groupby("source", sort=False):
        n, n_draws = part["number"].nunique(), part["draw"].nunique()
        counts = f"{n} {'splits' if source in LOG_METRICS else 'worlds'}, {n_draws} draws"
        head = f"{counts}; in a cell: {', '.join(part['metric'].unique())}.\n\n"
        made[f"truth-{source}"] = head + table(part)
        made[f"truth-{source}-order"] = f"{counts}.\n\n{order(part)}"
        if source == "second":
            made["truth-second-others"] = head + table(part[~part["kind"].isin(feedback_worlds.HARD)])
        if source in ("first", "second"):
            made[f"truth-{source}-kinds"] = by_kind(part)
            made[f"truth-{source}-reliability"] = reliability(part)
    return made


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps what was made")
    parser.add_argument("--name", default="scores", help="folder of the scores there; one for each state")
    parser.add_argument("--data", type=Path, help="folder with coat/ and kuairand/")
    parser.add_argument("--sources", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--worlds", type=int, help="of each simulator; default N_CASES")
    parser.add_argument("--splits", type=int, help="of each log; default N_CASES")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = []
    for source in options.sources:
        requested = options.splits if source in LOG_METRICS else options.worlds
        for number in range(requested or N_CASES[source]):
            rows.append(cached(options.cache, options.name, source, number, options.draws, options.data))
    scores = pd.concat(rows, ignore_index=True)
    made = tables(scores)
    if set(SIZES) - set(options.sources) <= {EVIDENCE}:
        made["truth-coverage"] = coverage(scores)
    if options.write:
        text = PAGE.read_text("utf-8")
        placed = {}
        for name, table_text in made.items():
            if f"<!-- {name} -->" in text or f"(tables/{PAGE.stem}/{name}.csv)" in text:
                placed[name] = table_text
        write_tables(placed, PAGE)
        correction_summary.write_page()
    print("\n\n".join(f"{name}\n{one}" for name, one in made.items()))


if __name__ == "__main__":
    main()
