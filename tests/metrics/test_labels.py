"""Labels of metrics: printing, parsing, and errors for wrong labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.metrics import METRICS, Definition, Metric, metric
from tests.inside.estimators import resolve_estimator
from tests.inside.metrics import Dcg, Ndcg, Precision, Rbp

LABELS = [
    "recall@10",
    "precision@5",
    "precision(denominator=min)@5",
    "cg@10",
    "cg(gain=linear)@5",
    "dcg",
    "dcg(gain=exponential)@10",
    "mean_dcg@3",
    "atop",
    "auc",
    "ap@5",
    "ap(denominator=s)@5",
    "ndcg(gain=linear)",
    "rr",
    "hit@1",
    "rbp(0.8)",
    "rbp(0.123456789)@20",
    "hits@3",
]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_prints_as_it_is_parsed_and_gives_equal_picklable_metrics(label: str):
    metric = ipseval.metric(label)
    assert repr(metric) == metric.label == label
    assert ipseval.metric(label) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric


def test_rbp_keeps_every_digit_of_its_parameter():
    assert ipseval.metric("rbp", p=1 / 3).label == f"rbp({1 / 3!r})"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("recall@²",), {}, "integer >= 1; got '²'"),
        (("recall@0",), {}, "integer >= 1"),
        (("recall@1.5",), {}, "integer >= 1"),
        (("recall",), {}, "needs a cutoff"),
        (("auc@5",), {}, "takes no cutoff"),
        (("rbp(p=0.5,p=0.6)",), {}, "twice"),
        (("rbp(0.5,0.6)",), {}, "takes 1 parameter"),
        (("rbp(0.5)",), {"p": 0.6}, "in the label and as an argument"),
        (("rbp(2)",), {}, r"not in \(0, 1\)"),
        (("rbp(0)",), {}, r"0 is not in \(0, 1\)"),
        (("rbp(1)",), {}, r"1 is not in \(0, 1\)"),
        (("rbp(half)",), {}, "'half' is not a number"),
        (("rbp(0.5,p=0.6)",), {}, "gives p twice"),
        (("recall@10000001",), {}, "the cutoff must be at most 10,000,000; got 10,000,001"),
        (("ndcg(gain=cubic)@5",), {}, "not one of binary, linear, exponential"),
        (("ap(denominator=k)@5",), {}, "'k' is not one of min, s"),
        ((5,), {}, "got int"),
        ((ipseval.metric("ap"),), {"gain": "linear"}, "already"),
        (("ndcg@5[ranx]",), {}, "cannot read the metric label 'ndcg@5.ranx.'; expected name, name@k or"),
    ],
)
def test_a_label_that_cannot_be_read_says_why(arguments: tuple, options: dict, message: str):
    with pytest.raises(ipseval.InputError, match=message):
        ipseval.metric(*arguments, **options)


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("Recall@10", "recall@10"),
        ("MAP@5", "ap@5"),
        ("AP(Denominator=S)@5", "ap(denominator=s)@5"),
        ("ap(s)@5", "ap(denominator=s)@5"),
        ("map(denominator=min)@5", "ap@5"),
        ("map_cut_5", "ap(denominator=s)@5"),  # trec_eval divides by s
        ("mrr", "rr"),
        ("HR@3", "hit@3"),
        ("Hit-Rate@3", "hit@3"),
        ("hitrate@3", "hit@3"),
        ("P@5", "precision@5"),
        ("ROC-AUC", "auc"),
        ("nDCG(gain=Linear)@5", "ndcg(gain=linear)@5"),
    ],
)
def test_case_and_other_names_of_a_metric_do_not_matter(label, meant):
    assert metric(label).label == meant


class Measure:
    """A measure of ir_measures, which is recognised by its module."""

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        return self.text


Measure.__module__ = "ir_measures.measures"


@pytest.mark.parametrize(
    ("text", "label"),
    [("AP@5", "ap(denominator=s)@5"), ("AP", "ap"), ("nDCG@5", "ndcg@5"), ("P@5", "precision@5")],
)
def test_a_measure_of_ir_measures_keeps_its_definition(text: str, label: str):
    assert metric(Measure(text)).label == label


@pytest.mark.parametrize(
    ("label", "advice"),
    [
        ("f1@3", "ask for precision@k and recall@k"),
        ("rmse", "use ipseval.evaluation.evaluate_ratings"),
        ("Coverage@10", "beyond_accuracy"),
        ("ndgc@10", "Did you mean 'ndcg'?"),
        ("RECAL@10", "Did you mean 'recall'?"),
        ("recall(denominator=min)@10", "recall takes no parameter. Recall with the .* is adjusted_recall@10"),
        ("recall(min)", "is adjusted_recall@k"),
        ("recall(3)@10", "recall takes no parameter.$"),
        ("rbp(q=0.5)", "parameter of rbp"),
    ],
)
def test_an_unknown_label_is_refused_with_advice(label, advice):
    with pytest.raises(InputError, match=advice):
        metric(label)


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("SNIPS", "snips"),
        ("Snips_Global", "snips-global"),
        ("snips pooled", "snips-pooled"),
        ("IPW", "ips"),
        ("naive", "aoa"),
        ("Hajek", "snips-pooled"),
        ("SNIPS_Shrunk(.5)", "snips-shrunk(0.5)"),
    ],
)
def test_case_and_other_names_of_an_estimator_do_not_matter(label, meant):
    assert resolve_estimator(label).label == meant


@pytest.mark.parametrize(
    "make",
    [lambda: Ndcg(5, "cubic"), lambda: Precision(5, "all"), lambda: Rbp(p=1.5), lambda: Dcg(None, "cubic")],
)
def test_a_class_checks_its_parameters_as_a_label_does(make):
    with pytest.raises(InputError):
        make()


class Gained(Metric):
    """Σwg of a user, which grows with the weights."""

    name = "gained"
    kind = "list"
    definition = Definition("Σ w g", "1")

    def _user_values(self, ranked, weights, rule):
        return ranked.sum_by_user(ranked.gain * (1 if weights is None else weights))


class Weighted(Gained):
    """1 with weights, whatever they are, and 3 without."""

    def _user_values(self, ranked, weights, rule):
        return np.full(ranked.starts.size, 3.0 if weights is None else 1.0)


def test_a_new_metric_has_the_same_value_with_weights_of_one():
    with pytest.raises(InputError, match=r"example 1 on average with weights of 1, 3 without\)"):
        ipseval.metric(Weighted())


def test_a_class_of_metrics_is_one_with_its_own_name_in_small_letters():
    assert METRICS.check("gained", Gained) is Gained
    for entry, description in ((3, "an int"), (int, "a type"), (None, "None")):
        with pytest.raises(InputError, match=rf"^a metric is a class .*; got {description}\.$"):
            METRICS.check("x", entry)
    for name in ("2x", "Odd", "a b"):
        with pytest.raises(InputError, match=f"has the name '{name}' and is registered as '{name}'; both"):
            METRICS.check(name, type("Odd", (Gained,), {"name": name}))


def test_the_default_of_a_parameter_is_that_of_its_class():
    assert {Rbp().p, Rbp.parameters["p"].default} == {0.8}
    assert {Dcg().gain, Ndcg().gain, Dcg.parameters["gain"].default} == {"binary"}
    assert {Precision(5).denominator, Precision.parameters["denominator"].default} == {"k"}
    for precision, needs in ((Precision(5), False), (Precision(5, "min"), True)):
        assert (precision.needs_n_relevant, precision.is_relative) == (needs, needs)


def test_a_cutoff_is_a_whole_number_of_at_least_one():
    assert ipseval.metric("recall@10000000").cutoff == 10_000_000
    assert (Dcg(np.int64(3)).label, Dcg(1).label, Dcg().label) == ("dcg@3", "dcg@1", "dcg")
    for cutoff in (0, True, 2.0, "2"):
        with pytest.raises(InputError, match="metric 'dcg': the cutoff must be an integer >= 1; got"):
            Dcg(cutoff)


def test_a_new_metric_is_tried_on_one_two_and_four_positives_of_a_hundred_items_with_one_tie():
    seen = []

    class Seen(Gained):
        def _user_values(self, ranked, weights, rule):
            seen.append(ranked)
            return np.ones(ranked.starts.size)

    ipseval.metric(Seen())
    ranked = seen[0]
    assert (ranked.user.tolist(), ranked.item.tolist()) == ([0, 1, 1, 2, 2, 2, 2], [0, 0, 1, 0, 1, 2, 3])
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == (
        [0, 1, 4, 0, 2, 2, 60],
        [0, 0, 0, 0, 1, 1, 0],
    )
    assert (ranked.n_candidates.tolist(), ranked.candidates_by_user.tolist()) == ([100] * 7, [100] * 3)
    assert (ranked.user_ids.size, ranked.item_ids.size, ranked.gain.tolist()) == (
        3,
        100,
        [1, 2, 1, 1, 2, 1, 1],
    )


def test_a_new_metric_is_tried_on_three_users_with_gains_of_1_3_and_5():
    with pytest.raises(InputError, match=r"example 6 on average with weights of 2, 3 without\)"):
        ipseval.metric(Gained())
