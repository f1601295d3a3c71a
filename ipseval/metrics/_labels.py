"""Metric labels: `name`, `name@k`, `name(parameters)@k`, parsed and printed the same way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ipseval._registry import lookup
from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.metrics._additive import AdditiveMetric, Atop
from ipseval.metrics._auc import Auc
from ipseval.metrics._base import Definition, Metric
from ipseval.metrics._compat import compat_metric
from ipseval.metrics._list import Hit, ReciprocalRank
from ipseval.metrics._ndcg import Ndcg
from ipseval.metrics._pairwise import AveragePrecision
from ipseval.metrics._precision import TruncatedPrecision

GAINS = ("binary", "linear", "exponential")


def _one(rank: FloatArray) -> FloatArray:
    return np.ones_like(rank)


def _log_discount(rank: FloatArray) -> FloatArray:
    return 1 / np.log2(1 + rank)


# Values instead of closures, so that equal labels give equal metrics and metrics can be pickled.
@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, rank: FloatArray) -> FloatArray:
        return np.full_like(rank, self.value)


@dataclass(frozen=True)
class _Geometric:
    p: float

    def __call__(self, rank: FloatArray) -> FloatArray:
        return np.asarray((1 - self.p) * self.p ** (rank - 1))


def _recall(label: str, k: int | None) -> Metric:
    return AdditiveMetric(label, "mean", _one, Definition("Σ_{i∈S} 1{r_i ≤ k} / s", "s, never min(s, k)"), k)


def _hits(label: str, k: int | None) -> Metric:
    words = Definition("Σ_{i∈S} 1{r_i ≤ k} / s (queries with one target)", "s")
    return AdditiveMetric(label, "mean", _one, words, k)


def _precision(label: str, k: int | None, denominator: str = "k") -> Metric:
    if denominator == "min":
        assert k is not None
        return TruncatedPrecision(label, k)
    assert k is not None
    words = Definition("Σ_{i∈S} 1{r_i ≤ k} / k", "k, also for shorter lists", plug_in=_SUM_PLUG_IN)
    return AdditiveMetric(label, "sum", _Constant(1 / k), words, k)


def _dcg(label: str, k: int | None, gain: Any = "binary") -> Metric:
    words = Definition(
        "Σ_{i∈S} gain_i 1{r_i ≤ k} / log2(1 + r_i)", "none", "1/log2(1 + r)", plug_in=_SUM_PLUG_IN
    )
    return AdditiveMetric(label, "sum", _log_discount, words, k, gain)


def _mean_dcg(label: str, k: int | None) -> Metric:
    words = Definition("Σ_{i∈S} 1{r_i ≤ k} / log2(1 + r_i) / s", "s", "1/log2(1 + r)")
    return AdditiveMetric(label, "mean", _log_discount, words, k)


def _rbp(label: str, k: int | None, p: float = 0.8) -> Metric:
    words = Definition("(1 − p) Σ_{i∈S} p^(r_i − 1)", "none", "(1 − p) p^(r − 1)", plug_in=_SUM_PLUG_IN)
    return AdditiveMetric(label, "sum", _Geometric(p), words, k)


def _hit(label: str, k: int | None) -> Metric:
    assert k is not None
    return Hit(label, k)


_SUM_PLUG_IN = "|S*_u| Σwc/Σw per user; one normaliser for all users in the global and pooled forms"


@dataclass(frozen=True)
class MetricFamily:
    """One entry of `METRICS`: how labels of this name become metrics.

    Attributes
    ----------
    make : callable
        (label, cutoff, **parameters) -> Metric.
    cutoff : {"required", "optional", "none"}
        Whether `@k` must, may or cannot be given.
    parameters : dict
        Parameter name -> its default and a parser that checks the text.
    summary : str
        One line for the list of metrics.
    """

    make: Callable[..., Metric]
    cutoff: Literal["required", "optional", "none"]
    summary: str
    parameters: dict[str, tuple[Any, Callable[[str], Any]]]


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise InputError(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def _unit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
    if not 0 < value < 1:
        raise InputError(f"{text} is not in (0, 1)")
    return value


METRICS: dict[str, MetricFamily] = {
    "recall": MetricFamily(_recall, "required", "share of relevant items in the first k", {}),
    "precision": MetricFamily(
        _precision,
        "required",
        "share of the first k that is relevant",
        {"denominator": ("k", _choice("k", "min"))},
    ),
    "dcg": MetricFamily(
        _dcg, "optional", "discounted cumulative gain", {"gain": ("binary", _choice(*GAINS))}
    ),
    "mean_dcg": MetricFamily(_mean_dcg, "optional", "mean discount over relevant items (Yang et al.)", {}),
    "atop": MetricFamily(
        lambda label, k: Atop(label), "none", "mean share of items below a relevant one", {}
    ),
    "auc": MetricFamily(lambda label, k: Auc(label), "none", "relevant above non-relevant, Mann–Whitney", {}),
    "ap": MetricFamily(AveragePrecision, "optional", "average precision (its mean is MAP)", {}),
    "ndcg": MetricFamily(
        lambda label, k, gain="binary": Ndcg(label, k, gain),
        "optional",
        "dcg over the best possible dcg",
        {"gain": ("binary", _choice(*GAINS))},
    ),
    "rr": MetricFamily(ReciprocalRank, "optional", "reciprocal rank of the best relevant item", {}),
    "hit": MetricFamily(_hit, "required", "whether any relevant item is in the first k", {}),
    "rbp": MetricFamily(_rbp, "optional", "rank-biased precision", {"p": (0.8, _unit)}),
    "hits": MetricFamily(_hits, "required", "recall@k of queries with one target (link prediction)", {}),
}

_LABEL = re.compile(
    r"^\s*(?P<name>[a-z_]+)\s*(?:\((?P<args>[^()]*)\))?\s*(?:@(?P<k>[^@()\[\]]*))?\s*"
    r"(?:\[(?P<library>[^\[\]]*)\])?\s*$"
)


def metric(label: str | Metric, *, compat: str | None = None, **parameters: Any) -> Metric:
    """Return the metric that a label names; its repr is the label, `card()` its definition.

    Parameters
    ----------
    label : str
        "recall@10", "auc", "rbp(0.9)", "dcg(gain=exponential)@10"; a Metric object is returned as it is.
    compat : str, optional
        "ranx", "sklearn", "trec_eval", "implicit", "lenskit", "rectools" or "recbole": the metric by that
        library's convention, for `aoa` only; the label says so: "ndcg@10[lenskit]".
    **parameters
        The same as inside the parentheses: `metric("precision@10", denominator="min")`.

    Raises
    ------
    UnknownNameError
        For a name or parameter that does not exist.
    InputError
        For a cutoff that is missing, not allowed, or not an integer >= 1, or a bad parameter value.

    Examples
    --------
    >>> metric("ndcg@10").label
    'ndcg@10'
    >>> metric("recall@10", compat="lenskit")
    recall@10[lenskit]
    """
    if not isinstance(label, str):
        return _as_metric(label, compat, parameters)
    match = _LABEL.match(label.lower())
    if match is None:
        raise InputError(
            f"cannot read the metric label {label!r}; expected name, name@k or name(parameter=value)@k, "
            "and [library] after it for another library's convention."
        )
    family = lookup(METRICS, match["name"], "metric")
    given = _arguments(label, match["args"], family)
    repeated = sorted(given.keys() & parameters.keys())
    if repeated:
        raise InputError(f"metric {label!r}: {repeated[0]} is given in the label and as an argument.")
    given.update({key: str(value) for key, value in parameters.items()})
    values = {}
    for key, text in given.items():
        _, parse = lookup(family.parameters, key, f"parameter of {match['name']}:")
        try:
            values[key] = parse(text)
        except InputError as error:
            raise InputError(f"metric {label!r}: {key}: {error}.") from None
    cutoff = _cutoff(label, match["k"], family.cutoff)
    made = family.make(_print(match["name"], values, family, cutoff), cutoff, **values)
    library = match["library"] if match["library"] is not None else compat
    if compat not in (None, library):
        raise InputError(f"metric {label!r}: the label says [{library}], compat={compat!r}.")
    return made if library is None else compat_metric(match["name"], made, library)


def _as_metric(value: Any, compat: str | None, parameters: dict[str, Any]) -> Metric:
    """Return an object that is a metric already; anything else, or options beside it, is an error."""
    if not (hasattr(value, "user_values") and hasattr(value, "label")):
        raise InputError(
            f"a metric is a label such as 'recall@10' or a Metric object; got {type(value).__name__}."
        )
    if compat is not None or parameters:
        raise InputError(f"{value.label} is a Metric object already; options go with a label.")
    found: Metric = value
    return found


def _arguments(label: str, text: str | None, family: MetricFamily) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for position, part in enumerate((text or "").split(",") if (text or "").strip() else []):
        key, equals, value = part.partition("=")
        if not equals:
            if position >= len(family.parameters):
                raise InputError(f"metric {label!r} takes {len(family.parameters)} parameters.")
            key, value = list(family.parameters)[position], key
        if key.strip() in arguments:
            raise InputError(f"metric {label!r} gives {key.strip()} twice.")
        arguments[key.strip()] = value.strip()
    return arguments


def _cutoff(label: str, text: str | None, rule: str) -> int | None:
    if text is None:
        if rule == "required":
            raise InputError(f"metric {label!r} needs a cutoff, e.g. {label.strip()}@10.")
        return None
    if rule == "none":
        raise InputError(f"metric {label!r} takes no cutoff; it reads the whole ranking.")
    if re.fullmatch("[0-9]+", text.strip()) is None or int(text) < 1:
        raise InputError(f"metric {label!r}: the cutoff must be an integer >= 1; got {text!r}.")
    return int(text)


def _print(name: str, values: dict[str, Any], family: MetricFamily, cutoff: int | None) -> str:
    shown = [
        (key, value) for key, value in values.items() if value != family.parameters[key][0] or name == "rbp"
    ]
    # repr of a float has as many digits as it takes to read the same number back.
    inside = ",".join(f"{value!r}" if isinstance(value, float) else f"{key}={value}" for key, value in shown)
    return name + (f"({inside})" if inside else "") + ("" if cutoff is None else f"@{cutoff}")
