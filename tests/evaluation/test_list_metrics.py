"""Metrics of lists and held-out pairs, as other libraries hold them: the numbers are those of `evaluate`."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.evaluation import lenskit_metric, recbole_metric, rectools_metric
from tests.inside.evaluation import ListMetrics, MlflowEvaluator
from tests.worlds import random_split, top_ten

CASES = [("recall@5", "aoa"), ("ndcg@10", "snips-pooled"), ("dcg@10", "ips")]
SPLIT = random_split(np.random.default_rng(0), 50, 30)
TRAIN, TEST = (part.to_frame()[["user", "item"]] for part in (SPLIT.train, SPLIT.test))
LISTS = top_ten(SPLIT).rename(columns={"user": "user_id", "item": "item_id"})  # as LensKit and RecTools do
KNOWN = ipseval.KnownPropensity(item=np.linspace(0.1, 1, SPLIT.n_items))


@pytest.mark.filterwarnings("ignore")  # of weights in a small world
@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_numbers_are_those_of_evaluate_for_a_model_and_for_a_fitted_propensity(metric, estimator):
    options = {"metrics": [metric], "estimators": [estimator], "propensity": KNOWN}
    evaluation = ipseval.evaluate({"one": ipseval.Lists(LISTS)}, SPLIT, **options)
    user_values = evaluation.per_user("one", metric, estimator)
    # The population of ips is all users, whom training tells.
    list_metrics = ListMetrics.from_labels([metric], estimator, KNOWN, TRAIN)
    assert list_metrics.compute_values(LISTS, TEST) == pytest.approx(
        list(evaluation.frame["estimate"]), rel=0, abs=1e-12
    )
    propensity = KNOWN.fit(SPLIT.train)
    list_metrics = ListMetrics.from_labels(
        [metric], estimator, propensity, TRAIN if estimator == "ips" else None
    )
    np.testing.assert_allclose(list_metrics.compute_per_user(LISTS, TEST), user_values, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # one user has no list, and no hit
def test_items_outside_the_test_set_keep_their_positions():
    test = TEST[TEST["item"] < 5]
    ranks = test.merge(top_ten(SPLIT), how="left").assign(hit=lambda frame: frame["rank"] <= 5)
    expected = ranks.groupby("user")["hit"].mean().mean()
    assert ListMetrics.from_labels(["recall@5"], None, None, None).compute_values(
        LISTS, test
    ) == pytest.approx([expected])


def test_weights_are_the_default_and_mismatches_are_errors():
    assert ListMetrics.from_labels(["recall@5"], None, KNOWN, None).label == "recall@5 snips-global"
    assert ListMetrics.from_labels(["recall@5"], None, None, None).label == "recall@5 aoa"
    with pytest.raises(PropensityError, match="snips needs a propensity"):
        ListMetrics.from_labels(["recall@5"], "snips", None, None)
    fitted = ListMetrics.from_labels(["recall@5"], None, KNOWN.fit(SPLIT.train), None)
    with pytest.raises(InputError, match=r"1 ids that are not in the given universe of 30 \(1000"):
        fitted.compute_values(LISTS, TEST.assign(item=1000)[:1])
    with pytest.raises(PropensityError, match="Without training data, fit it to counts"):
        ListMetrics.from_labels(["recall@5"], None, "power-law:gamma=1", None).compute_values(LISTS, TEST)
    two_lists = pd.concat([LISTS, LISTS.assign(item_id=LISTS["item_id"] + 100)])
    with pytest.raises(InputError, match=r"ranks of 49 users are not 1, 2, 3, …"):
        fitted.compute_values(two_lists, TEST)


def library(monkeypatch, **modules: dict[str, object]) -> None:
    """Put modules in the place of a library, with the members that are used; "__" stands for a point."""
    for name, members in modules.items():
        path = name.replace("__", ".")
        module = ModuleType(path)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, path, module)


class Tensor:
    """What has to be turned into an array."""

    def __init__(self, *values) -> None:
        self.values = np.array(values)

    def numpy(self) -> np.ndarray:
        return self.values


class Loader:
    """Rows of users in batches, with the positives of each batch, as RecBole ranks them."""

    def __init__(self, data, *batches) -> None:
        self.dataset, self.batches = data, batches

    def __iter__(self):
        for users, row, item in self.batches:
            yield Batch(pd.DataFrame({"user_id": users})), None, Tensor(*row), Tensor(*item)


class Batch:
    def __init__(self, frame) -> None:
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, name):
        return Tensor(*self.frame[name])


def test_recbole_is_given_a_metric_of_the_positives_of_its_loaders(monkeypatch):
    """Users 5, 7 and 6 have the positives 1 and 2, 3, 4; their lists are 3 2, 3 1, 1 4."""
    registries = {"metrics_dict": {}, "metric_types": {}, "metric_information": {}}
    register = SimpleNamespace(**registries)
    library(
        monkeypatch,
        recbole={},
        recbole__evaluator={"register": register},
        recbole__evaluator__base_metric={"AbstractMetric": type("AbstractMetric", (), {"decimal_place": 4})},
        recbole__utils={"EvaluatorType": SimpleNamespace(RANKING="ranking")},
        recbole__data={},
        recbole__data__dataloader={"FullSortEvalDataLoader": Loader},
    )
    data = SimpleNamespace(
        uid_field="user_id",
        iid_field="item_id",
        item_num=5,
        id2token=lambda field, codes: np.array([f"{field[0]}{code}" for code in codes], dtype=object),
        inter_feat={"user_id": Tensor(5, 6, 7), "item_id": Tensor(4, 3, 4)},
    )
    test = Loader(data, ([5, 7], [0, 0, 1], [1, 2, 3]), ([6], [0], [4]))
    second_loader = Loader(data, ([5, 7], [0, 1], [1, 3]))
    config = {"topk": [1, 2], "metrics": ["Recall"]}
    name = recbole_metric(config, SimpleNamespace(dataset=data), second_loader, test, metric="recall")
    assert (name, config["metrics"]) == ("aoa-recall", ["Recall", "aoa-recall"])
    assert register.metric_types == {name: "ranking"}
    assert register.metric_information == {name: ["rec.items", "rec.topk"]}
    recbole_metric_object = register.metrics_dict[name]()
    assert recbole_metric_object.metric_need == ["rec.items", "rec.topk"]
    lists, hits = np.array([[3, 2], [3, 1], [1, 4]]), np.array([[0, 1, 2], [1, 0, 1], [0, 1, 1]])
    values = recbole_metric_object.calculate_metric({"rec.items": Tensor(*lists), "rec.topk": Tensor(*hits)})
    # recall@1: 0, 1, 0; recall@2: 1/2, 1, 1.
    assert values == {"aoa-recall@1": 0.3333, "aoa-recall@2": 0.8333}
    with pytest.raises(InputError, match="the lists must belong to one of the loaders"):
        recbole_metric_object.calculate_metric({"rec.items": Tensor(*lists), "rec.topk": Tensor(*(1 - hits))})
    with pytest.raises(InputError, match="RecBole must rank all items"):
        recbole_metric(config, SimpleNamespace(dataset=data), [test], metric="recall")


def test_mlflow_is_given_metrics_and_the_table_of_a_ranker(monkeypatch):
    """Held out are items 1 of user 0, which is first, and 0 of user 1, which is second."""
    logged = {}
    artifact = SimpleNamespace
    library(
        monkeypatch,
        mlflow={
            "get_artifact_uri": lambda path: f"store/{path}",
            "log_metrics": logged.update,
            "set_tags": lambda tags: None,
            "log_text": lambda text, name: None,
        },
        mlflow__models={"EvaluationResult": lambda metrics, artifacts: artifact(m=metrics, a=artifacts)},
        mlflow__models__evaluation={},
        mlflow__models__evaluation__artifacts={"CsvEvaluationArtifact": lambda uri, frame: (uri, frame)},
    )
    monkeypatch.setattr(ipseval.Evaluation, "to_html", lambda self: "")  # looked at with other trackers
    evaluator = MlflowEvaluator()
    assert evaluator.can_evaluate(model_type="ranker")
    assert not evaluator.can_evaluate(model_type="classifier")
    rows = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1]})
    scores, targets = np.array([1.0, 2.0, 1.0, 2.0]), np.array([0, 1, 1, -1])
    train = pd.DataFrame({"user": [0, 1], "item": [2, 2]})
    config = {"train": train, "metrics": ["recall@1"], "estimators": ["aoa"]}

    def evaluate_dataset(model=None, **members):
        data = {"features_data": rows, "predictions_data": None, "labels_data": targets} | members
        return evaluator.evaluate(dataset=SimpleNamespace(**data), evaluator_config=config, model=model)

    result = evaluate_dataset(predictions_data=scores)
    assert result.m == logged == {"recall_at_1/aoa/model": 0.5}
    uri, table = result.a["ipseval/estimates.csv"]
    assert (uri, table["estimate"].item()) == ("store/ipseval/estimates.csv", 0.5)
    lists = rows.assign(score=-scores)  # user 1 is hit in place of user 0
    for model in (
        SimpleNamespace(predict=lambda features: -scores),
        SimpleNamespace(predict=lambda features: lists),
    ):
        assert evaluate_dataset(model, predictions_data=scores).m == {"recall_at_1/aoa/model": 0.5}
    config["name"] = "als"
    assert evaluate_dataset(features_data=rows.assign(score=scores)).m == {"recall_at_1/aoa/als": 0.5}
    with pytest.raises(InputError, match="evaluator_config must have a split, or the data must have targets"):
        evaluate_dataset(predictions_data=scores, labels_data=None)


@pytest.mark.filterwarnings("ignore")  # one user has no list
def test_lenskit_and_rectools_are_given_metrics_with_the_numbers_of_lists(monkeypatch):
    lenskit = {"GlobalMetric": type("GlobalMetric", (), {})}
    library(monkeypatch, lenskit={"metrics": SimpleNamespace(**lenskit)})
    (expected,) = ListMetrics.from_labels(["recall@5"], None, None, None).compute_values(LISTS, TEST)
    metric = lenskit_metric("recall@5")
    assert metric.label == "recall@5 aoa"
    assert metric.measure_run(LISTS, TEST) == expected
    library(monkeypatch, lenskit={"metrics": SimpleNamespace()})
    with pytest.raises(InputError, match="LensKit must be older than 2026"):
        lenskit_metric("recall@5")

    class CoveredUsers:
        def __init__(self, k: int) -> None:
            self.k = k

    users = SimpleNamespace(User="user_id")
    library(
        monkeypatch,
        rectools={"Columns": users},
        rectools__metrics={},
        rectools__metrics__dq={"CoveredUsers": CoveredUsers},
    )
    rectools = rectools_metric("recall@5")
    assert (rectools.k, rectools.calc(LISTS, TEST)) == (5, expected)
    user_values = rectools.calc_per_user(LISTS, TEST)
    assert user_values.index.name == "user_id"
    assert user_values.mean() == pytest.approx(expected)
    with pytest.raises(InputError, match="metric must have a cutoff in RecTools; got auc aoa"):
        rectools_metric("auc")
