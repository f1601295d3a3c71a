"""What logs with random exposure say: of the order by AOA, of recall among the exposed, of γ.

    python -m reproductions.random_exposure --data PATH [--write]

Eight recommenders learn from four fifths of the biased positives of KuaiRand and of Coat. What users liked of
the items they were shown at random is ranked in the whole catalogue, and among the items shown to each user
alone, as papers on debiased learning print it. --write puts the tables into docs/validation.md, and the
picture of the README beside it. Five minutes of processor time.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from ipseval import PowerLawPropensity, Split, evaluate, fit_gamma_from_exposure, split_random
from ipseval.data import RandomExposure
from ipseval.propensity._exposure import compute_noise_share
from ipseval.validation import validate
from ipseval.validation._population import exposure_outside_training
from ipseval.validation.datasets import RandomExposureStudy, load_coat, load_kuairand
from reproductions.correction_coat import recommenders
from reproductions.field_study import ONE_THREAD
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "validation.md"
N_SPLITS = 3
METRICS = ("atop", "recall@10", "mean_dcg@10")
VALUES = ["estimate", "std_error", "reference", "reference_se"]
EXPOSED = ("recall@1", "recall@5", "recall@10", "ndcg@5", "atop")
# Smallest, mean and largest γ that Yang et al. (doi 10.1145/3240323.3240355) fitted to recommended lists.
PUBLISHED = {
    "citeulike-a": (1.55, 1.69, 1.89),
    "Tradesy": (2.25, 2.69, 3.07),
    "Amazon books": (1.70, 1.87, 2.11),
}


def orders(study: RandomExposureStudy) -> pd.DataFrame:
    """Return, by metric and recommender, AOA, the weighted one, and the truth, over splits."""
    gammas = {"plain": -1.0, "γ = 0": 0.0}
    rules = {name: PowerLawPropensity(gamma=gamma, unseen="smooth") for name, gamma in gammas.items()}
    found = validate(
        recommenders(), study, propensities=rules, metrics=METRICS, estimators=["snips-pooled"],
        n_splits=N_SPLITS, n_resamples=0, rng=0, compute=ONE_THREAD,
    ).frame  # fmt: skip
    return found[found["propensity"].isin(rules)]


def order_table(name: str, found: pd.DataFrame) -> str:
    """Return each recommender's plain, weighted and true value, the highest by AOA first."""
    means = found.groupby(["metric", "propensity", "model"], sort=False)[VALUES].mean()
    cells: dict[str, list[str]] = {}
    for metric in METRICS:
        plain, weighted = means.loc[(metric, "plain")], means.loc[(metric, "γ = 0")]
        for model, row in plain.iterrows():
            truth = row["reference"], row["reference_se"]
            each = (row["estimate"], row["std_error"]), weighted.loc[model, ["estimate", "std_error"]], truth
            cells.setdefault(str(model), []).extend(f"{one:.4f} ± {1.96 * se:.4f}" for one, se in each)
    first = means.loc[(METRICS[0], "plain")]["estimate"].sort_values(ascending=False).index
    header = [
        name,
        *(f"{metric}: {one}" for metric in METRICS for one in ("plain", "γ = 0", "random exposure")),
    ]
    return markdown(header, [[str(model), *cells[str(model)]] for model in first])


def among_exposed(study: RandomExposureStudy, number: int) -> pd.DataFrame:
    """Return a row per metric and pair: who is ahead among the exposed items, and in the catalogue."""
    split = split_random(study.positives().biased, test_fraction=0.2, rng=number)
    shown = exposure_outside_training(study, split)
    models = {name: fit(split.train) for name, fit in recommenders().items()}
    liked = pairs(shown, shown.positive, split)
    judged = Split.from_frames(
        split.train.to_frame()[["user", "item"]], liked, users=split.user_ids, items=split.item_ids
    )
    rows = []
    for where, candidates in (
        ("exposed", pairs(shown, np.ones_like(shown.positive), split)),
        ("catalogue", "all"),
    ):
        found = evaluate(
            models, judged, metrics=EXPOSED, estimators=["aoa"], candidates=candidates, compute=ONE_THREAD
        )
        rows.append(found.compare().assign(where=where))
    return pd.concat(rows).assign(split=number, n_users=np.unique(liked["user"]).size)


