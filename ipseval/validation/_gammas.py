"""Whether any γ of a power law reaches what random exposure shows, for all recommenders at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval._types import FloatArray
from ipseval.estimators import LinearForm
from ipseval.metrics import Metric
from ipseval.validation._family import FamilyTest, family_test
from ipseval.validation._population import Compared

GRID = np.round(np.linspace(-1, 3, 41), 10)
FINE = np.round(np.linspace(-0.08, 0.08, 9), 10)
COLUMNS = ["metric", "estimator", "gamma", "max_z", "p_value", "gamma_low", "gamma_high", "explained"]
ALL_METRICS = "all"


@dataclass(frozen=True, eq=False)
class _Part:
    """Held-out positives of one split: contributions (n_pos, K) of all models and metrics, log(n* + 1)."""

    form: LinearForm
    contributions: FloatArray
    log_popularity: FloatArray

    def add_to(self, value: FloatArray, influence: FloatArray, gamma: float) -> None:
        """Add R(γ) and the influence of each user on it."""
        ranked, c = self.form.ranked, self.contributions
        eta = (gamma + 1) / 2
        w = np.exp(-eta * (self.log_popularity - self.log_popularity.mean()))
        if self.form.per_user:
            share = self.form.added(w, c)
            share /= ranked.sum_by_user(w)[:, None]
            mean = share.mean(axis=0)
            share -= mean
            share /= share.shape[0]
        else:
            w = w * self.form.base / (w @ self.form.base)
            mean = w @ c
            share = self.form.added(w, c)
            share -= ranked.sum_by_user(w)[:, None] * mean
        value += mean
        influence[ranked.users] += share


class Gammas:
    """Differences R(γ) − reference over splits; filled by `add`, read by `frame`."""

    def __init__(self, models: Sequence[str], metrics: Sequence[Metric]) -> None:
        self.keys = [(model, one) for one in metrics for model in models]
        self.metrics = [one.label for one in metrics]
        self.parts: dict[str, list[_Part]] = {}
        self.reference: dict[str, tuple[FloatArray, FloatArray]] = {}

    def add(self, label: str, compared: Compared, log_popularity: FloatArray, form: LinearForm) -> None:
        """Add a split: what is compared, log(n* + 1) of the held-out positives, the form of the estimator."""
        values = [found for key in self.keys if (found := compared.contributions(*key)) is not None]
        if len(values) < len(self.keys):
            return
        self.parts.setdefault(label, []).append(_Part(form, np.column_stack(values), log_popularity))
        value, influence = self.reference.get(
            label, (np.zeros(len(self.keys)), np.zeros((form.ranked.n_population, len(self.keys))))
        )
        for column, key in enumerate(self.keys):
            one = compared.reference(*key)
            value[column] += one.value
            influence[one.user_sums.users, column] += one.influence / one.sums.n_users
        self.reference[label] = (value, influence)

    def frame(self, confidence_level: float) -> pd.DataFrame:
        """Return, per estimator and metric (and all together), the γ that are not rejected."""
        rows = []
        for label in self.parts:
            found: dict[float, tuple[FloatArray, FloatArray]] = {}
            groups = {
                one: [k for k, key in enumerate(self.keys) if key[1].label == one] for one in self.metrics
            }
            if len(self.metrics) > 1:
                groups[ALL_METRICS] = list(range(len(self.keys)))
            for name, columns in groups.items():
                rows.append((name, label, *self._search(label, columns, found, confidence_level)))
        return pd.DataFrame(rows, columns=COLUMNS)

    def _search(
        self,
        label: str,
        columns: list[int],
        found: dict[float, tuple[FloatArray, FloatArray]],
        confidence_level: float,
    ) -> tuple[float, float, float, float, float, bool]:
        """Return the best γ, its largest |z| and p, and the range of tried γ that are not rejected."""

        def at(gamma: float) -> tuple[FloatArray, FloatArray]:
            if gamma not in found:
                found[gamma] = self._at(label, gamma)
            value, covariance = found[gamma]
            return value[columns], covariance[np.ix_(columns, columns)]

        def test(gamma: float) -> FamilyTest:
            return family_test(*at(gamma), confidence_level=confidence_level)

        largest = {float(gamma): _largest(*at(float(gamma))) for gamma in GRID}
        best = min(largest, key=largest.__getitem__)
        largest |= {
            float(gamma): _largest(*at(float(gamma)))
            for gamma in np.clip(np.round(best + FINE, 10), GRID[0], GRID[-1])
        }
        best = min(largest, key=largest.__getitem__)
        # Between the quantile of one |Z| and that of Bonferroni the correlations decide; else they need not
        # be simulated.
        sure, hopeless = (
            ndtri(1 - (1 - confidence_level) / (2 * count)) for count in (1, max(1, len(columns)))
        )
        kept = [
            gamma
            for gamma, z in largest.items()
            if z <= sure or (z <= hopeless and z <= test(gamma).critical)
        ]
        low, high = (min(kept), max(kept)) if kept else (float("nan"), float("nan"))
        p_value = float(np.nanmin(test(best).p_value)) if np.isfinite(largest[best]) else float("nan")
        return best, largest[best], p_value, low, high, bool(kept)

    def _at(self, label: str, gamma: float) -> tuple[FloatArray, FloatArray]:
        """Return R(γ) − reference (K,) and its covariance (K, K), over all splits."""
        value, influence = self.reference[label]
        value, influence = -value, -influence
        for part in self.parts[label]:
            part.add_to(value, influence, gamma)
        count = len(self.parts[label])
        return value / count, influence.T @ influence / count**2


def _largest(value: FloatArray, covariance: FloatArray) -> float:
    """Return the largest |z|; infinite where there is none."""
    error = np.sqrt(np.diagonal(covariance))
    known = error > 0
    return float(np.abs(value[known] / error[known]).max()) if known.any() else float("inf")
