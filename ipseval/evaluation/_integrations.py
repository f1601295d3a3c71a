"""Metrics of ipseval for LensKit, RecTools, RecBole and MLflow, which are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.reading import Lists
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.estimators.labels import default_estimators
from ipseval.evaluation._evaluate import evaluate, evaluate_ranks
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.request import resolve_estimators, resolve_propensity
from ipseval.evaluation.tracking import TABLE, metric_names
from ipseval.metrics import Metric
from ipseval.metrics import metric as parse_metric
from ipseval.propensity import Propensity
from ipseval.ranking import rank_positives
from ipseval.utils.compute import ComputeOptions
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray, IntArray

if TYPE_CHECKING:
    from mlflow.models import EvaluationResult

__all__ = ["lenskit_metric", "recbole_metric", "rectools_metric"]

MODEL = "model"  # name of the recommender where its library passes lists without one
NAMES = {"user_id": "user", "item_id": "item"}


class _ItemListCollection(Protocol):
    """A collection of lists of LensKit."""

    def to_df(self) -> pd.DataFrame: ...


class _RecboleData(Protocol):
    """A data set of RecBole."""

    uid_field: str
    iid_field: str
    item_num: int

    def id2token(self, field: str, ids: IntArray) -> AnyArray: ...


class _MlflowData(Protocol):
    """A data set of MLflow with its targets and predictions, which are optional."""

    features_data: pd.DataFrame
    labels_data: pd.Series | None
    predictions_data: Any


class _MlflowModel(Protocol):
    """A model that MLflow has loaded."""

    def predict(self, rows: pd.DataFrame, /) -> Any: ...


PairData: TypeAlias = "pd.DataFrame | Interactions | _ItemListCollection | None"


def _select_pairs(data: PairData) -> pd.DataFrame | Interactions | None:
    """Return the columns user and item of a frame, or of a LensKit collection; a log as it is."""
    if data is None or isinstance(data, Interactions):
        return data
    if not isinstance(data, pd.DataFrame):
        data = data.to_df()
    return _select_pair_columns(data)


def _select_pair_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns user and item, also from columns user_id and item_id."""
    return frame.rename(columns=NAMES)[list(NAMES.values())]


def _build_split(train: PairData, test: PairData, propensity: object) -> Split:
    """Return the split of training and test pairs, over the ids of a fitted propensity."""
    users = None
    items = None
    if isinstance(propensity, Propensity):
        users = propensity.user_ids
        items = propensity.item_ids
    test_pairs = _select_pairs(test)
    assert test_pairs is not None
    return Split.from_frames(_select_pairs(train), test_pairs, users=users, items=items)


def _build_lists(frame: Any) -> Lists:
    """Return lists in the order of their library, including items that training and test lack."""
    return Lists(frame, seen="keep", unknown="candidate", missing="drop", gaps="raise")


@dataclass(frozen=True, eq=False)
class ListMetrics:
    """Metrics by one estimator that are computed from recommendation lists and held-out pairs.

    Attributes
    ----------
    metrics : tuple of Metric
    estimator : Estimator
    propensity : as in `evaluate`
    train : data frame, Interactions or None
        Training pairs.
    """

    metrics: tuple[Metric, ...]
    estimator: Estimator
    propensity: Any = None
    train: PairData = None

    @classmethod
    def from_labels(
        cls,
        labels: Sequence[str | Metric],
        estimator: str | Estimator | None,
        propensity: Any,
        train: PairData,
    ) -> ListMetrics:
        """Return the metrics of labels; the default estimator is the last one of `evaluate`."""
        if estimator is None:
            estimator = default_estimators(weighted=propensity is not None)[-1]
        (requested,) = resolve_estimators([estimator], propensity)
        metrics = tuple(parse_metric(label) for label in labels)
        return cls(metrics=metrics, estimator=requested, propensity=propensity, train=train)

    @property
    def label(self) -> str:
        """The first metric and the estimator."""
        return f"{self.metrics[0].label} {self.estimator.label}"

    def evaluate(self, lists: object, test: PairData) -> Evaluation:
        """Return the evaluation of lists on held-out pairs."""
        split = _build_split(self.train, test, self.propensity)
        propensity = resolve_propensity(self.propensity, lambda model: model.fit(split.train))
        if propensity is not None:
            propensity.check_ids(split)
        ranks = rank_positives(_build_lists(lists), split, compute=ComputeOptions(progress=False))
        return evaluate_ranks(
            {MODEL: ranks}, propensity=propensity, metrics=self.metrics, estimators=[self.estimator]
        )

    def compute_values(self, lists: object, test: PairData) -> list[float]:
        """Return the estimate of each metric."""
        evaluation = self.evaluate(lists, test)
        values = []
        for metric in self.metrics:
            estimate = evaluation.estimates[MODEL, metric.label, self.estimator.label]
            values.append(estimate.value)
        return values

    def compute_per_user(self, lists: object, test: PairData) -> pd.Series[float]:
        """Return N_u/D_u of each user by the first metric."""
        evaluation = self.evaluate(lists, test)
        return evaluation.per_user(MODEL, self.metrics[0].label, self.estimator.label)


