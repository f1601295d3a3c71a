"""Labels of metrics, name(parameters)@k: `metric`, the registry, and the check of custom metrics."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.metrics._auc import Auc
from ipseval.metrics._average_precision import AveragePrecision
from ipseval.metrics._first_relevant import Hit, ReciprocalRank
from ipseval.metrics._ideal_list import AdjustedRecall, Ndcg, Precision, Rbp
from ipseval.metrics.additive import Atop, Cg, Dcg, Hits, MeanDcg, Recall
from ipseval.metrics.base import Metric
from ipseval.metrics.propensity_scored import PropensityScoredNdcg, PropensityScoredPrecision
from ipseval.metrics.sampled._correction import METHODS, Method
from ipseval.metrics.sampled.sampled_metric import SampledMetric
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_list, check_choice, describe_type, distinct_labels, format_count
from ipseval.utils.public import public_function
from ipseval.utils.registry import Registry, is_external, look_up

Prior = Literal["uniform", "estimated"]

# Classes of the built-in metrics. CONTRIBUTING.md lists what a new metric needs in addition to its row here.
METRIC_CLASSES: tuple[type[Metric], ...] = (
    Recall,
    Precision,
    Cg,
    Dcg,
    MeanDcg,
    Atop,
    Auc,
    AveragePrecision,
    Ndcg,
    ReciprocalRank,
    Hit,
    Rbp,
    Hits,
    PropensityScoredPrecision,
    PropensityScoredNdcg,
    AdjustedRecall,
)

# Advice for names that other libraries use and that are not metrics here.
_RATING_ADVICE = "It compares ratings: use ipseval.evaluation.evaluate_ratings."
_LIST_ADVICE = "It describes lists, not test positives: use beyond_accuracy(models, split)."
ADVICE_BY_NAME = {
    "f1": "It mixes two metrics: ask for precision@k and recall@k.",
    **dict.fromkeys(
        ("mr", "mean_rank"),
        "It is 1 + (n − 1)(1 − atop) with n candidates: ask for atop, of which higher values are better.",
    ),
    "arhr": "It is the reciprocal rank of the first positive: rr@k.",
    **dict.fromkeys(("rmse", "mse", "mae"), _RATING_ADVICE),
    **dict.fromkeys(("coverage", "novelty", "diversity", "gini", "serendipity", "popularity"), _LIST_ADVICE),
}

_LABEL = re.compile(
    r"^\s*(?P<name>[a-z][a-z0-9_-]*)\s*(?:\((?P<arguments>[^()]*)\))?\s*(?:@(?P<cutoff>[^@()\[\]]*))?\s*$"
)


def _check_metric_class(name: str, entry: Any) -> type[Metric]:
    """Return the class that is registered by the given name; raise if it cannot be used as a metric."""
    if not (isinstance(entry, type) and issubclass(entry, Metric)):
        raise InputError(
            f"a metric is a class derived from ipseval.metrics.Metric; got {describe_type(entry)}."
        )
    missing = []
    for attribute in ("name", "kind", "definition"):
        if not hasattr(entry, attribute):
            missing.append(attribute)

    missing += sorted(getattr(entry, "__abstractmethods__", ()))
    if missing:
        raise InputError(f"the metric {entry.__name__} does not define {', '.join(missing)}.")
    if entry.name != name or re.fullmatch("[a-z][a-z0-9_-]*", name) is None:
        raise InputError(
            f"the metric {entry.__name__} has the name {entry.name!r} and is registered as {name!r}; both "
            "must be equal, of small letters, digits and underscores."
        )
    return entry


def _class_by_name() -> dict[str, type[Metric]]:
    return {metric_class.name: metric_class for metric_class in METRIC_CLASSES}


def _name_by_alias() -> dict[str, str]:
    names = {}
    for metric_class in METRIC_CLASSES:
        names.update(dict.fromkeys(metric_class.aliases, metric_class.name))
    return names


METRICS = Registry("metric", "ipseval.metrics", _class_by_name(), _check_metric_class, _name_by_alias())


# Names of trec_eval, and its labels with a cutoff: ndcg_cut_10, map_cut_10, recall_10, P_10.
TREC_NAMES = {"recip_rank": "rr"}
_AT_LABEL = re.compile(r"^([a-z_]+)_at_(\d+)$")  # names of functions, such as ndcg_at_10
_TREC_LABEL = re.compile(r"(ndcg|map|recall|p|success|recip_rank)(?:_cut)?_(\d+)")
# Average precision with a cutoff by trec_eval and by ir_measures, which divide by s, and the name without a library.
_TREC_AP_LABEL = re.compile(r"map_cut_(\d+)")
_IR_MEASURES_AP_LABEL = re.compile(r"AP@(\d+)")
_MAP_LABEL = re.compile(r"map@\d+")


@public_function
def metric(
    label: str | Metric,
    *,
    sampled: Method | None = None,
    variance_weight: float = 0.01,
    prior: Prior | npt.ArrayLike | None = None,
    n_iterations: int = 100,
    **parameters: Any,
) -> Metric:
    """Return the metric that a label names; its repr is the label.

    Parameters
    ----------
    label : str or Metric
        A label such as "recall@10", "auc", "rbp(0.9)" or "dcg(gain=exponential)@10", in any case. Common
        other names are accepted ("mrr", "hr@10", "p@5"). "map@10" is "ap@10", and "map_cut_10" of trec_eval is
        "ap(denominator=s)@10". A Metric object is returned as it is.
    sampled : str, optional
        "bv", "mle", "cls", "rank", "ls", "importance" or "none": the metric for ranks among sampled
        candidates, corrected by that method of `correct_sampled`; its label is "recall@10~bv". The value of a
        positive is an estimate of the metric for that one positive, and the value of a user their
        (weighted) mean. So ndcg and ap are in the form for one relevant item: 1/log2(1 + r) and 1/r.
    variance_weight : float, default 0.01
        Option of the correction, see `correct_sampled`.
    prior : "uniform", "estimated" or (n,) array, optional
        Option of the correction, see `correct_sampled`.
    n_iterations : int, default 100
        Option of the correction, see `correct_sampled`.
    **parameters
        Parameters of the metric, as in the parentheses of a label:
        ``metric("precision@10", denominator="min")``.

    Returns
    -------
    Metric
        An object of the class that the label names, for `metrics` of `evaluate`.

    Raises
    ------
    UnknownNameError
        For a name or parameter that does not exist.
    InputError
        For a cutoff that is missing, not allowed, or not an integer >= 1, or a bad parameter value.

    See Also
    --------
    ipseval.estimators.card : Print the formula, the conventions and the guarantees of a metric.
    ipseval.register : Register a custom metric under a label.

    Examples
    --------
    >>> metric("nDCG@10"), metric("MAP@5")
    (ndcg@10, ap@5)
    >>> metric("recall@10", sampled="bv"), metric("ndcg~mle")
    (recall@10~bv, ndcg~mle)
    """
    if isinstance(label, str) and "~" in label:
        label, sampled = _split_correction(label, sampled)
    base = parse_metric(label, **parameters)
    if sampled is None:
        return base
    check_choice("sampled", sampled, METHODS)
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform", "estimated"))
    base.value_at_rank(np.ones(1), 2.0)  # raises for a metric that is not a function of one rank
    return SampledMetric(
        label=f"{base.label}~{sampled}",
        base=base,
        method=sampled,
        variance_weight=variance_weight,
        prior=prior,
        n_iterations=n_iterations,
    )


def _split_correction(label: str, sampled: Method | None) -> tuple[str, Method]:
    """Return the label before ~ and the correction after it, which must agree with `sampled`."""
    base_label, _, method_text = label.partition("~")
    base_label = base_label.strip()
    method: Any = method_text.strip()
    if sampled not in (None, method):
        raise InputError(f"metric {base_label!r}: the label says ~{method}, sampled={sampled!r}.")
    check_choice("the correction after ~", method, METHODS)
    return base_label, method


def resolve_metrics(metrics: Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics that labels or objects name, without repetitions."""
    metric_objects = []
    for label in as_list(metrics, "metrics"):
        metric_objects.append(metric(label))

    return distinct_labels(metric_objects, "metrics")


