"""Yang et al. (RecSys 2018, doi:10.1145/3240323.3240355), section 5: is SNIPS closer to random exposure?

    python -m reproductions.coat --data PATH [--write]
    python -m reproductions.coat --yahoo-r3 FOLDER        (prints; the licence forbids redistribution)

The paper used Yahoo! R3, which must be requested; Coat has the same design. BPR, PMF, U-CML and A-CML are
trained on 80% of the biased positives (rating >= 4), five splits; the mean absolute error over the four
recommenders of an estimate from the other 20% is held against random exposure, and their order as well.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import Interactions, split_random
from ipseval.evaluation import evaluate_ranks
from ipseval.propensity import DensityRatioPropensity, PowerLawPropensity
from ipseval.ranking import SampledCandidates, rank_positives
from ipseval.validation import Validation, default_propensities, validate
from ipseval.validation.datasets import RandomExposureStudy, load_coat, load_yahoo_r3
from reproductions.citeulike import YangAuc
from reproductions.models import torch_model
from reproductions.recommenders import cornac_bpr
from reproductions.tables import PAGE, deliver, markdown

N_SPLITS = 5
PAPER_GAMMAS = (1.5, 2.0, 2.5, 3.0)
METRICS = ("atop", "recall@5", "mean_dcg", "mean_dcg@5")
PAPER_REDUCTION = 0.30  # "more than 30%" on Yahoo! R3, by the abstract


def last(snapshots: Any) -> Any:
    """Return the factors of the last snapshot."""
    *_, (_, factors) = snapshots
    return factors


PMF_PASSES = 20  # over the positives, a fifth of a batch in each step


def trained(train: Interactions, *, loss: str, l2: float, n_steps: int) -> Any:
    batch = min(8000, max(500, len(train)))
    if loss == "pmf":  # a larger log needs more steps for as many passes
        n_steps = max(n_steps, PMF_PASSES * len(train) // (batch // 5))
    return last(torch_model(train, 0, loss=loss, l2=l2, n_steps=n_steps, rate=0.01, batch=batch))


# Steps and l2 were chosen once on held-out biased positives of a split of its own; see `choose`.
MODELS: dict[str, Any] = {
    "BPR": cornac_bpr,
    "PMF": partial(trained, loss="pmf", l2=0.0, n_steps=100),
    "U-CML": partial(trained, loss="ucml", l2=0.1, n_steps=200),
    "A-CML": partial(trained, loss="acml", l2=0.1, n_steps=200),
}


def propensities(study: RandomExposureStudy, *, smooth: bool = True) -> dict[str, Any]:
    """Return the paper's weights and those that random exposure allows, as `validate` takes them."""
    unseen: Any = "smooth" if smooth else "drop"
    rules: dict[str, Any] = {"AOA": PowerLawPropensity(gamma=-1.0, unseen="smooth")}
    usual = default_propensities(study)
    rules["γ of the lists (the paper)"] = usual["gamma from lists"]
    rules |= {f"γ = {g:g}": PowerLawPropensity(gamma=g, unseen=unseen) for g in PAPER_GAMMAS}
    rules["γ = 1: 1/(n*+1)"] = PowerLawPropensity(gamma=1.0, unseen="smooth")
    rules["γ calibrated"] = usual["gamma calibrated"]
    if study.propensity is not None:
        rules["published"] = study.propensity
    rules["density ratio"] = DensityRatioPropensity(rng=0)
    return rules