@public_function
def lenskit_metric(
    metric: str | Metric, *, propensity: Any = None, estimator: Any = None, train: Any = None
) -> Any:
    """Return a metric for `RunAnalysis` of LensKit 2025; later releases do not pass users to a metric.

    It is a `GlobalMetric`, because weights are normalised over all users of a run: its value is R as
    `evaluate` prints it. Users with test items and no list count as misses, with a `DataWarning`.

    Parameters
    ----------
    metric : label or Metric
        With a cutoff, such as "ndcg@10", because lists do not hold the whole ranking.
    propensity : as in `evaluate`, optional
        A fitted propensity has its ids; a model, or its label, is fitted to `train`.
    estimator : label or Estimator, optional
        Default: snips-global; aoa without a propensity.
    train : data frame or Interactions, optional
        Training pairs, with columns user and item, or user_id and item_id. `ips` also counts their users.

    Returns
    -------
    GlobalMetric
        A metric of LensKit with the label of `metric` and of the estimator.

    Raises
    ------
    InputError, PropensityError
        For an unknown label, a missing propensity, and LensKit from 2026 on; when it is computed, for test
        items that a fitted propensity does not cover.

    See Also
    --------
    rectools_metric : Return a metric for RecTools.
    recbole_metric : Register a metric in RecBole.
    evaluate : Evaluate the recommendations of any library.
    """
    from lenskit import metrics

    if not hasattr(metrics, "GlobalMetric"):
        raise InputError(
            "LensKit must be older than 2026, because later releases pass lists to a metric without their "
            "users. Pass its recommendations to ipseval.evaluate: {name: run.to_df()}."
        )
    list_metrics = ListMetrics.from_labels([metric], estimator, propensity, train)

    def measure_run(self: object, output: object, test: _ItemListCollection) -> float:
        return list_metrics.compute_values(output, test)[0]

    members = {"label": list_metrics.label, "measure_run": measure_run}
    metric_class = type("IpsevalMetric", (metrics.GlobalMetric,), members)
    return metric_class()


@public_function
def rectools_metric(
    metric: str | Metric, *, propensity: Any = None, estimator: Any = None, train: Any = None
) -> Any:
    """Return a metric for `calc_metrics` and `cross_validate` of RecTools.

    `calc` returns R as `evaluate` prints it, and `calc_per_user` N_u/D_u of each user, whose mean is not R for
    snips-global (`Evaluation.per_user`). The folds of `cross_validate` share one propensity.

    Parameters
    ----------
    metric : label or Metric
        With a cutoff, such as "ndcg@10".
    propensity : as in `evaluate`, optional
        As in `lenskit_metric`.
    estimator : label or Estimator, optional
        Default: snips-global; aoa without a propensity.
    train : data frame or Interactions, optional
        Training pairs, as in `lenskit_metric`.

    Returns
    -------
    CoveredUsers
        A metric that computes its values from lists and test pairs.

    Raises
    ------
    InputError, PropensityError
        As `lenskit_metric`; also for a metric without a cutoff.

    See Also
    --------
    lenskit_metric : Return a metric for LensKit.
    recbole_metric : Register a metric in RecBole.
    evaluate : Evaluate the recommendations of any library.
    """
    from rectools import Columns
    from rectools.metrics.dq import CoveredUsers  # `calc` of this class receives lists and test pairs

    list_metrics = ListMetrics.from_labels([metric], estimator, propensity, train)
    cutoff = list_metrics.metrics[0].cutoff
    if cutoff is None:
        raise InputError(
            f"metric must have a cutoff in RecTools; got {list_metrics.label}. Pass a label such as "
            "'ndcg@10'."
        )

    def calc(self: object, reco: pd.DataFrame, interactions: pd.DataFrame) -> float:
        return list_metrics.compute_values(reco, interactions)[0]

    def calc_per_user(self: object, reco: pd.DataFrame, interactions: pd.DataFrame) -> pd.Series[float]:
        return list_metrics.compute_per_user(reco, interactions).rename_axis(Columns.User)

    members = {"calc": calc, "calc_per_user": calc_per_user}
    metric_class = type("IpsevalMetric", (CoveredUsers,), members)
    return metric_class(k=cutoff)


