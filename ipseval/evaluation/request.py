"""The request of an evaluation, with every option checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from ipseval.data.reading.column_names import match_columns, normalize_name
from ipseval.data.reading.held_tables import are_pair_keys
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError, ProblemsError, PropensityError, UnknownNameError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.guarantees import NRelevant
from ipseval.estimators.labels import default_estimators, resolve_estimator
from ipseval.estimators.sample import NRelevantLike, SampleSize, build_sample, check_sampled_lists
from ipseval.inference.intervals import INTERVAL_METHODS
from ipseval.metrics import Metric
from ipseval.metrics.labels import find_map_labels, resolve_metrics
from ipseval.propensity import (
    ImpressionPropensity,
    KnownPropensity,
    LoggedPropensity,
    Propensity,
    parse_propensity,
)
from ipseval.ranking import RankedPositives, SampledCandidates
from ipseval.ranking.adapters.registry import pair_with_data_set
from ipseval.ranking.ranked_positives import LISTS_BY_USER
from ipseval.utils.checks import (
    as_generator,
    as_list,
    check_choice,
    check_fraction,
    distinct_labels,
    format_count,
    has_default_index,
    warn_user,
)
from ipseval.utils.columns import as_frame, frame_columns
from ipseval.utils.notes import Note
from ipseval.utils.peer_names import suggest_replacement
from ipseval.utils.types import IntervalMethod, LowEss, Missing, RngLike, TieChoice

SINGLE_NAME = "model"  # name of a recommender that is passed alone
# Columns of long frames that hold the lists of several recommenders.
MODEL_COLUMNS = ("algorithm", "model", "recommender", "system", "run", "method")
DEFAULT_METRICS = ("recall@10", "mean_dcg@10")
TIES = ("default", "mean", "min", "max", "expected")
MISSING_LISTS = ("zero", "drop", "raise")
LOW_ESS = ("warn", "raise", "nan", "ignore")


def describe_request_of_metric(metric: Metric, map_labels: frozenset[str]) -> tuple[Note, ...]:
    """Return the note on a metric that was requested as map@k, which has two definitions; empty for others."""
    if metric.label not in map_labels:
        return ()
    return (Note.create("map_at_cutoff", cutoff=metric.cutoff),)


class CommonOptions(TypedDict, total=False):
    """Options of all functions that evaluate; `evaluate` describes them."""

    missing_lists: Missing
    ties: TieChoice
    confidence_level: float
    n_relevant: NRelevantLike
    low_ess: LowEss


class Options(CommonOptions, total=False):
    """Options of functions that have the sums of each user, and can therefore resample users."""

    interval: IntervalMethod
    rng: RngLike


def check_options(options: Mapping[str, object], known: type) -> None:
    """Raise `UnknownNameError` for an option that a function does not have."""
    for name in options.keys() - known.__annotations__:
        raise UnknownNameError("option", name, known.__annotations__, suggest_replacement(name))


@dataclass(frozen=True, eq=False)
class Request:
    """The request of an evaluation, with labels resolved and every option checked.

    `map_labels` are the labels of metrics that were requested as map@k, which has two definitions.
    """

    metrics: Sequence[Metric]
    estimators: Sequence[Estimator]
    propensity: Propensity | None
    has_rewards: bool
    missing_lists: Missing = "zero"
    ties: TieChoice = "default"
    confidence_level: float = 0.95
    n_relevant: NRelevantLike = None
    low_ess: LowEss = "warn"
    interval: IntervalMethod = "normal"
    rng: RngLike = None
    map_labels: frozenset[str] = frozenset()

    @classmethod
    def from_arguments(
        cls,
        metrics: Iterable[str | Metric],
        estimators: Iterable[str | Estimator] | None,
        propensity: Propensity | None,
        has_rewards: bool = False,
        **options: Any,
    ) -> Request:
        """Return the request with these metrics, estimators and options."""
        check_options(options, Options)
        labels = as_list(metrics, "metrics")
        return cls(
            metrics=tuple(resolve_metrics(labels)),
            map_labels=find_map_labels(labels),
            estimators=tuple(resolve_estimators(estimators, propensity)),
            propensity=propensity,
            has_rewards=has_rewards,
            **options,
        )

    def __post_init__(self) -> None:
        check_fraction("confidence_level", self.confidence_level)
        check_choice("low_ess", self.low_ess, LOW_ESS)
        check_choice("missing_lists", self.missing_lists, MISSING_LISTS)
        check_choice("ties", self.ties, TIES)
        check_choice("interval", self.interval, INTERVAL_METHODS)
        as_generator(self.rng)  # an invalid seed is an error even where no resample is drawn
        if isinstance(self.n_relevant, str):
            check_choice("n_relevant", self.n_relevant, ("estimated",))
        self._check_rewards()
        for estimator in self.estimators:
            for metric in self.metrics:
                estimator.check(metric, is_probability=self.is_probability, n_relevant=self.n_relevant_kind)

    def _check_rewards(self) -> None:
        """Raise `InputError` for estimators that need rewards, without rewards."""
        if self.has_rewards:
            return
        labels = []
        for estimator in self.estimators:
            if estimator.needs_rewards:
                labels.append(estimator.label)

        if labels:
            raise InputError(
                f"{', '.join(labels)} need impressions. Use ipseval.policies.evaluate_rewards(models, "
                "split, Rewards(log)), log an ImpressionLog."
            )

    @property
    def depth(self) -> int:
        """The largest cutoff of the metrics, at least 1."""
        return max(metric.cutoff or 1 for metric in self.metrics)

    @property
    def n_relevant_kind(self) -> NRelevant:
        """Whether s_u, the numbers of relevant items, are "absent", "estimated" or "known"."""
        if self.n_relevant is None:
            return "absent"
        if isinstance(self.n_relevant, str):
            return "estimated"
        return "known"

    @property
    def is_probability(self) -> bool:
        """Whether P is calibrated: a probability, not only relative."""
        return self.propensity is not None and self.propensity.is_probability

    def sample(self, positives: RankedPositives) -> Sample:
        """Return the positives of one recommender that have a propensity, with it; possibly none."""
        return build_sample(positives, self.propensity, self.n_relevant, self.ties, allow_empty=True)


def resolve_estimators(
    estimators: Iterable[str | Estimator] | None, propensity: Propensity | None
) -> list[Estimator]:
    """Return the estimators of labels or objects; raise an error for weighted ones without a propensity."""
    if estimators is None:
        estimators = default_estimators(weighted=propensity is not None)
    resolved = []
    for estimator in as_list(estimators, "estimators"):
        resolved.append(resolve_estimator(estimator))

    resolved = distinct_labels(resolved, "estimators")
    weighted = []
    for estimator in resolved:
        if estimator.weighted:
            weighted.append(estimator.label)

    if weighted and propensity is None:
        verb = "need"
        if len(weighted) == 1:
            verb = "needs"
        raise PropensityError(
            f"{', '.join(weighted)} {verb} a propensity.",
            advice="Pass propensity=PowerLawPropensity(gamma=…) or another model, or ask for aoa only",
            shell_advice="Pass --gamma or --propensity, or ask for aoa only",
        )
    return resolved


def resolve_propensity(propensity: Any, fit: Callable[[Any], Propensity]) -> Propensity | None:
    """Return a fitted propensity: as passed, or from `fit` of a model, or of the model of a label."""
    if isinstance(propensity, str):
        is_file = Path(propensity).is_file()
        propensity = _read_propensity_file(propensity) if is_file else parse_propensity(propensity)
    if propensity is None or isinstance(propensity, Propensity):
        return propensity
    if not hasattr(propensity, "fit"):
        propensity = _as_known_propensity(propensity)
    if not hasattr(propensity, "fit") or isinstance(propensity, type):
        raise PropensityError(
            "propensity must be a Propensity or a model with fit(train), as PowerLawPropensity(gamma=0) is; "
            f"got {type(propensity).__name__}. Pass propensities as {{item: P}}, as a frame, or as "
            "KnownPropensity(item=…) or KnownPropensity(pair=…)."
        )
    return fit(propensity)


def _read_propensity_file(path: str) -> pd.DataFrame:
    """Return the table of propensities in a file; its reader is imported for files alone."""
    from ipseval.data.reading.table_files import read_table

    return read_table(path)


def _as_known_propensity(values: object) -> Any:
    """Return propensities in a mapping, Series, array or frame as a model, and other objects unchanged."""
    if isinstance(values, (Mapping, pd.Series)):
        return KnownPropensity(item=values)
    if isinstance(values, list) and values:
        return KnownPropensity(item=_read_propensity_list(values))
    if isinstance(values, np.ndarray):
        return KnownPropensity(pair=values) if values.ndim == 2 else KnownPropensity(item=values)
    columns = sorted(map(str, frame_columns(values)))
    if not columns:
        return values
    roles = match_columns(columns, {}, ("user", "item", "propensity"), essential=()).columns
    is_labelled = isinstance(values, pd.DataFrame) and not has_default_index(values.index)
    has_pairs = "user" in roles or (is_labelled and not roles)
    return KnownPropensity(pair=values) if has_pairs else KnownPropensity(item=values)


def _read_propensity_list(values: list[Any]) -> Any:
    """Return a list of numbers unchanged, and a list of pairs (item, P) as a mapping."""
    if all(isinstance(value, tuple) and len(value) == 2 for value in values):
        return dict(values)
    if all(isinstance(value, str) for value in values):
        raise PropensityError(
            f"propensity must be one model; got {len(values)} labels. Pass one of them, and several values of γ to "
            "evaluation.sensitivity(gamma=[-0.5, 0, 0.5])."
        )
    return values


def read_propensity_column(propensity: object, test: object, n_items: int) -> Any:
    """Return propensities of the test rows as propensities of pairs, and other propensities unchanged.

    They are a column of the test frame that `propensity` names, or a Series with the labels of the frame.
    """
    if isinstance(propensity, pd.Series) and isinstance(test, pd.DataFrame):
        propensity, test = _add_propensity_column(propensity, test, n_items)
    if not isinstance(propensity, str) or propensity not in frame_columns(test):
        return propensity
    frame = as_frame(test)
    assert frame is not None
    match = match_columns(list(frame.columns), {}, ("user", "item"))
    if match.problems:
        raise ProblemsError("the test frame", match.problems, "KnownPropensity(pair=frame)")
    columns = {match.columns["user"]: "user", match.columns["item"]: "item", propensity: "propensity"}
    return KnownPropensity(pair=frame.select(list(columns)).rename(columns).to_native())


def _add_propensity_column(
    propensity: pd.Series, test: pd.DataFrame, n_items: int
) -> tuple[Any, pd.DataFrame]:
    """Return the name of a column with propensities of the test rows, and the frame with it; or both unchanged.

    A Series whose labels are those of the rows may also hold a propensity for each item with such an id.
    """
    if not propensity.index.equals(test.index):
        return propensity, test
    match = match_columns([str(column) for column in test.columns], {}, ("item",), essential=())
    items = test[match.columns["item"]] if "item" in match.columns else pd.Series(dtype=object)
    may_be_in_order = has_default_index(propensity.index) and len(propensity) == n_items
    if may_be_in_order or items.isin(propensity.index).all():
        raise PropensityError(
            "propensity has the labels of the rows of test, and may hold one value for each item, too. Pass the "
            "propensities of items as {item: P}, and of rows as a column of test by its name."
        )
    name = "propensity of the row"
    return name, test.assign(**{name: propensity})


def warn_about_few_positives(size: SampleSize, estimators: Sequence[Estimator]) -> None:
    """Warn of estimators that need more positives per user to correct anything."""
    options = {}
    if size.n_clusters:  # custom estimators need no parameter `unit` where the units are users
        options["unit"] = size.unit
    for estimator in estimators:
        text = estimator.caution(size.counts, **options)
        if text:
            warn_user(text, DataWarning)


def warn_about_large_cutoffs(metrics: Sequence[Metric], n_items: int) -> None:
    """Warn of metrics whose cutoff exceeds the catalogue, because every item is in such a list."""
    labels = [metric.label for metric in metrics if metric.cutoff is not None and metric.cutoff > n_items]
    if labels:
        warn_user(
            f"{', '.join(labels)}: the cutoff exceeds the {format_count(n_items, 'item')} of the catalogue, so every "
            "candidate is in the list of every recommender.",
            DataWarning,
            advice="Use a smaller cutoff",
        )


def check_candidates(candidates: object, metrics: Sequence[Metric]) -> None:
    """Raise `InputError` for metrics that sampled candidates do not allow, and for a bare number of them."""
    if isinstance(candidates, (int, np.integer)) and not isinstance(candidates, bool):
        raise InputError(
            f"candidates={candidates} could be drawn in several ways: pass ipseval.SampledCandidates("
            f"{candidates}, rng=0), or 'all'."
        )
    if isinstance(candidates, SampledCandidates):
        check_sampled_lists(candidates.per, metrics)


def warn_about_sampling(positives: RankedPositives, metrics: Sequence[Metric]) -> None:
    """Warn of metrics that use ranks in a sample, or in each user's own list, as ranks in the catalogue."""
    sampling = positives.sampling
    if sampling is None:
        if positives.candidates.startswith(LISTS_BY_USER) and not all(
            metric.linear_in_rank for metric in metrics
        ):
            warn_user(
                "Ranks are among each user's own candidates. If these are the items shown at random, "
                "recommenders may rank in another order than in the catalogue (arXiv 2409.04810).",
                DataWarning,
                advice="Rank the positives with {candidates=all}",
                shell_advice="Leave out {candidates} to rank all items",
            )
        return
    labels = []
    for metric in metrics:
        if not _is_valid_on_sample(metric, uniform=sampling.uniform):
            labels.append(metric.label)

    if labels:
        n_candidates = int(np.median(sampling.n_candidates)) - 1  # without the positive itself
        warn_user(
            f"{', '.join(labels)}: computed on {sampling.n_sampled:,} sampled candidates of "
            f"{n_candidates:,}. Values are not comparable with those of the full ranking, and the order of "
            "recommenders may change.",
            DataWarning,
            advice="Rank all candidates, or correct with ipseval.metric(label, sampled='bv')",
            shell_advice="Rank all candidates, or use a metric such as recall@10~bv",
        )
    _warn_about_fitted_corrections(metrics)


