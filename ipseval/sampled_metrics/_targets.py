"""The value of each metric for one relevant item, as a function of its rank."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval._registry import lookup
from ipseval._types import FloatArray
from ipseval.errors import InputError

Curve = Callable[[FloatArray, FloatArray], FloatArray]


def _linear(rank: FloatArray, n: FloatArray) -> FloatArray:
    return (n - rank) / (n - 1)


def _reciprocal(rank: FloatArray, n: FloatArray) -> FloatArray:
    return 1 / rank


def _discount(rank: FloatArray, n: FloatArray) -> FloatArray:
    return 1 / np.log2(1 + rank)


def _one(rank: FloatArray, n: FloatArray) -> FloatArray:
    return np.ones(np.broadcast(rank, n).shape)


# With one relevant item AP is the reciprocal rank and the ideal DCG is 1, so several labels share a curve.
CURVES: dict[str, Curve] = {
    "auc": _linear,
    "atop": _linear,
    "ap": _reciprocal,
    "rr": _reciprocal,
    "ndcg": _discount,
    "dcg": _discount,
    "mean_dcg": _discount,
    "recall": _one,
    "hit": _one,
    "hits": _one,
    "precision": _one,
}
NEEDS_CUTOFF = ("recall", "hit", "hits", "precision")
NO_CUTOFF = ("auc", "atop")
_LABEL = re.compile(r"([a-z_]+)(?:@([1-9][0-9]*))?")
_RBP = re.compile(r"rbp\((0?\.[0-9]+)\)")


@dataclass(frozen=True)
class SingleTarget:
    """M(r), the value of a metric for one relevant item at rank r among n.

    Attributes
    ----------
    label : str
    curve : callable (rank, n) -> value
        Smooth in the rank; takes real ranks.
    cutoff : int or None
        M is 0 beyond this rank.
    """

    label: str
    curve: Curve
    cutoff: int | None = None

    def values(self, ranks: FloatArray, n_candidates: FloatArray | float) -> FloatArray:
        """Return M(r) for real ranks r >= 1, in the shape of `ranks`."""
        n = np.asarray(n_candidates, dtype=np.float64)
        value = self.curve(ranks, n)
        return value if self.cutoff is None else np.where(ranks <= self.cutoff, value, 0.0)

    def sampled_values(self, n_sampled: int) -> FloatArray:
        """Return M(r̃; m + 1) for r̃ = 1 … m + 1: the uncorrected metric on a sampled list."""
        return self.values(np.arange(1.0, n_sampled + 2), n_sampled + 1.0)


def single_target(metric: Any) -> SingleTarget:
    """Return the single-target form of a label ("recall@10") or of an object that carries a `label`.

    auc = atop = (n − r)/(n − 1); ap = rr = 1/r; ndcg = dcg = mean_dcg = 1/log2(1 + r); recall@k = hit@k =
    hits@k = 1{r ≤ k}; precision@k = 1{r ≤ k}/k; rbp(p) = (1 − p) p^(r − 1). With `@k` the value is 0 for
    r > k.

    Raises
    ------
    InputError
        For a label that does not parse, has a cutoff it cannot have, or lacks one it needs.
    UnknownNameError
        For a metric without a single-target form.
    """
    if isinstance(metric, SingleTarget):
        return metric
    label = metric if isinstance(metric, str) else getattr(metric, "label", None)
    if not isinstance(label, str):
        raise InputError(
            f"metric must be a label such as 'recall@10' or a metric object; got {type(metric).__name__}."
        )
    rbp = _RBP.fullmatch(label)
    if rbp:
        return SingleTarget(label, _rbp(float(rbp.group(1))))
    match = _LABEL.fullmatch(label)
    if match is None:
        raise InputError(
            f"metric label {label!r} does not parse; expected a form such as 'ndcg' or 'ndcg@10'."
        )
    name, k = match.group(1), match.group(2)
    curve = lookup(CURVES, name, "single-target metric")
    if k is None and name in NEEDS_CUTOFF:
        raise InputError(f"{name} needs a cutoff, for example {name + '@10'!r}.")
    if k is not None and name in NO_CUTOFF:
        raise InputError(f"{name} has no cutoff; write {name!r}.")
    if name == "precision":
        return SingleTarget(label, _precision(int(k)), int(k))
    return SingleTarget(label, curve, None if k is None else int(k))


def _precision(k: int) -> Curve:
    return lambda rank, n: _one(rank, n) / k


def _rbp(persistence: float) -> Curve:
    return lambda rank, n: (1 - persistence) * persistence ** (rank - 1)