@dataclass(frozen=True, eq=False)
class HeldOutPairs:
    """The held-out pairs of a RecBole loader, in the order in which RecBole ranks.

    Attributes
    ----------
    row, item : (n,) arrays
        Row of the lists, and internal id of the item, of each pair.
    users : (n_rows,) array
        Internal id of the user of each row.
    data : Dataset of RecBole
    """

    row: IntArray
    item: IntArray
    users: AnyArray
    data: _RecboleData

    @classmethod
    def from_loader(cls, loader: object) -> HeldOutPairs:
        """Read the pairs of a loader that ranks all items; raise an error for one that samples items."""
        from recbole.data.dataloader import FullSortEvalDataLoader

        if not isinstance(loader, FullSortEvalDataLoader):
            raise InputError(
                "RecBole must rank all items; this loader samples them, which changes the metric. Set "
                "eval_args mode='full'."
            )
        data = loader.dataset
        n_rows = 0
        rows = []
        items = []
        users = []
        for batch, _, row, item in loader:
            rows.append(row.numpy() + n_rows)
            items.append(item.numpy())
            users.append(batch[data.uid_field].numpy())
            n_rows += len(batch)
        return cls(
            row=np.concatenate(rows), item=np.concatenate(items), users=np.concatenate(users), data=data
        )

    def match(self, items: IntArray, is_positive: BoolArray) -> bool:
        """Return whether these pairs are the positives that RecBole marks in lists (n_rows, K)."""
        if len(items) != self.users.size:
            return False
        n_items = np.int64(self.data.item_num)
        listed_keys = np.arange(len(items))[:, None] * n_items + items
        positive_keys = self.row * n_items + self.item
        return np.array_equal(np.isin(listed_keys, positive_keys), is_positive)

    def to_frame(self, row: IntArray, item: IntArray) -> pd.DataFrame:
        """Return rows and items as a frame of tokens."""
        return _to_tokens(self.data, self.users[row], item)


def _to_tokens(data: _RecboleData, user: IntArray, item: IntArray) -> pd.DataFrame:
    """Return users and items by the tokens of a RecBole data set."""
    return pd.DataFrame(
        {"user": data.id2token(data.uid_field, user), "item": data.id2token(data.iid_field, item)}
    )


