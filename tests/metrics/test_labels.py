"""Labels: what is printed reads back, what cannot be read says so."""

from __future__ import annotations

import pickle

import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.metrics import Definition, Metric, metric
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
        (("ndcg(gain=cubic)@5",), {}, "not one of binary, linear, exponential"),
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


@pytest.mark.parametrize(
    ("label", "advice"),
    [
        ("f1@3", "ask for precision@k and recall@k"),
        ("rmse", "use ipseval.evaluation.evaluate_ratings"),
        ("Coverage@10", "beyond_accuracy"),
        ("ndgc@10", "Did you mean 'ndcg'?"),
        ("RECAL@10", "Did you mean 'recall'?"),
        ("recall(denominator=min)@10", "recall takes no parameter"),
        ("recall(min)@10", "recall takes no parameter"),
        ("rbp(q=0.5)", "parameter of rbp"),
    ],
)
def test_a_label_that_is_none_gets_an_answer(label, advice):
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

    name, kind = "gained", "list"
    definition = Definition("Σ w g", "1")

    def _user_values(self, ranked, weights, rule):
        return ranked.sum_by_user(ranked.gain * (1 if weights is None else weights))


def test_a_new_metric_is_tried_on_three_users_with_gains_of_1_3_and_5():
    with pytest.raises(InputError, match=r"example 6 on average with weights of 2, 3 without\)"):
        ipseval.metric(Gained())
