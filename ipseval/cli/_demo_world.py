"""Demonstration: five recommenders on a simulated log with known true values, by all estimators."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.estimators.labels import (
    AOA,
    AOA_POOLED,
    IPS,
    SNIPS_GLOBAL,
    SNIPS_PER_USER,
    SNIPS_POOLED,
    display_names,
)
from ipseval.evaluation import Evaluation, evaluate
from ipseval.ranking import baselines
from ipseval.reporting import Tables
from ipseval.reporting.pictures import build_bias_picture, write_bias_file
from ipseval.reporting.results import Reported
from ipseval.reporting.tables import Heading, Notes, Part, Table
from ipseval.utils.checks import check_positive_int, format_count
from ipseval.utils.compute import ComputeOptions, one_blas_thread
from ipseval.validation.simulation import World

METRICS = ("atop", "recall@10", "mean_dcg@10")
HEADLINE = "recall@10"  # the text prints the values of this metric alone
USER_AVERAGES = (AOA, SNIPS_PER_USER, SNIPS_GLOBAL, IPS)
POOLED = (AOA_POOLED, SNIPS_POOLED)
PLOTTED = (AOA, SNIPS_PER_USER, SNIPS_GLOBAL)
N_USERS = 3000
N_ITEMS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Demo(Reported):
    """Estimates on a biased simulated log, with the true values of the simulation."""

    evaluation: Evaluation
    table: pd.DataFrame
    log: pd.DataFrame

    def errors(self) -> pd.DataFrame:
        """Return the mean absolute error over models of each estimator, one row per metric."""
        rows = {}
        for name in (*USER_AVERAGES, *POOLED):
            average = "pooled" if name in POOLED else "user"
            part = self.table[self.table["average"] == average]
            error = (part[name] - part["truth"]).abs()
            rows[name] = error.groupby(part["metric"], sort=False).mean()
        return pd.DataFrame(rows)

    @property
    def plotted_rows(self) -> pd.DataFrame:
        """The rows of `evaluation.frame` with the true values in a column."""
        true_values = self.table[self.table["average"] == "user"][["model", "metric", "truth"]]
        return self.evaluation.frame.merge(true_values, on=["model", "metric"])

    @property
    def picture(self) -> str:
        """A plot of the estimates against the true values, as an SVG file; it needs matplotlib."""
        return write_bias_file(self.plotted_rows, estimators=PLOTTED)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the verdict, the design of the simulation, and the tables."""
        user = self.table[self.table["average"] == "user"]
        notes = (
            "AOA is the unweighted average. SNIPS per user has a bias that more users do not reduce.",
            "IPS is unbiased here, because the simulation knows the propensities and the numbers of relevant items.",
        )
        names = display_names([*USER_AVERAGES, *POOLED])
        tables = []
        for metric, part in user.groupby("metric", sort=False):
            if page or metric == HEADLINE:
                values = part[["model", "truth", *USER_AVERAGES]].rename(columns=names)
                tables.append(Table.from_frame(values, f"{metric}, mean over users", formats=".4f"))

        errors = self.errors().rename(columns=names).rename_axis("metric").reset_index()
        tables.append(Table.from_frame(errors, "mean absolute error over recommenders", formats=".4f"))
        parts: tuple[Part, ...] = (self._introduction(), *tables, Notes(notes))
        if not page:
            return Tables(tuple(self._verdict()), parts)
        rows = self.plotted_rows
        pictures = [build_bias_picture(rows, metric=metric, estimators=PLOTTED) for metric in METRICS]
        evaluation_tables = self.evaluation.tables(digits=digits, page=True)
        return Tables(
            tuple(self._verdict()),
            (*pictures, *parts),
            title="Estimates and true values",
            appendix=(
                Heading("The evaluation"),
                *evaluation_tables.summary,
                *evaluation_tables.parts,
                *evaluation_tables.appendix,
            ),
        )

    def _verdict(self) -> list[str]:
        """Return the errors of AOA and SNIPS, and the assumption of the weights."""
        errors = self.errors()
        unweighted = errors[AOA]
        weighted = errors[SNIPS_GLOBAL]
        reduction = 1 - weighted / unweighted
        return [
            f"Verdict     The mean absolute error of {HEADLINE} is {unweighted[HEADLINE]:.3f} for AOA and "
            f"{weighted[HEADLINE]:.4f} for SNIPS global.",
            f"            SNIPS global removes {reduction.min():.0%} to {reduction.max():.0%} of the error on the "
            f"{format_count(len(errors), 'metric')}.",
            "Assumption  The weights use the true propensities of the simulation. A log of clicks does not contain "
            "them.",
        ]

    def _introduction(self) -> str:
        """Return a description of the simulation and its logs."""
        sample = next(iter(self.evaluation.samples.values()))
        ranked = sample.ranked
        size = f"{ranked.n_population:,} users and {ranked.item_ids.size:,} items"
        held_out = f"{len(ranked):,} held-out interactions of {ranked.users.size:,} users"
        return (
            f"A simulation of {size}, in which relevance and the probability of being observed are known. "
            f"Five recommenders are trained on a biased log and evaluated on {held_out} in a second biased "
            f"log (median: {np.median(ranked.counts):g} per user)."
        )


def build_demo_world(rng: int = 0, n_users: int = N_USERS, n_items: int = N_ITEMS) -> tuple[World, Split]:
    """Return a simulation, and the split of one of its logs."""
    check_positive_int("rng", rng, minimum=0)
    world = World(n_users=n_users, n_items=n_items, mean_relevant=40, gamma=0.0, max_propensity=0.6, rng=rng)
    return world, world.split(rng=rng + 1)


def merge_demo_log(split: Split) -> pd.DataFrame:
    """Return the log before the split, in the order of users and items."""
    log = pd.concat([split.train.to_frame(), split.test.to_frame()]).sort_values(["user", "item"])
    return log.reset_index(drop=True)


def run_demo(*, rng: int = 0, n_users: int = N_USERS, n_items: int = N_ITEMS) -> Demo:
    """Simulate a world, train five baselines on a log, and compare the estimates with the true values."""
    # One thread is faster for products of this size.
    with one_blas_thread():
        world, split = build_demo_world(rng, n_users, n_items)
        models = {}
        for name, fit in baselines.BASELINES.items():
            models[name] = fit(split.train)

        with warnings.catch_warnings():
            # The warning about few interactions per user is part of the printed text.
            warnings.simplefilter("ignore", DataWarning)
            evaluation = evaluate(
                models,
                split,
                propensity=world.propensity,
                metrics=METRICS,
                estimators=(*USER_AVERAGES, *POOLED),
                n_relevant=world.n_relevant - split.train.activity,
                compute=ComputeOptions(progress=False),
            )
        truth = world.truth(models, METRICS, split)
    return Demo(evaluation, _merge_truth(evaluation, truth), merge_demo_log(split))


def _merge_truth(evaluation: Evaluation, truth: pd.DataFrame) -> pd.DataFrame:
    """Return one row per recommender, metric and kind of average, with the true value and all estimates."""
    wide = evaluation.frame.pivot(index=["model", "metric"], columns="estimator", values="estimate")
    wide = wide.rename_axis(columns=None)
    tables = []
    for average, column, names in (("user", "ideal", USER_AVERAGES), ("pooled", "ideal_pooled", POOLED)):
        part = truth[["model", "metric", column]].rename(columns={column: "truth"})
        part.insert(2, "average", average)
        tables.append(part.merge(wide[list(names)], left_on=["model", "metric"], right_index=True))
    return pd.concat(tables, ignore_index=True)
