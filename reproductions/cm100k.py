"""CM100K, where observation was measured: γ, the error that counted weights remove, and how true `correct` is.

    python -m reproductions.cm100k --data PATH [--divisions 6] [--draws 5] [--write]

Each division of the ratings into log, part for counting and truth is another draw. Half of the log is held
out. --write puts the tables into docs/validation.md and docs/correction-accuracy.md, and the figure of γ beside them.
`python -m reproductions.evaluators` compares weights on the same log.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval import fit_gamma_from_exposure
from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.data import RandomExposure
from ipseval.estimators.labels import AOA_POOLED, SNIPS_POOLED
from ipseval.propensity import GammaFit
from ipseval.validation import default_propensities, validate
from ipseval.validation._curve import WITH_INTERACTIONS
from ipseval.validation.datasets import RandomExposureStudy, load_cm100k, load_coat, load_kuairand
from reproductions import correction_summary
from reproductions.correction_coat import recommenders
from reproductions.correction_truth import judge, of_study
from reproductions.random_exposure import PUBLISHED
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "validation.md"
CORRECTION_PAGE = ROOT / "docs" / "correction-accuracy.md"
FIGURE = ROOT / "docs" / "images" / "measured-gamma.svg"
METRICS = ("atop", "recall@10", "recall@50", "mean_dcg@10")
TEST_FRACTION = 0.5
SIZES = (0, 25, 100, 500)
GOAL_SIZES = (25, 100)
# γ and its standard error of an earlier run on data that are not distributed with the project.
EARLIER = {"Yahoo! R3 (earlier run)": 0.27, "KuaiRec (earlier run)": -0.59}
COUNTED = "counted"
N_SPLITS = 5
N_RESAMPLES = 300
MIN_REDUCTION = 0.65
MAX_ERROR_RATIO = 0.9
MIN_COVERAGE = 0.9


def measure_gamma(study: RandomExposureStudy) -> GammaFit:
    """Return γ of the whole log, by the part for counting where there is one, otherwise by the truth."""
    random = study.calibration if study.calibration is not None else study.random
    shown = RandomExposure.from_ratings(random, threshold=study.threshold)
    popularity = study.positives().biased.popularity
    return fit_gamma_from_exposure(popularity, shown.n_exposed, shown.n_positive)


def combine(fits: list[GammaFit]) -> tuple[float, float]:
    """Return the mean of γ over divisions of the same ratings, and the mean of their standard errors."""
    gamma = float(np.mean([fit.gamma for fit in fits]))
    standard_error = float(np.mean([fit.standard_error for fit in fits]))
    return gamma, standard_error


def measure_support(study: RandomExposureStudy) -> float:
    """Return the share of the truth whose tracks nobody liked and knew outside the truth."""
    assert study.counted_propensity is not None
    positives = study.positives()
    n_observed = positives.biased.popularity + np.asarray(study.counted_propensity.n_observed)
    return float((n_observed[positives.random.item] == 0).mean())


def measure_reduction(study: RandomExposureStudy, number: int) -> pd.DataFrame:
    """Return how much of AOA's error SNIPS (pooled) removes by metric, with an interval over users.

    Propensities are counted on pairs that are neither in the log nor in the truth.
    """
    validation = validate(
        recommenders(),
        study,
        propensities={COUNTED: default_propensities(study)[COUNTED]},
        metrics=METRICS,
        estimators=[SNIPS_POOLED],
        n_splits=N_SPLITS,
        test_fraction=TEST_FRACTION,
        n_resamples=N_RESAMPLES,
        rng=number,
    )
    rows = validation.summary
    rows = rows[(rows["propensity"] == COUNTED) & (rows["estimator"] == SNIPS_POOLED)]
    return rows.assign(number=number)


def reduction_table(rows: pd.DataFrame) -> str:
    """Return the error reduction of each metric, mean over divisions, and the ends of its intervals."""
    lines = []
    for metric, part in rows.groupby("metric", sort=False):
        low = 100 * part["reduction_low"]
        high = 100 * part["reduction_high"]
        lines.append((
            str(metric), f"{100 * part['reduction'].mean():.0f}", f"{low.mean():.0f} to {high.mean():.0f}",
            f"{low.min():.0f}",
        ))  # fmt: skip
    header = (
        "SNIPS (pooled), counted propensities", "error reduction, %", "95% interval over users, %",
        "lowest end of a division, %",
    )  # fmt: skip
    return markdown(header, lines)


def judge_correction(study: RandomExposureStudy, number: int, n_draws: int) -> pd.DataFrame:
    """Return the scores of `correct` and of the random sample on one division."""
    case = of_study(study, number, METRICS, test_fraction=TEST_FRACTION)
    rows = pd.DataFrame(judge(case, SIZES, n_draws, number))
    return rows.assign(source="cm100k", number=number)


def correction_table(rows: pd.DataFrame) -> str:
    """Return error, coverage and half-width by number of exposed users, with errors over divisions."""
    lines = []
    for size in SIZES:
        at_size = rows[rows["size"] == size]
        random_error = at_size[at_size["estimator"] == RANDOM_SAMPLE].groupby("metric")["error"].mean()
        for estimator in (AOA_POOLED, RANDOM_SAMPLE, CORRECTED, WITH_INTERACTIONS):
            part = at_size[at_size["estimator"] == estimator]
            if part.empty:
                continue
            error = part.groupby("metric")["error"].mean()
            covered = 100 * part.groupby("metric")["covered"].mean()
            by_division = 100 * part.groupby("number")["covered"].mean()
            by_cell = 100 * part.groupby(["metric", "number"])["covered"].mean()
            covered_error = by_cell.groupby("metric").sem()
            ratio = "–"
            if size and estimator != RANDOM_SAMPLE:
                ratio = " ".join(f"{error[metric] / random_error[metric]:.2f}" for metric in METRICS)
            lines.append((
                f"{size}", estimator, " ".join(f"{error[metric]:.4f}" for metric in METRICS), ratio,
                " ".join(f"{covered[metric]:.0f}" for metric in METRICS),
                " ".join(f"{covered_error[metric]:.0f}" for metric in METRICS),
                f"{by_division.mean():.1f} ± {by_division.sem():.1f}",
                format_warned(part, estimator),
            ))  # fmt: skip
    header = (
        "exposed users", "estimator", "mean absolute error", "of the random sample's", "coverage, %",
        "its standard error, %", "mean coverage ± SE, %", "warned, %",
    )  # fmt: skip
    return markdown(header, lines)


def format_warned(part: pd.DataFrame, estimator: str) -> str:
    """Return in how many corrections, in %, the report says that the density ratio does not explain exposure."""
    if estimator in (AOA_POOLED, RANDOM_SAMPLE):
        return ""
    return f"{100 * part['warned'].mean():.0f}"


def gamma_table(measured: dict[str, tuple[float, float]]) -> str:
    """Return measured γ with 95% intervals, γ of earlier runs, and published γ from lists."""
    lines = []
    for name, (gamma, error) in measured.items():
        interval = f"[{gamma - 1.96 * error:.2f}, {gamma + 1.96 * error:.2f}]"
        lines.append((name, "random exposure", f"{gamma:.2f}", interval))
    for name, gamma in EARLIER.items():
        lines.append((name, "random exposure", f"{gamma:.2f}", "–"))
    for name, (low, mean, high) in PUBLISHED.items():
        lines.append((name, "lists of four recommenders", f"{mean:.2f}", f"{low:.2f} to {high:.2f}"))
    return markdown(("log", "measured on", "γ", "95% interval, or range"), lines)


def draw_gamma(measured: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw measured γ beside γ of earlier runs and published γ."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    names = [*measured, *EARLIER, *(f"{name} (published, lists)" for name in PUBLISHED)]
    with pyplot.rc_context({"svg.hashsalt": "measured-gamma", "font.size": 10}):
        figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
        height = 0
        for gamma, error in measured.values():
            axes.errorbar(gamma, height, xerr=1.96 * error, fmt="o", color="C0", capsize=3)
            height += 1
        for gamma in EARLIER.values():
            axes.plot(gamma, height, "o", color="C0", fillstyle="none")
            height += 1
        for low, mean, high in PUBLISHED.values():
            axes.errorbar(mean, height, xerr=[[mean - low], [high - mean]], fmt="s", color="C3", capsize=3)
            height += 1
        axes.set_yticks(np.arange(height), names)
        axes.invert_yaxis()
        axes.axvline(1, color="gray", linewidth=0.8, linestyle=":")
        axes.set_xlabel("γ (above 1, items liked by more users would be observed less often)")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def check_goals(gamma: float, reductions: pd.DataFrame, scores: pd.DataFrame) -> list[str]:
    """Return a line for each goal of the reproduction: what it is, what was reached, whether it holds."""
    lines = [f"measured γ {gamma:.2f}; goal .46 ± .03: {abs(gamma - 0.46) <= 0.03}"]
    for metric, part in reductions.groupby("metric", sort=False):
        low = part["reduction_low"].mean()
        if metric != "atop":
            lines.append(f"{metric}: lower end {100 * low:.0f}%; goal above 65%: {low > MIN_REDUCTION}")
    for size in GOAL_SIZES:
        at_size = scores[scores["size"] == size]
        corrected = at_size[at_size["estimator"] == CORRECTED]
        sample = at_size[at_size["estimator"] == RANDOM_SAMPLE]
        coverage = corrected["covered"].mean()
        ratio = (
            corrected.groupby("metric")["error"].mean() / sample.groupby("metric")["error"].mean()
        ).mean()
        reached = coverage >= MIN_COVERAGE and ratio <= MAX_ERROR_RATIO
        lines.append(
            f"{size} users: coverage {100 * coverage:.1f}%, error {ratio:.2f} of the random sample's; "
            f"goal ≥ 90% and ≤ .9: {reached}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder with cm100k/")
    parser.add_argument("--divisions", type=int, default=6, help="draws of log, counting part and truth")
    parser.add_argument("--draws", type=int, default=5, help="samples of exposed users of each division")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    studies = [load_cm100k(options.data / "cm100k", rng=number) for number in range(options.divisions)]
    print(studies[0].card)
    measured = {"CM100K": combine([measure_gamma(study) for study in studies])}
    for name, load in (("KuaiRand", load_kuairand), ("Coat", load_coat)):
        measured[name] = combine([measure_gamma(load(options.data / name.lower()))])
    made = {"cm100k-gamma": gamma_table(measured)}
    print(made["cm100k-gamma"], flush=True)
    shares = 100 * np.array([measure_support(study) for study in studies])
    print(f"truth without support: {shares.mean():.1f}% ({shares.min():.1f} to {shares.max():.1f})")
    reductions = pd.concat([measure_reduction(study, number) for number, study in enumerate(studies)])
    print(reduction_table(reductions), flush=True)
    scores = pd.concat(
        [judge_correction(study, number, options.draws) for number, study in enumerate(studies)]
    )
    counts = f"{options.divisions} divisions, {options.draws} draws; in a cell: {', '.join(METRICS)}."
    truth = {"truth-cm100k": f"{counts}\n\n{correction_table(scores)}"}
    print(truth["truth-cm100k"])
    print("\n".join(check_goals(measured["CM100K"][0], reductions, scores)))
    if options.write:
        support = f"{shares.mean():.1f}% ({shares.min():.1f}% to {shares.max():.1f}%)"
        made["cm100k-support"] = (
            f"{reduction_table(reductions)}\n\n"
            f"Share of the truth without support: {support} over {shares.size} divisions."
        )
        write_tables(made, PAGE)
        write_tables(truth, CORRECTION_PAGE)
        correction_summary.write_page()
        draw_gamma(measured, FIGURE)


if __name__ == "__main__":
    main()
