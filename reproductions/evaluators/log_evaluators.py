"""Evaluators that read the log alone, or propensities that were measured with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from ipseval import PowerLawPropensity
from ipseval.correction import CORRECTED
from ipseval.errors import InputError
from ipseval.propensity import JainPropensity, Propensity, count_recommendations, fit_gamma
from ipseval.ranking import top_items
from reproductions.evaluators.context import Context, Estimand, take_estimates
from reproductions.evaluators.recommenders import FACTOR_MODELS
from reproductions.evaluators.registry import WARNED, Needs, add_evaluator
from reproductions.field_study import ONE_THREAD

YANG = "Yang et al., RecSys 2018, doi 10.1145/3240323.3240355"
CREMONESI = "Cremonesi, Koren and Turrin, RecSys 2010, doi 10.1145/1864708.1864721"
SAITO = "Saito et al., WSDM 2020, doi 10.1145/3336191.3371783"
SCHNABEL = "Schnabel et al., ICML 2016, arXiv 1602.05352"
JAIN = "Jain, Prabhu and Varma, KDD 2016, doi 10.1145/2939672.2939756"
IONIDES = "Ionides, JCGS 2008, doi 10.1198/106186008X320456"
IPSEVAL = "ipseval, docs/correction.md"

# The smallest γ that Yang et al. published (citeulike-a), and the square root of popularity of Saito et al.
GAMMA_YANG = 1.55
GAMMA_SAITO = 0.0
FLOOR = 0.1
LIST_LENGTH = 50
# Estimator of ipseval -> words of its name here, and the estimand.
NORMALIZATIONS: dict[str, tuple[str, Estimand]] = {
    "snips": ("SNIPS per user", "users"),
    "snips-global": ("SNIPS global", "users"),
    "snips-pooled": ("SNIPS pooled", "interactions"),
}
FitPropensity = Callable[[Context], Propensity]
# Metrics of extreme classification, with the metric of which they are the weighted form.
PROPENSITY_SCORED = {"psp@10": "recall@10", "psndcg@10": "mean_dcg@10"}


@add_evaluator("AOA", CREMONESI)
def compute_pooled_aoa(context: Context) -> pd.DataFrame:
    """Mean over held-out interactions, without weights."""
    return context.evaluate("aoa-pooled")


@add_evaluator("AOA per user", YANG, estimand="users")
def compute_user_aoa(context: Context) -> pd.DataFrame:
    """Mean over users of the mean over their held-out interactions, without weights."""
    return context.evaluate("aoa")


def fit_power_law(context: Context, gamma: float) -> Propensity:
    """Return the propensities of a power law; items without training interactions are smoothed."""
    return PowerLawPropensity(gamma=gamma, unseen="smooth").fit(context.split.train)


def fit_lists(context: Context) -> Propensity:
    """Return the power law with the mean γ of the lists of the recommenders that factorise the log."""
    gamma = context.compute_once("gamma of lists", partial(fit_list_gamma, context))
    return fit_power_law(context, gamma)


def fit_list_gamma(context: Context) -> float:
    """Return the mean over recommenders of the γ that is fitted to their lists."""
    train = context.split.train
    gammas = []
    names = [name for name in FACTOR_MODELS if name in context.models]
    if not names:
        raise InputError("no recommender factorises the log")
    for name in names:
        lists = top_items(context.models[name], context.split, k=LIST_LENGTH, compute=ONE_THREAD)
        counts = count_recommendations(lists, train, k=LIST_LENGTH, rng=0)
        gammas.append(fit_gamma(train.popularity, counts, source="evaluated").gamma)
    return float(np.mean(gammas))


def take_measured(context: Context) -> Propensity:
    """Return the propensity that comes with the log, or refuse."""
    if not context.measured:
        raise InputError("no propensities were measured or published with this log")
    return next(iter(context.measured.values()))


def clip_power_law(context: Context, gamma: float) -> Propensity:
    """Return the power law with P = 1 for the most popular item, and at least the floor."""
    law = PowerLawPropensity(gamma=gamma, unseen="smooth", scale="max").fit(context.split.train)
    return law.clip(floor=FLOOR)


def add_snips(
    propensity_name: str,
    citation: str,
    fit: FitPropensity,
    *,
    needs: Needs = "log",
    estimators: tuple[str, ...] = (),
) -> None:
    """Add SNIPS with a propensity in the forms of normalisation that are named (default: all three)."""
    for estimator in estimators or tuple(NORMALIZATIONS):
        words, estimand = NORMALIZATIONS[estimator]
        compute = partial(weight, estimator=estimator, propensity_name=propensity_name, fit=fit)
        add_evaluator(f"{words}, {propensity_name}", citation, estimand=estimand, needs=needs)(compute)


def weight(context: Context, *, estimator: str, propensity_name: str, fit: FitPropensity) -> pd.DataFrame:
    """Return the estimates of one estimator with the propensities of one function."""
    propensity = context.compute_once(("propensity", propensity_name), partial(fit, context))
    return context.evaluate(estimator, propensity)


fit_saito = partial(fit_power_law, gamma=GAMMA_SAITO)
fit_yang = partial(fit_power_law, gamma=GAMMA_YANG)
add_snips("γ = 0", SAITO, fit_saito)
add_snips("γ = 1.55 (published)", YANG, fit_yang)
add_snips("γ of lists", YANG, fit_lists)
add_snips("γ = 0, clipped", SAITO, partial(clip_power_law, gamma=GAMMA_SAITO), estimators=("snips-pooled",))
add_snips(
    "γ = 1.55, clipped", IONIDES, partial(clip_power_law, gamma=GAMMA_YANG), estimators=("snips-pooled",)
)
add_snips("published or counted", SCHNABEL, take_measured, needs="measured")


@add_evaluator("propensity-scored metrics", JAIN, has_level=False)
def compute_propensity_scored(context: Context) -> pd.DataFrame:
    """PSP@10 in place of recall@10 and PSnDCG@10 in place of mean_dcg@10; their order is compared."""
    propensity = JainPropensity().fit(context.split.train)
    frame = context.evaluate_ranks(context.ranks, "snips-pooled", propensity, tuple(PROPENSITY_SCORED))
    return frame.assign(metric=frame["metric"].map(PROPENSITY_SCORED))


@add_evaluator("correct, nobody exposed", IPSEVAL)
def correct_log(context: Context) -> pd.DataFrame:
    """Interval of `ipseval.correct` from the positives of the log; it gives no point estimate."""
    return take_correction(context, 0, uses_interactions=False)


@add_evaluator("correct with interactions, nobody exposed", IPSEVAL)
def correct_log_interactions(context: Context) -> pd.DataFrame:
    """Interval of `ipseval.correct` from all interactions of the log."""
    return take_correction(context, 0, uses_interactions=True)


def take_correction(
    context: Context, n_users: int | None, *, uses_interactions: bool, row: str = CORRECTED
) -> pd.DataFrame:
    """Return the rows of one estimator from a correction; refuse what the log does not have.

    The rows of the bias-corrected estimate state whether the correction warned.
    """
    if uses_interactions and context.interactions is None:
        raise InputError("this log has positive interactions only")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        correction = context.correct(n_users, uses_interactions=uses_interactions)
    frame = correction.frame
    frame = frame[frame["estimator"] == row]
    if frame.empty:
        raise InputError(f"correct gives no {row}, because the exposure overlaps with training")
    estimates = take_estimates(frame)
    if row == CORRECTED:
        estimates[WARNED] = not correction.explained
    return estimates
