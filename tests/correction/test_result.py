"""The parts of a correction on small paths: notes, counts, the lead in the sample, comparisons and claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ipseval import InputError, RandomExposure
from ipseval.correction import Correction, CorrectionPath, CorrectionPrior, correct_path
from tests.correction.test_posterior import tiny_path, tiny_path_of_two, tiny_sample
from tests.correction.test_random_sample import make_sample, path_of_two_metrics
from tests.inside.correction import ALPHAS, PpiEstimate, RandomSample, compute_posterior

PRIOR = CorrectionPrior()


def correct_sample(path: CorrectionPath, sample: RandomSample, **fields: object) -> Correction:
    """Return the correction of a path by a sample that is known."""
    return Correction(
        path=path, prior=PRIOR, sample=sample, posterior=compute_posterior(path, PRIOR, sample), **fields
    )


def find_rows(correction: Correction, estimator: str) -> pd.DataFrame:
    frame = correction.frame
    return frame[frame["estimator"] == estimator]


def test_ess_and_truncation_are_those_of_the_strength_next_to_the_posterior_mean():
    path = tiny_path()
    path = replace(path, ess=200 - np.arange(25.0), clipped=np.arange(25) / 100)
    correction = correct_path(path)
    assert correction.alpha.mean == pytest.approx(0.621, abs=1e-3)  # between 0.6 and 0.675, nearer to 0.6
    assert find_rows(correction, "corrected")["ess"].tolist() == [192.0] * 2
    assert find_rows(correction, "aoa-pooled")["ess"].tolist() == [200.0] * 2
    note = find_rows(correction, "corrected")["note"].iloc[0]
    assert note.endswith("large weights are truncated, by 8% of all weight")
    assert "Large weights are truncated; the truncated part is 8% of all weight." in " ".join(
        repr(correction).split()
    )


@pytest.mark.parametrize(("share", "is_noted"), [(0.0049, False), (0.005, True)])
def test_truncation_is_noted_from_half_a_per_cent_on(share, is_noted):
    correction = correct_path(replace(tiny_path(), clipped=np.full(25, share)))
    assert ("truncated" in find_rows(correction, "corrected")["note"].iloc[0]) is is_noted
    assert ("truncated" in repr(correction)) is is_noted


def test_the_lead_in_the_sample_is_a_difference_in_standard_errors_with_half_a_hit():
    correction = correct_sample(tiny_path(), tiny_sample())
    # 0.30 and 0.35, whose covariance is [[15, 5], [5, 15]]·1e-4; half a hit of 40 adds 1/2/41² to variances.
    error = np.sqrt(2 * (1.5e-3 + 0.5 / 41**2) - 2 * 5e-4)
    lead = correction._metric_orders[0].sample_lead
    np.testing.assert_allclose(lead, [[0, -0.05 / error], [0.05 / error, 0]], rtol=1e-12)
    # By the second metric the recommenders change places, as AOA has them.
    path = path_of_two_metrics()
    path = replace(path, value=path.value[:, [0, 1, 3, 2]])
    sample = make_sample()
    second = correct_sample(path, sample)._metric_orders[1]
    variance = [0.001 + 0.5 / 51**2, 0.004 + 0.5 / 51**2]
    covariance = 0.0005 + 0.25 * 0.5 / 51**2
    expected = -0.1 / np.sqrt(variance[0] + variance[1] - 2 * covariance)
    assert second.models == ("b", "a")
    np.testing.assert_allclose(second.sample_lead, [[0, expected], [-expected, 0]], rtol=1e-12)
    assert correct_path(path)._metric_orders[0].sample_lead is None


def test_equal_recommenders_have_no_lead_in_the_sample():
    path = replace(
        tiny_path(),
        similarity=np.ones((2, 2)),
        value=np.tile([0.5, 0.5], (25, 1)),
        spread=np.full((25, 2, 2), 0.06),
    )
    sample = RandomSample(np.array([0.3, 0.3]), np.full((2, 2), 1e-3), 40, 40, 1.0)
    assert correct_sample(path, sample)._metric_orders[0].sample_lead.tolist() == [[0, 0], [0, 0]]


def test_exposed_users_are_those_of_the_exposure_and_without_it_those_of_the_sample():
    exposure = RandomExposure(
        user=np.array([3, 3, 5, 9]),
        item=np.array([0, 1, 0, 2]),
        positive=np.array([True, False, False, False]),
        n_users=10,
        n_items=3,
    )
    path = tiny_path()
    assert correct_path(path)._metric_orders[0].n_exposed == 0
    assert correct_sample(path, tiny_sample())._metric_orders[0].n_exposed == 40
    exposed = correct_sample(path, tiny_sample(), random_exposure=exposure)
    assert exposed._metric_orders[0].n_exposed == 3


def test_probabilities_are_printed_with_random_items_only_and_estimates_also_with_interactions():
    log_correction = correct_path(tiny_path())
    assert "P(" not in repr(log_correction)
    assert "an interval without an estimate" in find_rows(log_correction, "corrected")["note"].iloc[0]
    interactions_correction = correct_path(tiny_path_of_two())
    assert "P(" not in repr(interactions_correction)
    assert "No random items were passed" in " ".join(interactions_correction.verdict.split())
    note = find_rows(interactions_correction, "corrected")["note"].iloc[0]
    assert note.startswith("no random exposure: the level depends on the prior")
    sample_correction = correct_sample(tiny_path(), tiny_sample())
    assert "P(better than next)" in repr(sample_correction)
    assert "no random exposure" not in find_rows(sample_correction, "corrected")["note"].iloc[0]
    for correction in (interactions_correction, sample_correction):
        estimates = find_rows(correction, "corrected")["estimate"].to_numpy()
        assert estimates == pytest.approx(correction.posterior.total_mean, rel=1e-12)


def test_weights_and_designs_are_noted_with_the_loss_of_precision_of_whole_rankings():
    path = path_of_two_metrics()
    notes = [
        find_rows(correct_sample(tested_path, make_sample(**fields)), "random-sample")["note"].iloc[0]
        for tested_path, fields in (
            (path, {}),
            (path, {"ess": 25.0}),
            (path, {"ess": 25.4, "hit_weight": np.array([2.0, 2.0, 0.5, 0.5])}),
        )
    ]
    assert notes[0] == ""
    assert notes[1] == "assumes that randomised slots were random; pairs are weighted"
    loss = (
        "atop: metrics of the whole ranking lose precision by the design; their effective sample is 25 of 50 "
        "positives."
    )
    assert notes[2] == f"pairs are weighted by the inverse of their inclusion probability; {loss}"
    designed = {"hit_weight": np.array([2.0, 2.0, 0.5, 0.5])}
    assert loss in " ".join(repr(correct_sample(path, make_sample(ess=25.4, **designed))).split())
    assert "lose precision" not in repr(correct_sample(path, make_sample(ess=25.4)))
    # Metrics of the first ranks lose nothing.
    top_correction = correct_sample(tiny_path(), replace(tiny_sample(), ess=25.0, hit_weight=np.full(2, 0.5)))
    assert "lose precision" not in repr(top_correction)
    note = find_rows(top_correction, "random-sample")["note"].iloc[0]
    assert note == "pairs are weighted by the inverse of their inclusion probability"


def test_rows_of_the_sample_and_of_ppi_have_normal_intervals_with_half_a_hit():
    path = path_of_two_metrics()
    ppi = PpiEstimate(np.array([0.4, 0.5, 0.25, 0.35]), np.diag([1e-3, 2e-3, 3e-3, 4e-3]))
    sample = make_sample()
    correction = correct_sample(path, sample, ppi=ppi, confidence_level=0.9)
    half_hit = np.diag(path.half_hit(50))
    for name, value, variance in (
        ("random-sample", sample.value, np.diag(sample.sample_covariance)),
        ("ppi", ppi.value, np.diag(ppi.covariance)),
    ):
        rows = find_rows(correction, name)
        error = np.sqrt(variance + half_hit)
        assert rows["model"].tolist() == ["a", "b", "a", "b"]
        assert rows["metric"].tolist() == ["atop", "atop", "recall@5", "recall@5"]
        np.testing.assert_allclose(rows["estimate"], value, rtol=1e-12)
        np.testing.assert_allclose(rows["std_error"], error, rtol=1e-12)
        np.testing.assert_allclose(rows["ci_low"], value - norm.ppf(0.95) * error, rtol=1e-9)
        np.testing.assert_allclose(rows["ci_high"], value + norm.ppf(0.95) * error, rtol=1e-9)
        assert rows[["n_users", "n_positives", "ess"]].drop_duplicates().to_numpy().tolist() == [[40, 50, 50]]
    corrected = find_rows(correction, "corrected")
    assert corrected[["n_users", "n_positives"]].drop_duplicates().to_numpy().tolist() == [[100, 200]]
    np.testing.assert_allclose(
        corrected["std_error"], np.sqrt(np.diag(correction.posterior.total_covariance)), rtol=1e-12
    )
    order = correction.order
    for column in ("ci_low", "ci_high"):
        values = corrected.set_index(["metric", "model"])[column]
        assert order[column].tolist() == [values[row.metric, row.recommender] for row in order.itertuples()]


def test_claims_name_the_conditions_of_each_estimator():
    correction = correct_sample(path_of_two_metrics(), make_sample())
    claims = correction.frame.groupby("estimator", sort=False)["claim"].agg(lambda texts: sorted(set(texts)))
    assert claims["random-sample"] == ["consistent given users and items drawn at random; pooled over pairs"]
    assert claims["corrected"][0].startswith("posterior mean given the prior of the correction strength")
    assert claims["aoa-pooled"] == ["biased unless all propensities are equal"]
    assert set(correction.frame["estimand"]) == {"mean over relevant interactions"}


def test_comparisons_have_the_error_and_the_quantiles_of_the_difference():
    path = path_of_two_metrics()
    sample = make_sample()
    correction = correct_sample(path, sample, confidence_level=0.8)
    posterior = correction.posterior
    frame = correction.compare()
    assert frame[["metric", "model", "reference"]].to_numpy().tolist() == [
        ["atop", "a", "b"],
        ["recall@5", "a", "b"],
    ]
    for row, contrast in enumerate(np.array([[1.0, -1, 0, 0], [0, 0, 1, -1]])):
        variance = contrast @ posterior.total_covariance @ contrast
        assert frame["difference"][row] == pytest.approx(contrast @ posterior.total_mean, rel=1e-12)
        assert frame["std_error"][row] == pytest.approx(np.sqrt(variance), rel=1e-12)
        mean = posterior.mean @ contrast
        sd = np.sqrt([contrast @ part @ contrast for part in posterior.covariance])
        for column, level in (("ci_low", 0.1), ("ci_high", 0.9)):
            below = posterior.weight @ norm.cdf((frame[column][row] - mean) / sd)
            assert below == pytest.approx(level, abs=1e-9)
        assert frame["probability_higher"][row] == pytest.approx(posterior.weight @ norm.cdf(mean / sd))


def test_a_single_recommender_has_nothing_to_compare():
    path = tiny_path()
    first = slice(0, 1)
    alone = replace(
        path,
        models=("a",),
        value=path.value[:, first],
        covariance=path.covariance[:, first, first],
        spread=path.spread[:, first, first],
        within=np.zeros(1),
        similarity=np.eye(1),
        hit=np.ones(1),
    )
    frame = correct_path(alone).compare()
    assert frame.empty
    assert list(frame)[:4] == ["metric", "estimator", "model", "reference"]
    assert correct_path(alone).leader is None


def test_the_density_of_the_strength_has_prior_and_posterior_masses():
    correction = correct_sample(tiny_path_of_two(), tiny_sample(), confidence_level=0.5)
    density = correction.alpha.density
    mass = density["posterior"].to_numpy()
    prior = PRIOR.grid_mass(("pairs", "interactions")).reshape(2, 25).sum(axis=0)
    np.testing.assert_allclose(density["alpha"], ALPHAS, rtol=1e-12)
    np.testing.assert_allclose(density["prior"], prior, rtol=1e-12)
    np.testing.assert_allclose(mass, correction.posterior.alpha_mass, rtol=1e-12)
    assert correction.alpha.mean == pytest.approx(mass @ ALPHAS, rel=1e-12)
    below = np.cumsum(mass)
    assert correction.alpha.low == ALPHAS[(below < 0.25).sum()]
    assert correction.alpha.high == ALPHAS[(below < 0.75).sum()]
    assert correction.alpha.low < correction.alpha.high


def find_remark(correction: Correction, name: str) -> str:
    """Return the text of a paragraph below the report; "" without it."""
    return " ".join(
        line for remark in correction.tables().remarks if remark.name == name for line in remark.lines
    )


def test_excluded_data_are_counted_in_sentences():
    exposure = RandomExposure(np.array([0]), np.array([0]), np.array([True]), 10, 3)
    correction = correct_path(tiny_path(), random_exposure=exposure)
    assert find_remark(correction, "Excluded") == ""
    counted = replace(exposure, n_dropped=1200, n_uncovered=1, n_unanswered=3)
    correction = correct_path(tiny_path(), random_exposure=counted)
    assert find_remark(correction, "Excluded") == (
        "1,200 pairs of the training log, from the random exposure. 1 user without a row in the log, from the "
        "random sample. 3 users without some answer, from the random exposure."
    )


def test_the_slope_of_randomised_slots_and_reference_values_are_data():
    exposure = RandomExposure(np.array([0]), np.array([0]), np.array([True]), 10, 3, slope=(0.126, 0.034))
    options = {"reference_values": {("a", "b"): {"recall@5": (1.2, 0.1)}}, "source": "randomised-ratio"}
    correction = correct_path(tiny_path(), random_exposure=exposure, **options)
    text = find_remark(correction, "Data")
    assert text.startswith(
        "Items in randomised slots follow popularity with exponent 0.13; the exponent of random slots is 0 ± 0.03. "
        "Reference value of recall@5 for a / b: 1.200 (standard error 0.100). All other data predict "
    )
    row = correction.reference_values.loc[0]
    assert (
        f"predict {row['expected']:.3f} (standard error {row['expected_error']:.3f}), and the value" in text
    )
    assert text.endswith(f"An error of {row['detectable_error']:.3f} would be detected with 80% power.")
    assert find_remark(correct_path(tiny_path()), "Data") == ""


def test_assumptions_name_the_sources_of_the_estimates():
    log_text = find_remark(correct_path(tiny_path()), "Assumption")
    assert (
        "the log alone does not show how high the values are: the plausible range depends on the prior"
        in log_text
    )
    assert "random sample" not in log_text
    interactions_text = find_remark(correct_path(tiny_path_of_two()), "Assumption")
    assert interactions_text.endswith("so the level of the estimate depends on the prior.")
    sample_text = find_remark(correct_sample(tiny_path(), tiny_sample()), "Assumption")
    assert "The random sample is consistent if users and items were drawn uniformly" in sample_text
    assert "No random items were passed" not in sample_text
    exposure = RandomExposure(np.array([0]), np.array([0]), np.array([True]), 10, 3, is_designed=True)
    ppi = PpiEstimate(np.array([0.4, 0.5]), np.diag([1e-3, 2e-3]))
    correction = correct_sample(tiny_path(), tiny_sample(), ppi=ppi, random_exposure=exposure)
    assert "The random sample and PPI are consistent if users were drawn at random and all allocated" in (
        find_remark(correction, "Assumption")
    )


def test_tables_have_a_title_on_a_page_and_the_requested_digits():
    correction = correct_path(tiny_path())
    assert correction.tables().title == ""
    assert correction.tables(page=True).title == "Bias-corrected comparison of recommenders"
    for digits in (2, 4):
        row = correction.tables(digits=digits).parts[0].rows[0]
        assert row[1].text == f"{0.6:.{digits + 1}f}"
        low, high = correction.order[["ci_low", "ci_high"]].loc[0]
        assert row[2].text == f"[{low:.{digits + 1}f}, {high:.{digits + 1}f}]"
    with pytest.raises(InputError, match="digits"):
        correction.tables(digits=0)


def test_narrow_intervals_are_printed_with_a_significant_digit_of_their_half_width():
    # Standard errors of 2.4e-4 for AOA and 3.9e-4 for the sample and the corrected values.
    path = replace(tiny_path(), covariance=tiny_path().covariance * 1e-4)
    correction = correct_sample(path, tiny_sample(1e4))
    rows = [row for row in correction.tables().parts[0].rows if row[0].text == "a"]
    low, high = correction.order.set_index("recommender").loc["a", ["ci_low", "ci_high"]]
    assert 4e-4 < (high - low) / 2 < 9.5e-4
    assert [cell.text for cell in rows[0][1:3]] == ["0.6000", "0.3000"]


@pytest.mark.parametrize(("n_models", "rest"), [(12, ""), (13, "and 1 more in .frame")])
def test_a_table_has_twelve_recommenders_and_the_number_of_the_others(n_models, rest):
    path = tiny_path()
    value = np.linspace(0.6, 0.3, n_models) * np.exp(-ALPHAS)[:, None]
    path = replace(
        path,
        models=tuple(f"m{number}" for number in range(n_models)),
        value=value,
        covariance=np.repeat(1e-4 * np.eye(n_models)[None], 25, axis=0),
        spread=np.repeat(0.05 * np.eye(n_models)[None], 25, axis=0),
        within=np.zeros(n_models),
        similarity=np.eye(n_models),
        hit=np.ones(n_models),
    )
    text = repr(correct_path(path))
    assert "m11 " in text
    assert "m12 " not in text
    assert (rest in text) if rest else ("more in" not in text)
