"""Evaluation.diff and log: what changed between evaluations, and what a tracker is given."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.estimators import Note
from ipseval.inference import compare
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import (
    build_difference_cells,
    compute_difference,
    match_label,
    metric_names,
)
from tests.worlds import random_split

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def build_split(seed: int = 0, n_users: int = 80) -> ipseval.Split:
    rng = np.random.default_rng(seed)
    return random_split(rng, n_users, 40, 0.3)


def scores(data: ipseval.Split, strength: float, seed: int = 1) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(data.n_users, data.n_items))
    scores[data.test.user, data.test.item] += strength
    return scores


def build_evaluation(
    strengths: dict[str, float], data: ipseval.Split | None = None, **options: Any
) -> ipseval.Evaluation:
    data = build_split() if data is None else data
    models = {
        name: scores(data, strength, number) for number, (name, strength) in enumerate(strengths.items())
    }
    arguments = {
        "metrics": ["recall@5"],
        "propensity": ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"),
        **options,
    }
    return ipseval.evaluate(models, data, **arguments)


@pytest.fixture(scope="module")
def old() -> ipseval.Evaluation:
    return build_evaluation({"als": 0.5, "ease": 1.0, "gone": 0.2})


@pytest.fixture(scope="module")
def new() -> ipseval.Evaluation:
    return build_evaluation({"als": 1.5, "ease": 1.0, "fresh": 0.2}, confidence_level=0.9)


def test_a_difference_is_new_minus_old_with_the_error_of_the_paired_users(old, new):
    """Of aoa: a mean of the users' own differences, with their standard deviation over √n."""
    diff = new.diff(old)
    row = diff.frame.set_index(["model", "estimator"]).loc[("als", "aoa")]
    users = new.per_user("als", "recall@5", "aoa") - old.per_user("als", "recall@5", "aoa")
    assert row["difference"] == pytest.approx(users.mean(), abs=1e-14)
    assert row["std_error"] == pytest.approx(users.std(ddof=1) / np.sqrt(users.size), rel=1e-12)
    assert row["new"] - row["old"] == pytest.approx(row["difference"], abs=1e-14)
    assert row["paired"]
    unchanged_rows = diff.frame[diff.frame["model"] == "ease"]
    assert (unchanged_rows["difference"] == 0).all()
    assert (unchanged_rows["p_adjusted"] == 1).all()


def test_the_diff_reports_significant_changes_and_changed_options(old, new):
    diff = new.diff(old)
    text = repr(diff)
    assert "2 of 4 estimates are significantly higher: als (recall@5 by AOA)" in text
    assert "Only in the new evaluation: fresh." in text
    assert "Only in the old evaluation: gone." in text
    assert re.search(r"confidence_level +0.95 +0.9", text)
    assert repr(old.diff(old)).count("Nothing changed: every estimate is the same.") == 1
    plain = replace(diff, frame=diff.frame.query("estimator == 'aoa'"))
    assert "1 of 2 estimates is significantly higher: als (recall@5 by AOA)." in " ".join(repr(plain).split())
    reversed_text = repr(old.diff(new))
    assert "2 of 4 estimates are significantly lower" in reversed_text
    assert "higher" not in reversed_text
    assert "lower" not in text
    assert "4 estimates in both, new minus old, 90% intervals" in text
    assert "are not the same" not in text
    assert len(re.findall(r"^ease .* 0$", text, re.MULTILINE)) == 1


def test_adjusted_p_values_are_holms_over_all_rows(old, new):
    frame = new.diff(old).frame
    order = np.argsort(frame["p_value"].to_numpy(), kind="stable")
    stepped = np.maximum.accumulate(frame["p_value"].to_numpy()[order] * np.arange(len(frame), 0, -1))
    assert frame["p_adjusted"].to_numpy()[order] == pytest.approx(np.minimum(stepped, 1))


def test_renamed_recommenders_are_paired_by_the_given_names(old, new):
    diff = new.diff(old, models={"fresh": "gone"})
    assert set(diff.frame["model"]) == {"fresh"}
    assert (diff.only_new, diff.only_old) == ((), ())  # als and ease are in both


