"""What once ended in an error of another library, or ended the process: an error that names the argument."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from ipseval.data.splits import split_sliding
from ipseval.policies import evaluate_policies
from ipseval.testing import compare_results
from ipseval.validation.datasets import load_coat, load_movielens
from tests.fuzz.values import endless

FRAME = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 3], "time": [1, 2, 3, 4]})
LOG = ipseval.Interactions.from_frame(FRAME, timestamp="time")
SPLIT = ipseval.Split.from_frames(FRAME.iloc[[0, 2]], FRAME.iloc[[1, 3]])
SHOWN = ipseval.ExposureLog.from_frame(FRAME.assign(clicked=[1, 0, 1, 1], p=0.5), propensity="p")
SCORES = np.arange(6.0).reshape(2, 3)
DAYS = np.timedelta64(3, "D")


@pytest.mark.parametrize(
    "rng", [np.asmatrix([[3]]), endless(), [1, 2], np.arange(3), "0", 1.5, -1, DAYS, {"seed": 1}]
)
def test_nothing_but_a_seed_is_a_seed(rng):
    with pytest.raises(ipseval.InputError, match="rng must be an integer >= 0"):
        ipseval.SampledCandidates(3, rng=rng)


def test_seeds_of_all_kinds_are_seeds():
    expected = ipseval.SampledCandidates(3, rng=5).key
    for rng in (np.int8(5), np.random.SeedSequence(5), np.random.default_rng(5)):
        assert ipseval.SampledCandidates(3, rng=rng).key == expected


EVALUATION = ipseval.evaluate({"m": SCORES, "n": -SCORES}, SPLIT, metrics=["recall@10"], on_low_ess="ignore")


def ranked() -> ipseval.RankedPositives:
    return ipseval.rank_positives(SCORES, SPLIT)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ipseval.data.splits.k_core(LOG, DAYS), "must be an integer"),
        (lambda: ipseval.order_agreement([1, 2, 3], [1, 2, 3], k=DAYS), "must be"),
        (lambda: ranked().mean_by_user(np.ones(2), weights=np.ones((2, 9))), "one entry for each"),
        (lambda: evaluate_policies(SHOWN, {"a": np.full((3, 1), 1 / 3)}, estimators=[]), "is empty"),
        (lambda: ipseval.evaluate({"m": SCORES}, SPLIT).to_markdown(digits=-3), "digits must be"),
        (lambda: ipseval.evaluate({"m": SCORES}, SPLIT).to_html(digits=10**9), "digits must be"),
        (lambda: split_sliding(LOG, start=-(10**30), test=1), "start must be within 64 bits"),
        (lambda: ipseval.report.Report([]), "a report takes a sequence of results"),
        (lambda: ipseval.report.Report([3]), "a report takes a sequence of results"),
        (lambda: ipseval.expected_sampled([1], 10, 10**30, "recall@1"), "n_sampled must be at most"),
        (lambda: compare_results(EVALUATION, EVALUATION, metric="recall@10", margin=-(10**30)), "margin"),
        (lambda: EVALUATION.by(endless()), "a list inside a list"),
        (lambda: load_coat("/proc/self/mem"), "truncated or damaged"),
        (lambda: load_movielens("/proc/self/mem"), "truncated or damaged"),
        (lambda: ipseval.order_agreement(scipy.sparse.csr_matrix([1.0, 2]), [1, 2]), "a must hold"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_error_of_another_library_becomes_one_that_names_the_argument(call, message):
    with pytest.raises(ipseval.InputError, match=message):
        call()


def test_a_difference_beyond_all_metrics_needs_no_users_worth_a_fraction():
    other = ipseval.evaluate({"m": SCORES, "n": -SCORES}, SPLIT, metrics=["recall@1"])
    assert (other.compare(difference=10**30)["n_users_needed"].dropna() < 10).all()
