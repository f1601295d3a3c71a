"""Our metrics inside released MLflow, LensKit, RecTools and RecBole: the numbers are those of `evaluate`."""

from __future__ import annotations

from contextlib import chdir
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation import lenskit_metric, recbole_metric, rectools_metric
from tests.worlds import random_split

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own, and of weights in a small world
EXACT = {"rel": 0, "abs": 1e-12}
PROPENSITY = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth")
CASES = [("recall@5", "snips-global"), ("ndcg@10", "snips"), ("precision@5", "ips"), ("recall@5", "aoa")]
METRICS = ["recall@5", "ndcg@10"]


@pytest.fixture(scope="module")
def split() -> ipseval.Split:
    return random_split(np.random.default_rng(0), 50, 30)


@pytest.fixture(scope="module")
def lists(split) -> pd.DataFrame:
    """The ten best candidates of each user but the last by random scores."""
    scores = np.random.default_rng(1).random((split.n_users, split.n_items))
    scores[split.train.user, split.train.item] = -1
    best = (-scores).argsort(axis=1)[:-1, :10]
    user = np.repeat(split.user_ids[:-1], 10)
    frame = pd.DataFrame({"user": user, "item": split.item_ids[best.ravel()]})
    return frame.assign(score=scores[user, frame["item"]], rank=np.tile(np.arange(1, 11), len(best)))