def test_recommenders_of_one_evaluation_alone_are_those_that_are_not_compared_under_another_name(old, new):
    diff = new.diff(old, models={"als": "als"})
    assert (diff.only_new, diff.only_old) == (("fresh",), ("gone",))
    assert "Only in" not in repr(new.diff(new, models={"als": "als"}))


def test_unknown_names_of_recommenders_are_errors(old, new):
    with pytest.raises(InputError, match="no recommender 'als2'; the new evaluation has als, ease, fresh"):
        new.diff(old, models={"als2": "als"})


def test_different_users_are_not_paired_and_the_page_warns(new):
    earlier = build_evaluation({"als": 1.3}, build_split(seed=7, n_users=60))
    diff = new.diff(earlier)
    row = diff.frame.iloc[0]
    assert not row["paired"]
    mine, theirs = (evaluation.frame.iloc[0] for evaluation in (new, earlier))
    assert row["std_error"] == pytest.approx(np.hypot(mine["std_error"], theirs["std_error"]), rel=1e-12)
    z = abs(row["difference"]) / row["std_error"]
    assert 0.01 < z < 6
    assert row["p_value"] == pytest.approx(2 * NormalDist().cdf(-z), rel=1e-9)
    page = diff.to_html()
    assert "The users are not the same" in page
    assert "The held-out positives are not the same" in page


def test_a_flagged_estimate_is_never_clear(old, new):
    few = (Note.create("text", text="few effective positives"),)
    flagged = {key: replace(estimate, flags=few) for key, estimate in new.estimates.items()}
    diff = replace(new, estimates=flagged).diff(old)
    text = " ".join(repr(diff).split())
    assert "No change of a reliable estimate is statistically significant." in text
    assert "Unreliable estimates support no conclusion." in text
    assert "Unreliable: als" in text
    assert "Few effective positives." in text


def test_a_difference_under_another_propensity_is_not_tested(new):
    diff = build_evaluation(
        {"als": 1.5, "ease": 1.0}, propensity=ipseval.PowerLawPropensity(gamma=1.0, unseen="drop")
    ).diff(new)
    rows = diff.frame.set_index("estimator")["p_value"]
    assert rows.filter(like="snips").isna().all()
    assert rows["aoa"].notna().all()
    text = repr(diff)
    assert "The propensity changed from" in text
    assert "snips-global)" not in text.partition("Verdict")[2].partition("Holm")[0]


def test_weighted_estimates_alone_under_another_propensity_leave_nothing_to_conclude():
    first, second = (
        build_evaluation(
            {"als": 1.0},
            propensity=ipseval.PowerLawPropensity(gamma=gamma, unseen="drop"),
            estimators=["snips"],
        )
        for gamma in (0.0, 1.0)
    )
    (sentence,) = second.diff(first).tables().remarks[0].lines
    assert sentence.startswith(
        "The propensity changed from power law, gamma = 0 to power law, gamma = 1, so "
    )
    assert sentence.endswith("their differences are not tested.")


def test_recommenders_and_metrics_that_evaluations_do_not_share_are_named(old, new):
    fresh, auc = build_evaluation({"other": 1.0}), build_evaluation({"als": 1.0}, metrics=["auc"])
    with pytest.raises(
        InputError, match=r"^no recommender in common; the new evaluation has other, the old "
    ):
        fresh.diff(old)
    with pytest.raises(InputError, match=r"^no recommender 'gone2'; "):
        new.diff(old, models={"als": "gone2"})
    with pytest.raises(InputError, match=r"no metric and estimator in common\.$"):
        auc.diff(new)
    assert new.diff(old).same_data
    # Without the positives nobody knows whether they are the same.
    assert not replace(new, samples={}).diff(replace(old, samples={})).same_data


def test_an_independent_difference_without_an_error_has_no_p_value():
    few = (Note.create("text", text="few"),)
    new, old = (
        SimpleNamespace(value=value, standard_error=0.0, reliability_notes=few) for value in (0.75, 0.5)
    )
    row = compute_difference(new, old, is_paired=False, level=0.9)
    assert (row["difference"], row["std_error"], row["note"]) == (0.25, 0, "few")
    assert np.isnan(row["p_value"])