def _warn_about_fitted_corrections(metrics: Sequence[Metric]) -> None:
    """Warn that estimators hold a correction for sampling fixed which was fitted to the same ranks."""
    fitted = [metric.label for metric in metrics if metric.is_fitted_to_ranks]
    if fitted:
        warn_user(
            f"{', '.join(fitted)}: the correction is fitted to the sampled ranks, and intervals and p-values do "
            "not include the error of this fit, so they are too small.",
            DataWarning,
            advice="Take standard errors from ipseval.correct_sampled, or rank all candidates",
            shell_advice="Rank all candidates",
        )


def _is_valid_on_sample(metric: Metric, *, uniform: bool) -> bool:
    """Return whether a metric corrects for sampling, or is unbiased on a uniform sample."""
    return metric.corrects_sampling or (uniform and metric.linear_in_rank)


def name_models(models: Any, split: Split) -> Any:
    """Return a recommender that is passed alone as {"model": recommender}, and every other argument unchanged.

    A mapping is one recommender if its keys are users: {user: [item, …]} or {user: {item: score}}. A
    frame of lists with a column that names recommenders, as LensKit makes it, holds several. Recommenders in a
    list are named by their numbers.
    """
    if isinstance(models, Mapping):
        has_tuple_keys = isinstance(next(iter(models), None), tuple)
        is_single = (has_tuple_keys and are_pair_keys(models)) or _holds_user_lists(models, split)
        return {SINGLE_NAME: models} if is_single else models
    _refuse_named_pairs(models)
    if isinstance(models, list) and models and all(_is_whole_model(model) for model in models):
        return {f"{SINGLE_NAME} {number}": model for number, model in enumerate(models, start=1)}
    if models is None or isinstance(models, (str, bytes, list, set, Number)):
        return models
    return _split_by_model(models)


