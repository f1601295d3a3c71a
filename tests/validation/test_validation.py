"""The harness: its reference, its disjoint calibration, its summary, and what it shows to be left."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions, RandomExposure
from ipseval.data.splits import Split, split_random
from ipseval.errors import DataWarning, InputError
from ipseval.evaluation import evaluate
from ipseval.propensity import (
    DirectPropensity,
    KnownPropensity,
    PowerLawPropensity,
    Propensity,
)
from ipseval.ranking import baselines
from ipseval.validation import default_models, default_propensities, validate
from ipseval.validation.datasets import RandomExposureStudy, load_coat
from ipseval.validation.simulation import World
from tests.inside.validation import resolve_propensity

MODELS = {"popularity": baselines.popularity, "knn": baselines.item_knn}
EQUAL = {"equal": PowerLawPropensity(gamma=-1, unseen="smooth")}


@pytest.fixture(scope="module", name="study")
def small_study():
    return World(n_users=120, n_items=40, mean_relevant=12, max_propensity=0.9, rng=0).study(1, n_per_user=20)


SHOWN = RandomExposure(np.array([0]), np.array([0]), np.array([True]), 120, 40)


def brute_force_hits(scores, train, positives, k):
    """Of each user with positives outside training: which of them are within k of all items outside it."""
    users = {}
    for u in range(scores.shape[0]):
        excluded = set(train.item[train.user == u])
        mine = [i for i in positives.item[positives.user == u] if i not in excluded]
        if mine:
            pool = [j for j in range(scores.shape[1]) if j not in excluded]
            users[u] = [sum(scores[u, j] > scores[u, i] for j in pool) < k for i in mine]
    return users


def test_reference_is_the_unweighted_average_over_random_positives_outside_training(study):
    split = split_random(study.positives().biased, rng=3)
    rng = np.random.default_rng(0)
    models = {"a": rng.normal(size=(120, 40)), "b": rng.normal(size=(120, 40))}
    options = {"metrics": ["recall@10"], "estimators": ["snips-pooled", "snips-global", "snips"]}
    result = validate(models, study, propensities=EQUAL, split=split, n_resamples=0, **options)
    weighted = result.frame[result.frame["propensity"] == "equal"].set_index(["estimator", "model"])
    held_out = set(split.test.user.tolist())
    for name, scores in models.items():
        hits = brute_force_hits(scores, split.train, study.positives().random, 10)
        by_user = np.mean([np.mean(user_hits) for user, user_hits in hits.items() if user in held_out])
        pooled = np.mean(np.concatenate(list(hits.values())))
        mine = weighted.xs(name, level="model")
        assert mine["target"].tolist() == ["pooled", "user", "user"]
        assert mine["reference"].tolist() == pytest.approx([pooled, by_user, by_user], abs=1e-12)
        assert mine["reference_pooled"].tolist() == pytest.approx([pooled] * 3, abs=1e-12)
    in_train = np.isin(study.positives().random.pair_key, split.train.pair_key)
    assert result.n_random_dropped == in_train.sum() > 0
    counts = weighted.loc["snips-pooled", "n_reference_positives"]
    assert counts.tolist() == [int((~in_train).sum())] * 2


def test_random_exposure_of_a_custom_log_gives_the_same_validation_as_a_study(study):
    split = split_random(study.positives().biased, rng=3)
    models = {name: train(split.train) for name, train in MODELS.items()}
    exposure = RandomExposure.from_ratings(study.random, threshold=study.threshold)
    options = {"propensities": EQUAL, "metrics": ["atop"], "split": split, "n_resamples": 2, "rng": 0}
    options["estimators"] = ["snips-pooled"]
    from_exposure = validate(models, random_exposure=exposure, **options)
    from_study = validate(models, study, **options)
    pd.testing.assert_frame_equal(from_exposure.frame, from_study.frame)
    assert from_exposure.n_random_dropped == from_study.n_random_dropped
    assert from_exposure.name == "random exposure"


NO_REFERENCE = {
    "neither": (None, {}, "either study, or random_exposure and split"),
    "a study in words": (None, {"study": "coat"}, "RandomExposureStudy"),
    "an exposure in words": ("random.csv", {}, "random_exposure must be RandomExposure; got str"),
    "no split": (SHOWN, {"split": None}, "random_exposure requires split"),
    "a threshold": (SHOWN, {"threshold": 4}, "threshold must be left out"),
    "weights": (
        replace(SHOWN, weight=np.ones(1)),
        {},
        "estimators must average over pairs where random_exposure has unequal weights",
    ),
    "other ids": (replace(SHOWN, n_items=50), {}, "50 items"),
}


@pytest.mark.parametrize(("random_exposure", "more", "message"), NO_REFERENCE.values(), ids=NO_REFERENCE)
def test_exposure_that_cannot_be_a_reference_is_refused(study, random_exposure, more, message):
    arguments = {"split": split_random(study.positives().biased, rng=3), "propensities": EQUAL} | more
    models = {name: np.zeros((120, 40)) for name in "ab"}
    models = models if arguments["split"] is not None else MODELS
    with pytest.raises(InputError, match=message):
        validate(models, random_exposure=random_exposure, **arguments)


def test_estimates_are_those_of_evaluate_on_the_same_split_and_users(study):
    split = split_random(study.positives().biased, rng=3)
    models = {name: train(split.train) for name, train in MODELS.items()}
    propensity = PowerLawPropensity(gamma=0.5, unseen="smooth")
    estimators = ("snips", "snips-global", "snips-pooled")
    result = validate(
        models,
        study,
        propensities={"p": propensity},
        metrics=["mean_dcg"],
        estimators=estimators,
        split=split,
    )
    factors = result.frame[result.frame["propensity"] == "p"].groupby("estimator")["factor"].count()
    assert factors.to_dict() == {"snips": 0, "snips-global": 2, "snips-pooled": 2}  # none of ratios by user
    random = study.positives().random
    exposed_users = random.user[~np.isin(random.pair_key, split.train.pair_key)]
    compared_split = Split(split.train, split.test.select(np.isin(split.test.user, exposed_users)))
    for part, chosen in ((compared_split, estimators[:2]), (split, estimators[2:])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            frame = evaluate(
                models, part, propensity=propensity, metrics=["mean_dcg"], estimators=chosen
            ).frame
        merged = result.frame[result.frame["propensity"] == "p"].merge(
            frame, on=["model", "metric", "estimator"], suffixes=("", "_other")
        )
        assert len(merged) == 2 * len(chosen)
        for column in ("estimate", "std_error"):  # the same sums, added in another order
            np.testing.assert_allclose(merged[column], merged[f"{column}_other"], rtol=1e-13)
        assert np.array_equal(merged["bias"], merged["estimate"] - merged["reference"])


def test_one_resample_gives_no_interval(study):
    summary = validate(MODELS, study, propensities=EQUAL, metrics=["atop"], n_resamples=1).summary
    assert summary[["reduction_low", "reduction_high"]].isna().all(axis=None)


def test_equal_weights_reduce_no_error_and_change_no_ranking(study):
    summary = validate(MODELS, study, propensities=EQUAL, metrics=["atop"], n_resamples=2).summary
    summary = summary[summary["propensity"] == "equal"]
    assert summary["reduction"].tolist() == pytest.approx([0, 0], abs=1e-12)  # but for rounding
    assert summary["tau_change"].tolist() == [0, 0]
    assert summary["if_unbiased"].notna().all()  # two resamples are the fewest that have a spread


def test_default_propensities_are_a_grid_and_all_that_the_study_can_fit(study):
    rules = list(default_propensities(study))
    assert rules[:6] == [f"gamma = {gamma}" for gamma in ("-1", "0", "1", "1.5", "2", "3")]
    assert {"gamma calibrated", "gamma from lists"} < set(rules)


def test_default_propensities_give_no_warning_about_themselves():
    """The probabilities of this log differ, and its counts are small: both were warned of."""
    study = World(n_users=300, n_items=60, mean_relevant=12, rng=0).study(rng=2)
    rules = default_propensities(study)
    chosen = ("gamma calibrated", "gamma calibrated, held-out", "published", "direct", "piecewise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = validate(
            {"popularity": baselines.popularity, "EASE": baselines.ease},
            study,
            propensities={name: rules[name] for name in chosen},
            metrics=["atop"],
            n_resamples=2,
            rng=0,
        )
    assert result.notes == ()
    assert np.array_equal(rules["published"].item, study.propensity.item)


def test_each_model_is_trained_once_per_split_and_ranks_each_user_once(study):
    trained, asked = [], []

    def trainer(train):
        trained.append(len(train))

        def scores(users):
            asked.extend(users.tolist())
            return np.random.default_rng(0).random((len(users), train.n_items))

        return scores

    rules = {f"gamma {g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in (-1, 0, 1)}
    validate(
        {"a": trainer, "b": trainer},
        study,
        propensities=rules,
        metrics=["atop", "recall@5"],
        estimators=["snips-pooled"],
        n_splits=2,
        n_resamples=5,
    )
    assert len(trained) == 4
    assert np.bincount(asked, minlength=120).max() == 4


def test_calibration_sees_no_exposure_of_the_users_it_weights(study):
    seen = []

    def rule(calibration):
        seen.append(calibration)
        popularity = np.full(40, 0.5 / len(seen))
        return Propensity(popularity, True, "test", 40)

    def calibrate_pairs(calibration):
        item = rule(calibration).item
        return Propensity(None, True, "test", 40, function=lambda user, code: item[code])

    split = split_random(study.positives().biased, rng=3)
    positives = study.positives()
    liked = np.isin(study.random.pair_key, positives.random.pair_key)
    exposure = RandomExposure(study.random.user, study.random.item, liked, 120, 40)
    fold = np.arange(120) % 2
    fitted = resolve_propensity("test", rule, split, exposure, {}, fold)
    assert [set(calibration.exposure.user % 2) for calibration in seen] == [{1}, {0}]
    assert [set(calibration.held_out.user % 2) for calibration in seen] == [{1}, {0}]
    values = fitted.for_pairs(split.test.user, split.test.item)
    # The first call had odd users to calibrate on and weights the even ones with P = 1/2; the second P = 1/4.
    expected = np.where(split.test.user % 2 == 0, 0.5, 0.25)
    assert np.array_equal(values, expected)
    assert "_cache" not in repr(seen[0])
    seen.clear()
    fitted = resolve_propensity("test", calibrate_pairs, split, exposure, {}, fold)
    assert np.array_equal(fitted.for_pairs(split.test.user, split.test.item), expected)


def test_a_factor_that_differs_between_folds_does_not_matter(study):
    calls = []

    def rule(calibration, factors):
        calls.append(1)
        raw = np.sqrt(calibration.train.popularity + 1.0)
        return Propensity(raw * factors[len(calls) % 2], False, "up to a factor", 40)

    split = split_random(study.positives().biased, rng=3)
    models = {name: train(split.train) for name, train in MODELS.items()}
    options = {"metrics": ["recall@10"], "split": split, "n_resamples": 0, "rng": 0}
    options["estimators"] = ["snips-global", "snips-pooled"]
    rules = [partial(rule, factors=factors) for factors in ((1.0, 1.0), (1.0, 50.0), (50.0, 7.0))]
    frames = [validate(models, study, propensities={"p": scaled}, **options).frame for scaled in rules]
    equal, unequal, rescaled = (frame["estimate"] for frame in frames)
    # With one factor the fold plays no role and weights are pooled; with two each fold is scaled to mean 1.
    assert np.allclose(unequal, rescaled, rtol=1e-12)
    assert np.allclose(unequal, equal, atol=0.01)


def test_items_without_a_propensity_are_excluded_from_estimate_and_baseline(study):
    values = np.full(40, 0.2)
    values[:20] = np.nan
    steep = {"steep": KnownPropensity(item=np.append(1e-3, np.ones(39)), is_probability=False)}
    estimators = ["snips-pooled", "aoa-pooled"]
    result = validate(
        MODELS, study, propensities=steep, metrics=["atop"], estimators=estimators, n_resamples=0, rng=0
    )
    assert "By atop" not in repr(result)  # it is the only one
    flags = result.frame.set_index("estimator").query("propensity == 'steep'")["flag"]
    assert all(flags["snips-pooled"])
    assert flags["aoa-pooled"].tolist() == ["", ""]
    assert result.n_compared == 0  # no estimator is an average over users
    result = validate(
        MODELS, study, propensities={"half": KnownPropensity(item=values)}, metrics=["atop"], n_resamples=10
    )
    rows, summary = (frame[frame["propensity"] == "half"] for frame in (result.frame, result.summary))
    assert (rows["n_without_propensity"] > 0).all()
    other_rows = result.frame[result.frame["propensity"] != "half"]
    assert other_rows["estimator"].nunique() > 0
    assert (other_rows["n_without_propensity"] == 0).all()
    # Equal weights on what is left, against the plain average of what is left.
    assert np.abs(summary["reduction"]).max() < 1e-12
    # The reference of an average over users is over the users that have something left.
    users = rows[rows["target"] == "user"]
    assert (users["n_users"] == users["n_reference_users"]).all()


def test_the_standard_error_of_the_bias_matches_the_spread_of_the_bootstrap(study):
    result = validate(
        MODELS,
        study,
        propensities=EQUAL,
        metrics=["recall@10"],
        estimators=["snips-pooled"],
        n_resamples=1000,
        rng=0,
    )
    cell = result.cells["recall@10", "equal", "snips-pooled"]
    rows = result.frame[result.frame["propensity"] == "equal"]
    # E|N(0, σ)| = σ √(2/π): the noise of the cell and the analytic standard errors tell the same σ.
    assert result.frame.index.equals(pd.RangeIndex(len(result.frame)))
    (row,) = result.summary.query("propensity == 'equal'").to_dict("records")
    assert (result.n_resamples, row["if_unbiased"]) == (1000, 1 - cell.noise / cell.baseline[0, 0])
    sample = result.cells["recall@10", "random-sample", "aoa-pooled"]
    share = 1 - sample.estimator[:, 0] / sample.baseline[:, 0]
    random_sample = result.summary.set_index(["propensity", "estimator"]).loc[("random-sample", "aoa-pooled")]
    assert random_sample["reduction_high"] == pytest.approx(
        share[0] + 1.959964 * share[1:].std(ddof=1), rel=1e-6
    )
    assert row["falls_short"] == (row["reduction_high"] < row["if_unbiased"])
    analytic = np.mean(rows["bias_se"]) * np.sqrt(2 / np.pi)
    assert cell.noise == pytest.approx(analytic, rel=0.08)


def test_warnings_of_propensities_are_kept_and_issued_once_for_all_of_them(study):
    def thin(calibration):
        warnings.warn("few pairs", DataWarning, stacklevel=2)
        return EQUAL["equal"].fit(calibration.train)

    steep = PowerLawPropensity(gamma=2, unseen="smooth")  # it asks for a check that is this one
    with pytest.warns(DataWarning, match=r"^one, two: few pairs$") as record:
        result = validate(
            MODELS,
            study,
            propensities={"one": thin, "two": thin, "steep": steep},
            metrics=["atop"],
            estimators=["snips-pooled"],
            n_splits=2,
            n_resamples=0,
        )
    assert len(record) == 1
    assert result.notes == ("one, two: few pairs",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {}}, "at least two names"),
        ({"models": {"a": baselines.popularity}}, "at least two names"),
        ({"propensities": {}}, "propensities must be a non-empty mapping"),
        (
            {"propensities": {"random-sample": EQUAL["equal"]}},
            "'random-sample', which names the unweighted",
        ),
        ({"propensities": {"direct": DirectPropensity(SHOWN)}}, r"contains an exposure.*Pass a function"),
        ({"propensities": {"p": 3}}, "propensity 'p' is an int; expected a Propensity, a model"),
        ({"propensities": {"p": lambda c: 3}}, "function of propensity 'p' returned an int"),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": ["ndcg@5"]}, r"ndcg@5: only metrics of mean type .* have a reference"),
        ({"metrics": ["atop", "auc", "dcg"]}, "auc, dcg: only metrics of mean type"),
        ({"metrics": ["nothing"]}, "unknown metric 'nothing'"),
        ({"estimators": ["nothing"]}, "unknown estimator 'nothing'"),
        ({"n_folds": 1}, "n_folds must be an integer >= 2"),
        ({"threshold": 9}, "no rating of the biased log is >= 9"),
    ],
)
def test_unusable_input_is_refused(study, change, message):
    options = {"models": MODELS, "study": study, "propensities": EQUAL, "metrics": ["atop"], **change}
    models = options.pop("models")
    with pytest.raises(InputError, match=message):
        validate(models, options.pop("study"), **options)


def test_a_split_of_other_ids_is_refused(study):
    other_split = Split(
        Interactions(np.array([0]), np.array([0]), np.arange(120), np.arange(41)),
        Interactions(np.array([0]), np.array([1]), np.arange(120), np.arange(41)),
    )
    models = {name: np.zeros((120, 41)) for name in "ab"}
    with pytest.raises(InputError, match="over the user_ids and item_ids of the study"):
        validate(models, study, propensities=EQUAL, metrics=["atop"], split=other_split)


def test_a_study_whose_random_positives_are_all_training_pairs_has_no_reference():
    log = Interactions(
        np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), np.arange(2), np.arange(4), value=np.full(6, 5.0)
    )
    study = RandomExposureStudy("tiny", log, log, threshold=4)
    split = Split(log.select(np.arange(6) % 3 < 2), log.select(np.arange(6) % 3 == 2))
    only_train = RandomExposureStudy("tiny", log, log.select(np.arange(6) % 3 < 2), threshold=4)
    models = {name: np.zeros((2, 4)) for name in "ab"}
    frame = validate(models, study, propensities=EQUAL, metrics=["atop"], split=split, rng=0).frame
    assert (frame["propensity"] == "equal").sum() == 4
    with pytest.raises(InputError, match="every random-exposure positive is a training pair"):
        validate(models, only_train, propensities=EQUAL, metrics=["atop"], split=split)


def test_text_page_and_plot_show_the_summary(study, tmp_path):
    result = validate(MODELS, study, propensities=EQUAL, metrics=["recall@5", "atop"], n_resamples=20, rng=0)
    printed = repr(result)
    for before in ("\nrecall@5", "By recall@5, "):  # as asked
        assert 0 < printed.index(before) < printed.index(before.replace("recall@5", "atop"))
    assert max(map(len, printed.splitlines())) <= 110
    assert "2 recommenders · 1 split · 120 users · 95% intervals in brackets" in printed
    assert printed.index("aoa-pooled") < printed.index("snips-pooled  ")  # the most that is removed is first
    with pytest.raises(InputError, match="metric"):
        result.plot("ndcg")
    text = " ".join(repr(result.explain()).split())
    assert "2 recommenders, 1 split, 120 users" in text
    assert "over the 120 users with random exposure" in text
    assert f"over {result.n_compared:.0f} of them, with held-out and random positives" in text
    assert result.to_html(tmp_path / "page.html") == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>Validation on a simulated log</title>" in page
    assert "reduction_low" in page
    assert [part.folded for part in result.tables(page=True).appendix[2:]] == [True, True]
    # Heads; a table per metric; then every criterion and every estimate (of the propensity, and of the
    # random sample in two folds).
    assert page.count("<tr") == 4 + (4 + 4) + (4 + 4) + (8 + 16)
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    axes = result.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "random-sample, aoa",
        "random-sample, aoa-pooled",
        "equal, snips-global",
        "equal, snips-pooled",
    ]
    drawn = axes.containers[0].lines[0].get_xdata()
    assert np.array_equal(drawn, 100 * result.summary["reduction"][result.summary["metric"] == "recall@5"])


def test_two_models_seven_propensities_two_metrics_and_two_estimators_on_coat(shared_data, monkeypatch):
    for file in ("cross_fitted_odds", "_density_ratio"):  # seven of them take longer
        monkeypatch.setattr(f"ipseval.propensity.{file}.RIDGES", (3.0, 100.0))
    study = load_coat(shared_data("coat"))
    split = split_random(study.positives().biased, rng=0)
    models = {name: train(split.train) for name, train in list(default_models().items())[:2]}
    rules = default_propensities(study)
    assert rules["gamma calibrated, held-out"].keywords == {"held_out": True}
    chosen = ["gamma = -1", "gamma = 0", "gamma calibrated", "gamma from lists", "published", "direct",
              "density ratio"]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = validate(
            models,
            study,
            propensities={name: rules[name] for name in chosen},
            metrics=("atop", "recall@10"),
            split=split,
            n_resamples=2,
        )
    assert len(result.frame) == 2 * 2 * 2 * (7 + 2)  # 7 propensities, and the random sample in 2 folds
    assert result.frame[["reference", "estimate", "bias_se"]].notna().all(axis=None)
