"""A leaderboard as papers print it, judged again: ten recommenders on Gowalla and three Amazon domains.

    python -m reproductions.leaderboard OUT [--data FOLDER] [--jobs N] [--only LOG …] [--write]

OUT gets, for each log and recommender, the chosen settings, the ranks of the test positives and the γ of its
lists. What is there is not made again: a run that was killed goes on where it stopped. --write puts the
tables into docs/reproductions.md, and draws the picture from them.

    python -m reproductions.leaderboard --picture

draws the picture from the tables of the page, without a new run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import (
    Interactions,
    PowerLawPropensity,
    RankedPositives,
    Split,
    correct,
    evaluate,
    rank_positives,
    split_random,
)
from ipseval.evaluation import Evaluation
from ipseval.metrics import metric
from ipseval.propensity import count_recommendations, fit_gamma
from ipseval.ranking import top_items
from reproductions import field_logs
from reproductions.field_study import ONE_THREAD, thinned
from reproductions.leaderboard_models import GRID
from reproductions.tables import PAGE, data_folder, deliver, markdown

LOGS = ("Gowalla", "Beauty", "Toys and Games", "Video Games")
METRICS = ("recall@20", "mean_dcg@20")
FACTORS = ("iALS", "BPR", "LightGCN")  # γ is fitted to their lists, as Yang et al. do with factor models
LIST = 50
GAMMAS = np.round(np.linspace(-1, 3.1, 42), 1)
# −1: all of popularity is taste; 1: none of it is. Above, what is popular would be liked less.
BELIEVABLE = (-1.0, 1.0)
# Columns of the table of one log.
AOA, SNIPS, RANGE = "AOA", "SNIPS", "plausible range"
BOARDS = PAGE.parent / "tables" / "reproductions" / "leaderboard-boards.csv"
PICTURE = PAGE.parent / "images" / "leaderboard.svg"
# Recall@20 on Gowalla as printed: item-kNN by BARS (github.com/xue-pai/Open-CF-Benchmark), the others in the
# README of UltraGCN (10.1145/3459637.3482291).
PUBLISHED = {"item-kNN": 0.1570, "NGCF": 0.1570, "LightGCN": 0.1830, "UltraGCN": 0.1862}
CLAIMS = {"LightGCN over NGCF": (0.1830, 0.1570), "UltraGCN over LightGCN": (0.1862, 0.1830)}


def splits(name: str, folder: Path) -> tuple[Split, Split]:
    """Return the split that settings are chosen on, and the one that is evaluated: of all training data.

    Gowalla is split as NGCF and LightGCN split it; of Amazon a fifth of each user's pairs is held out.
    """
    if name == "Gowalla":
        train, valid, test = (
            field_logs._joined(folder / "gowalla", part).to_frame() for part in ("train", "valid", "test")
        )
    else:
        log = field_logs.read_log(name, folder)
        whole = split_random(log, test_fraction=0.2, validation_fraction=0.1, rng=0)
        assert whole.validation is not None
        train, valid, test = (one.to_frame() for one in (whole.train, whole.validation, whole.test))
    frames = [one[["user", "item"]] for one in (train, valid, test)]
    whole_log = Interactions.from_frame(pd.concat(frames, ignore_index=True))
    ids: dict[str, Any] = {"users": whole_log.user_ids, "items": whole_log.item_ids}
    both = pd.concat(frames[:2], ignore_index=True)
    return Split.from_frames(frames[0], frames[1], **ids), Split.from_frames(both, frames[2], **ids)


def make(out: Path, folder: Path, task: tuple[str, str]) -> str:
    """Fit and rank one recommender on one log, unless it is there; return a line of what that took."""
    log, name = task
    place = out / log.replace(" ", "_")
    place.mkdir(parents=True, exist_ok=True)
    about = place / f"{name}.json"
    if about.exists():
        return f"{log}, {name}: there"
    start = time.process_time()
    fit, settings = GRID[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thin lists and γ above 1: the page says what the fits are
        tuning, split = splits(log, folder)
        tried = []
        for one in settings if len(settings) > 1 else []:
            ranked = rank_positives(fit(tuning.train, **one), thinned(tuning), compute=ONE_THREAD)
            tried.append(float(np.nanmean(metric(METRICS[0]).user_values(ranked))))
        chosen = settings[int(np.argmax(tried))] if tried else settings[0]
        model = fit(split.train, **chosen)
        rank_positives(model, split, compute=ONE_THREAD).to_parquet(place / f"{name}.parquet")
        found: dict[str, Any] = {"settings": chosen, "tried": tried}
        if name in FACTORS:
            lists = count_recommendations(
                top_items(model, split, k=LIST, compute=ONE_THREAD), split.train, rng=0
            )
            gamma = fit_gamma(
                split.train.popularity, lists, method="negative-binomial", source="logging-policy"
            )
            found |= {"gamma": gamma.gamma, "standard_error": gamma.standard_error}
    found["seconds"] = time.process_time() - start
    about.write_text(json.dumps(found), "utf-8")  # last: it says that the ranks are whole
    return f"{log}, {name}: {found['seconds']:.0f} s of processor time, {chosen}"


class Judged:
    """One log: its evaluation with the fitted γ, and what every pair of recommenders looks like."""

    def __init__(self, out: Path, folder: Path, name: str) -> None:
        place = out / name.replace(" ", "_")
        self.name, self.about = (
            name,
            {one: json.loads((place / f"{one}.json").read_text("utf-8")) for one in GRID},
        )
        ranks = {one: RankedPositives.from_parquet(place / f"{one}.parquet") for one in GRID}
        fits = [self.about[one] for one in FACTORS]
        self.gammas = [one["gamma"] for one in fits]
        self.gamma = float(np.mean(self.gammas))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.split = splits(name, folder)[1]
            propensity = PowerLawPropensity(gamma=self.gamma, unseen="smooth").fit(self.split.train)
            self.found: Evaluation = evaluate(
                ranks, self.split, propensity=propensity, metrics=METRICS,
                estimators=["aoa", "aoa-pooled", "snips-global"], compute=ONE_THREAD,
            )  # fmt: skip
            correction = correct(ranks, self.split, metrics=METRICS, rng=0, compute=ONE_THREAD)
            comparison = correction.compare().set_index(["metric", "model", "reference"])
            self.p_higher = comparison["probability_higher"].to_dict()
            self.order = correction.order.set_index(["metric", "recommender"])
            self.curve = self.found.sensitivity(GAMMAS, standard_errors=False).frame
        self.pairs = pd.concat([self._pairs(one) for one in METRICS], ignore_index=True)

    def value(self, metric: str, estimator: str) -> pd.DataFrame:
        """Return the estimates by recommender, highest first."""
        frame = self.found.frame.query("metric == @metric and estimator == @estimator")
        return frame.set_index("model").sort_values("estimate", ascending=False)

    def _pairs(self, metric: str) -> pd.DataFrame:
        """Return a row per pair, the better by AOA first; `next`: neighbours in that order."""
        tests = self.found.compare()
        tests = tests[tests["metric"] == metric]
        plain = self.value(metric, "aoa")["estimate"]
        curve = self.curve[(self.curve["metric"] == metric) & (self.curve["estimator"] == "snips-global")]
        by_gamma = curve.pivot(index="model", columns="gamma", values="estimate")
        names, rows = list(plain.index), []
        for one, other in combinations(names, 2):
            both = tests[tests["model"].isin((one, other)) & tests["reference"].isin((one, other))]
            row: dict[str, Any] = {"metric": metric, "model": one, "other": other}
            row |= {"difference": plain[one] - plain[other], "gain": plain[one] / plain[other] - 1}
            for label, estimator in (("plain", "aoa"), ("weighted", "snips-global")):
                test = both[both["estimator"] == estimator].iloc[0]
                sign = 1 if test["model"] == one else -1
                told = test["p_adjusted"] < 0.05
                row |= {
                    f"{label}_p": test["p_adjusted"],
                    f"{label}_sign": told * sign * np.sign(test["difference"]),
                }
                if label == "plain":
                    row["visible"] = test["minimum_detectable_difference"] / plain[other]
            pair = (metric, one, other)
            turned = (metric, other, one)
            row["ahead"] = self.p_higher[pair] if pair in self.p_higher else 1 - self.p_higher[turned]
            gap = by_gamma.loc[one] - by_gamma.loc[other]
            kept = gap.index[gap.to_numpy() > 0].to_numpy()
            inside = (BELIEVABLE[0] <= GAMMAS) & (BELIEVABLE[1] >= GAMMAS)
            row |= {"believable": np.isin(GAMMAS[inside], kept).all(), "every": np.isin(GAMMAS, kept).all()}
            row |= {"next": names.index(other) == names.index(one) + 1, "turns": self._turns(gap)}
            rows.append(row)
        return pd.DataFrame(rows)

    @staticmethod
    def _turns(gap: pd.Series) -> str:
        """Return for which γ the first of a pair is ahead, in words; linear between the γ that were tried."""
        values, gamma = gap.to_numpy(), gap.index.to_numpy()
        at = np.flatnonzero(np.diff(np.sign(values)))
        if not at.size:
            return "every" if values[0] > 0 else "none"
        change = gamma[at] + (gamma[at + 1] - gamma[at]) * values[at] / (values[at] - values[at + 1])
        return ("< " if values[0] > 0 else "> ") + ", ".join(
            f"{one:.2f}".rstrip("0").rstrip(".") for one in change
        )


def share(found: Any) -> str:
    """Return a share in words: 12 of 30."""
    values = np.asarray(found, dtype=bool)
    return f"{values.sum()} of {values.size}"


def summary(judged: list[Judged]) -> str:
    """Return, by log and metric, how many pairs are told apart, and what is left of them."""
    rows = []
    for one in judged:
        for label, pairs in one.pairs.groupby("metric", sort=False):
            told = pairs[pairs["plain_sign"] > 0]
            rows.append([
                one.name, str(label), f"{len(pairs)}", f"{len(told)}",
                f"{(told['weighted_sign'] > 0).sum()}; {(told['weighted_sign'] < 0).sum()}",
                f"{told['believable'].sum()}", f"{told['every'].sum()}",
                f"{(told['ahead'] >= 0.95).sum()}", f"{(told['ahead'] < 0.5).sum()}",
            ])  # fmt: skip
    low, high = BELIEVABLE
    header = (
        "log", "metric", "pairs", "significantly different by AOA",
        "of these by weights: same; the other way", f"same for every γ from {low:g} to {high:g}",
        "for every γ from −1 to 3.1", "same with P ≥ 0.95", "the other way more likely",
    )  # fmt: skip
    return markdown(header, rows)


def sizes(judged: list[Judged]) -> str:
    """Return the fate of differences by their size, over all logs."""
    pairs = pd.concat([one.pairs.assign(log=one.name) for one in judged])
    pairs = pairs[pairs["metric"] == METRICS[0]]
    small, large = (high / low - 1 for high, low in sorted(CLAIMS.values(), key=lambda one: one[0] / one[1]))
    edges = (0, small, 0.05, large, np.inf)
    rows = []
    for low, high in pairwise(edges):
        own = pairs[(pairs["gain"] >= low) & (pairs["gain"] < high)]
        told = own[own["plain_sign"] > 0]
        name = f"{100 * low:.1f} to {100 * high:.1f}%" if np.isfinite(high) else f"above {100 * low:.1f}%"
        rows.append([
            name, f"{len(own)}", share(own["plain_sign"] > 0), share(told["weighted_sign"] > 0),
            share(told["weighted_sign"] < 0), share(told["believable"]), share(told["ahead"] >= 0.95),
        ])  # fmt: skip
    header = (
        "gain in recall@20", "pairs", "significantly different by AOA", "of these: by weights, too",
        "by weights the other way", "same for every believable γ", "same with P ≥ 0.95",
    )  # fmt: skip
    return markdown(header, rows)


def board(one: Judged, metric: str = METRICS[0]) -> str:
    """Return the table of one log: three averages, and what is said of each recommender and the next."""
    plain, weighted = one.value(metric, "aoa"), one.value(metric, "snips-global")
    corrected = one.order.loc[metric]
    pairs = one.pairs[(one.pairs["metric"] == metric) & one.pairs["next"]].set_index("model")
    rows = []
    for name in plain.index:
        cells = [
            f"{row['estimate']:.4f} [{row['ci_low']:.4f}, {row['ci_high']:.4f}]"
            for row in (plain.loc[name], weighted.loc[name])
        ]
        row = corrected.loc[name]
        cells.append(f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]")
        if name in pairs.index:
            pair = pairs.loc[name]
            cells += [
                f"{100 * pair['gain']:+.1f}%",
                f"{100 * pair['visible']:.1f}%",
                f"{pair['plain_p']:.1g}",
            ]
            cells += [f"{pair['weighted_p']:.1g}" + ("" if pair["weighted_sign"] >= 0 else " ▼")]
            cells += [f"{pair['ahead']:.2f}", pair["turns"]]
        else:
            cells += [""] * 6
        rows.append([name, *cells])
    header = (
        f"{one.name}, {metric}", AOA, f"{SNIPS}, γ = {one.gamma:.2f}", RANGE, "gain over the next",
        "gain detected with 80% power", "p (Holm), AOA", "p (Holm), SNIPS", "P(better than next)",
        "better than the next for γ",
    )  # fmt: skip
    low, high = min(one.gammas), max(one.gammas)
    train, test = len(one.split.train), len(one.split.test)
    size = (
        f"{one.split.n_users:,} users, {one.split.n_items:,} items, {train:,} training and "
        f"{test:,} test pairs; γ of the lists {low:.2f} to {high:.2f}."
    )
    return f"{size}\n\n{markdown(header, rows)}"


def published(judged: list[Judged]) -> str:
    """Return recall@20 on Gowalla beside what was printed."""
    own = next(one for one in judged if one.name == "Gowalla").value("recall@20", "aoa")
    ours = {
        str(name): f"{row['estimate']:.4f} [{row['ci_low']:.4f}, {row['ci_high']:.4f}]"
        for name, row in own.iterrows()
    }
    theirs = {name: f"{value:.4f}" for name, value in PUBLISHED.items()}
    rows = [[name, ours.get(name, ""), theirs.get(name, "")] for name in {**ours, **theirs}]
    return markdown(("Gowalla, recall@20", "here", "published"), rows)


def settings(judged: list[Judged]) -> str:
    """Return the settings chosen on each log, and the time."""
    rows = []
    for name in GRID:
        chosen = [one.about[name]["settings"] for one in judged]
        words = [", ".join(f"{key} {value:g}" for key, value in each.items()) or "–" for each in chosen]
        rows.append([name, *words, f"{sum(one.about[name]['seconds'] for one in judged):.0f}"])
    return markdown(("", *(one.name for one in judged), "seconds of processor time"), rows)


def tables(judged: list[Judged]) -> dict[str, str]:
    """Return the tables of the page."""
    boards = "\n\n".join(board(one) for one in judged)
    return {
        "leaderboard": summary(judged), "leaderboard-sizes": sizes(judged), "leaderboard-boards": boards,
        "leaderboard-published": published(judged), "leaderboard-settings": settings(judged),
    }  # fmt: skip


def read_values(cells: pd.Series) -> pd.DataFrame:
    """Return the numbers of cells such as "0.1889 [0.1864, 0.1914]" or "[0.000, 0.215]"."""
    numbers = cells.str.extract(r"^(?P<estimate>[\d.]+)? ?\[(?P<ci_low>[\d.]+), (?P<ci_high>[\d.]+)\]$")
    return numbers.astype(float)


def picture(boards: Path, path: Path) -> None:
    """Draw the tables of all logs: every recommender by AOA and SNIPS, with the plausible range."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    tables_of_logs = dict(list(pd.read_csv(boards).groupby("table", sort=False)))
    with pyplot.rc_context({"svg.hashsalt": "leaderboard", "font.size": 8}):
        figure, axes = pyplot.subplots(1, len(tables_of_logs), figsize=(11, 3.8), layout="constrained")
        for axis, (title, table) in zip(axes, tables_of_logs.items(), strict=True):
            log, metric = str(title).rsplit(", ", 1)
            rows = table.iloc[::-1].dropna(axis="columns", how="all")
            snips_column = next(column for column in map(str, rows) if column.startswith(f"{SNIPS}, γ"))
            height = np.arange(len(rows))
            plausible = read_values(rows[RANGE])
            axis.hlines(
                height, plausible["ci_low"], plausible["ci_high"], color="0.8", lw=5, label=f"{RANGE}, 95%"
            )
            for column, color, marker, label in (
                (AOA, "C0", "o", AOA), (snips_column, "C1", "s", f"{SNIPS}, γ of recommendation lists"),
            ):  # fmt: skip
                values = read_values(rows[column])
                axis.hlines(height, values["ci_low"], values["ci_high"], color=color)
                axis.plot(values["estimate"], height, marker, color=color, ms=4, label=label)
            axis.set_yticks(height, rows["name"])
            axis.set_title(log)
            axis.set_xlabel(metric)
            axis.set_xlim(left=0)
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
        )
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder of what is made")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--only", nargs="+", choices=LOGS, help="make these, and print no tables")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--picture", action="store_true", help="only draw the picture from the tables")
    options = parser.parse_args()
    if options.picture:
        picture(BOARDS, PICTURE)
        return
    if options.out is None:
        parser.error("name the folder OUT, or pass --picture")
    tasks = [(log, name) for log in options.only or LOGS for name in GRID]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for line in pool.imap_unordered(partial(make, options.out, options.data), tasks):
            print(line, flush=True)
    if options.only:
        return
    judged = [Judged(options.out, options.data, name) for name in LOGS]
    deliver(tables(judged), PAGE if options.write else None)
    if options.write:
        picture(BOARDS, PICTURE)


if __name__ == "__main__":
    main()
