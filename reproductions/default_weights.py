"""The defaults of weighting: items without training interactions, and the estimator of SNIPS.

    python -m reproductions.default_weights --cache FOLDER [--data PATH] [--write]

Four logs with random exposure (Coat, KuaiRand, 2% of the positives of KuaiRand, and CM100K) and the worlds of
both simulators. Each is split, eight to ten recommenders are trained, and AOA, `snips-global` and
`snips-pooled` are computed with a power law of γ = 0, with a power law of the γ that random exposure gives,
and with the propensities that are exact (simulators) or counted (CM100K). The estimates of
`unseen="drop"` and of three smoothing constants are compared with the same truth, the mean over all relevant
pairs outside training, those of items without training interactions included. On logs the pooled mean over
the random positives is the truth of both estimators; in simulations each estimator has its own truth.

The folder keeps the rows of each split or world, and a run goes on where the last one ended. About half an
hour of processor time.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ipseval import (
    Interactions,
    PowerLawPropensity,
    RandomExposure,
    Split,
    evaluate_ranks,
    fit_gamma_from_exposure,
    rank_positives,
    split_random,
)
from ipseval.estimators.labels import AOA, AOA_POOLED, SNIPS_GLOBAL, SNIPS_POOLED
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.validation._population import (
    exposure_outside_training,
    positive_pair_keys,
    rank_with_pairs,
    select_pairs,
)
from ipseval.validation.datasets import RandomExposureStudy, load_cm100k, load_coat, load_kuairand
from reproductions import correction_family, feedback_worlds
from reproductions.correction_coat import recommenders
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "validation.md"
SEED = 64
METRICS = ("atop", "recall@10", "mean_dcg@10")
ESTIMATORS = (AOA, AOA_POOLED, SNIPS_GLOBAL, SNIPS_POOLED)
COUNTERPART = {SNIPS_GLOBAL: AOA, SNIPS_POOLED: AOA_POOLED}
NUMBERS = {
    "Coat": 6,
    "KuaiRand": 3,
    "KuaiRand, 2%": 6,
    "CM100K": 6,
    "first simulator": 42,
    "second simulator": 36,
}
SIMULATORS = ("first simulator", "second simulator")
CONSTANTS = (0.5, 1.0, 2.0)
THINNED_SHARE = 0.02
ASSUMED = "γ = 0"
MEASURED = "γ measured"
TRUE = "true propensities"
DROP = "drop"

# The rule for items without training interactions: a cell is worse by two points of the error and by two
# standard errors, the latter as a one-sided test at 0.05 with Holm's correction over cells.
WORSE_POINTS = 2.0
LEVEL = 0.05

# The rule for the estimator.
LOW_COVERAGE = 80.0
GOOD_COVERAGE = 90.0
LOWER_TAU = 0.05
TAU_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Case:
    """A split with the ranks of its test positives and of the pairs that give the truth.

    Attributes
    ----------
    kind : str
        Kind of exposure of a simulated world; the name of a log.
    train : Interactions
        Training part.
    test, relevant : dict of name to RankedPositives
        Ranks of the test positives, and of the relevant pairs outside training: all of them in a simulation,
        the positives of the random exposure otherwise.
    gamma : float
        γ by random exposure.
    true_propensity : Propensity or None
        Exact or counted propensity of the test positives.
    is_simulated : bool
        Whether `relevant` holds every relevant pair.
    """

    kind: str
    train: Interactions
    test: dict[str, RankedPositives]
    relevant: dict[str, RankedPositives]
    gamma: float
    true_propensity: Propensity | None
    is_simulated: bool


def prepare_case(source: str, number: int, data: Path) -> Case:
    """Return a split of a log, or a simulated world."""
    if source == "first simulator":
        return prepare_first(number)
    if source == "second simulator":
        return prepare_second(number)
    if source == "CM100K":
        return prepare_log(load_cm100k(data / "cm100k", rng=number), source, number, test_fraction=0.5)
    if source == "Coat":
        return prepare_log(load_coat(data / "coat"), source, number)
    study = load_kuairand(data / "kuairand")
    if source == "KuaiRand, 2%":
        study = thin(study, np.random.default_rng([SEED, number]))
    return prepare_log(study, source, number)


def thin(study: RandomExposureStudy, rng: np.random.Generator) -> RandomExposureStudy:
    """Return a study with a share of the biased log."""
    is_kept = rng.random(len(study.biased)) < THINNED_SHARE
    return replace(study, biased=study.biased.select(is_kept))


def prepare_log(study: RandomExposureStudy, name: str, number: int, test_fraction: float = 0.2) -> Case:
    """Return the case of a random split of the positives of a log."""
    split = split_random(
        study.positives().biased, test_fraction=test_fraction, rng=np.random.default_rng([SEED, number])
    )
    liked = positive_pair_keys(exposure_outside_training(study, split))
    models = {}
    for model, train in recommenders().items():
        models[model] = train(split.train)
    ranks = rank_with_pairs(models, split, liked)
    ratings = study.random if study.calibration is None else study.calibration
    shown = RandomExposure.from_ratings(ratings, threshold=study.threshold)
    fit = fit_gamma_from_exposure(split.train.popularity, shown.n_exposed, shown.n_positive)
    counted = None
    if study.counted_propensity is not None:
        counted = replace(study.counted_propensity.fit(split.train), is_probability=False)
    return Case(
        kind=name,
        train=split.train,
        test=select_pairs(ranks, split.test.pair_key, split.n_items),
        relevant=select_pairs(ranks, liked, split.n_items),
        gamma=fit.gamma,
        true_propensity=counted,
        is_simulated=False,
    )


def prepare_first(number: int) -> Case:
    """Return the case of a world of the library's own simulator."""
    rng = np.random.default_rng([SEED, number])
    setting = correction_family.HELD_OUT
    kind = setting.kinds[number % len(setting.kinds)]
    log = correction_family.logged(correction_family.exposure(kind, rng), setting, rng)
    pairs = log.world.relevant
    is_left = ~np.isin(pairs.pair_key, log.split.train.pair_key)
    return prepare_world(kind, log.split, log.models, pairs.select(is_left), log.test_propensity[is_left])