def pairs(shown: RandomExposure, which: np.ndarray, split: Split) -> pd.DataFrame:
    """Return pairs that were shown, with their ids."""
    return pd.DataFrame(
        {"user": split.user_ids[shown.user[which]], "item": split.item_ids[shown.item[which]]}
    )


def exposed_table(name: str, found: pd.DataFrame) -> str:
    """Return how often the order of two recommenders among exposed items is not that in the catalogue."""
    keys = ["metric", "split", "model", "reference"]
    both = found.set_index([*keys, "where"]).unstack("where")
    one, other = both["difference"]["exposed"], both["difference"]["catalogue"]
    told = both["p_adjusted"] < 0.05
    turned = (np.sign(one) * np.sign(other)) < 0
    rows = []
    for metric in EXPOSED:
        at = one.index.get_level_values("metric") == metric
        clear = at & told["exposed"].to_numpy() & told["catalogue"].to_numpy()
        kept = at & told["exposed"].to_numpy()
        first = [
            best(part, "exposed") == best(part, "catalogue")
            for _, part in found[found["metric"] == metric].groupby("split")
        ]
        rows.append([
            f"{name}, {metric}", interval(turned[at]), f"{kendalltau_of(found, metric):.2f}",
            f"{turned[clear].sum()} of {clear.sum()}",
            f"{(turned & told['exposed'])[kept].sum()} of {kept.sum()}",
            f"{sum(first)} of {len(first)}",
        ])  # fmt: skip
    header = (
        "", "pairs in another order, % (range of splits)", "Kendall τ", "another order, significant in both",
        "another order, significant among the exposed", "same best",
    )  # fmt: skip
    return markdown(header, rows)


def values(part: pd.DataFrame, where: str) -> pd.Series:
    """Return each recommender's value, up to one constant, from its differences."""
    own = part[part["where"] == where]
    names = sorted({*own["model"], *own["reference"]})
    total = dict.fromkeys(names, 0.0)
    for row in own.itertuples():
        total[row.model] += row.difference
        total[row.reference] -= row.difference
    return pd.Series(total)


def best(part: pd.DataFrame, where: str) -> str:
    """Return the best recommender."""
    return str(values(part, where).idxmax())


def kendalltau_of(found: pd.DataFrame, metric: str) -> float:
    """Return the mean over splits of τ between both orders."""
    parts = [part for _, part in found[found["metric"] == metric].groupby("split")]
    return float(np.mean([kendalltau(values(p, "exposed"), values(p, "catalogue")).statistic for p in parts]))


def interval(turned: pd.Series) -> str:
    """Return a share in per cent over all splits, and its range."""
    by_split = 100 * turned.groupby(level="split").mean()
    return f"{by_split.mean():.0f} ({by_split.min():.0f} to {by_split.max():.0f})"


def gamma_table(studies: dict[str, RandomExposureStudy]) -> str:
    """Return γ by random exposure, from all items and from those with larger counts; and published ones."""
    rows = []
    for name, study in studies.items():
        biased = study.positives().biased
        shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
        for least in (1, 10, 30, 100):
            kept = (biased.popularity >= least) & (shown.n_exposed > 0)
            if np.unique(biased.popularity[kept]).size < 5:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what counting noise takes away stands in the table
                fit = fit_gamma_from_exposure(
                    biased.popularity, shown.n_exposed, shown.n_positive, min_popularity=least
                )
            slope = (1 - fit.gamma) / 2
            noise = compute_noise_share(biased.popularity[kept].astype(float), shown.n_exposed[kept], slope)
            half = 1.96 * fit.standard_error
            rows.append([
                f"{name}, n\\* ≥ {least}", f"{int(kept.sum()):,}", f"{slope:.3f} ± {half / 2:.3f}",
                f"{fit.gamma:.2f} [{fit.gamma - half:.2f}, {fit.gamma + half:.2f}]", f"{100 * noise:.0f}%",
                f"{1 - 2 * slope / (1 - noise):.2f}" if noise < 0.9 else "–",
            ])  # fmt: skip
    for name, (low, mean, high) in PUBLISHED.items():
        rows.append(
            [
                f"*{name}: lists of four recommenders*",
                "",
                "",
                f"*{mean:.2f}, {low:.2f} to {high:.2f}*",
                "",
                "",
            ]
        )
    header = (
        "log", "items", "b ± 1.96 SE", "γ = 1 − 2b, 95%", "of b that noise of n\\* takes", "γ without it",
    )  # fmt: skip
    return markdown(header, rows)