def test_a_paired_difference_has_the_columns_of_a_comparison(old, new):
    row = new.diff(old).frame.iloc[0]
    key = tuple(row[["model", "metric", "estimator"]])
    estimates = {("new", *key[1:]): new.estimates[key], ("old", *key[1:]): old.estimates[key]}
    comparison = compare(estimates, reference="old", confidence_level=new.confidence_level).iloc[0]
    columns = ["difference", "std_error", "ci_low", "ci_high", "p_value"]
    assert row["paired"]
    assert row[columns].tolist() == comparison[columns].tolist()


def test_a_loaded_evaluation_has_the_same_diff(old, new, tmp_path):
    new.save(tmp_path / "new.npz")
    again = ipseval.Evaluation.load(tmp_path / "new.npz")
    ours, theirs = again.diff(old), new.diff(old)
    pd.testing.assert_frame_equal(ours.frame, theirs.frame, check_exact=True)
    assert repr(ours) == repr(theirs)
    with pytest.raises(InputError, match="diff takes an evaluation; got str"):
        new.diff("old.npz")


def test_a_difference_of_exactly_0_has_no_interval():
    row = {"old": 0.5, "new": 0.5, "difference": 0.0, "std_error": 0.1, "ci_low": -0.2, "ci_high": 0.2}
    cells = build_difference_cells(row | {"p_adjusted": 1.0, "note": ""}, 2)
    assert [cell.plain for cell in cells] == ["0.50", "0.50", "0"]
    assert not cells[2].strong
    rose = row | {"new": 0.8, "difference": 0.3, "ci_low": 0.1, "ci_high": 0.5, "p_adjusted": 0.02}
    assert [cell.plain for cell in build_difference_cells(rose | {"note": ""}, 2)] == [
        "0.50",
        "0.80",
        "+0.30 [+0.10, +0.50] p = 0.020",
    ]
    assert build_difference_cells(rose | {"note": ""}, 2)[2].strong
    assert not build_difference_cells(rose | {"note": "few"}, 2)[2].strong
    assert not build_difference_cells(rose | {"note": "", "p_adjusted": 0.05}, 2)[2].strong
    assert build_difference_cells(rose | {"note": "", "p_adjusted": np.nan}, 2)[2].plain == "+0.30"


class Recorder:
    """An object with the functions of MLflow that are used."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.given["metrics"] = metrics

    def set_tags(self, tags: dict[str, str]) -> None:
        self.given["tags"] = tags

    def log_text(self, text: str, name: str) -> None:
        self.given[name] = text


@pytest.mark.usefixtures("no_pictures")
def test_a_tracker_is_given_metrics_table_page_and_hash(new):
    tracker = Recorder()
    new.log(tracker)
    logged = tracker.given
    frame = new.frame.set_index(["metric", "estimator", "model"])
    assert (
        logged["metrics"]["recall_at_5/snips-global/als"]
        == frame.loc[("recall@5", "snips-global", "als"), "estimate"]
    )
    assert len(logged["metrics"]) == len(frame)
    assert logged["tags"]["ipseval.data_sha256"] == new.data_hash
    assert "In the log, als ranks first by AOA" in logged["tags"]["ipseval.verdict"]
    assert logged["ipseval/report.html"] == new.to_html()
    assert logged["ipseval/estimates.csv"] == new.to_csv()


def test_names_that_would_coincide_are_an_error_and_undefined_estimates_are_not_logged():
    frame = pd.DataFrame({"metric": "m", "estimator": "e", "model": ["a:b", "a?b"], "estimate": [1.0, 2.0]})
    assert metric_names(frame.iloc[:1]) == {"m/e/a_b": 1.0}
    with pytest.raises(InputError, match="two estimates would be logged as 'm/e/a_b'"):
        metric_names(frame)


def test_custom_labels_are_matched_ignoring_case():
    metrics, estimators = ["mine@3"], ["own"]
    assert (
        match_label("Mine@3", metrics, ipseval.metric),
        match_label("OWN", estimators, resolve_estimator),
    ) == ("mine@3", "own")
    assert (
        match_label("One", metrics, ipseval.metric),
        match_label("Mine@3", estimators, resolve_estimator),
    ) == ("One", "Mine@3")


@pytest.mark.usefixtures("no_pictures")
def test_an_unknown_tracker_is_an_error(new):
    with pytest.raises(InputError, match=r"log takes mlflow, wandb, .*got dict"):
        new.log({})
