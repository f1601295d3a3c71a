"""Whether `correct` is better with a deviation along the popularity of the recommenders' lists.

    python -m reproductions.popularity_deviation --cache FOLDER [--worlds 9] [--late 3] [--draws 2]

For metrics cut at a rank, the model of `correct` predicts differences between recommenders from differences
of AOA, so that it may name a recommender that popularity bias favours. The remedy that is tried here adds a
normal deviation along one direction for each of these metrics: the value by AOA times the mean log popularity
of the recommender's lists, less the mean of all recommenders. Its standard deviation is a multiple of it (0: the
model as it is). Logs, samples and rules are those of `reproductions.winners`; --late adds logs with arrivals or a
drift of exposure, and a split by time. What is slow is kept in the folder.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.correction import CORRECTED, CorrectionPath, CorrectionPrior, correct_path
from ipseval.ranking import top_items
from ipseval.utils.types import BoolArray, FloatArray, IntArray
from reproductions import correction_family, feedback_worlds, verdicts, winners
from reproductions.correction_prior import log_density
from reproductions.correction_truth import DIGITS, Case, of_world
from reproductions.feedback_worlds import FeedbackWorld
from reproductions.tables import markdown

MULTIPLES = (0.0, 0.05, 0.15, 0.4)
TOP = 10
LATE_KINDS = ("time", "arrival", "cascade")  # split by time
SMALLEST_VARIANCE = 1e-24


@dataclass(frozen=True)
class PopularityPrior(CorrectionPrior):
    """A prior with a further deviation of each cell along `direction`, one for each metric."""

    direction: tuple[float, ...] = ()

    def deviations(
        self,
        correction: FloatArray,
        spread: FloatArray,
        above: FloatArray,
        metric: IntArray,
        whole: BoolArray,
    ) -> FloatArray:
        """Return the covariance of the deviations at scale 1, with the one along popularity."""
        covariance = super().deviations(correction, spread, above, metric, whole)
        direction = np.where(whole, 0.0, self.direction)
        for number in np.unique(metric):
            part = np.where(metric == number, direction, 0.0)
            covariance = covariance + np.outer(part, part)
        return covariance


def build_world(source: str, number: int) -> FeedbackWorld:
    """Return a simulated log with the seed of `reproductions.winners`."""
    seed = winners.SEED
    if source == "first":
        return verdicts.build_first(number, seed)
    if source == "second":
        return feedback_worlds.world_of(number, seed, feedback_worlds.HELD_OUT)
    return winners.build_cascade(feedback_worlds.HELD_OUT, np.random.default_rng([seed, number, 2]))


def measure_list_popularity(world: FeedbackWorld) -> FloatArray:
    """Return the mean log(n* + 1) of the items in the first ranks of each recommender, (n_models,)."""
    log_popularity = np.log1p(world.split.train.popularity)
    means = []
    for model in world.models.values():
        listed = top_items(model, world.split, k=TOP)
        means.append(log_popularity[listed.item].mean())
    return np.array(means)


def make_prior(path: CorrectionPath, list_popularity: FloatArray, multiple: float) -> CorrectionPrior:
    """Return the prior with a deviation of this multiple along the popularity of the lists."""
    relative = list_popularity - list_popularity.mean()
    direction = multiple * path.value[0] * np.tile(relative, len(path.metrics))
    return PopularityPrior(direction=tuple(direction.tolist()))


def judge(case: Case, list_popularity: FloatArray, number: int, n_draws: int) -> Iterator[dict[str, Any]]:
    """Yield names, regrets, errors and coverage for each multiple, size, draw and metric of one log."""
    path = case.paths[CORRECTED]
    n_models = len(path.models)
    priors = {multiple: make_prior(path, list_popularity, multiple) for multiple in MULTIPLES}
    for size in winners.SIZES:
        for draw in range(n_draws):
            shown, truth, error = case.draw(size, np.random.default_rng([winners.SEED, number, size, draw]))
            for multiple, prior in priors.items():
                correction = correct_path(path, shown, prior=prior)
                density = log_density(correction.posterior, truth, np.outer(error, error), len(path.metrics))
                for position, order in enumerate(correction._metric_orders):
                    cells = slice(position * n_models, (position + 1) * n_models)
                    values = np.round(truth[cells], DIGITS)
                    true_value = dict(zip(correction.models, values, strict=True))
                    order = replace(order, n_exposed=size)
                    estimate = correction.posterior.total_mean[cells]
                    sd = np.sqrt(np.diag(correction.posterior.total_covariance)[cells] + SMALLEST_VARIANCE)
                    gaps = (estimate - estimate.mean()) - (values - values.mean())
                    yield {
                        "kind": case.kind, "size": size, "draw": draw, "metric": order.metric,
                        "multiple": multiple, "density": density, "gap error": np.abs(gaps).mean(),
                        "covered": (np.abs(estimate - values) <= 1.96 * sd).mean(),
                        **winners.names(order, true_value),
                        **winners.regrets(correction, order, position, true_value),
                    }  # fmt: skip


def cached(folder: Path, source: str, number: int, n_draws: int) -> pd.DataFrame:
    """Return the rows of one log; what the folder holds is not made again."""
    file = folder / f"{source}-{number}-{n_draws}.csv"
    if not file.exists():
        world = build_world(source, number)
        case = of_world(world.simulated(np.random.default_rng(number)))
        rows = pd.DataFrame(judge(case, measure_list_popularity(world), number, n_draws))
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.assign(source=source, number=number).to_csv(file, index=False)
    return pd.read_csv(file)


def list_numbers(source: str, n_worlds: int, n_late: int) -> list[int]:
    """Return the numbers of the logs of a source: the first ones, and further ones that are split by time."""
    if source == "cascade":
        return list(range(-(-n_worlds // 3)))
    kinds = correction_family.HELD_OUT.kinds if source == "first" else feedback_worlds.KINDS
    numbers = list(range(n_worlds))
    candidate = n_worlds
    while len(numbers) < n_worlds + n_late:
        if kinds[candidate % len(kinds)] in LATE_KINDS:
            numbers.append(candidate)
        candidate += 1
    return numbers


def compare(part: pd.DataFrame, column: str, multiple: float, scale: float) -> str:
    """Return the difference of a column from the model as it is, with its standard error over logs."""
    by_log = part.groupby(["source", "number", "multiple"])[column].mean().unstack()
    difference = scale * (by_log[multiple] - by_log[0.0])
    return f"{difference.mean():+.2f} ± {difference.sem():.2f}"


def table(rows: pd.DataFrame) -> str:
    """Return names, regret, density and coverage of each multiple, for groups of logs."""
    # The deviation is of metrics cut at a rank.
    cut = rows[rows["metric"] != "atop"]
    parts = {f"simulator: {source}": cut[cut["source"] == source] for source in winners.SOURCES}
    parts["split by time"] = cut[cut["kind"].isin(LATE_KINDS)]
    lines = []
    for name, group in parts.items():
        if group.empty:
            continue
        for multiple in MULTIPLES:
            part = group[group["multiple"] == multiple]
            wrong, named, _, _ = winners.share_wrong(part, "rule")
            cells = ["–"] * 4
            if multiple:
                cells = [
                    compare(group, "posterior mean", multiple, 1000), compare(group, "choice", multiple, 1000),
                    compare(group, "gap error", multiple, 1000), compare(group, "density", multiple, 1),
                ]  # fmt: skip
            lines.append((
                name, str(part.groupby(["source", "number"]).ngroups), f"{multiple:g}", f"{wrong} of {named}",
                *cells, f"{100 * part['covered'].mean():.1f}",
            ))  # fmt: skip
    header = (
        "logs", "number", "multiple", "wrong names", "regret of the posterior mean × 1000, difference",
        "regret of the choice × 1000, difference", "error of differences × 1000, difference",
        "log density of the truth, difference", "coverage, %",
    )  # fmt: skip
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps what was made")
    parser.add_argument("--worlds", type=int, default=9, help="logs of each simulator; a third of cascades")
    parser.add_argument("--late", type=int, default=3, help="further logs of each that are split by time")
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    frames = []
    for source in winners.SOURCES:
        for number in list_numbers(source, options.worlds, options.late):
            frames.append(cached(options.cache, source, number, options.draws))
    print(table(pd.concat(frames, ignore_index=True)))


if __name__ == "__main__":
    main()