def run(study: RandomExposureStudy, n_splits: int = N_SPLITS, n_resamples: int = 300) -> Validation:
    """Return the validation of all weights, per-user SNIPS (the paper's) and snips-global."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return validate(
            MODELS, study, propensities=propensities(study), metrics=METRICS,
            estimators=("snips", "snips-global"), n_splits=n_splits, n_resamples=n_resamples, rng=0,
        )  # fmt: skip


def reduction_table(result: Validation, estimator: str) -> str:
    """Return the reduction of the MAE with its interval, and the change of τ_b, per metric."""
    alone = "propensity == 'random-sample' and estimator == 'aoa'"
    part = result.summary.query(f"estimator == @estimator or ({alone})")
    rows = []
    aoa = part[part["estimator"] == estimator].drop_duplicates("metric").set_index("metric")
    rows.append(
        ["*AOA: MAE; τ_b*", *(f"{aoa.loc[m, 'mae_aoa']:.4f}; {aoa.loc[m, 'tau_b_aoa']:.2f}" for m in METRICS)]
    )
    for name in dict.fromkeys(part["propensity"]):
        mine = part[part["propensity"] == name].set_index("metric")
        cells = []
        for m in METRICS:
            one = mine.loc[m]
            cells.append(
                f"{100 * one['reduction']:.0f}% ({100 * one['reduction_low']:.0f} to "
                f"{100 * one['reduction_high']:.0f}); {one['tau_change']:+.2f}"
            )
        rows.append([name, *cells])
    rows.append(["*if unbiased*", *(f"*{100 * aoa.loc[m, 'if_unbiased']:.0f}%*" for m in METRICS)])
    return markdown([f"{estimator}: reduction of MAE; change of τ_b", *METRICS], rows)


def level_table(result: Validation, name: str = "γ of the lists (the paper)") -> str:
    """Return, per recommender, the reference and the signed errors of AOA, SNIPS and snips-global."""
    frame = result.frame[result.frame["fold"].isna()]
    rows = []
    for model in dict.fromkeys(frame["model"]):
        cells = []
        for metric in METRICS:
            mine = frame[(frame["model"] == model) & (frame["metric"] == metric)]
            weighted = mine[mine["propensity"] == name].groupby("estimator")["bias"].mean()
            best = mine[mine["propensity"] == "density ratio"].groupby("estimator")["bias"].mean()
            reference = mine["reference"].mean()
            plain = plain_bias(result, model, metric)
            cells.append(
                f"{reference:.3f}: {plain:+.3f} → {weighted['snips']:+.3f} → {best['snips-global']:+.3f}"
            )
        rows.append([model, *cells])
    return markdown(["reference: AOA → snips, γ of the lists → density ratio, global", *METRICS], rows)


def plain_bias(result: Validation, model: str, metric: str) -> float:
    """Return the mean bias of AOA: SNIPS with constant weights, which `validate` also ran."""
    frame = result.frame
    mine = frame[(frame["model"] == model) & (frame["metric"] == metric) & (frame["propensity"] == "AOA")]
    return float(mine["bias"].mean())


def shares_table(study: RandomExposureStudy, shares: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5)) -> str:
    """Return the reduction by per-user SNIPS and snips-global for several held-out shares, γ = 1.5."""
    rows = []
    rule = {"γ = 1.5": PowerLawPropensity(gamma=1.5, unseen="smooth")}
    for share in shares:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = validate(
                MODELS, study, propensities=rule, metrics=METRICS, estimators=("snips", "snips-global"),
                n_splits=3, test_fraction=share, n_resamples=0, rng=0,
            )  # fmt: skip
        counts = split_random(study.positives().biased, test_fraction=share, rng=0).test.activity
        counts = counts[counts > 0]
        summary = result.summary.set_index(["estimator", "metric"])["reduction"]
        cells = [
            " / ".join(f"{100 * summary[estimator, m]:.0f}" for m in METRICS)
            for estimator in ("snips", "snips-global")
        ]
        rows.append([f"{share:.0%}", f"{counts.mean():.1f}", f"{(counts == 1).mean():.0%}", *cells])
    metrics = " / ".join(METRICS)
    return markdown(
        ["held out", "positives per user", "users with one", f"snips, %: {metrics}", "snips-global, %"], rows
    )


# --- The pools of the authors' code -------------------------------------------------------------------------


def as_coded(
    study: RandomExposureStudy, seed: int, n_negatives: int = 200, *, same_pool: bool = False
) -> pd.DataFrame:
    """Return MAE of AOA and SNIPS with the candidate pools of the authors' code for this section.

    The biased positives compete with 200 sampled items and each other, the random-exposure positives with the
    randomly shown items the user rated low. With `same_pool` both compete with the sampled items.
    """
    positives = study.positives()
    split = split_random(positives.biased, test_fraction=0.2, rng=seed)
    pool = SampledCandidates(n_negatives, replacement=False, pool="unobserved+positives", rng=10)
    metrics = (YangAuc(), "recall@1")
    shown = positives.random.select(~np.isin(positives.random.pair_key, split.train.pair_key))
    rated = study.random.select(~np.isin(study.random.pair_key, split.train.pair_key))
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, train in MODELS.items():
            model = train(split.train)
            biased = rank_positives(model, split, candidates=pool)
            other = type(split)(split.train, shown)
            reference = (
                rank_positives(model, other, candidates=pool)
                if same_pool
                else rank_rated(model, other, rated)
            )
            truth = evaluate_ranks({name: reference}, metrics=metrics, estimators=["aoa"], ties="min").frame
            truth = truth.set_index("metric")["estimate"]
            for gamma in (-1.0, *PAPER_GAMMAS):
                fitted = PowerLawPropensity(gamma=max(gamma, PAPER_GAMMAS[0]), unseen="drop").fit(split.train)
                kind = "aoa" if gamma == -1 else "snips"
                frame = evaluate_ranks(
                    {name: biased}, propensity=fitted, metrics=metrics, estimators=[kind], ties="min"
                ).frame
                for metric, value in frame.set_index("metric")["estimate"].items():
                    rows.append(
                        {"model": name, "metric": metric, "gamma": gamma, "reference": truth[metric],
                         "estimate": value, "seed": seed}
                    )  # fmt: skip
    return pd.DataFrame(rows)


def rank_rated(model: Any, split: Any, rated: Interactions) -> Any:
    """Return ranks of the test positives among the user's own randomly shown items."""
    frame = pd.DataFrame({"user": rated.user_ids[rated.user], "item": rated.item_ids[rated.item]})
    return rank_positives(model, split, candidates=frame)


