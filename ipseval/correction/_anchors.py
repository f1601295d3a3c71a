"""Anchors: values of recommenders that are known from outside the log, as observations of the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval._base.types import BoolArray, FloatArray
from ipseval.correction._path import CorrectionPath
from ipseval.data._evidence import Evidence
from ipseval.errors import InputError, UnknownNameError

ALARM, POWER = 0.05, 0.8  # of the check of anchors, over all of them; of the smallest error that it would see
KNOWN = (
    *("model", "reference", "metric", "known", "std_error", "expected", "expected_error", "z", "disagrees"),
    "smallest_error",
)


def check_known(evidence: Evidence, models: Iterable[str], metrics: Iterable[str]) -> None:
    """Raise `UnknownNameError` for known values of other recommenders or metrics; before any ranking."""
    for model, reference, metric, *_ in evidence.anchors:
        for name in (model, reference) if reference else (model,):
            if name not in models:
                raise UnknownNameError("recommender in known", name, models)
        if metric not in metrics:
            advice = "Ask for it by metrics=; it must be an average over relevant items."
            raise UnknownNameError("metric in known", metric, metrics, advice)


@dataclass(frozen=True, eq=False)
class Anchors:
    """Linear functions of the cells that were observed with errors: contrast · θ = value ± error.

    A ratio r ± s of two values is the observation θ₁ − rθ₂ = 0 ± s m, where m is expected of θ₂ before it.

    Attributes
    ----------
    labels : tuple of (model, reference, metric)
        The reference is "" where the value itself is known, and not a ratio.
    known, std_error : (n,) arrays
        As they were given.
    contrast : (n, n_cells) array
    scale : (n,) array
        1, or m of a ratio.
    """

    labels: tuple[tuple[str, str, str], ...]
    known: FloatArray
    std_error: FloatArray
    contrast: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, evidence: Evidence, path: CorrectionPath, expected: FloatArray) -> Anchors:
        """Return the anchors among the evidence; `expected` are the means of the cells without them."""
        place = {cell: number for number, cell in enumerate(path.cells)}
        metrics, unit = [one.label for one in path.metrics], np.eye(len(place))
        labels, contrast, scale = [], [], []
        check_known(evidence, path.models, metrics)
        for model, reference, metric, known, _ in evidence.anchors:
            if reference and expected[place[reference, metric]] <= 0:
                raise InputError(
                    f"{metric} of {reference!r} is expected to be 0, and nothing has a ratio to that; "
                    "leave it out of known."
                )
            row = unit[place[model, metric]]
            if reference:
                row = row - known * unit[place[reference, metric]]
            labels.append((model, reference, metric))
            contrast.append(row)
            scale.append(float(expected[place[reference, metric]]) if reference else 1.0)
        given = np.array([one[3:] for one in evidence.anchors], dtype=np.float64)
        return cls(tuple(labels), given[:, 0], given[:, 1], np.array(contrast), np.array(scale))

    @property
    def value(self) -> FloatArray:
        """What the contrasts are observed to be, (n,)."""
        return np.where([label[1] != "" for label in self.labels], 0.0, self.known)

    @property
    def error(self) -> FloatArray:
        """Standard errors of `value`, (n,)."""
        return self.std_error * self.scale

    def select(self, keep: BoolArray) -> Anchors | None:
        """Return some of the anchors, None of none."""
        labels = tuple(one for one, kept in zip(self.labels, keep, strict=True) if kept)
        arrays = (one[keep] for one in (self.known, self.std_error, self.contrast, self.scale))
        return Anchors(labels, *arrays) if labels else None

    def checked(self, posterior: Callable[[Anchors | None], Any]) -> pd.DataFrame:
        """Return each anchor beside what is expected without it, by the other ones and all other evidence.

        All anchors of one recommender are left out together, as one bucket gives them. `z` is the distance in
        standard errors of both; `disagrees` is true where it is told from 0, at .05 over all recommenders.
        `smallest_error` is what an anchor would have to be wrong by to be seen with a chance of .8.
        `posterior` is that under some anchors, or none.
        """
        arms = [one[:2] for one in self.labels]
        limit = float(ndtri(1 - ALARM / (2 * len(set(arms)))))
        rows = []
        for number, label in enumerate(self.labels):
            rest = posterior(self.select(np.array([one != arms[number] for one in arms])))
            mean, covariance = rest.total_mean, rest.total_covariance
            row, scale = self.contrast[number], self.scale[number]
            missed = (self.value[number] - row @ mean) / scale
            error = float(np.hypot(np.sqrt(max(row @ covariance @ row, 0)) / scale, self.std_error[number]))
            z = missed / error
            own = (self.known[number], self.std_error[number], self.known[number] - missed, error, z)
            rows.append((*label, *own, abs(z) > limit, (limit + float(ndtri(POWER))) * error))
        return pd.DataFrame(rows, columns=list(KNOWN))
