"""From labels to metrics: the registry, the one grammar name(parameters)@k, and the check of own metrics."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._additive import Atop, Cg, Dcg, Hits, MeanDcg, Recall
from ipseval.metrics._first_relevant import Hit, ReciprocalRank
from ipseval.metrics._ideal_list import Ndcg, Precision, Rbp
from ipseval.metrics._pairwise import Auc, AveragePrecision
from ipseval.metrics.base import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import counted, kind_of
from ipseval.utils.registry import Registry, from_outside, lookup


def checked(metric: Metric) -> Metric:
    """Return a metric; one from outside only if weights of 1 and of 2 leave its values as they are.

    A value that grows with the weights, such as Σwc, is no average: `snips` of it would be a wrong number.
    """
    if not from_outside(metric) or metric.corrects_sampling:
        return metric
    ranked = _sample()
    ones = np.ones(len(ranked))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            plain, *weighted = (metric.user_values(ranked, one) for one in (None, ones, 2 * ones))
            wrong = [not np.allclose(one, plain, rtol=1e-9, atol=1e-12, equal_nan=True) for one in weighted]
    except Exception:  # it may read data of the real ranks, which this sample has not
        return metric
    if any(wrong):
        constant = wrong.index(True) + 1
        found, expected = (float(np.nanmean(one)) for one in (weighted[constant - 1], plain))
        raise InputError(
            f"{metric.label} changes with constant weights (on a small example {found:.4g} on average with "
            f"weights of {constant}, {expected:.4g} without); divide by the sum of the user's weights, as in "
            "Σwc/Σw."
        )
    return metric


def _sample() -> RankedPositives:
    """Return made-up ranks: three users with one, two and four positives among a hundred items, one tie."""
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


def _metric_class(name: str, given: Any) -> type[Metric]:
    """Return a class of metrics that is registered by its own name."""
    if not (isinstance(given, type) and issubclass(given, Metric)):
        raise InputError(f"a metric is a class derived from ipseval.metrics.Metric; got {kind_of(given)}.")
    lacking = [one for one in ("name", "kind", "definition") if not hasattr(given, one)]
    lacking += sorted(getattr(given, "__abstractmethods__", ()))
    if lacking:
        raise InputError(f"the metric {given.__name__} does not define {', '.join(lacking)}.")
    if given.name != name or re.fullmatch("[a-z][a-z0-9_-]*", name) is None:
        raise InputError(
            f"the metric {given.__name__} has the name {given.name!r} and is registered as {name!r}; both "
            "must be equal, of small letters, digits and underscores."
        )
    return given


_OWN: list[type[Metric]] = [Recall, Precision, Cg, Dcg, MeanDcg, Atop, Auc, AveragePrecision, Ndcg]
_OWN += [ReciprocalRank, Hit, Rbp, Hits]
METRICS = Registry(
    "metric",
    "ipseval.metrics",
    {one.name: one for one in _OWN},
    _metric_class,
    {alias: one.name for one in _OWN for alias in one.aliases},
)

# Names that other libraries know, and what to ask for here.
_RATINGS = "It compares ratings: use ipseval.evaluation.evaluate_ratings."
_LISTS = "It describes lists, not test positives: use beyond_accuracy(models, split)."
ELSEWHERE = {
    "f1": "It mixes two metrics: ask for precision@k and recall@k.",
    "arhr": "It is the reciprocal rank of the first positive: rr@k.",
    **dict.fromkeys(("rmse", "mse", "mae"), _RATINGS),
    **dict.fromkeys(("coverage", "novelty", "diversity", "gini", "serendipity", "popularity"), _LISTS),
}

_LABEL = re.compile(
    r"^\s*(?P<name>[a-z][a-z0-9_-]*)\s*(?:\((?P<args>[^()]*)\))?\s*(?:@(?P<k>[^@()\[\]]*))?\s*$"
)


def metric(label: str | Metric, **parameters: Any) -> Metric:
    """Return the metric that a label names; parameters are those of `ipseval.metric`, but for sampling.

    Examples
    --------
    >>> metric("ndcg@10").label, metric("MAP@5").label
    ('ndcg@10', 'ap@5')
    """
    if not isinstance(label, str):
        if not isinstance(label, Metric):
            raise InputError(
                f"a metric is a label such as 'recall@10' or a Metric object; got {type(label).__name__}."
            )
        if parameters:
            raise InputError(f"{label.label} is a Metric object already; options go with a label.")
        return checked(label)
    match = _LABEL.match(label.lower())
    if match is None:
        raise InputError(
            f"cannot read the metric label {label!r}; expected name, name@k or name(parameter=value)@k."
        )
    name = match["name"]
    cut = {name: "Write the cutoff behind @, as in recall@10."} if re.search(r"_\d+$", name) else {}
    found = METRICS.find(name, ELSEWHERE | cut)
    given = _arguments(label, match["args"], found)
    repeated = sorted(given.keys() & parameters.keys())
    if repeated:
        raise InputError(f"metric {label!r}: {repeated[0]} is given in the label and as an argument.")
    given.update({key: str(value) for key, value in parameters.items()})
    values = {}
    for key, text in given.items():
        if not found.parameters:
            raise InputError(f"metric {label!r}: {found.name} takes no parameter.")
        parameter = lookup(found.parameters, key, f"parameter of {found.name}:")
        try:
            values[key] = parameter.parse(text)
        except InputError as error:
            raise InputError(f"metric {label!r}: {key}: {error}.") from None
    k = match["k"]
    if k is not None and re.fullmatch("[0-9]+", k.strip()) is None:
        raise InputError(f"metric {label!r}: the cutoff must be an integer >= 1; got {k!r}.")
    return checked(found(None if k is None else int(k), **values))


def _arguments(label: str, text: str | None, found: type[Metric]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for position, part in enumerate((text or "").split(",") if (text or "").strip() else []):
        key, equals, value = part.partition("=")
        if not equals:
            if position >= len(found.parameters):
                takes = counted(len(found.parameters), "parameter") if found.parameters else "no parameter"
                raise InputError(f"metric {label!r}: {found.name} takes {takes}.")
            key, value = list(found.parameters)[position], key
        if key.strip() in arguments:
            raise InputError(f"metric {label!r} gives {key.strip()} twice.")
        arguments[key.strip()] = value.strip()
    return arguments