def as_coded_table(study: RandomExposureStudy, seeds: range = range(N_SPLITS)) -> str:
    """Return MAE over the four recommenders by γ: pools as coded, and one pool for both sides."""
    rows = []
    for label, same in (("pools as coded", False), ("the same pool for both", True)):
        runs = pd.concat([as_coded(study, seed, same_pool=same) for seed in seeds])
        for metric in ("auc (Yang)", "recall@1"):
            part = runs[runs["metric"] == metric]
            error = (part["estimate"] - part["reference"]).abs().groupby(part["gamma"]).mean()
            cells = [f"{error[-1.0]:.4f}"]
            cells += [f"{error[g]:.4f} ({100 * (1 - error[g] / error[-1.0]):+.0f}%)" for g in PAPER_GAMMAS]
            rows.append([f"{metric}, {label}", f"{part['reference'].mean():.3f}", *cells])
    header = ["MAE (reduction)", "mean reference", "AOA", *(f"SNIPS γ = {g:g}" for g in PAPER_GAMMAS)]
    return markdown(header, rows)


def choose(study: RandomExposureStudy) -> pd.DataFrame:
    """Return recall@10 on held-out biased positives for numbers of steps: how MODELS was set."""
    split = split_random(study.positives().biased, test_fraction=0.2, rng=1000)
    rows = []
    for loss, l2 in (("pmf", 0.0), ("ucml", 0.1), ("acml", 0.1)):
        batch = min(8000, max(500, len(split.train)))
        for label, factors in torch_model(
            split.train, 0, loss=loss, l2=l2, n_steps=500, rate=0.01, batch=batch
        ):
            ranks = {loss: rank_positives(factors, split)}
            value = evaluate_ranks(ranks, metrics=["recall@10", "atop"], estimators=["aoa"]).frame["estimate"]
            rows.append({"loss": loss, "snapshot": label, "recall@10": value[0], "atop": value[1]})
    return pd.DataFrame(rows)


def tables(study: RandomExposureStudy) -> dict[str, str]:
    """Return the tables of the page."""
    result = run(study)
    return {
        "coat-snips": reduction_table(result, "snips"),
        "coat-snips-global": reduction_table(result, "snips-global"),
        "coat-levels": level_table(result),
        "coat-shares": shares_table(study),
        "coat-pools": as_coded_table(study),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with coat/")
    parser.add_argument("--yahoo-r3", type=Path, help="folder with the two rating files of Yahoo! R3")
    parser.add_argument(
        "--any-size",
        action="store_true",
        help="do not check that the files of --yahoo-r3 are the published ones",
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reproductions.md")
    parser.add_argument("--choose", action="store_true", help="print what the number of steps was chosen by")
    options = parser.parse_args(arguments)
    if options.yahoo_r3 is None and options.data is None:
        parser.error("give --data or --yahoo-r3")
    if options.yahoo_r3 is None:
        study = load_coat(options.data / "coat")
    else:
        study = load_yahoo_r3(options.yahoo_r3, verify=not options.any_size)
    if options.choose:
        print(choose(study).to_string())
        return
    deliver(tables(study), PAGE if options.write and options.yahoo_r3 is None else None)


if __name__ == "__main__":
    main()