@public_function
def recbole_metric(
    config: Any, train: Any, *held_out: Any, metric: str, propensity: Any = None, estimator: Any = None
) -> str:
    """Register a metric in RecBole at the cutoffs `topk` of a config, and return its name there.

    Call it before the trainer is created. RecBole passes to its metrics which listed items are positives, but
    not the positives that the lists lack; these come from the loaders. Values are rounded to
    `metric_decimal_place`.

    Parameters
    ----------
    config : Config of RecBole
        The name is added to its `metrics`.
    train, *held_out : loaders of RecBole
        The training loader, and the validation and test loaders with all items ranked.
    metric : str
        A label without its cutoff, such as "recall".
    propensity : as in `evaluate`, optional
        A model, or its label, is fitted to the pairs of `train`. Ids are RecBole's tokens, which are text.
    estimator : label or Estimator, optional
        As in `lenskit_metric`.

    Returns
    -------
    str
        Name of the metric in RecBole.

    Raises
    ------
    InputError, PropensityError
        As `lenskit_metric`; also for loaders that sample items. When it is computed, for lists that belong to
        none of the loaders.

    See Also
    --------
    lenskit_metric : Return a metric for LensKit.
    rectools_metric : Return a metric for RecTools.
    evaluate : Evaluate the recommendations of any library.
    """
    from recbole.evaluator import register
    from recbole.evaluator.base_metric import AbstractMetric
    from recbole.utils import EvaluatorType

    data = train.dataset
    users = data.inter_feat[data.uid_field].numpy()
    items = data.inter_feat[data.iid_field].numpy()
    # RecBole counts repeated pairs in the popularity of items, so they are kept.
    log = Interactions.from_frame(_to_tokens(data, users, items), duplicates="keep")
    cutoffs = config["topk"]
    list_metrics = ListMetrics.from_labels(
        [f"{metric}@{cutoff}" for cutoff in cutoffs], estimator, propensity, log
    )
    name = f"{list_metrics.estimator.label}-{metric}".lower()
    held_out_pairs = [HeldOutPairs.from_loader(loader) for loader in held_out]
    inputs = ["rec.items", "rec.topk"]

    def calculate_metric(self: Any, collected: Any) -> dict[str, float]:
        items = collected.get("rec.items").numpy()
        is_positive = collected.get("rec.topk").numpy()[:, :-1] > 0
        pairs = next((pairs for pairs in held_out_pairs if pairs.match(items, is_positive)), None)
        if pairs is None:
            raise InputError(
                "the lists must belong to one of the loaders; got other lists. Pass the loaders that are "
                "evaluated."
            )
        row, rank = np.indices(items.shape).reshape(2, -1)
        lists = pairs.to_frame(row, items.ravel()).assign(rank=rank + 1)
        values = list_metrics.compute_values(lists, pairs.to_frame(pairs.row, pairs.item))
        rounded = {}
        for cutoff, value in zip(cutoffs, values, strict=True):
            rounded[f"{name}@{cutoff}"] = round(value, self.decimal_place)
        return rounded

    members = {
        "metric_type": EvaluatorType.RANKING,
        "metric_need": inputs,
        "calculate_metric": calculate_metric,
    }
    register.metrics_dict[name] = type("IpsevalMetric", (AbstractMetric,), members)
    register.metric_types[name] = EvaluatorType.RANKING
    register.metric_information[name] = inputs
    config["metrics"] = [*config["metrics"], name]
    return name


class MlflowEvaluator:
    """Evaluator "ipseval" of MLflow for models of type "ranker"; it logs an evaluation to the active run.

    Rows of the data are users and items. Predictions, or the model, give their scores, unless the rows have a
    rank or score, or the model returns lists; a row without a score is in no list. The held-out rows have
    targets above 0, or are the test part of a `split` in the configuration. The configuration may also hold
    `train`, the `name` of the recommender and options of `evaluate`.
    """

    def can_evaluate(self, *, model_type: str, evaluator_config: object = None, **_: object) -> bool:
        """Return whether models of this type are evaluated."""
        return model_type == "ranker"

    def evaluate(
        self,
        *,
        dataset: _MlflowData,
        evaluator_config: Mapping[str, Any] | None,
        model: _MlflowModel | None = None,
        **_: object,
    ) -> EvaluationResult:
        """Evaluate the recommender, log the evaluation to the active run and return the estimates."""
        import mlflow
        from mlflow.models import EvaluationResult
        from mlflow.models.evaluation.artifacts import CsvEvaluationArtifact

        options = dict(evaluator_config or {})
        name = options.pop("name", None) or MODEL
        split = options.pop("split", None)
        train = options.pop("train", None)
        if split is None:
            split = _split_dataset(dataset, train, options.get("propensity"))
        lists = _build_lists(_predict_rows(dataset, model))
        evaluation = evaluate({name: lists}, split, **options)
        evaluation.log(mlflow)
        table = CsvEvaluationArtifact(mlflow.get_artifact_uri(TABLE), evaluation.frame)
        return EvaluationResult(metric_names(evaluation.frame), {TABLE: table})


def _predict_rows(dataset: _MlflowData, model: _MlflowModel | None) -> Any:
    """Return the rows of a data set of MLflow with the scores of the model, or the lists that it returns."""
    rows = dataset.features_data
    predictions = dataset.predictions_data
    if model is not None:
        predictions = model.predict(rows)
    if predictions is None:
        return rows
    if hasattr(predictions, "columns"):
        return predictions
    return _select_pair_columns(rows).assign(score=predictions)


def _split_dataset(dataset: _MlflowData, train: PairData, propensity: object) -> Split:
    """Return a split with the rows with targets above 0 held out."""
    if dataset.labels_data is None:
        raise InputError(
            "evaluator_config must have a split, or the data must have targets; got neither. Pass targets, "
            "or a split in evaluator_config."
        )
    positives = dataset.features_data[dataset.labels_data > 0]
    return _build_split(train, positives, propensity)
