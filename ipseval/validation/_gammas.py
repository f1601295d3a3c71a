"""Whether any γ of a power law reaches what random exposure shows, for all recommenders at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval._keys import union
from ipseval._types import FloatArray, IntArray
from ipseval.estimators import LinearForm
from ipseval.metrics import Metric
from ipseval.validation._estimates import Estimates
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
    reference: Estimates

    def at(self, gamma: float) -> Estimates:
        """Return R(γ)."""
        eta = (gamma + 1) / 2
        w = np.exp(-eta * (self.log_popularity - self.log_popularity.mean()))
        return Estimates.of_form(self.form, w, self.contributions)


class Gammas:
    """Differences R(γ) − reference over splits; filled by `add`, read by `frame`."""

    def __init__(self, models: Sequence[str], metrics: Sequence[Metric]) -> None:
        self.models, self.metrics = models, metrics
        self.parts: dict[str, list[_Part]] = {}

    def add(self, label: str, compared: Compared, log_popularity: FloatArray, form: LinearForm) -> None:
        """Add a split: what is compared, log(n* + 1) of the held-out positives, the form of the estimator."""
        values = compared.contributions(self.metrics)
        if not np.isnan(values[:1]).any():
            part = _Part(form, values, log_popularity, compared.reference(self.metrics))
            self.parts.setdefault(label, []).append(part)

    def frame(self, confidence_level: float) -> pd.DataFrame:
        """Return, per estimator and metric (and all together), the γ that are not rejected."""
        rows = []
        for label, parts in self.parts.items():
            found = _Found(parts)
            groups = {
                one.label: place * len(self.models) + np.arange(len(self.models))
                for place, one in enumerate(self.metrics)
            }
            if len(self.metrics) > 1:
                groups[ALL_METRICS] = np.arange(len(self.models) * len(self.metrics))
            for name, columns in groups.items():
                rows.append((name, label, *_search(found, columns, confidence_level)))
        return pd.DataFrame(rows, columns=COLUMNS)


@dataclass(frozen=True, eq=False)
class _Found:
    """Differences R(γ) − reference over splits, at the γ that were asked for."""

    parts: list[_Part]
    differences: dict[float, FloatArray] = field(default_factory=dict)
    covariances: dict[float, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @cached_property
    def users(self) -> IntArray:
        """Users of any split."""
        every = ((one.form.ranked.users, one.reference.users) for one in self.parts)
        return reduce(union, (users for pair in every for users in pair))

    @cached_property
    def places(self) -> list[tuple[IntArray, IntArray]]:
        """Places of the users of each split, and of its reference, among all."""
        return [
            (
                np.searchsorted(self.users, one.form.ranked.users),
                np.searchsorted(self.users, one.reference.users),
            )
            for one in self.parts
        ]

    @cached_property
    def references(self) -> tuple[FloatArray, FloatArray]:
        """Σ over splits of the references, (K,), and of what each user adds to their errors, (n_users, K)."""
        share = np.zeros((self.users.size, self.parts[0].contributions.shape[1]))
        for one, (_, place) in zip(self.parts, self.places, strict=True):
            share[place] += one.reference.share
        return np.sum([one.reference.value for one in self.parts], axis=0), share

    def largest(self, gammas: Sequence[float], columns: IntArray) -> dict[float, float]:
        """Return γ -> the largest |z| of some differences; infinite where there is none."""
        for gamma in gammas:
            if gamma not in self.differences:
                value, share = self._at(gamma)
                error = np.sqrt(np.einsum("uk,uk->k", share, share))
                z = np.divide(np.abs(value), error, out=np.full(value.size, -1.0), where=error > 0)
                self.differences[gamma] = z
        found = np.array([self.differences[gamma] for gamma in gammas])[:, columns].max(axis=1)
        return dict(zip(gammas, np.where(found >= 0, found, np.inf).tolist(), strict=True))

    def test(self, gamma: float, columns: IntArray, confidence_level: float) -> FamilyTest:
        """Return the joint test of some differences."""
        if gamma not in self.covariances:
            value, share = self._at(gamma)
            self.covariances[gamma] = (value, share.T @ share)
        value, covariance = self.covariances[gamma]
        parts = value[columns], covariance[np.ix_(columns, columns)]
        return family_test(*parts, confidence_level=confidence_level)

    def _at(self, gamma: float) -> tuple[FloatArray, FloatArray]:
        """Return R(γ) − reference, (K,), and what each user adds to its error, (n_users, K), over splits."""
        value, share = (-one for one in self.references)
        for one, (own, _) in zip(self.parts, self.places, strict=True):
            found = one.at(gamma)
            value += found.value
            share[own] += found.share
        return value / len(self.parts), share / len(self.parts)


def _search(
    found: _Found, columns: IntArray, confidence_level: float
) -> tuple[float, float, float, float, float, bool]:
    """Return the best γ, its largest |z| and p, and the range of tried γ that are not rejected."""
    largest = found.largest(GRID.tolist(), columns)
    best = min(largest, key=largest.__getitem__)
    fine = np.clip(np.round(best + FINE, 10), GRID[0], GRID[-1])
    largest |= found.largest(fine.tolist(), columns)
    best = min(largest, key=largest.__getitem__)
    # Between the quantile of one |Z| and that of Bonferroni the correlations decide; else they need not
    # be simulated.
    sure, hopeless = (ndtri(1 - (1 - confidence_level) / (2 * count)) for count in (1, max(1, columns.size)))

    def kept(gamma: float) -> bool:
        z = largest[gamma]
        return bool(
            z <= sure or (z <= hopeless and z <= found.test(gamma, columns, confidence_level).critical)
        )

    tried = sorted(largest)
    low = next((gamma for gamma in tried if kept(gamma)), float("nan"))
    high = next((gamma for gamma in reversed(tried) if kept(gamma)), float("nan"))
    p_value = float("nan")
    if np.isfinite(largest[best]):
        p_value = float(np.nanmin(found.test(best, columns, confidence_level).p_value))
    return best, largest[best], p_value, low, high, not np.isnan(low)
