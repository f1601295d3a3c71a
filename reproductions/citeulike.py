"""Yang et al. (RecSys 2018, doi:10.1145/3240323.3240355), section 4, on citeulike-a.

    python -m reproductions.models --data PATH          (trains, once)
    python -m reproductions.citeulike --data PATH [--write]

The candidate pool "as in the paper" is that of the authors' code: 200 items drawn without replacement from
those that are neither training nor test items of the user, and all test positives of the user. Ranks count
scores that are strictly higher. Test items without a training interaction have no weight and are left out,
also of AOA.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import ComputeOptions, Interactions, Split, fit_gamma, split_random
from ipseval.errors import IdentificationWarning
from ipseval.evaluation import evaluate_ranks
from ipseval.metrics import AdditiveMetric
from ipseval.metrics.additive import Atop
from ipseval.propensity import PowerLawPropensity, count_recommendations
from ipseval.ranking import RankedPositives, SampledCandidates, baselines, rank_positives, top_items
from reproductions.data import load_citeulike_a
from reproductions.models import MODELS, citeulike_split, load_factors
from reproductions.tables import command, markdown

GAMMAS = (1.55, 1.69, 1.89)  # smallest, mean and largest over the four recommenders of the paper
NEGATIVE_SEED = 10
# Figure 4 of the paper, as recorded in the authors' notebook: AOA, SNIPS at the three γ.
PAPER = {
    ("auc (Yang)", "BPR"): (0.94288021, 0.92128865, 0.92041306, 0.91922377),
    ("auc (Yang)", "PMF"): (0.93506830, 0.91093130, 0.90997242, 0.90867391),
    ("auc (Yang)", "U-CML"): (0.93660380, 0.91078610, 0.90977339, 0.90840100),
    ("auc (Yang)", "A-CML"): (0.92948823, 0.89809732, 0.89684315, 0.89514220),
    ("recall@5", "BPR"): (0.54939729, 0.44612853, 0.44247554, 0.43757445),
    ("recall@5", "PMF"): (0.51443184, 0.40423244, 0.40050186, 0.39551391),
    ("recall@5", "U-CML"): (0.54759183, 0.44640954, 0.44301429, 0.43847623),
    ("recall@5", "A-CML"): (0.55925726, 0.45987255, 0.45653503, 0.45207605),
    ("mean_dcg", "BPR"): (0.48761121, 0.41977438, 0.41751747, 0.41450333),
    ("mean_dcg", "PMF"): (0.46925830, 0.39877319, 0.39654339, 0.39357571),
    ("mean_dcg", "U-CML"): (0.48655677, 0.41987257, 0.41776997, 0.41497242),
    ("mean_dcg", "A-CML"): (0.49300305, 0.42855478, 0.42651643, 0.42380525),
    ("mean_dcg@5", "BPR"): (0.37162036, 0.28173705, 0.27874503, 0.27474978),
    ("mean_dcg@5", "PMF"): (0.34693619, 0.25338215, 0.25042829, 0.24649898),
    ("mean_dcg@5", "U-CML"): (0.37317996, 0.28628399, 0.28355204, 0.27991913),
    ("mean_dcg@5", "A-CML"): (0.38222365, 0.29947004, 0.29687048, 0.29341628),
}


class YangAuc(AdditiveMetric):
    """Mean of 1 − Z/n over positives, Z candidates above and n in the pool, the positive included.

    The AUC term of the authors' code: at most (n − 1)/n below the usual (n − r)/(n − 1), and never 0.
    """

    name, kind, definition = "auc (Yang)", "mean", Atop.definition
    default_ties, reads_n = "mean", True

    def _curve(self, rank: Any, n_candidates: Any) -> Any:
        return 1 - (rank - 1) / n_candidates


METRICS = (YangAuc(), "recall@5", "mean_dcg", "mean_dcg@5")
LABELS = ("auc (Yang)", "recall@5", "mean_dcg", "mean_dcg@5")


def paper_pool(n_negatives: int = 200, seed: int = NEGATIVE_SEED) -> SampledCandidates:
    """Return the pool of the authors' code: negatives of the user, and all of the user's test positives."""
    return SampledCandidates(n_negatives, replacement=False, pool="unobserved+positives", rng=seed)


def rank_all(
    models: Mapping[str, Any], split: Split, *, paper: bool = True, seed: int = NEGATIVE_SEED
) -> dict[str, RankedPositives]:
    """Return the ranks of the test positives in the paper's pool, or in the full catalogue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)  # the page says what is wrong with this pool
        options: dict[str, Any] = {"candidates": paper_pool(seed=seed)} if paper else {}
        return {
            name: rank_positives(model, split, name=name, compute=ComputeOptions(n_threads=1), **options)
            for name, model in models.items()
        }