def prepare_second(number: int) -> Case:
    """Return the case of a world of the second simulator."""
    world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
    left = world.left()
    propensity = None
    if world.test_propensity is not None:
        propensity = world.test_propensity[left.user, left.item]
    return prepare_world(world.kind, world.split, world.models, left, propensity)


def prepare_world(
    kind: str,
    split: Split,
    models: Mapping[str, object],
    left: Interactions,
    test_propensity: np.ndarray | None,
) -> Case:
    """Return the case of a world, whose `left` are all relevant pairs outside training."""
    everything = Split(split.train, left)
    relevant = {}
    for name, model in models.items():
        relevant[name] = rank_positives(model, everything, name=name)
    first = next(iter(relevant.values()))
    keys = first.user * np.int64(split.n_items) + first.item
    is_test = np.isin(keys, split.test.pair_key)
    test = {}
    for name, ranked in relevant.items():
        test[name] = ranked.select(is_test)
    exact = None
    if test_propensity is not None:
        exact = Propensity(
            item=None,
            is_probability=True,
            model="exact",
            n_items=split.n_items,
            pair=test_propensity,
            pair_key=left.pair_key,
        )
    n_exposed = np.full(split.n_items, split.n_users)
    n_relevant = left.popularity + split.train.popularity
    return Case(
        kind=kind,
        train=split.train,
        test=test,
        relevant=relevant,
        gamma=fit_gamma_from_exposure(split.train.popularity, n_exposed, n_relevant).gamma,
        true_propensity=exact,
        is_simulated=True,
    )


def list_propensities(case: Case) -> Iterator[tuple[str, str, Propensity]]:
    """Yield (source of the weights, treatment of unseen items, propensity)."""
    for name, gamma in ((ASSUMED, 0.0), (MEASURED, case.gamma)):
        yield name, DROP, PowerLawPropensity(gamma=gamma, unseen="drop").fit(case.train)
        for constant in CONSTANTS:
            model = PowerLawPropensity(gamma=gamma, unseen="smooth", smoothing=constant)
            yield name, f"{constant:g}", model.fit(case.train)
    if case.true_propensity is not None:
        yield TRUE, "", case.true_propensity


