"""Labels: what is printed reads back, what cannot be read says so."""

from __future__ import annotations

import pickle

import pytest

import ipseval
from ipseval.estimators import card
from ipseval.metrics import CONVENTIONS

LABELS = [
    "recall@10",
    "precision@5",
    "precision(denominator=min)@5",
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
    "ndcg@10[lenskit]",
    "ap[trec_eval]",
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
        (("rbp(0.5,0.6)",), {}, "takes 1 parameters"),
        (("rbp(0.5)",), {"p": 0.6}, "in the label and as an argument"),
        (("rbp(2)",), {}, r"not in \(0, 1\)"),
        (("ndcg(gain=cubic)@5",), {}, "not one of binary, linear, exponential"),
        ((5,), {}, "got int"),
        ((ipseval.metric("ap"),), {"gain": "linear"}, "already"),
        ((ipseval.metric("ap"),), {"compat": "ranx"}, "already"),
        (("ndcg@5[ranx]",), {"compat": "sklearn"}, r"the label says \[ranx\]"),
        (("rr@5",), {"compat": "trec_eval"}, "no cutoff only"),
        (("ap",), {"compat": "implicit"}, "a cutoff only"),
        (("ndcg(gain=linear)@5",), {"compat": "lenskit"}, "binary relevance only"),
        (("precision(denominator=min)@5",), {"compat": "implicit"}, "default denominator"),
    ],
)
def test_a_label_that_cannot_be_read_says_why(arguments: tuple, options: dict, message: str):
    with pytest.raises(ipseval.InputError, match=message):
        ipseval.metric(*arguments, **options)


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("recal@5", {}, "recall"),
        ("ndcg@5[lenskitt]", {}, "lenskit"),
        ("auc", {"compat": "ranx"}, "metric of ranx"),
        ("rbp(q=0.5)", {}, "parameter of rbp"),
    ],
)
def test_an_unknown_name_is_refused_with_the_choices(label: str, options: dict, message: str):
    with pytest.raises(ipseval.UnknownNameError, match=message):
        ipseval.metric(label, **options)


def test_cards_name_the_libraries_that_compute_something_else():
    assert "lenskit (Recall(k)): divides by min(s, k)" in card("recall@10")
    assert "aoa only" in card(ipseval.metric("recall@10", compat="lenskit"))
    for library, known in CONVENTIONS.items():
        for name, convention in known.items():
            label = name if convention.cutoff == "none" or name in ("auc", "rbp") else f"{name}@5"
            assert convention.name in card(ipseval.metric(label, compat=library))


def test_labels_are_read_in_any_case_and_printed_in_lower_case():
    assert ipseval.metric("nDCG@5").label == "ndcg@5"
    assert ipseval.metric("DCG(gain=Exponential)@3") == ipseval.metric("dcg(gain=exponential)@3")