def table(
    ranks: Mapping[str, RankedPositives],
    train: Interactions,
    gammas: tuple[float, ...] = GAMMAS,
    *,
    ties: Any = "min",
    estimators: tuple[str, ...] = ("snips",),
) -> pd.DataFrame:
    """Return metric, model, gamma (−1 for AOA), estimate, std_error, n_users, n_positives."""
    frames = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, gamma in enumerate(gammas):
            # AOA of the same positives: those of items with a training interaction.
            chosen = ("aoa", *estimators) if number == 0 else estimators
            result = evaluate_ranks(
                ranks, propensity=PowerLawPropensity(gamma=gamma, unseen="drop").fit(train), metrics=METRICS,
                estimators=chosen, ties=ties,
            ).frame  # fmt: skip
            frames.append(result.assign(gamma=np.where(result["estimator"] == "aoa", -1.0, gamma)))
    columns = ["metric", "model", "estimator", "gamma", "estimate", "std_error", "n_users", "n_positives"]
    return pd.concat(frames, ignore_index=True)[columns]


def paper_frame() -> pd.DataFrame:
    """Return the paper's figures in the form of `table`."""
    return pd.DataFrame(
        [
            {"metric": metric, "model": model, "gamma": gamma, "estimate": value}
            for (metric, model), values in PAPER.items()
            for gamma, value in zip((-1.0, *GAMMAS), values, strict=True)
        ]
    )


def fall(frame: pd.DataFrame, gamma: float = GAMMAS[1]) -> pd.Series:
    """Return 1 − SNIPS(γ)/AOA by metric and model."""
    cells = frame.set_index(["metric", "model", "gamma"])["estimate"].unstack("gamma")
    return 1 - cells[gamma] / cells[-1.0]


def fitted_gammas(models: Mapping[str, Any], split: Split, k: int = 50) -> pd.DataFrame:
    """Return γ of each recommender's top-50 lists by the paper's fit and by three others, with counts."""
    rows = []
    for name, model in models.items():
        counts = count_recommendations(top_items(model, split, k=k), split.train, k=k)
        row: dict[str, Any] = {"model": name, "counts": counts}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for method in ("level-ols", "negative-binomial", "poisson", "cloglog"):
                fit = fit_gamma(split.train.popularity, counts, method=method, source="evaluated")
                row[method], row[method + " se"], row[method + " fit"] = fit.gamma, fit.standard_error, fit
        row["items"] = int((counts.sum(axis=0) > 0).sum())
        rows.append(row)
    return pd.DataFrame(rows)


def without_pairs(split: Split) -> Split:
    """Return the split with validation positives excluded from the candidates as well."""
    assert split.validation is not None
    train = split.train
    both = Interactions(
        np.concatenate([train.user, split.validation.user]),
        np.concatenate([train.item, split.validation.item]),
        train.user_ids,
        train.item_ids,
    )
    return Split(both, split.test)


def svd_over_splits(folder: Path, seeds: range, test: float, validation: float) -> pd.DataFrame:
    """Return the paper's table for pure SVD on several splits: what the split alone changes."""
    log = load_citeulike_a(folder)
    frames = []
    for seed in seeds:
        split = split_random(log, test_fraction=test, validation_fraction=validation, rng=seed)
        model = baselines.pure_svd(split.train, n_factors=50)
        ranks = rank_all({"pure SVD": model}, split)
        frames.append(table(ranks, split.train, (GAMMAS[1],)).assign(seed=seed))
    return pd.concat(frames, ignore_index=True)


def comparison(ours: pd.DataFrame) -> str:
    """Return the summary table: paper and ours, AOA and SNIPS(1.69), and the fall between them."""
    paper = paper_frame().set_index(["metric", "model", "gamma"])["estimate"]
    mine = ours.set_index(["metric", "model", "gamma"])["estimate"]
    rows = []
    for metric in LABELS:
        for model in MODELS:
            cells = []
            for values in (paper, mine):
                aoa, snips = values[metric, model, -1.0], values[metric, model, GAMMAS[1]]
                cells += [f"{aoa:.3f} → {snips:.3f}", f"−{100 * (1 - snips / aoa):.1f}%"]
            rows.append([f"{metric}, {model}", *cells])
    return markdown(["", "paper", "", "ours", ""], rows)


def all_gammas(ours: pd.DataFrame) -> str:
    """Return ours at AOA and the three γ; the paper's values in parentheses."""
    paper = paper_frame().set_index(["metric", "model", "gamma"])["estimate"]
    mine = ours.set_index(["metric", "model", "gamma"])["estimate"]
    rows = [
        [f"{metric}, {model}"]
        + [f"{mine[metric, model, g]:.4f} ({paper[metric, model, g]:.4f})" for g in (-1.0, *GAMMAS)]
        for metric in LABELS
        for model in MODELS
    ]
    return markdown(["ours (paper)", "AOA", *(f"SNIPS, γ = {g}" for g in GAMMAS)], rows)


