"""Our metrics at home in LensKit, RecTools, RecBole and MLflow, each imported where it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.reading import Lists
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.estimators.labels import default_estimators
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.pipeline import evaluate, evaluate_ranks
from ipseval.evaluation.request import fitted_propensity, requested_estimators
from ipseval.evaluation.tracking import TABLE, metric_names
from ipseval.metrics import Metric
from ipseval.metrics import metric as metric_of
from ipseval.propensity import Propensity
from ipseval.ranking import rank_positives
from ipseval.utils.border import guard
from ipseval.utils.compute import ComputeOptions
from ipseval.utils.types import AnyArray, BoolArray, IntArray

__all__ = ["lenskit_metric", "recbole_metric", "rectools_metric"]

MODEL = "model"  # the recommender, where its library gives lists without a name
NAMES = {"user_id": "user", "item_id": "item"}


def _pairs(frame: Any) -> Any:
    """Return the columns user and item of a frame, or of a collection of LensKit; a log as it is."""
    if frame is None or isinstance(frame, Interactions):
        return frame
    frame = frame if hasattr(frame, "columns") else frame.to_df()
    return frame.rename(columns=NAMES)[list(NAMES.values())]


def _split(train: Any, test: Any, propensity: Any) -> Split:
    """Return the split of parts that a library holds, over the ids that a fitted propensity is for."""
    fitted = propensity if isinstance(propensity, Propensity) else None
    users, items = (None, None) if fitted is None else (fitted.user_ids, fitted.item_ids)
    return Split.from_frames(_pairs(train), _pairs(test), users=users, items=items)


def _lists(frame: Any) -> Lists:
    """Return lists as their library gave them: what training and test lack keeps its place."""
    return Lists(frame, seen="keep", unknown="candidate", missing="drop", gaps="raise")


@dataclass(frozen=True, eq=False)
class ListMetrics:
    """Metrics by one estimator, asked of recommended lists and held-out pairs."""

    metrics: tuple[Metric, ...]
    estimator: Estimator
    propensity: Any = None
    train: Any = None

    @classmethod
    def of(cls, labels: list[Any], estimator: Any, propensity: Any, train: Any) -> ListMetrics:
        """Return what labels name; by default the last estimator of `evaluate`, snips-global or aoa."""
        label = estimator or default_estimators(weighted=propensity is not None)[-1]
        (chosen,) = requested_estimators([label], propensity)
        return cls(tuple(map(metric_of, labels)), chosen, propensity, train)

    @property
    def label(self) -> str:
        """The first metric and the estimator."""
        return f"{self.metrics[0].label} {self.estimator.label}"

    def evaluation(self, lists: Any, test: Any) -> Evaluation:
        """Return the evaluation of lists."""
        split = _split(self.train, test, self.propensity)
        fitted = fitted_propensity(self.propensity, lambda model: model.fit(split.train))
        if fitted is not None:
            fitted.check_ids(split)
        ranks = rank_positives(_lists(lists), split, compute=ComputeOptions(progress=False))
        asked: dict[str, Any] = {"metrics": self.metrics, "estimators": [self.estimator]}
        return evaluate_ranks({MODEL: ranks}, propensity=fitted, **asked)

    def values(self, lists: Any, test: Any) -> list[float]:
        """Return the estimate of each metric."""
        found = self.evaluation(lists, test).estimates
        return [found[MODEL, one.label, self.estimator.label].value for one in self.metrics]

    def per_user(self, lists: Any, test: Any) -> pd.Series[float]:
        """Return N_u/D_u of each user by the first metric."""
        return self.evaluation(lists, test).per_user(MODEL, self.metrics[0].label, self.estimator.label)


def lenskit_metric(
    metric: str | Metric, *, propensity: Any = None, estimator: Any = None, train: Any = None
) -> Any:
    """Return a metric of LensKit 2025 for its `RunAnalysis`; later ones show a metric no users.

    It is a `GlobalMetric`, as weights are normalised over all users of a run: its value is R as `evaluate`
    prints it. Users with test items and no list count as misses, with a `DataWarning`.

    Parameters
    ----------
    metric : label or Metric
        With a cutoff, such as "ndcg@10": lists do not hold the whole ranking.
    propensity : as in `evaluate`, optional
        One that is fitted has its ids; a model, or its label, is fitted to `train`.
    estimator : label or Estimator, optional
        Default: snips-global; aoa without a propensity.
    train : data frame or Interactions, optional
        Training pairs, with columns user and item, or user_id and item_id. Their users count in `ips`, too.

    Raises
    ------
    InputError, PropensityError
        For a label that is none, a propensity that is missing, and LensKit from 2026 on; when it is measured,
        for test items that a fitted propensity does not cover.
    """
    from lenskit import metrics

    if not hasattr(metrics, "GlobalMetric"):
        raise InputError(
            "from 2026 on LensKit shows a metric one list at a time, and not whose it is. "
            "Pass what it recommends to ipseval.evaluate: {name: run.to_df()}."
        )
    asked = ListMetrics.of([metric], estimator, propensity, train)

    def measure_run(self: Any, output: Any, test: Any) -> float:
        return asked.values(output, test)[0]

    return type(
        "IpsevalMetric", (metrics.GlobalMetric,), {"label": asked.label, "measure_run": measure_run}
    )()


def rectools_metric(
    metric: str | Metric, *, propensity: Any = None, estimator: Any = None, train: Any = None
) -> Any:
    """Return a metric of RecTools for its `calc_metrics` and `cross_validate`.

    `calc` is R as `evaluate` prints it, and `calc_per_user` N_u/D_u of each user. The folds of
    `cross_validate` share one propensity.

    Parameters
    ----------
    metric, propensity, estimator, train
        As in `lenskit_metric`.

    Raises
    ------
    InputError, PropensityError
        As `lenskit_metric`; also for a metric without a cutoff.
    """
    from rectools import Columns
    from rectools.metrics.dq import CoveredUsers  # the only kind whose `calc` is given lists and test pairs

    asked = ListMetrics.of([metric], estimator, propensity, train)
    if asked.metrics[0].cutoff is None:
        raise InputError(f"a metric of RecTools has a cutoff, and {asked.label} has none.")

    def calc(self: Any, reco: Any, interactions: Any) -> float:
        return asked.values(reco, interactions)[0]

    def calc_per_user(self: Any, reco: Any, interactions: Any) -> pd.Series[float]:
        return asked.per_user(reco, interactions).rename_axis(Columns.User)

    made = type("IpsevalMetric", (CoveredUsers,), {"calc": calc, "calc_per_user": calc_per_user})
    return made(k=asked.metrics[0].cutoff)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The positives of a loader of RecBole: row of the lists and item of each, and who the rows are."""

    row: IntArray
    item: IntArray
    users: AnyArray
    data: Any

    @classmethod
    def of(cls, loader: Any) -> HeldOut:
        """Return what a loader gives in the order in which RecBole ranks; no item is drawn."""
        from recbole.data.dataloader import FullSortEvalDataLoader

        if not isinstance(loader, FullSortEvalDataLoader):
            raise InputError("RecBole draws items here, which changes the metric: set eval_args mode='full'.")
        data, start, parts = loader.dataset, 0, []
        for batch, _, row, item in loader:
            parts.append((row.numpy() + start, item.numpy(), batch[data.uid_field].numpy()))
            start += len(batch)
        row, item, users = map(np.concatenate, zip(*parts, strict=True))
        return cls(row, item, users, data)

    def fits(self, listed: IntArray, found: BoolArray) -> bool:
        """Return whether these are the positives that RecBole found in lists (n_rows, K)."""
        if len(listed) != self.users.size:
            return False
        key = np.arange(len(listed))[:, None] * np.int64(self.data.item_num) + listed
        return np.array_equal(np.isin(key, self.row * np.int64(self.data.item_num) + self.item), found)

    def frame(self, row: IntArray, item: IntArray) -> pd.DataFrame:
        """Return rows and items as a frame of tokens."""
        return tokens(self.data, self.users[row], item)