def evaluate_case(case: Case) -> pd.DataFrame:
    """Return one row per weights, treatment, estimator, metric and recommender, with the truth."""
    options = {"metrics": METRICS, "low_ess": "ignore"}
    truth = evaluate_ranks(case.relevant, estimators=(AOA, AOA_POOLED), **options).frame
    truth = truth.set_index(["estimator", "metric", "model"])[["estimate", "std_error"]]
    is_unseen = case.train.popularity == 0
    test = next(iter(case.test.values()))
    relevant = next(iter(case.relevant.values()))
    parts = []
    plain = evaluate_ranks(case.test, estimators=(AOA, AOA_POOLED), **options).frame
    parts.append(plain.assign(weights="none", treatment="", weight_share=np.nan))
    for weights, treatment, propensity in list_propensities(case):
        frame = evaluate_ranks(case.test, propensity=propensity, estimators=ESTIMATORS, **options).frame
        frame = frame[frame["estimator"].isin(COUNTERPART)]
        inverse = 1 / propensity.for_pairs(test.user, test.item)
        share = np.nansum(inverse[is_unseen[test.item]]) / np.nansum(inverse)
        parts.append(frame.assign(weights=weights, treatment=treatment, weight_share=share))
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[["weights", "treatment", "estimator", "metric", "model", "estimate", "ci_low", "ci_high",
                 "weight_share"]]  # fmt: skip
    values = []
    errors = []
    for row in rows.itertuples():
        estimator = COUNTERPART.get(row.estimator, row.estimator)
        if not case.is_simulated:
            estimator = AOA_POOLED
        value, error = truth.loc[(estimator, row.metric, row.model)]
        values.append(value)
        errors.append(0.0 if case.is_simulated else error)
    return rows.assign(
        truth=values,
        truth_error=errors,
        kind=case.kind,
        gamma=case.gamma,
        unseen_in_test=float(is_unseen[test.item].mean()),
        unseen_in_truth=float(is_unseen[relevant.item].mean()),
    )


def load_rows(cache: Path, source: str, number: int, data: Path) -> pd.DataFrame:
    """Return the rows of a case, from the folder if it has them."""
    file = cache / f"{source}-{number}.csv"
    if not file.exists():
        rows = evaluate_case(prepare_case(source, number, data))
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.assign(source=source, number=number).to_csv(file, index=False)
    return pd.read_csv(file, keep_default_na=False, na_values=["nan", "NaN"]).assign(
        weight_share=lambda frame: pd.to_numeric(frame["weight_share"], errors="coerce")
    )


# ---------------------------------------------------------------- items without training interactions


@dataclass(frozen=True)
class ErrorRemoved:
    """Shares of AOA's error that are removed by `drop` and with smoothing, and differences, all in points."""

    drop: float
    smooth: dict[float, float]
    difference: dict[float, float]
    standard_error: dict[float, float]
    n: int

    def compute_p_value(self, constant: float) -> float:
        """Return the p-value of the one-sided test that smoothing removes less than `drop`."""
        error = self.standard_error[constant]
        if error == 0:
            return 1.0
        return float(stats.t.cdf(self.difference[constant] / error, self.n - 1))


def compare_treatments(rows: pd.DataFrame) -> ErrorRemoved:
    """Compare the treatments in one cell: a source, weights, an estimator and a metric.

    `rows` has columns number, treatment ("aoa" for AOA) and error. Errors are averaged over splits or worlds
    before they are divided by AOA's, with a standard error by the delta method.
    """
    errors = rows.groupby(["number", "treatment"])["error"].mean().unstack()
    unweighted = errors["aoa"]
    n = len(errors)
    smooth = {}
    difference = {}
    standard_error = {}
    for constant in CONSTANTS:
        gain = errors[DROP] - errors[f"{constant:g}"]
        ratio = gain.mean() / unweighted.mean()
        rest = gain - ratio * unweighted
        smooth[constant] = 100 * (1 - errors[f"{constant:g}"].mean() / unweighted.mean())
        difference[constant] = 100 * ratio
        standard_error[constant] = 100 * float(rest.std(ddof=1) / np.sqrt(n) / unweighted.mean())
    drop = 100 * (1 - errors[DROP].mean() / unweighted.mean())
    return ErrorRemoved(drop, smooth, difference, standard_error, n)