def warn_about_early_impressions(propensity: object, split: Split) -> None:
    """Warn of impressions of a propensity that are earlier than the test part of a split in time."""
    if not isinstance(propensity, (ImpressionPropensity, LoggedPropensity)):
        return
    log = propensity.log
    test_impressions = split.test.impressions
    if log is None or log.timestamp is None or test_impressions is None:
        return
    if test_impressions is split.train.impressions:  # not a split at a global time
        return
    n_early = int((log.timestamp < test_impressions.timestamp.min()).sum())
    if n_early:
        warn_user(
            f"{n_early:,} of {len(log):,} impressions of the propensity are earlier than the test part, so they could "
            "not lead to held-out clicks.",
            DataWarning,
            advice="Pass log=split.test.impressions",
        )


def pair_models(models: Mapping[str, Any], dataset: object) -> dict[str, Any]:
    """Add the data set of the training part to models of libraries that keep the ids in data sets."""
    if isinstance(dataset, (Split, Mapping, list, np.ndarray, pd.DataFrame)):
        return dict(models)
    return {name: pair_with_data_set(model, dataset) for name, model in models.items()}


def _refuse_named_pairs(models: object) -> None:
    """Raise `InputError` for a list of pairs (name, recommender)."""
    if not isinstance(models, list) or not models:
        return
    for pair in models:
        is_pair = isinstance(pair, tuple) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str) or isinstance(pair[1], (str, Number, list, tuple)):
            return
    raise InputError(
        "models must be a mapping {name: recommender}; got a list of pairs (name, recommender). Pass dict(models)."
    )