def tokens(data: Any, user: IntArray, item: IntArray) -> pd.DataFrame:
    """Return users and items by the tokens of a data set of RecBole."""
    given = {"user": (data.uid_field, user), "item": (data.iid_field, item)}
    return pd.DataFrame({name: data.id2token(*one) for name, one in given.items()})


def recbole_metric(
    config: Any, train: Any, *held_out: Any, metric: str, propensity: Any = None, estimator: Any = None
) -> str:
    """Register a metric in RecBole at the cutoffs `topk` of a config, and return its name there.

    Call it before the trainer is made. RecBole tells its metrics which listed items are positives, and not
    which positives there are: these come from the loaders. Values are rounded to `metric_decimal_place`.

    Parameters
    ----------
    config : Config of RecBole
        The name is added to its `metrics`.
    train, *held_out : loaders of RecBole
        Of training, and of validation and test with all items ranked.
    metric : str
        A label without its cutoff, such as "recall".
    propensity : as in `evaluate`, optional
        A model, or its label, is fitted to the pairs of `train`. Ids are RecBole's tokens, which are text.
    estimator : label or Estimator, optional
        As in `lenskit_metric`.

    Raises
    ------
    InputError, PropensityError
        As `lenskit_metric`; also for loaders that draw items. When it is measured, for lists that belong to
        none of the loaders.
    """
    from recbole.evaluator import register
    from recbole.evaluator.base_metric import AbstractMetric
    from recbole.utils import EvaluatorType

    data = train.dataset
    pairs = tokens(data, *(data.inter_feat[name].numpy() for name in (data.uid_field, data.iid_field)))
    log = Interactions.from_frame(pairs, duplicates="keep")  # n* counts what RecBole counts
    asked = ListMetrics.of([f"{metric}@{k}" for k in config["topk"]], estimator, propensity, log)
    name = f"{asked.estimator.label}-{metric}".lower()
    parts = [HeldOut.of(one) for one in held_out]
    kind, needs = EvaluatorType.RANKING, ["rec.items", "rec.topk"]

    def calculate_metric(self: Any, collected: Any) -> dict[str, float]:
        listed, found = (collected.get(key).numpy() for key in needs)
        fitting = [one for one in parts if one.fits(listed, found[:, :-1] > 0)]
        if not fitting:
            raise InputError("these lists belong to none of the loaders; pass those that are evaluated.")
        row, rank = np.indices(listed.shape).reshape(2, -1)
        lists = fitting[0].frame(row, listed.ravel()).assign(rank=rank + 1)
        values = asked.values(lists, fitting[0].frame(fitting[0].row, fitting[0].item))
        labels = [f"{name}@{k}" for k in config["topk"]]
        return {label: round(value, self.decimal_place) for label, value in zip(labels, values, strict=True)}

    members = {"metric_type": kind, "metric_need": needs, "calculate_metric": calculate_metric}
    register.metrics_dict[name] = type("IpsevalMetric", (AbstractMetric,), members)
    register.metric_types[name], register.metric_information[name] = kind, needs
    config["metrics"] = [*config["metrics"], name]
    return name