def find_map_labels(metrics: Iterable[object]) -> frozenset[str]:
    """Return the labels of the metrics that were requested as map@k, for which libraries have two definitions.

    Examples
    --------
    >>> find_map_labels(["MAP@5", "ap@10", "map", "map_cut_20"])
    frozenset({'ap@5'})
    """
    labels = set()
    for label in metrics:
        if isinstance(label, str) and _MAP_LABEL.fullmatch(_convert_trec_label(label.strip().lower())):
            labels.add(parse_metric(label).label)
    return frozenset(labels)


def parse_metric(label: str | Metric, **parameters: Any) -> Metric:
    """Return the metric of a label, with `parameters` as in `ipseval.metric`.

    Examples
    --------
    >>> parse_metric("ndcg@10").label, parse_metric("MAP@5").label
    ('ndcg@10', 'ap@5')
    """
    if isinstance(label, Metric):
        if parameters:
            raise InputError(f"{label.label} is a Metric object already; options go with a label.")
        return check_weight_invariance(label)
    if type(label).__module__.split(".")[0] == "ir_measures":
        label = _IR_MEASURES_AP_LABEL.sub(r"ap(denominator=s)@\1", str(label))
    if not isinstance(label, str):
        raise InputError(
            f"a metric is a label such as 'recall@10' or a Metric object; got {type(label).__name__}."
        )
    match = _LABEL.match(_convert_trec_label(label.lower()))
    if match is None:
        advice = ""
        parts = [part.strip() for part in label.split(",")]
        if len(parts) > 1 and all(_LABEL.match(part.lower()) for part in parts):
            advice = f" Pass metrics={parts!r}."
        raise InputError(
            f"cannot read the metric label {label!r}; expected name, name@k or name(parameter=value)@k.{advice}"
        )
    metric_class = _find_metric_class(match["name"])
    arguments = _split_arguments(label, match["arguments"] or "", metric_class)
    repeated_names = sorted(arguments.keys() & parameters.keys())
    if repeated_names:
        raise InputError(f"metric {label!r}: {repeated_names[0]} is given in the label and as an argument.")
    for name, value in parameters.items():
        arguments[name] = str(value)
    values = _parse_arguments(label, arguments, metric_class)
    cutoff = _parse_cutoff(label, match["cutoff"])
    return check_weight_invariance(metric_class(cutoff, **values))