def side_by_side(
    frames: Mapping[str, pd.DataFrame], models: tuple[str, ...], gamma: float = GAMMAS[1]
) -> str:
    """Return AOA → SNIPS(γ) of several variants of the same evaluation, one column each."""
    cells = {
        name: frame.set_index(["metric", "model", "gamma"])["estimate"] for name, frame in frames.items()
    }
    rows = [
        [f"{metric}, {model}"]
        + [f"{one[metric, model, -1.0]:.3f} → {one[metric, model, gamma]:.3f}" for one in cells.values()]
        for metric in LABELS
        for model in models
    ]
    return markdown(["AOA → SNIPS(1.69)", *frames], rows)


def gamma_table(gammas: pd.DataFrame) -> str:
    rows = [
        [
            row["model"],
            *(f"{row[m]:.2f} ± {row[m + ' se']:.2f}" for m in
              ("level-ols", "poisson", "negative-binomial", "cloglog")),
            f"{row['items']:,}",
        ]
        for _, row in gammas.iterrows()
    ]  # fmt: skip
    return markdown(
        ["top-50 lists of", "level-ols (the paper's)", "poisson", "negative-binomial", "cloglog",
         "items recommended"], rows,
    )  # fmt: skip


def split_table(folder: Path) -> str:
    """Return mean and standard deviation over splits of pure SVD, for three shares of training data."""
    rows = []
    for name, test, validation in (("70:15:15", 0.15, 0.15), ("80:10:10", 0.1, 0.1), ("60:20:20", 0.2, 0.2)):
        runs = svd_over_splits(folder, range(3), test, validation)
        cells = []
        for metric in LABELS:
            part = runs[runs["metric"] == metric].pivot(index="seed", columns="gamma", values="estimate")
            aoa, snips = part[-1.0], part[GAMMAS[1]]
            cells.append(f"{aoa.mean():.3f} ± {aoa.std():.3f} → {snips.mean():.3f} ± {snips.std():.3f}")
        rows.append([name, *cells])
    return markdown(["pure SVD, 3 splits", *LABELS], rows)


@dataclass(frozen=True)
class Results:
    """What the notebook and the page show."""

    split: Split
    models: dict[str, Any]
    about: dict[str, Any]
    ranks: dict[str, RankedPositives]
    full: dict[str, RankedPositives]
    gammas: pd.DataFrame


def compute(folder: Path, names: tuple[str, ...] = MODELS) -> Results:
    """Load (or train) the recommenders, rank the test positives in both pools, and fit γ."""
    split = citeulike_split(folder)
    loaded = {name: load_factors(name, folder) for name in names}
    models = {name: one for name, (one, _) in loaded.items()}
    return Results(
        split,
        models,
        {name: about for name, (_, about) in loaded.items()},
        rank_all(models, split),
        rank_all(models, split, paper=False),
        fitted_gammas(models, split),
    )


def variants(results: Results) -> dict[str, pd.DataFrame]:
    """Return the same evaluation with one convention changed at a time."""
    split, train = results.split, results.split.train
    return {
        "as in the paper": table(results.ranks, train),
        "ties at their mean": table(results.ranks, train, ties="default"),
        "other negatives": table(rank_all(results.models, split, seed=11), train),
        "validation out of the pool": table(rank_all(results.models, without_pairs(split)), train),
        "full catalogue": table(results.full, train, ties="default"),
        "full, snips-global": table(results.full, train, ties="default", estimators=("snips-global",)),
    }


OTHER = ("BPR (openrec loss)", "PMF (cornac)", "PMF (rate 0.005)", "U-CML (rate 0.005)")


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    results = compute(folder)
    changed = variants(results)
    ours = changed["as in the paper"]
    other = compute(folder, OTHER)
    own_gammas = results.gammas["level-ols"]
    own = tuple(float(round(g, 4)) for g in (own_gammas.min(), own_gammas.mean(), own_gammas.max()))
    return {
        "yang-summary": comparison(ours),
        "yang-all": all_gammas(ours),
        "yang-gamma": gamma_table(pd.concat([results.gammas, other.gammas])),
        "yang-own-gamma": side_by_side(
            {f"γ = {g:.2f}": _as_mean(table(results.ranks, results.split.train, (g,)), g) for g in own},
            MODELS,
        ),
        "yang-variants": side_by_side(changed, MODELS),
        "yang-implementation": side_by_side(
            {"as in the paper": table(other.ranks, other.split.train)}, OTHER
        ),
        "yang-splits": split_table(folder),
        "yang-training": training_table(results.about | other.about),
    }


def _as_mean(frame: pd.DataFrame, gamma: float) -> pd.DataFrame:
    return frame.replace({"gamma": {gamma: GAMMAS[1]}})


def training_table(about: Mapping[str, Any]) -> str:
    rows = [
        [name, one["label"], f"{one['value']:.4f}",
         "; ".join(f"{label}: {value:.4f}" for label, value in one["tried"]),
         f"{one['seconds']:.0f}"]
        for name, one in about.items()
    ]  # fmt: skip
    return markdown(["", "chosen", "recall@50, validation", "all snapshots", "s"], rows)


if __name__ == "__main__":
    command(__doc__, tables)