def list_unseen_cells(rows: pd.DataFrame) -> list[tuple[tuple[str, str, str, str], pd.DataFrame]]:
    """Return the rows of each cell, with those of the AOA of the same target; user means in simulations only."""
    rows = rows.assign(error=(rows["estimate"] - rows["truth"]).abs())
    cells = []
    for source in NUMBERS:
        of_source = rows[rows["source"] == source]
        for estimator, unweighted in COUNTERPART.items():
            if of_source.empty or (estimator == SNIPS_GLOBAL and source not in SIMULATORS):
                continue
            for weights in (ASSUMED, MEASURED):
                is_weighted = (of_source["weights"] == weights) & (of_source["estimator"] == estimator)
                is_plain = (of_source["weights"] == "none") & (of_source["estimator"] == unweighted)
                plain = of_source[is_plain].assign(treatment="aoa")
                part = pd.concat([of_source[is_weighted], plain])
                for metric in METRICS:
                    key = (source, weights, estimator, metric)
                    cells.append((key, part[part["metric"] == metric]))
    return cells


def unseen_table(rows: pd.DataFrame) -> tuple[str, list[str]]:
    """Return the table of treatments of unseen items, and the conclusion for each smoothing constant."""
    cells = list_unseen_cells(rows)
    compared = {key: compare_treatments(part) for key, part in cells}
    p_values = []
    for cell in compared.values():
        for constant in CONSTANTS:
            p_values.append(cell.compute_p_value(constant))
    adjusted = multipletests(p_values, method="holm")[1].reshape(-1, len(CONSTANTS))
    failures: dict[float, list[str]] = {constant: [] for constant in CONSTANTS}
    lines = []
    for (key, part), cell, p_adjusted in zip(cells, compared.values(), adjusted, strict=True):
        line = [
            *key,
            f"{100 * part['unseen_in_test'].mean():.2f}",
            f"{100 * part['unseen_in_truth'].mean():.2f}",
        ]
        line.append(f"{cell.drop:.1f}")
        for constant, p_value in zip(CONSTANTS, p_adjusted, strict=True):
            line.append(f"{cell.smooth[constant]:.1f}")
            line.append(f"{cell.difference[constant]:+.1f} ± {cell.standard_error[constant]:.1f}")
            is_worse = cell.difference[constant] < -WORSE_POINTS and p_value < LEVEL
            if is_worse:
                failures[constant].append(" / ".join(key))
        smoothed = part[part["treatment"] == "1"]
        line.append(f"{100 * smoothed['weight_share'].mean():.1f}")
        lines.append(line)
    header = [
        "source", "weights", "estimator", "metric", "test positives of unseen items, %",
        "truth of unseen items, %", "drop: error reduction, %",
    ]  # fmt: skip
    for constant in CONSTANTS:
        header += [f"smoothing {constant:g}: error reduction, %", f"smoothing {constant:g} less drop ± SE"]
    header.append("weight of unseen items, smoothing 1, %")
    conclusions = []
    for constant, names in failures.items():
        gains = [cell.difference[constant] for cell in compared.values()]
        text = f"smoothing {constant:g}: worse in {len(names)} of {len(cells)} cells"
        text += f"; mean difference {np.mean(gains):+.1f} points, lowest {min(gains):+.1f}"
        conclusions.append(text + "".join(f"\n    {name}" for name in names))
    return markdown(header, lines), conclusions


# ---------------------------------------------------------------- the default estimator


