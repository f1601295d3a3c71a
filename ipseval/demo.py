"""The demonstration: a simulated world whose truth is known, five recommenders, all estimators."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval import baselines
from ipseval._border import guard
from ipseval._checks import check_positive_int
from ipseval.errors import DataWarning, InputError
from ipseval.estimators import AOA, AOA_POOLED, IPS, SNIPS, SNIPS_GLOBAL, SNIPS_POOLED
from ipseval.evaluation import Evaluation, evaluate
from ipseval.simulation import World

METRICS = ("atop", "recall@10", "mean_dcg@10")
USER_AVERAGES = (AOA, SNIPS, SNIPS_GLOBAL, IPS)
POOLED = (AOA_POOLED, SNIPS_POOLED)


@dataclass(frozen=True, eq=False)
class Demo:
    """Estimates on a biased log beside the truth of the world that made it.

    Attributes
    ----------
    evaluation : Evaluation
    table : DataFrame
        Columns model, metric, average ("user" or "pooled"), truth, then one column per estimator of that
        average (NaN for the others).
    """

    evaluation: Evaluation
    table: pd.DataFrame

    def errors(self) -> pd.DataFrame:
        """Return the mean absolute error over models of each estimator, one row per metric.

        Each estimator is compared with the truth of its own average, per user or pooled.
        """
        rows = {}
        for name in (*USER_AVERAGES, *POOLED):
            part = self.table[self.table["average"] == ("pooled" if name in POOLED else "user")]
            error = (part[name] - part["truth"]).abs()
            rows[name] = error.groupby(part["metric"], sort=False).mean()
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        blocks = [self._introduction()]
        user = self.table[self.table["average"] == "user"]
        for metric, part in user.groupby("metric", sort=False):
            shown = part.set_index("model")[["truth", *USER_AVERAGES]]
            blocks.append(f"{metric}, mean over users\n{_aligned(shown)}")
        blocks.append(self._verdict())
        return "\n\n".join(blocks)

    def _introduction(self) -> str:
        sample = next(iter(self.evaluation.samples.values()))
        ranked = sample.ranked
        model = self.evaluation.propensity.model if self.evaluation.propensity else "none"
        size = f"{ranked.n_population:,} users, {ranked.item_ids.size:,} items"
        held_out = f"{len(ranked):,} positives of {ranked.users.size:,} users"
        return (
            f"A simulated world: {size}. Relevance and the chance to be observed are known,\n"
            "so every estimate can be compared with the truth. Five recommenders learn from a biased log\n"
            f"and are evaluated on {held_out} from a second biased log, "
            f"{np.median(ranked.counts):g} per user in the median.\nPropensity: the true one ({model})."
        )

    def _verdict(self) -> str:
        errors = self.errors()
        nearest = {str(metric): str(name) for metric, name in errors.idxmin(axis=1).items()}
        rows = {
            metric: {
                name: f"{value:.4f}{'*' if nearest[metric] == name else ' '}"
                for name, value in errors.loc[metric].items()
            }
            for metric in nearest
        }
        best = " or ".join(dict.fromkeys(nearest.values()))
        return (
            "Mean distance from the truth over the five recommenders; * nearest\n"
            f"{_aligned(pd.DataFrame.from_dict(rows, orient='index'))}\n"
            f"Nearest to the truth: {best}.\n"
            "aoa flatters recommenders of popular items; per-user snips keeps a bias that does not shrink\n"
            "with users; ips is exactly unbiased given P and s_u, which only a simulation knows."
        )


def run_demo(*, rng: int = 0, n_users: int = 3000, n_items: int = 1000) -> Demo:
    """Return the demonstration: world, split, five baselines, estimates and truth; the same for a seed."""
    check_positive_int("rng", rng, minimum=0)
    world = World(n_users=n_users, n_items=n_items, mean_relevant=40, gamma=0.0, max_propensity=0.6, rng=rng)
    split = world.split(rng=rng + 1)
    models = {name: fit(split.train) for name, fit in baselines.BASELINES.items()}
    remaining = world.n_relevant - split.train.activity
    with warnings.catch_warnings():
        # The few positives per user are the point of the demonstration, and its text says so.
        warnings.simplefilter("ignore", DataWarning)
        evaluation = evaluate(
            models,
            split,
            propensity=world.propensity,
            metrics=METRICS,
            estimators=(*USER_AVERAGES, *POOLED),
            n_relevant=remaining,
        )
    return Demo(evaluation, _beside_truth(evaluation, world.truth(models, METRICS, split)))


def plot_demo(demo: Demo, path: Path) -> bool:
    """Write a picture of estimates against the truth; return False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure

        from ipseval.plots import plot_bias
    except ImportError:
        return False
    figure = Figure(figsize=(11.5, 3.6), layout="constrained")
    axes = figure.subplots(1, len(METRICS))
    user = demo.table[demo.table["average"] == "user"][["model", "metric", "truth"]]
    frame = demo.evaluation.frame.merge(user, on=["model", "metric"])
    for axis, metric in zip(axes, METRICS, strict=True):
        plot_bias(frame, metric=metric, estimators=[AOA, SNIPS, SNIPS_GLOBAL], ax=axis)
    for axis in axes[:-1]:
        axis.get_legend().remove()
    for axis in axes[1:]:
        axis.set_ylabel("")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:  # no such folder, no such format
        raise InputError(f"the picture cannot be written to {path}: {error}.") from None
    return True


def _beside_truth(evaluation: Evaluation, truth: pd.DataFrame) -> pd.DataFrame:
    wide = evaluation.frame.pivot(index=["model", "metric"], columns="estimator", values="estimate")
    wide = wide.rename_axis(columns=None)
    tables = []
    for average, column, names in (("user", "ideal", USER_AVERAGES), ("pooled", "ideal_pooled", POOLED)):
        part = truth[["model", "metric", column]].rename(columns={column: "truth"})
        part.insert(2, "average", average)
        tables.append(part.merge(wide[list(names)], left_on=["model", "metric"], right_index=True))
    return pd.concat(tables, ignore_index=True)


def _aligned(frame: pd.DataFrame) -> str:
    text = frame.map(lambda value: value if isinstance(value, str) else f"{value:.4f}")
    return str(text.rename_axis(index=None, columns=None).to_string())


guard(__name__)
