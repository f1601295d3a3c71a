"""Errors of propensity models, fits of γ, exposures and labels."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd

import ipseval
from ipseval.data import Interactions, RandomExposure
from ipseval.propensity import (
    PROPENSITIES,
    DensityRatioPropensity,
    DirectPropensity,
    ExaminationCurve,
    ExaminationModel,
    FitError,
    KnownPropensity,
    LoggedPropensity,
    PowerLawPropensity,
    Propensity,
    StratifiedPropensity,
    check_logged,
    count_recommendations,
    fit_gamma,
    fit_gamma_from_exposure,
    fit_popularity_exponent,
    parse_propensity,
)
from tests.propensity.test_density_ratio import fit_ratio, make_samples
from tests.propensity.test_direct_and_strata import EXPOSED, LIKED, POPULARITY, make_data
from tests.propensity.test_examination import build_log
from tests.propensity.test_impressions import CURVE, FRAME

LOG = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}))
OTHER_ITEMS = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}), items=[2, 1])
OTHER_USERS = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}), users=["b", "a"])
NOBODY = pd.DataFrame()
KNOWN = Propensity(np.array([0.1, 0.2, 0.5]), True, "known per item", 3)
BOTH = {"user": [1], "item": [2]}
SHOWN_LOG, SHOWN = make_data(500, POPULARITY, EXPOSED, LIKED)
STRANGE = make_data(400, POPULARITY, EXPOSED, LIKED)[1]
SPLIT, EXPOSURE = make_samples()
LISTS = np.array([[0, 1], [1, 0]])
PLACED = ipseval.ImpressionLog.from_frame(FRAME, propensity="p")
EMPTY = PLACED.select(np.zeros(4, dtype=bool))


def fit_power_law(popularity, recommended, n_lists=400, **options):
    return fit_gamma(popularity, recommended, n_lists, **{"source": "logging-policy", **options})


def fit_calibrated(popularity, shown, liked, **options):
    return fit_gamma_from_exposure(popularity, shown, liked, **options)


def look_up(**options):
    return KnownPropensity(**options).fit(LOG).for_pairs(np.array([0, 1]), np.array([0, 1]))


def build_exposure(user, item, positive):
    return RandomExposure(np.array(user), np.array(item), np.array(positive), n_users=2, n_items=4)


CASES: dict[str, Callable[[], object]] = {
    # The value
    r"power law is relative, but a held-out propensity requires probabilities. Use a model whose": lambda: (
        Propensity(np.array([2.0]), False, "power law", 1).held_out(test_fraction=0.2)
    ),
    "smoothing must be a finite number >= 0; got -1": lambda: Propensity(
        np.ones(1), True, "known", 1, smoothing=-1
    ),
    r"1 of 3 propensities of being in train exceed 1 − ρ = 0.2": lambda: KNOWN.held_out(test_fraction=0.8),
    r"test_fraction must be in \(0, 1\)": lambda: KNOWN.held_out(test_fraction=0),
    "0 are given": lambda: Propensity(None, True, "known", 1),
    "2 are given": lambda: Propensity(np.ones(1), True, "known", 1, function=look_up),
    "pair and pair_key go together": lambda: Propensity(None, True, "known", 1, pair=np.ones(1)),
    "all values are NaN": lambda: Propensity(np.array([np.nan]), True, "known", 1),
    r"in \(0, 1\]; of 2 values 1 are 0": lambda: Propensity(np.array([0, 0.5]), True, "known", 2),
    r"in \(0, inf\); of 2 values 1 are not": lambda: Propensity(np.array([np.inf, 2]), False, "known", 2),
    r"floor must be in \(0, 1\], as propensities are; got 0": lambda: KNOWN.clip(floor=0),
    r"as propensities are; got 1.5": lambda: KNOWN.clip(floor=1.5),
    r"floor must be in \(0, inf\); got 0": lambda: Propensity(np.ones(1), False, "known", 1).clip(floor=0),
    "sensitivity to γ needs a power-law": lambda: KNOWN.gamma_chain(),
    "sensitivity to γ needs": lambda: KNOWN.clip(floor=0.2).gamma_chain(),
    "covers 3 items, the split has 2;": lambda: KNOWN.check_ids(LOG),
    "for other items, or the same in another order": lambda: (
        KnownPropensity(item=[0.5, 1.0]).fit(LOG).check_ids(OTHER_ITEMS)
    ),
    "for other users, or": lambda: KnownPropensity(function=KNOWN.for_pairs).fit(LOG).check_ids(OTHER_USERS),
    r"shape \(2,\)": lambda: FitError([1.0, 2.0], look_up),
    "1 of 2 entries": lambda: FitError([[np.nan, 1.0]], look_up),
    "table of numbers; got str": lambda: FitError("two", look_up),
    # Known ones
    "must be True or False; got 'False'": lambda: look_up(item=[0.5], is_probability="False"),
    "design": lambda: look_up(item=[0.5], basis="sure"),
    "KnownPropensity takes either item=": lambda: parse_propensity("known"),
    "takes either item=": lambda: look_up(user=[0.5]),
    r"\(n_users,\)": lambda: look_up(user=[[0.5]], item=[0.5]),
    "lacks column 'propensity'; expected user, item, propensity, got columns user, item, q": lambda: look_up(
        pair=pd.DataFrame({**BOTH, "q": [0.5]})
    ),
    "of 1 values 1 are not .e.g. 2.4": lambda: look_up(pair=pd.DataFrame({**BOTH, "propensity": 2.4})),
    "1 are not .e.g. 2.4": lambda: look_up(item=pd.DataFrame({"item": [2], "propensity": [2.4]})),
    "1 rows that repeat an item": lambda: look_up(
        item=pd.DataFrame({"item": [2, 2], "propensity": [0.4, 0.4]})
    ),
    "sequence of numbers": lambda: look_up(item=["a", "b"]),
    "user_ids, item_ids.*DataFrame": lambda: KnownPropensity(item=[0.5]).fit(NOBODY),
    "user_ids, item_ids.*SimpleNamespace": lambda: KnownPropensity(item=[0.5]).fit(
        SimpleNamespace(item_ids=LOG.item_ids)
    ),
    "must be a callable": lambda: look_up(function=3),
    r"shape \(\) for 2 pairs": lambda: look_up(function=lambda u, i: 0.5),
    r"of 2 values 2 are not \(e.g. 2\)": lambda: look_up(function=lambda u, i: u + 2.0),
    "user must hold codes from 0 to 1": lambda: (
        KnownPropensity(user=[0.2, 1.0], item=[0.5, 1.0]).fit(LOG).for_pairs(np.array([-1]), np.array([0]))
    ),
    "at least 1e-100, .*; got 4.94066e-324 .in 1 of 2 values.. Raise the smallest": lambda: look_up(
        item=[1.0, 5e-324]
    ),
    "between 1e-100 and 1e.100, .*; got 1e-101 .in 1 of 2 values.. Multiply all": lambda: Propensity(
        np.array([1.0, 1e-101]), False, "known", 2
    ),
    "between 1e-100 and 1e.100, .*; got 1e.200 .in 2 of 2 values": lambda: Propensity(
        np.array([1e200, 2e200]), False, "known", 2
    ),
    "1 are 0": lambda: look_up(user=[1e-200, 1.0], item=[1e-200, 1.0]),
    # The power law
    r"requires random exposure or .*n\* alone does not identify.*gamma=0 first, and report": lambda: (
        PowerLawPropensity("fit")
    ),
    "are used by gamma='fit' alone": lambda: PowerLawPropensity(gamma=1, recommendations=LISTS),
    "gamma='fit' needs training interactions": lambda: PowerLawPropensity(
        gamma="fit", recommendations=LISTS
    ).fit(popularity=[1, 2]),
    r"top_items\(model, split, k=50\)": lambda: PowerLawPropensity(gamma="fit", recommendations=object()).fit(
        LOG
    ),
    "exposure must be RandomExposure; got str": lambda: PowerLawPropensity(gamma="fit", exposure="x.csv"),
    "the exposure has 2 users and 4 items, the training log 2 and 2": lambda: PowerLawPropensity(
        gamma="fit", exposure=build_exposure([0], [0], [True])
    ).fit(LOG),
    "scale='calibrated' needs random exposure": lambda: PowerLawPropensity(gamma=0.5, scale="calibrated"),
    "finite numbers; got True": lambda: PowerLawPropensity(gamma=True),
    "evaluated, logging-policy, unknown": lambda: PowerLawPropensity(gamma=0, source="mine"),
    r"2 of 3 items have no training interaction.*unseen='smooth' or unseen='drop'": lambda: (
        PowerLawPropensity(gamma=0, unseen="raise").fit(popularity=[0, 1, 0])
    ),
    r"1 of 2 items a propensity above 1; the largest scale .* is 0.25": lambda: PowerLawPropensity(
        eta=1, scale=0.5
    ).fit(popularity=[0, 3]),
    r"a number > 0; got 0\.": lambda: PowerLawPropensity(gamma=0, scale=0),
    r"a number > 0; got inf\.": lambda: PowerLawPropensity(gamma=0, scale=np.inf),
    "smoothing must be a finite number > 0": lambda: PowerLawPropensity(gamma=0, smoothing=0),
    "gamma='fit' requires random exposure or recommendation lists": lambda: PowerLawPropensity(
        gamma="fit", recommendations=LISTS, exposure=SHOWN
    ),
    "takes either gamma= or eta=": lambda: PowerLawPropensity(gamma=1, eta=1),
    "either gamma= or eta=, with": lambda: PowerLawPropensity(),
    "fit takes either training": lambda: PowerLawPropensity(gamma=0).fit(),
    "training interactions or popularity=": lambda: PowerLawPropensity(gamma=0).fit(LOG, popularity=[1, 1]),
    "all popularity counts are 0; a power law": lambda: PowerLawPropensity(gamma=0).fit(popularity=[0, 0]),
    # γ from lists
    r"popularity must be finite counts.*; 1 of 3": lambda: fit_power_law([1, -2, 3], [1, 1, 1]),
    r"recommendations must be finite counts >= 0.*; 2 of 3": lambda: fit_power_law(
        [1, 2, 3], [1, np.nan, np.inf]
    ),
    r"all 2 popularity counts are 0": lambda: fit_power_law([0, 0], [1, 1]),
    r"none of the 2 items .* was ever recommended": lambda: fit_power_law([1, 2], [0, 0]),
    r"2 items kept have 1 distinct value of n\*": lambda: fit_power_law([4, 4, 0], [1, 2, 4]),
    r"recommendations must have 3 entries.*got 2": lambda: fit_power_law([1, 2, 3], [1, 2]),
    r"recommendations <= n_lists = 400; 1 of 2": lambda: fit_power_law([1, 2], [1, 401]),
    "recommendations holds 2 lists, and n_lists is 3; leave it out": lambda: fit_power_law([1, 2], LISTS, 3),
    "recommendations counts 2 items, popularity 3": lambda: fit_power_law(
        [1, 2, 3], count_recommendations(LISTS[:1, :1], LOG), None
    ),
    "n_lists is needed": lambda: fit_power_law([1, 2], [1, 2], None),
    "n_lists must be an integer >= 1": lambda: fit_power_law([1, 2], [0, 0], 0),
    "popularity must be a sequence of numbers": lambda: fit_power_law(["a", "b"], [1, 2]),
    "popularity must be a sequence of numbers; got list": lambda: fit_power_law([None, "b"], [1, 2]),
    "one-dimensional": lambda: fit_power_law([[1, 2]], [1, 2]),
    "Did you mean 'poisson'": lambda: fit_power_law([1, 2], [1, 2], method="poison"),
    "unknown value for source": lambda: fit_power_law([1, 2], [1, 2], source="mine"),
    r"drop_top must be in \[0, 1\)": lambda: fit_power_law([1, 2], [1, 2], drop_top=1),
    r"got shape \(0, 2\)": lambda: fit_power_law([1, 2], np.zeros((0, 2), dtype=int), None),
    "integer array of item codes": lambda: fit_power_law([1, 2], [[0.0, 1.0]], None),
    r"item codes must be in 0 … 1.*1 of 2": lambda: fit_power_law([1, 2], [[0, 2]], None),
    r"or −1 for an empty place\); 1 of 2 are not \(e.g. -2\)": lambda: fit_power_law([1, 2], [[0, -2]], None),
    r"2 of 2 are not \(e.g. 5\)": lambda: fit_power_law([1, 2], [[5, -2]], None),
    "1 entries repeat an item of the same": lambda: fit_power_law([1, 2], [[1, 1]], None),
    "fewer than 2 popularity levels were ever recommended": lambda: fit_power_law(
        [1, 2, 3], [4, 0, 0], method="level-ols", drop_top=0
    ),
    # γ from random exposure
    "min_popularity must be a finite number": lambda: fit_calibrated(
        [1, 2], [3, 3], [1, 1], min_popularity="x"
    ),
    "n_exposed must be finite.*1 of 2": lambda: fit_calibrated([1, 2], [np.nan, 9], [1, 1]),
    "n_positive must be finite.*1 of 2": lambda: fit_calibrated([1, 2], [9, 9], [-1, 1]),
    "does for 1 of 2 items": lambda: fit_calibrated([1, 2], [9, 1], [1, 2]),
    r"no item has both n\* > 0 and an exposure": lambda: fit_calibrated([1, 2], [0, 0], [0, 0]),
    "none of the exposures of the 2 items": lambda: fit_calibrated([1, 2], [9, 9], [0, 0]),
    "n_exposed must have 2 entr": lambda: fit_calibrated([1, 2], [9] * 3, [1, 1]),
    "value for family": lambda: fit_calibrated([1, 2], [9, 9], [1, 1], family="normal"),
    "n_users must be an integer >= 1": lambda: fit_calibrated([1, 2], [9, 9], [1, 1], n_users=0),
    "held_out must have 2": lambda: fit_calibrated([1, 2], [9, 9], [1, 1], held_out=[1]),
    "reaches a rate of 1.*family='poisson'": lambda: fit_calibrated(
        [1, 2, 4, 8, 16], [3] * 5, [3] * 5, family="binomial"
    ),
    # The exponent of popularity
    "whole numbers; 1 of 3": lambda: fit_popularity_exponent([1, 2.5, 3]),
    r"finite counts >= 0.*; 1 of 2": lambda: fit_popularity_exponent([1, -2]),
    "the tail has 1 distinct": lambda: fit_popularity_exponent([4, 4, 0]),
    "the tail has 0 distinct": lambda: fit_popularity_exponent([1, 2], xmin=9),
    "xmin must be an integer >= 1": lambda: fit_popularity_exponent([1, 2], xmin="x"),
    # Exposures
    "item must hold codes from 0 to 3.* 1 of 1": lambda: build_exposure([0], [9], [True]),
    "user must hold whole numbers": lambda: build_exposure([0.0], [1], [True]),
    "one length": lambda: build_exposure([0, 1], [1], [True]),
    "positive must be bool": lambda: build_exposure([0], [1], [1.0]),
    "1 of 2 exposures repeat": lambda: build_exposure([0, 0], [1, 1], [True, False]),
    r"must hold 0/1.*1 of 1 rows do not \(e\.g\. 4\)": lambda: RandomExposure.from_frame(
        pd.DataFrame({"user": ["a"], "item": [1], "positive": [4]}), LOG
    ),
    "needs ratings": lambda: RandomExposure.from_ratings(LOG, threshold=4),
    "threshold must be a finite number; got nan": lambda: RandomExposure.from_ratings(
        Interactions.from_frame(pd.DataFrame({**BOTH, "r": [1]}), value="r"), threshold=float("nan")
    ),
    "log must be Interactions": lambda: RandomExposure.from_ratings(NOBODY, threshold=4),
    # Measured on exposure
    "n_strata must be": lambda: StratifiedPropensity(SHOWN, n_strata=0),
    "exposure must be RandomExposure; got DataFrame": lambda: StratifiedPropensity(NOBODY),
    "train must be Interactions": lambda: StratifiedPropensity(SHOWN).fit(NOBODY),
    "1 of 3 strata have no positive random exposure": lambda: StratifiedPropensity(
        make_data(500, POPULARITY, EXPOSED, [0, 0, 0, 16, 20, 24])[1], n_strata=3
    ).fit(SHOWN_LOG),
    "the exposure has 400 users and 6 items, the training log 500 and 6": lambda: StratifiedPropensity(
        STRANGE
    ).fit(SHOWN_LOG),
    "1 of 6 items have no training interaction": lambda: DirectPropensity(SHOWN, unseen="raise").fit(
        SHOWN_LOG
    ),
    "has 400 users": lambda: DirectPropensity(STRANGE).fit(SHOWN_LOG),
    "exposure must be RandomExposure; got DataFr": lambda: DirectPropensity(NOBODY),
    "shrinkage must be a finite number > 0": lambda: DirectPropensity(SHOWN, shrinkage=0),
    "unknown value for shrinkage": lambda: DirectPropensity(SHOWN, shrinkage="auto"),
    "unknown value for unseen": lambda: DirectPropensity(SHOWN, unseen="smooth"),
    "sensitivity to γ needs a power-law propensity": lambda: (
        StratifiedPropensity(SHOWN, 2).fit(SHOWN_LOG).clip(floor=0.1).gamma_chain()
    ),
    # The density ratio
    "needs random exposure: exposu": lambda: DensityRatioPropensity().fit(SPLIT.train),
    r"split\.train": lambda: DensityRatioPropensity(EXPOSURE).fit(SPLIT),
    "got DataFrame. Pass RandomExposure.from_frame": lambda: DensityRatioPropensity(NOBODY),
    "cross_fit must be an integer >= 2": lambda: DensityRatioPropensity(cross_fit=1),
    "callable": lambda: DensityRatioPropensity(features="n*"),
    r"limit must be in \(0, 1\]": lambda: DensityRatioPropensity(limit=0),
    "the exposure has 1 users and 1 items, the training log 60 and 30": lambda: fit_ratio(
        SPLIT, RandomExposure(*np.zeros((2, 1), int), np.array([True]), 1, 1)
    ),
    r"there are 0 random-exposure positives outside the training log and \d+ held-out": lambda: fit_ratio(
        SPLIT, RandomExposure(EXPOSURE.user, EXPOSURE.item, EXPOSURE.positive & False, 60, 30)
    ),
    r"there are \d+ random-exposure positives outside the training log and 0 held-out": lambda: (
        DensityRatioPropensity(EXPOSURE, SPLIT.test.select(SPLIT.test.user < 0)).fit(SPLIT.train)
    ),
    r"features must be \(n, k\); got shape": lambda: fit_ratio(SPLIT, EXPOSURE, features=lambda t, u, i: i),
    r"features must be finite; (\d+) of \1 entries": lambda: fit_ratio(
        SPLIT, EXPOSURE, features=lambda t, u, i: np.full((i.size, 1), np.nan)
    ),
    r"features gave shape \(1, 1\) for \d+ pairs": lambda: fit_ratio(
        SPLIT, EXPOSURE, features=lambda t, u, i: np.ones((1, 1))
    ),
    "no user with held-out positives of the log is left": lambda: fit_ratio(SPLIT, EXPOSURE).fit.refit(
        np.zeros(60)
    ),
    "biased is in another id space": lambda: DensityRatioPropensity(EXPOSURE, LOG).fit(SPLIT.train),
    # Impressions
    "log must be ImpressionLog; got Interactions": lambda: PROPENSITIES["impressions"](log=LOG),
    "examination must be ExaminationCurve": lambda: PROPENSITIES["logged"](examination=[1, 0.5]),
    "LoggedPropensity.fit takes an ImpressionLog or a split's train; got int": lambda: LoggedPropensity(
        log=PLACED
    ).fit(3),
    "the user_ids of the exposure log are not": lambda: LoggedPropensity(log=PLACED).fit(
        Interactions.from_frame(pd.DataFrame({"user": ["c"], "item": [1]}))
    ),
    "the log has no impressions": lambda: PROPENSITIES["impressions"]().fit(EMPTY),
    "no impressions; at least one": lambda: check_logged(EMPTY),
    "at least two users; the log has one": lambda: ExaminationModel().fit(
        ipseval.ImpressionLog.from_frame(FRAME[:3], position="position")
    ),
    r"one entry for each of 4 impressions; got \(3,\)": lambda: ExaminationModel(group=[1, 2, 3]).fit(
        ipseval.ImpressionLog.from_frame(FRAME, position="position")
    ),
    "unknown value for group": lambda: ExaminationModel(group="user"),
    "reads impressions, which interactions do not have. Fit it to an": lambda: PROPENSITIES[
        "impressions"
    ]().fit(LOG),
    "item_ids of the exposure log are not those of the split": lambda: LoggedPropensity(log=PLACED).fit(LOG),
    "needs the log's positions": lambda: PROPENSITIES["logged"](examination=CURVE).fit(PLACED),
    "the log has no propensities; name": lambda: LoggedPropensity().fit(
        ipseval.ImpressionLog.from_frame(FRAME)
    ),
    "the log has no propensities": lambda: check_logged(ipseval.ImpressionLog.from_frame(FRAME)),
    "1 of 2 impressions are at positions without .*first: 3": lambda: ExaminationCurve.from_theta(
        [1, 0.5]
    ).for_positions([1, 3]),
    "without an examination chance .first: 0": lambda: ExaminationCurve.from_theta([1, 0.5]).for_positions(
        [0, 1]
    ),
    r"theta must be in \(0, 1\]; got 1.5": lambda: ExaminationCurve.from_theta([1, 1.5]),
    "the log has no positions": lambda: ExaminationModel().fit(PLACED),
    "all impressions are at one pos": lambda: ExaminationModel().fit(build_log([(1, 1, 9, 3)])),
    "position 1 has no clicks in 9 impressions": lambda: ExaminationModel().fit(
        build_log([(1, 1, 9, 0), (1, 2, 9, 3)])
    ),
    "no group was shown at the first position": lambda: ExaminationModel().fit(
        build_log([(1, 1, 9, 3), (2, 2, 9, 3)])
    ),
    # Lists
    "Of a scorer pass its best items": lambda: count_recommendations(np.eye(2), LOG, k=2),
    "if it holds scores, pass its best items": lambda: count_recommendations(LISTS, LOG),
    "recommendations is an ndarray": lambda: count_recommendations(np.zeros((1, 1, 1), dtype=int), LOG),
    "recommendations is a str": lambda: count_recommendations("popular", LOG),
    "k must be an integer >= 1": lambda: count_recommendations(LISTS[:, :1], LOG, k=0),
    "1 ids that are not in the given universe": lambda: count_recommendations(
        pd.DataFrame({"user": ["z"], "item": [1]}), LOG
    ),
    # Labels
    "Did you mean 'power-law'": lambda: parse_propensity("powerlow:gamma=0"),
    "Did you mean 'gamma'": lambda: parse_propensity("power-law:gama=0"),
    r"a class with fit\(train\) -> Propensity; got": lambda: PROPENSITIES.add("mine", KNOWN),
    r"is a class with fit": lambda: PROPENSITIES.add("mine", Propensity),
    "has letters, digits and hyphens; got 'my own'": lambda: PROPENSITIES.add("my own", PowerLawPropensity),
    "gamma of power-law must be given once; got 0 and 1. Leave one of them out": lambda: parse_propensity(
        "power-law:gamma=0,gamma=1"
    ),
    "is written as option=value; got 'gamma'": lambda: parse_propensity("power-law:gamma"),
    "gamma must be 'fit'": lambda: parse_propensity("power-law:gamma=high"),
    "exposure of direct holds data, which a label cannot; make a DirectPropensity": lambda: parse_propensity(
        "direct:exposure=x"
    ),
    "unknown option of power-law 'log'": lambda: parse_propensity("power-law:log=x"),
    r"name\(option=value, …\); got 3": lambda: parse_propensity(3),
    "holds data, which a label": lambda: parse_propensity("density-ratio:exposure=x"),
    "gamma must be": lambda: parse_propensity("power-law:gamma=0)"),
    "a propensity label is": lambda: parse_propensity(""),
}


def catch_refusal(call: Callable[[], object]) -> str:
    """Return the message of the error that a call raises, or nothing."""
    try:
        call()
    except ipseval.InputError as error:
        return str(error)
    return ""


def test_errors_name_the_value_that_was_passed():
    for text, call in CASES.items():
        message = catch_refusal(call)
        assert re.search(text, message, re.DOTALL), (text, message)