def _convert_trec_label(label: str) -> str:
    """Return the label of a metric that is written as ndcg_cut_10 or ndcg_at_10; others unchanged."""
    if label in TREC_NAMES:
        return TREC_NAMES[label]
    label = _TREC_AP_LABEL.sub(r"ap(denominator=s)@\1", label)
    label = _AT_LABEL.sub(r"\1@\2", label)
    match = _TREC_LABEL.fullmatch(label)
    if match is None:
        return label
    return f"{TREC_NAMES.get(match[1], match[1])}@{match[2]}"


def _find_metric_class(name: str) -> type[Metric]:
    """Return the class of a name or alias."""
    advice = ADVICE_BY_NAME
    if re.search(r"_\d+$", name):
        advice = advice | {name: "Write the cutoff behind @, as in recall@10."}
    return METRICS.find(name, advice)


def _split_arguments(label: str, text: str, metric_class: type[Metric]) -> dict[str, str]:
    """Return name -> text of the arguments in the parentheses of a label; the names may be omitted."""
    arguments: dict[str, str] = {}
    if not text.strip():
        return arguments
    names = list(metric_class.parameters)
    for position, argument in enumerate(text.split(",")):
        name, equals_sign, value = argument.partition("=")
        if not equals_sign:
            value = argument
            if position >= len(names):
                if not names:
                    raise InputError(_describe_no_parameter(label, argument, metric_class))
                limit = format_count(len(names), "parameter")
                raise InputError(f"metric {label!r}: {metric_class.name} takes {limit}.")
            name = names[position]
        name = name.strip()
        if name in arguments:
            raise InputError(f"metric {label!r} gives {name} twice.")
        arguments[name] = value.strip()
    return arguments