def score_estimators(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and Kendall's τ_b of each split or world, weights, estimator and metric."""
    rows = rows[rows["treatment"].isin(("", "1")) & rows["estimator"].isin(COUNTERPART)]
    keys = ["source", "kind", "number", "weights", "estimator", "metric"]
    scores = []
    for key, part in rows.groupby(keys, sort=False):
        middle = (part["ci_low"] + part["ci_high"]) / 2
        half = (part["ci_high"] - part["ci_low"]) / 2
        distance = (middle - part["truth"]).abs()
        is_covered = distance <= np.hypot(half, 1.96 * part["truth_error"])
        tau = stats.kendalltau(part["estimate"].round(TAU_DIGITS), part["truth"].round(TAU_DIGITS)).statistic
        scores.append((*key, 100 * is_covered.mean(), tau))
    return pd.DataFrame(scores, columns=[*keys, "coverage", "tau"])


def mean_with_error(values: pd.Series) -> tuple[float, float]:
    """Return the mean over splits or worlds, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def estimator_table(rows: pd.DataFrame) -> tuple[str, list[str]]:
    """Return the table of coverage and order by source, kind of exposure and weights, and the conclusion."""
    scores = score_estimators(rows)
    lines = []
    low_coverage = []
    missed = []
    lower_order = []
    for source in NUMBERS:
        of_source = scores[scores["source"] == source]
        kinds = sorted(of_source["kind"].unique())
        groups = [("all", of_source)]
        if source in SIMULATORS:
            groups += [(kind, of_source[of_source["kind"] == kind]) for kind in kinds]
        for kind, of_kind in groups:
            for weights in (TRUE, MEASURED, ASSUMED):
                of_weights = of_kind[of_kind["weights"] == weights]
                for metric in METRICS:
                    part = of_weights[of_weights["metric"] == metric]
                    if part.empty:
                        continue
                    coverage = part.pivot(index="number", columns="estimator", values="coverage")
                    tau = part.pivot(index="number", columns="estimator", values="tau")
                    global_coverage, global_error = mean_with_error(coverage[SNIPS_GLOBAL])
                    pooled_coverage, pooled_error = mean_with_error(coverage[SNIPS_POOLED])
                    change, change_error = mean_with_error(tau[SNIPS_POOLED] - tau[SNIPS_GLOBAL])
                    name = f"{source}, {kind} / {weights} / {metric}"
                    if source in SIMULATORS and weights == TRUE and global_coverage < LOW_COVERAGE:
                        low_coverage.append(name)
                        if pooled_coverage < GOOD_COVERAGE:
                            missed.append(f"{name}: {global_coverage:.0f} and {pooled_coverage:.0f}%")
                    if change + 2 * change_error < -LOWER_TAU:
                        lower_order.append(f"{name}: {change:+.2f} ± {change_error:.2f}")
                    global_cell = "–"
                    if source in SIMULATORS:
                        global_cell = f"{global_coverage:.0f} ± {global_error:.0f}"
                    lines.append((
                        source, kind, weights, metric, f"{len(part) // 2}", global_cell,
                        f"{pooled_coverage:.0f} ± {pooled_error:.0f}", f"{tau[SNIPS_GLOBAL].mean():.2f}",
                        f"{tau[SNIPS_POOLED].mean():.2f}", f"{change:+.2f} ± {change_error:.2f}",
                    ))  # fmt: skip
    header = (
        "source", "exposure", "weights", "metric", "splits or worlds", "snips-global: coverage, % ± SE",
        "snips-pooled: coverage, % ± SE", "snips-global: τ", "snips-pooled: τ", "difference of τ ± SE",
    )  # fmt: skip
    conclusions = [
        f"true propensities: snips-global covers less than {LOW_COVERAGE:g}% in {len(low_coverage)} cells; "
        f"snips-pooled then covers less than {GOOD_COVERAGE:g}% in {len(missed)}",
        *(f"    {text}" for text in missed),
        f"τ of snips-pooled lower by more than {LOWER_TAU:g} beyond two standard errors in "
        f"{len(lower_order)} of {len(lines)} cells",
        *(f"    {text}" for text in lower_order),
    ]
    return markdown(header, lines), conclusions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder with the data sets")
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the rows of each case")
    parser.add_argument("--sources", nargs="+", choices=list(NUMBERS), default=list(NUMBERS))
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = []
    for source in options.sources:
        for number in range(NUMBERS[source]):
            parts.append(load_rows(options.cache, source, number, options.data))
        print(f"{source}: {NUMBERS[source]}", flush=True)
    rows = pd.concat(parts, ignore_index=True)
    unseen, unseen_conclusions = unseen_table(rows)
    estimators, estimator_conclusions = estimator_table(rows)
    print(unseen, *unseen_conclusions, estimators, *estimator_conclusions, sep="\n")
    if options.write:
        write_tables({"unseen-items": unseen, "default-estimator": estimators}, PAGE)


if __name__ == "__main__":
    main()
