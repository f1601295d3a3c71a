"""What holds for every estimator: its label parses back, and equal propensities give the average it names."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import ESTIMATORS, Sample, claim
from tests.estimators.labels import OF_POSITIVES, OF_REWARDS
from tests.inside.estimators import ESTIMATOR_CLASSES, ESTIMATORS_SHOWN, resolve_estimator
from tests.inside.metrics import Auc
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# What every estimator of the registry can be asked: its own label, a parameter, another case.
LABELS = [*ESTIMATORS, "snips-shrunk(0.5)"]
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("label", LABELS)
def test_labels_parse_back_in_any_case(label):
    estimator = resolve_estimator(label)
    assert resolve_estimator(estimator.label.upper()) == estimator
    assert resolve_estimator(f" {estimator.label} ").label == estimator.label


def test_a_label_that_is_nearly_right_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'snips-global'"):
        resolve_estimator("snips-globall")
    with pytest.raises(InputError, match=r"snips takes no parameter; got '0\.5'"):
        resolve_estimator("snips(0.5)")
    for bad in ("snips-shrunk()", "snips-shrunk(two)", "snips-shrunk(2)"):
        with pytest.raises(InputError):
            resolve_estimator(bad)
    with pytest.raises(InputError, match="dr takes no parameter"):
        resolve_estimator("dr(clipped)")
    with pytest.raises(InputError, match="does not parse"):
        resolve_estimator("snips-shrunk(0.5")


@pytest.mark.parametrize("label", sorted(set(LABELS) - set(OF_REWARDS)))
def test_with_equal_propensities_it_estimates_the_average_that_it_names(label):
    # Users 0 and 1 have one and three positives, on places 1, and 1, 6 and 7: recall@5 is 1 and 1/3.
    ranked = ipseval.RankedPositives(
        [0, 1, 1, 1], [0, 0, 5, 6], [0, 0, 5, 6], [0] * 4, [9] * 4, range(2), range(9),
        candidates_by_user=[9, 9],
    )  # fmt: skip
    estimator = resolve_estimator(label)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=ipseval.KnownPropensity(item=np.ones(9)).fit(ranked),
        metrics=["recall@5"],
        estimators=[estimator],
        n_relevant=[1, 3],
    )
    expected = {"user": (1 + 1 / 3) / 2, "pooled": 2 / 4}[estimator.target]
    assert result.frame["estimate"].tolist() == pytest.approx([expected], rel=1e-14)


def test_a_pair_ratio_has_no_bounds_under_any_label_of_the_metric():
    world = random_world(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ipseval.evaluate(
            {"a": world.scores},
            world.split,
            propensity=ipseval.PowerLawPropensity(gamma=0.5, scale="max"),
            metrics=["auc", Auc(label="area")],
            estimators=["snips-pooled"],
        )
    rows = result.bounds(1.0)
    assert rows["estimate"].tolist() == result.frame["estimate"].tolist()
    assert rows["lower"].isna().all()
    assert rows["note"].nunique() == 1
    assert result.frame["claim"].nunique() == 1
    assert "consistent given the propensities and independent observations" in result.frame["claim"][0]


def test_a_perfect_ranker_stays_perfect_when_positives_have_no_propensity():
    # Items 1 and 2 are the positives of user 0, on top in this order or the other; item 2 has n* = 0.
    frames = ([9], [1]), ([0, 0], [1, 2])
    split = ipseval.Split.from_frames(
        *(pd.DataFrame(dict(zip(("user", "item"), frame, strict=True))) for frame in frames),
        users=[0, 9],
        items=range(5),
    )
    scores = {"cold first": np.array([[0, 8, 9, 1, 2.0], [0] * 5]), "cold last": [[0, 9, 8, 1, 2], [0] * 5]}
    result = ipseval.evaluate(
        {name: np.asarray(one, dtype=float) for name, one in scores.items()},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, scale="max", unseen="drop"),
        metrics=["auc", "ndcg@5", "ap", "rr", "recall@1"],
        estimators=["aoa", "snips", "snips-global", "aoa-pooled"],
    )
    assert result.frame["estimate"].tolist() == [1.0] * 40
    assert result.frame["note"].str.contains("1 positive without a propensity left out").all()
    assert result.samples["cold first"].ranked.n_candidates.tolist() == [4]


def test_a_pair_that_leaves_is_no_relevant_item_of_its_user():
    # s = 2, one of them without a propensity: (1/1) · (1/.5) of the other, over two users.
    ranked = ipseval.RankedPositives([0, 0], [1, 2], [1, 0], [0, 0], [5, 5], [0, 9], range(5))
    p = ipseval.KnownPropensity(item=[0.5, 0.5, np.nan, 0.5, 0.5], is_probability=True).fit(ranked)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=p,
        metrics=["recall@1"],
        estimators=["ips"],
        n_relevant=2,
        low_ess="ignore",
    )
    assert result.frame["estimate"].tolist() == [1.0]


def test_shrinkage_of_zero_is_the_global_form_also_when_users_are_undefined():
    # User 1 has one candidate: atop is undefined. Users 0 and 2 have mean weights 1 and 3, values 1 and 0.
    ranked = ipseval.RankedPositives([0, 1, 2], [0, 1, 2], [0, 0, 4], [0] * 3, [5, 1, 5], range(3), range(5))
    p = ipseval.KnownPropensity(item=[1, 0.01, 1 / 3, 1, 1]).fit(ranked)
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=p,
        metrics=["atop"],
        estimators=["snips-shrunk(0)", "snips-global"],
        low_ess="ignore",
    )
    assert result.frame["estimate"].tolist() == pytest.approx([1 / 4] * 2, rel=1e-14)
    assert result.frame["std_error"][0] == pytest.approx(result.frame["std_error"][1], rel=1e-13)


def test_a_pair_ratio_names_itself_where_a_tie_rule_cannot_be_kept():
    ranked = ipseval.RankedPositives([0, 0], [0, 1], [0, 0], [1, 1], [5, 5], range(2), range(5))
    p = ipseval.KnownPropensity(item=[0.5] * 5).fit(ranked)
    with pytest.raises(InputError, match=r"snips-pooled of auc .* counts pairs"):
        ipseval.evaluate_ranks(
            {"m": ranked}, propensity=p, metrics=["auc"], estimators=["snips-pooled"], ties="min"
        )


def small_sample() -> Sample:
    """Return user 0 with the ranks 1, 3 and 4 and user 1 with rank 2, and calibrated propensities."""
    ranked = ipseval.RankedPositives(
        [0, 0, 0, 1], [0, 1, 2, 3], [0, 2, 3, 1], [0] * 4, [6] * 4, range(2), range(6),
        candidates_by_user=[6, 6],
    )  # fmt: skip
    propensity = np.array([0.8, 0.25, 0.1, 0.4])
    return Sample(ranked, propensity, True, np.array([4.0, 2.0]), "known")


@pytest.mark.parametrize("label", OF_POSITIVES)
@pytest.mark.parametrize("name", ["recall@3", "dcg", "mean_dcg@2", "atop", "rbp", "precision@3", "ndcg@3"])
def test_linear_forms_and_parts_give_the_value_of_the_sums(label, name):
    estimator = resolve_estimator(label)
    metric = ipseval.metric(name)
    sample = small_sample()
    value = estimator.sums(sample, metric).value()
    form = estimator.linear_form(metric, sample.ranked, is_probability=True)
    contributions = sample.contributions(metric)
    if form is not None and contributions is not None:
        assert form.coefficients(sample.weights) @ contributions == pytest.approx(value, rel=1e-12), (
            f"linear_form of {label} must give the value of sums, with the weights 1/P or 1 of the positives. "
            "Let it return None if the estimator has any other weights."
        )
    parts = estimator.parts(sample, metric)
    if parts is not None:
        assert parts.total() == pytest.approx(value, rel=1e-12), (
            f"parts of {label} must give the value of sums; let it return None otherwise."
        )


@pytest.mark.parametrize("label", OF_POSITIVES)
def test_the_guarantees_of_an_estimator_are_printed_and_simulated(label):
    guarantee = claim(ipseval.metric("recall@5"), label, is_probability=True, n_relevant="known")
    assert (label in ESTIMATORS_SHOWN) == (guarantee.level != "no guarantee"), (
        f"Add {label} to ESTIMATORS_SHOWN in ipseval/estimators/labels.py if it states a guarantee for metrics of "
        "mean type. Cards then print it, and tests/statistical/test_claims.py compares it with a simulation."
    )


@pytest.mark.parametrize("label", ESTIMATORS)
def test_an_estimator_has_a_row_in_the_table_of_its_page(label):
    name = "which-estimator.md"
    if label in OF_REWARDS:
        name = "doubly-robust.md"
    page = (DOCS / name).read_text(encoding="utf-8")
    assert re.search(rf"^\| `{label}[`(]", page, re.MULTILINE), (
        f"Add a row that begins with | `{label}` | to the table of estimators in docs/{name}."
    )


def test_the_page_on_performance_lists_the_estimators_whose_sums_separate():
    separable = [f"`{label}`" for label in ESTIMATORS if resolve_estimator(label).separable]
    line = f"- Estimators whose sums separate by user: {', '.join(separable)}."
    assert line in (DOCS / "performance.md").read_text(encoding="utf-8").splitlines(), (
        f"Replace the line on these estimators in docs/performance.md by:\n{line}"
    )


def test_the_class_of_every_estimator_is_public():
    for estimator_class in ESTIMATOR_CLASSES:
        name = estimator_class.__name__
        assert name in ipseval.estimators.__all__, f"Export {name} from ipseval/estimators/__init__.py."
