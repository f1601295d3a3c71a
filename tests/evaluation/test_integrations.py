"""Our metrics inside released MLflow, RecTools and RecBole: the numbers are those of `evaluate`.

`tests/ranking/adapters/test_docs.py` compares LensKit and RecTools on Coat, in the examples of the page.
"""

from __future__ import annotations

from contextlib import chdir
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation import lenskit_metric, recbole_metric, rectools_metric
from tests.worlds import random_split, top_ten

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own, and of weights in a small world
EXACT = {"rel": 0, "abs": 1e-12}
PROPENSITY = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth")
SPLIT = random_split(np.random.default_rng(0), 50, 30)
TRAIN, TEST = (part.to_frame()[["user", "item"]] for part in (SPLIT.train, SPLIT.test))


def test_a_lenskit_that_shows_no_users_is_refused_with_the_way(monkeypatch):
    pytest.importorskip("lenskit", reason="lenskit is not installed")
    monkeypatch.delattr("lenskit.metrics.GlobalMetric", raising=False)  # as from 2026 on
    with pytest.raises(InputError, match=r"Pass its recommendations to ipseval\.evaluate"):
        lenskit_metric("recall@10")


def test_rectools_validates_folds_by_the_metric_and_its_built_in_ones():
    pytest.importorskip("rectools", reason="rectools is not installed")
    from rectools.dataset import Dataset
    from rectools.metrics import Recall
    from rectools.model_selection import LastNSplitter, cross_validate
    from rectools.models import PopularModel

    times = pd.to_datetime(np.arange(len(TRAIN)), unit="h")
    log = TRAIN.set_axis(["user_id", "item_id"], axis=1).assign(weight=1, datetime=times)
    metrics = {"ours": rectools_metric("recall@5"), "theirs": Recall(k=5)}
    how = {"models": {"pop": PopularModel()}, "k": 5, "filter_viewed": True}
    first, second = cross_validate(Dataset.construct(log), LastNSplitter(1, 2), metrics, **how)["metrics"]
    for fold in (first, second):
        assert 0 < fold["ours"] == pytest.approx(fold["theirs"], **EXACT)
    lists = log.groupby("user_id").head(3).assign(rank=lambda frame: frame.groupby("user_id").cumcount() + 1)
    ours, theirs = (metric.calc_per_user(lists, log) for metric in metrics.values())
    pd.testing.assert_series_equal(ours, theirs, check_names=False, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="auc aoa has none"):
        rectools_metric("auc")


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow with a store of files in a folder that goes away."""
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(None)


@pytest.mark.parametrize("form", ["lists", "targets", "scores of a model", "lists of a model"])
def test_mlflow_evaluates_a_ranker_and_gives_back_metrics_table_page_and_hash(form, mlflow):
    lists, held_out = top_ten(SPLIT), {"split": SPLIT}
    options = {"propensity": PROPENSITY, "metrics": ["recall@5", "ndcg@10"]}
    expected = ipseval.evaluate({"als (v2)": ipseval.Lists(lists)}, SPLIT, **options)
    call = {"data": lists[["user", "item"]]}
    if form == "lists":
        call |= {"data": lists, "evaluators": "ipseval"}  # the others let MLflow find it
    elif form == "targets":  # every positive has a row; those of no list have no score
        rows = lists.drop(columns="rank").merge(TEST.assign(bought=1), how="outer").fillna({"bought": 0})
        call, held_out = {"data": rows, "targets": "bought", "predictions": "score"}, {"train": TRAIN}
    elif form == "scores of a model":
        scores = lists.set_index(["user", "item"])["score"]
        call["model"] = lambda rows: scores.loc[pd.MultiIndex.from_frame(rows)].to_numpy()
    else:
        call |= {"data": lists[["user"]].drop_duplicates(), "model": lambda users: lists.merge(users)}
    call["evaluator_config"] = {**options, **held_out, "name": "als (v2)"}
    with mlflow.start_run() as run:
        result = mlflow.models.evaluate(model_type="ranker", **call)
    stored = mlflow.MlflowClient().get_run(run.info.run_id).data
    rows = expected.frame[["metric", "estimator", "estimate"]].to_numpy()
    names = {
        f"{metric.replace('@', '_at_')}/{estimator}/als _v2_": value for metric, estimator, value in rows
    }
    assert len(names) == 4
    assert stored.metrics == result.metrics == pytest.approx(names, **EXACT)
    table = pd.read_csv(mlflow.artifacts.download_artifacts(result.artifacts["ipseval/estimates.csv"].uri))
    np.testing.assert_allclose(table["estimate"], expected.frame["estimate"], rtol=0, atol=1e-12)
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/ipseval/report.html")
    assert page.startswith("<!DOCTYPE html>")
    assert stored.tags["ipseval.data_sha256"] == expected.data_hash
    gate = {"recall_at_5/snips-global/als _v2_": mlflow.models.MetricThreshold(0.99, greater_is_better=True)}
    with pytest.raises(mlflow.models.evaluation.validation.ModelValidationFailedException):
        mlflow.validate_evaluation_results(gate, result)


def test_mlflow_does_not_use_the_evaluator_for_other_models_and_reports_missing_input(mlflow):
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    assert not registry.get_evaluator("ipseval").can_evaluate(model_type="classifier", evaluator_config={})
    with pytest.raises(InputError, match="evaluator_config must have a split"):
        mlflow.models.evaluate(data=top_ten(SPLIT), model_type="ranker", evaluators="ipseval")


@pytest.fixture
def prepare(tmp_path):
    """Return RecBole's config and loaders, in a folder of their own; NumPy's old names are put back."""
    pytest.importorskip("recbole", reason="recbole is not installed")
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation

    (tmp_path / "world").mkdir()
    log = pd.concat([TRAIN, TEST]).set_axis(["user_id:token", "item_id:token"], axis=1)
    log.to_csv(tmp_path / "world" / "world.inter", sep="\t", index=False)
    removed = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}

    def config_and_loaders(mode="full", **options):
        options |= {"data_path": str(tmp_path), "checkpoint_dir": str(tmp_path), "metrics": ["Recall"]}
        options |= {
            "eval_args": {"split": {"RS": [0.6, 0.2, 0.2]}, "mode": mode},
            "epochs": 2,
            "topk": [3, 5],
        }
        options |= {"metric_decimal_place": 16, "eval_batch_size": 200}  # several batches
        options |= {"load_col": {"inter": ["user_id", "item_id"]}}
        config = Config(model="BPR", dataset="world", config_dict=options)
        return config, *data_preparation(config, create_dataset(config))

    with chdir(tmp_path), patch.dict(np.__dict__, removed):
        yield config_and_loaders


def trainer_of(config, train):
    from recbole.model.general_recommender import BPR
    from recbole.trainer import Trainer

    return Trainer(config, BPR(config, train.dataset))


@pytest.mark.parametrize(("metric", "estimator"), [("recall", "snips-global"), ("ndcg", "snips")])
def test_recbole_trains_by_the_metric_and_reports_the_value_of_evaluate(prepare, metric, estimator):
    config, train, valid, test = prepare(valid_metric=f"{estimator}-{metric}@5")
    how = {"metric": metric, "propensity": PROPENSITY, "estimator": estimator}
    assert recbole_metric(config, train, test, valid, **how) == f"{estimator}-{metric}"
    assert recbole_metric(config, train, test, valid, metric="recall") == "aoa-recall"
    trainer = trainer_of(config, train)
    best, _ = trainer.fit(train, valid, saved=False)
    assert 0 < best < 1  # by which it stopped
    results = trainer.evaluate(valid, load_best_model=False)
    ids = {name: train.dataset.field2id_token[f"{name}_id"] for name in ("user", "item")}
    logs = [part.dataset.inter_feat for part in (train, valid)]
    frames = [pd.DataFrame({name: codes[log[f"{name}_id"]] for name, codes in ids.items()}) for log in logs]
    again = ipseval.Split.from_frames(*frames, users=ids["user"][1:], items=ids["item"][1:])
    options = {"metrics": [f"{metric}@3", f"{metric}@5"], "estimators": [estimator]}
    model = {"bpr": (trainer.model, train.dataset)}
    expected = ipseval.evaluate(model, again, propensity=PROPENSITY, **options)
    for k in (3, 5):
        value = expected.estimate("bpr", f"{metric}@{k}", estimator).value
        assert results[f"{estimator}-{metric}@{k}"] == pytest.approx(value, **EXACT)
        assert results[f"aoa-recall@{k}"] == pytest.approx(results[f"recall@{k}"], **EXACT)


def test_recbole_gets_an_error_for_lists_of_other_loaders_and_for_drawn_items(prepare):
    config, train, valid, test = prepare()
    recbole_metric(config, train, valid, metric="recall", propensity=PROPENSITY)
    with pytest.raises(InputError, match="belong to none of the loaders"):
        trainer_of(config, train).evaluate(test, load_best_model=False)
    with pytest.raises(InputError, match="draws items here"):
        recbole_metric(*prepare(mode="uni10"), metric="recall")