def rates(study: RandomExposureStudy) -> str:
    """Return the rate of likes under random exposure by groups of items of rising popularity."""
    biased = study.positives().biased
    shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
    edges = (1, 10, 30, 100, 300, np.inf)
    rows = []
    for low, high in pairwise(edges):
        own = (biased.popularity >= low) & (biased.popularity < high) & (shown.n_exposed > 0)
        n, k = shown.n_exposed[own].sum(), shown.n_positive[own].sum()
        if n:
            rate = k / n
            name = f"{low:g} to {high - 1:g}" if np.isfinite(high) else f"{low:g} and more"
            each = shown.n_positive[own] - rate * shown.n_exposed[own]
            half = 1.96 * np.sqrt((each**2).sum()) / n
            rows.append([name, f"{int(own.sum()):,}", f"{int(n):,}", f"{rate:.3f} ± {half:.3f}"])
    return markdown((f"{study.name}: clicks in the log", "items", "shown at random", "rate of likes"), rows)


def picture(found: pd.DataFrame, path: Path, metric: str = "recall@10") -> None:
    """Draw the order by AOA beside the one by random exposure."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    own = found[(found["metric"] == metric) & (found["propensity"] == "plain")]
    own = own.groupby("model", sort=False)[VALUES].mean()
    with pyplot.rc_context({"svg.hashsalt": "random-exposure", "font.size": 10}):
        figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.0), layout="constrained")
        sides = (
            ("AOA of the log says", "estimate", "std_error"),
            ("Items shown at random say", "reference", "reference_se"),
        )
        colors = {name: f"C{number}" for number, name in enumerate(own.index)}
        for axis, (title, value, error) in zip(axes, sides, strict=True):
            ranked = own.sort_values(value)
            height = np.arange(len(ranked))
            for at, (name, row) in zip(height, ranked.iterrows(), strict=True):
                axis.errorbar(row[value], at, xerr=1.96 * row[error], fmt="o", color=colors[name], capsize=3)
            axis.set_yticks(height, list(ranked.index))
            axis.set_title(title, loc="left", fontweight="bold")
            axis.set_xlabel(metric)
            axis.set_xlim(left=0)
            axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder with kuairand/ and coat/")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    studies = {
        "KuaiRand": load_kuairand(options.data / "kuairand"), "Coat": load_coat(options.data / "coat"),
    }  # fmt: skip
    made = {"gamma-by-exposure": gamma_table(studies), "rate-by-popularity": rates(studies["KuaiRand"])}
    print("\n\n".join(made.values()), flush=True)
    found = {name: orders(one) for name, one in studies.items()}
    made["order-kuairand"] = order_table("KuaiRand", found["KuaiRand"])
    print(made["order-kuairand"], flush=True)
    exposed = []
    for name, study in studies.items():
        splits = [among_exposed(study, number) for number in range(N_SPLITS)]
        exposed.append(exposed_table(name, pd.concat(splits)))
        print(exposed[-1], flush=True)
    made["exposed-only"] = "\n\n".join(exposed)
    if options.write:
        write_tables(made, PAGE)
        picture(found["KuaiRand"], ROOT / "docs" / "images" / "random-exposure.svg")


if __name__ == "__main__":
    main()