def _holds_user_lists(mapping: Mapping[Any, Any], split: Split) -> bool:
    """Return whether a mapping has a user of the split as a key, and lists of items as values."""
    users = set(split.user_ids.tolist())
    if users.isdisjoint(mapping):
        return False
    first_value = next(iter(mapping.values()))
    if isinstance(first_value, Mapping):
        return isinstance(next(iter(first_value.values()), None), (Number, np.generic))
    if isinstance(first_value, np.ndarray):
        return first_value.ndim == 1
    if not isinstance(first_value, (list, tuple)):
        return False
    return bool(first_value) and np.ndim(first_value[0]) == 0 and _are_ids(first_value)


def _are_ids(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether all values can be ids of items: numbers or text."""
    return all(isinstance(value, (str, Number, np.generic)) for value in values)


def _is_whole_model(model: object) -> bool:
    """Return whether an entry of a list is a recommender, and not the list or the scores of one user."""
    if isinstance(model, tuple):
        return any(np.ndim(part) > 1 for part in model)
    if isinstance(model, (str, bytes, Number, np.generic, list, set)) or model is None:
        return False
    return not isinstance(model, np.ndarray) or model.ndim == 2


def _split_by_model(frame: Any) -> dict[str, Any]:
    """Return the rows of each recommender if a column of a frame names several, else one recommender."""
    for column in frame_columns(frame):
        if normalize_name(str(column)) not in MODEL_COLUMNS:
            continue
        table = as_frame(frame)
        assert table is not None
        names = table[column].unique().sort().to_list()
        if len(names) > 1 and all(isinstance(name, str) for name in names):
            models: dict[str, Any] = {}
            for name in names:
                models[name] = table.filter(table[column] == name).drop(column).to_native()
            return models
    return {SINGLE_NAME: frame}