@pytest.fixture(params=CASES, ids="-".join)
def case(request, split, lists):
    """Metric, estimator, a fitted propensity, and the value and those of users that evaluate() prints."""
    metric, estimator = request.param
    known = ipseval.KnownPropensity(item=np.linspace(0.1, 1, split.n_items)).fit(split.train)
    found = ipseval.evaluate(
        {"one": lists}, split, propensity=known, metrics=[metric], estimators=[estimator]
    )
    by_user = found.per_user("one", metric, estimator)
    return metric, estimator, known, found.estimate("one", metric, estimator).value, by_user


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns of LensKit and RecTools."""
    return frame.rename(columns={"user": "user_id", "item": "item_id"})


def test_lenskit_measures_a_run(split, lists, case):
    lenskit = pytest.importorskip("lenskit.metrics", reason="lenskit is not installed")
    from lenskit.data import ItemListCollection, UserIDKey

    metric, estimator, known, value, _ = case
    train, test = (part.to_frame()[["user", "item"]] for part in (split.train, split.test))
    asked = lenskit_metric(metric, propensity=known, estimator=estimator, train=train)
    run, truth = (ItemListCollection.from_df(named(one), UserIDKey) for one in (lists, test))
    found = lenskit.RunAnalysis(asked).measure(run, truth)
    assert found.global_metrics()[f"{metric} {estimator}"] == pytest.approx(value, **EXACT)


def test_rectools_calculates_it_beside_its_own(split, lists, case):
    pytest.importorskip("rectools", reason="rectools is not installed")
    from rectools.metrics import Recall, calc_metrics

    metric, estimator, known, value, by_user = case
    reco, test = named(lists), named(split.test.to_frame())
    asked = rectools_metric(
        metric, propensity=known, estimator=estimator, train=split.train.to_frame()[["user", "item"]]
    )
    found = calc_metrics({"ours": asked, "theirs": Recall(k=5)}, reco=reco, interactions=test)
    assert found["ours"] == pytest.approx(value, **EXACT)
    if (metric, estimator) == ("recall@5", "aoa"):
        assert found["theirs"] == pytest.approx(value, **EXACT)
    own = asked.calc_per_user(reco, test)
    assert own.index.name == "user_id"
    pd.testing.assert_series_equal(own, by_user, check_names=False, rtol=0, atol=1e-12)


def test_rectools_validates_folds_by_it(split):
    pytest.importorskip("rectools", reason="rectools is not installed")
    from rectools.dataset import Dataset
    from rectools.metrics import Recall
    from rectools.model_selection import LastNSplitter, cross_validate
    from rectools.models import PopularModel

    log = named(split.train.to_frame()[["user", "item"]])
    log = log.assign(weight=1, datetime=pd.to_datetime(np.arange(len(log)), unit="h"))
    metrics = {"ours": rectools_metric("recall@5"), "theirs": Recall(k=5)}
    how = {"metrics": metrics, "models": {"pop": PopularModel()}, "k": 5, "filter_viewed": True}
    found = cross_validate(Dataset.construct(log), LastNSplitter(1, 2), **how)["metrics"]
    assert len(found) == 2
    for fold in found:
        assert fold["ours"] == pytest.approx(fold["theirs"], **EXACT)
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
def test_mlflow_evaluates_and_logs_a_ranker(form, split, lists, mlflow):
    expected = ipseval.evaluate({"als": lists}, split, propensity=PROPENSITY, metrics=METRICS)
    options = {"propensity": PROPENSITY, "metrics": METRICS, "name": "als"}
    call = {"model_type": "ranker", "evaluators": "ipseval", "evaluator_config": options}
    if form == "targets":  # every positive has a row; those of no list have no score
        test = split.test.to_frame()[["user", "item"]].assign(bought=1)
        rows = lists[["user", "item", "score"]].merge(test, how="outer").fillna({"bought": 0})
        options["train"] = split.train.to_frame()[["user", "item"]]
        call |= {"data": rows, "targets": "bought", "predictions": "score"}
    else:
        options["split"] = split
    if form == "lists":
        call |= {"data": lists, "evaluators": None}  # of those that there are, it alone takes rankers
    elif form == "scores of a model":
        scores = lists.set_index(["user", "item"])["score"]
        call["data"] = lists[["user", "item"]]
        call["model"] = lambda rows: scores.loc[pd.MultiIndex.from_frame(rows)].to_numpy()
    elif form == "lists of a model":
        call |= {"data": lists[["user"]].drop_duplicates(), "model": lambda users: lists.merge(users)}
    with mlflow.start_run() as run:
        result = mlflow.models.evaluate(**call)
    stored = mlflow.MlflowClient().get_run(run.info.run_id).data
    frame = expected.frame.set_index(["metric", "estimator"])["estimate"]
    values = {f"{m.replace('@', '_at_')}/{e}/als": value for (m, e), value in frame.items()}
    assert len(values) == 4
    assert result.metrics == pytest.approx(values, **EXACT)
    assert stored.metrics == result.metrics
    assert stored.tags["ipseval.verdict"]
    table = result.artifacts["ipseval/estimates.csv"]
    found = pd.read_csv(mlflow.artifacts.download_artifacts(table.uri))
    np.testing.assert_allclose(found["estimate"], expected.frame["estimate"], rtol=0, atol=1e-12)
    gate = {"recall_at_5/snips-global/als": mlflow.models.MetricThreshold(0.99, greater_is_better=True)}
    with pytest.raises(Exception, match="recall_at_5/snips-global/als"):
        mlflow.validate_evaluation_results(gate, result)


def test_mlflow_keeps_it_out_of_other_models_and_says_what_is_missing(split, lists, mlflow):
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    evaluator = registry.get_evaluator("ipseval")
    assert not evaluator.can_evaluate(model_type="classifier", evaluator_config={})
    with mlflow.start_run(), pytest.raises(InputError, match="nothing is held out"):
        mlflow.models.evaluate(data=lists, model_type="ranker", evaluators="ipseval")


OPTIONS = {
    "load_col": {"inter": ["user_id", "item_id"]},
    "eval_args": {"split": {"RS": [0.6, 0.2, 0.2]}, "mode": "full"},
    "metrics": ["Recall"],
    "topk": [3, 5],
    "metric_decimal_place": 16,
    "eval_batch_size": 200,  # several batches
    "epochs": 2,
    "embedding_size": 8,
    "use_gpu": False,
    "show_progress": False,
}


@pytest.fixture
def recbole(split, tmp_path):
    """RecBole's config and loaders of 50 users, in a folder of its own; NumPy's old names are put back."""
    pytest.importorskip("recbole", reason="recbole is not installed")
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation

    (tmp_path / "world").mkdir()
    log = pd.concat([split.train.to_frame(), split.test.to_frame()])[["user", "item"]]
    log.columns = ["user_id:token", "item_id:token"]
    log.to_csv(tmp_path / "world" / "world.inter", sep="\t", index=False)
    removed = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}

    def prepare(**options):
        folders = {"data_path": str(tmp_path), "checkpoint_dir": str(tmp_path)}
        config = Config(model="BPR", dataset="world", config_dict=OPTIONS | folders | options)
        return config, *data_preparation(config, create_dataset(config))

    with chdir(tmp_path), patch.dict(np.__dict__, removed):
        yield prepare


@pytest.mark.parametrize(("metric", "estimator"), [("recall", "snips-global"), ("ndcg", "snips")])
def test_recbole_trains_and_tests_by_it(recbole, metric, estimator):
    config, train, *held_out = recbole(valid_metric=f"{estimator}-{metric}@5")
    name = recbole_metric(config, train, *held_out, metric=metric, propensity=PROPENSITY, estimator=estimator)
    own = recbole_metric(config, train, *held_out, metric="recall")
    assert (name, own) == (f"{estimator}-{metric}", "aoa-recall")
    from recbole.model.general_recommender import BPR
    from recbole.trainer import Trainer

    trainer = Trainer(config, BPR(config, train.dataset))
    best, _ = trainer.fit(train, held_out[0], saved=False)
    found = trainer.evaluate(held_out[1], load_best_model=False)
    assert 0 < best < 1  # by which it stopped
    for k in (3, 5):
        assert found[f"aoa-recall@{k}"] == pytest.approx(found[f"recall@{k}"], **EXACT)

    scores, (trained, validated, tested) = scores_and_parts(trainer.model, train, *held_out)
    scores = scores.drop(pd.MultiIndex.from_frame(pd.concat([trained, validated])))  # as RecBole masks them
    lists = scores.sort_values(ascending=False).groupby("user").head(5).reset_index()
    again = ipseval.Split.from_frames(trained, tested)
    for k in (3, 5):
        asked = {"metrics": [f"{metric}@{k}"], "estimators": [estimator], "propensity": PROPENSITY}
        expected = ipseval.evaluate({"bpr": lists}, again, **asked)
        value = expected.estimate("bpr", f"{metric}@{k}", estimator).value
        assert found[f"{name}@{k}"] == pytest.approx(value, **EXACT)


def scores_and_parts(model, *loaders):
    """Return RecBole's scores of all pairs by token, and the pairs of each loader as frames of tokens."""
    from recbole.data.interaction import Interaction

    torch = pytest.importorskip("torch")
    data = loaders[0].dataset
    users, items = (data.field2id_token[field][1:] for field in (data.uid_field, data.iid_field))
    with torch.no_grad():
        everyone = Interaction({data.uid_field: torch.arange(1, data.user_num)})
        scores = model.full_sort_predict(everyone).reshape(len(users), -1).numpy()[:, 1:]
    index = pd.MultiIndex.from_product([users, items], names=["user", "item"])
    frames = []
    for loader in loaders:
        log = loader.dataset.inter_feat
        pairs = {"user": users[log[data.uid_field] - 1], "item": items[log[data.iid_field] - 1]}
        frames.append(pd.DataFrame(pairs))
    return pd.Series(scores.ravel(), index, name="score"), frames


def test_recbole_gets_an_error_for_lists_of_other_loaders_and_for_drawn_items(recbole):
    config, train, valid, test = recbole()
    recbole_metric(config, train, valid, metric="recall", propensity=PROPENSITY)
    from recbole.model.general_recommender import BPR
    from recbole.trainer import Trainer

    trainer = Trainer(config, BPR(config, train.dataset))
    with pytest.raises(InputError, match="belong to none of the loaders"):
        trainer.evaluate(test, load_best_model=False)
    _, train, valid, _ = recbole(eval_args={"split": {"RS": [0.6, 0.2, 0.2]}, "mode": "uni10"})
    with pytest.raises(InputError, match="draws items here"):
        recbole_metric(config, train, valid, metric="recall")