class MlflowEvaluator:
    """The evaluator "ipseval" of MLflow, for models of type "ranker": it logs what `Evaluation.log` logs.

    Rows of the data are users and items. Predictions, or the model, give their scores, unless the rows have a
    rank or score, or the model returns lists; a row without a score is in no list. Held out is what targets
    above 0 mark, or the test part of a `split` in the configuration. It may hold `train`, the `name` of the
    recommender and options of `evaluate`, too.
    """

    def can_evaluate(self, *, model_type: str, evaluator_config: Any = None, **_: Any) -> bool:
        """Return whether models of this type are evaluated."""
        return model_type == "ranker"

    def evaluate(self, *, dataset: Any, evaluator_config: Any, model: Any = None, **_: Any) -> Any:
        """Return the estimates of the recommender, after they are logged to the run that is active."""
        import mlflow
        from mlflow.models import EvaluationResult
        from mlflow.models.evaluation.artifacts import CsvEvaluationArtifact

        options, rows = dict(evaluator_config or {}), dataset.features_data
        found = dataset.predictions_data if model is None else model.predict(rows)
        if found is not None:
            rows = found if hasattr(found, "columns") else _pairs(rows).assign(score=found)
        name, split, train = (options.pop(one, None) for one in ("name", "split", "train"))
        if split is None:
            if dataset.labels_data is None:
                raise InputError("nothing is held out: give targets, or a split in evaluator_config.")
            positives = dataset.features_data[dataset.labels_data > 0]
            split = _split(train, positives, options.get("propensity"))
        evaluation = evaluate({name or MODEL: _lists(rows)}, split, **options)
        evaluation.log(mlflow)
        table = CsvEvaluationArtifact(mlflow.get_artifact_uri(TABLE), evaluation.frame)
        return EvaluationResult(metric_names(evaluation.frame), {TABLE: table})


guard(__name__)