def _describe_no_parameter(label: str, argument: str, metric_class: type[Metric]) -> str:
    """Return the error of a metric without parameters, with the metric that the parameter means if there is one."""
    problem = f"metric {label!r}: {metric_class.name} takes no parameter."
    is_adjusted = argument.replace(" ", "").removeprefix("denominator=") == "min"
    if metric_class.name == "recall" and is_adjusted:
        cutoff = label.rpartition("@")[2] if "@" in label else "k"
        problem += f" Recall with the denominator min(s, k) is adjusted_recall@{cutoff}."
    return problem


def _parse_arguments(label: str, arguments: dict[str, str], metric_class: type[Metric]) -> dict[str, Any]:
    """Return name -> value of the arguments of a label."""
    values = {}
    for name, text in arguments.items():
        if not metric_class.parameters:
            raise InputError(_describe_no_parameter(label, f"{name}={text}", metric_class))
        parameter = look_up(metric_class.parameters, name, f"parameter of {metric_class.name}:")
        try:
            values[name] = parameter.parse(text)
        except InputError as error:
            raise InputError(f"metric {label!r}: {name}: {error}.") from None
    return values


def _parse_cutoff(label: str, text: str | None) -> int | None:
    """Return the cutoff of a label; None without one."""
    if text is None:
        return None
    if re.fullmatch("[0-9]+", text.strip()) is None:
        raise InputError(f"metric {label!r}: the cutoff must be an integer >= 1; got {text!r}.")
    return int(text)


def check_weight_invariance(metric: Metric) -> Metric:
    """Return the metric; raise for a custom metric with values that depend on constant weights.

    A value that grows with the weights, such as Σwc, is not an average, and `snips` of it would be wrong.
    """
    if not is_external(metric) or metric.corrects_sampling:
        return metric
    try:
        change = _find_change(metric)
    except Exception:  # the metric may need data that the example lacks
        return metric
    if change is not None:
        weighted_mean, constant, unweighted_mean = change
        raise InputError(
            f"{metric.label} changes with constant weights (on a small example {weighted_mean:.4g} on "
            f"average with weights of {constant}, {unweighted_mean:.4g} without); divide by the sum of the "
            "user's weights, as in Σwc/Σw."
        )
    return metric


def _find_change(metric: Metric) -> tuple[float, int, float] | None:
    """Return (weighted mean, weight, unweighted mean) for the first constant weight that changes values."""
    ranked = _example_ranks()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        unweighted = metric.user_values(ranked, None)
        for constant in (1, 2):
            weights = np.full(len(ranked), float(constant))
            weighted = metric.user_values(ranked, weights)
            if not np.allclose(weighted, unweighted, rtol=1e-9, atol=1e-12, equal_nan=True):
                return float(np.nanmean(weighted)), constant, float(np.nanmean(unweighted))
    return None


def _example_ranks() -> RankedPositives:
    """Return ranks of three users with one, two and four positives among a hundred items, with one tie."""
    return RankedPositives(
        user=np.array([0, 1, 1, 2, 2, 2, 2]),
        item=np.array([0, 0, 1, 0, 1, 2, 3]),
        n_above=np.array([0, 1, 4, 0, 2, 2, 60]),
        n_tied=np.array([0, 0, 0, 0, 1, 1, 0]),
        n_candidates=np.full(7, 100),
        user_ids=np.arange(3),
        item_ids=np.arange(100),
        gain=np.array([1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0]),
        candidates_by_user=np.full(3, 100),
    )
