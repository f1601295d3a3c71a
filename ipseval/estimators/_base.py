"""What estimators read (a weighted sample of ranked positives) and what they return (sums per user)."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from ipseval._checks import counted
from ipseval._types import FloatArray, IntArray, TieChoice, readonly
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.metrics._claims import NRelevant
from ipseval.ranking import RankedPositives
from ipseval.ranking._run import available_cores

PART = 2**16  # positives whose intermediate arrays stay in the cache


@dataclass(frozen=True, eq=False)
class Sample:
    """The ranked positives of one recommender with their propensities: the input of every estimator.

    Attributes
    ----------
    ranked : RankedPositives
        Positives that have a propensity.
    propensity : (n_pos,) float array or None
        P of each positive; None when only unweighted estimators are asked for.
    is_probability : bool
        Whether P is on the scale of probabilities.
    n_relevant : (n_users,) float array or None
        s_u of every user of the population, where known.
    n_relevant_kind : {"known", "estimated", "absent"}
        "estimated": Σ 1/P of the user stands in for s_u.
    ties : str
        The tie rule for all metrics.
    n_without_propensity : int
        Positives left out because they have none.
    """

    ranked: RankedPositives
    propensity: FloatArray | None = None
    is_probability: bool = False
    n_relevant: FloatArray | None = None
    n_relevant_kind: NRelevant = "absent"
    ties: TieChoice = "default"
    n_without_propensity: int = 0
    _values: dict[tuple[Metric, bool], FloatArray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("propensity", "n_relevant"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, readonly(array))

    def __repr__(self) -> str:
        scale = "no propensity"
        if self.propensity is not None:
            scale = "probabilities" if self.is_probability else "propensity up to a factor"
        return f"Sample({self.ranked!r}; {scale})"

    @cached_property
    def weights(self) -> FloatArray:
        """Return w = 1/P of each positive, (n_pos,)."""
        assert self.propensity is not None
        return readonly(1.0 / self.propensity)

    @cached_property
    def user_weight(self) -> FloatArray:
        """Return Σw over each user's positives, (n_users_with_positives,)."""
        return readonly(self.ranked.sum_by_user(self.weights))

    def with_equal_propensities(self) -> Sample:
        """Return the same positives with P = 1, all else the same."""
        ones = np.ones(len(self.ranked))
        return Sample(
            self.ranked, ones, self.is_probability, self.n_relevant, self.n_relevant_kind, self.ties
        )

    def prepare(
        self, metrics: Iterable[Metric], weightings: Iterable[bool], n_threads: int | None = None
    ) -> None:
        """Compute what `user_values` gives for several metrics, part by part, in threads.

        The arrays of a part stay in the cache. Only for many positives, and metrics whose value of a user
        depends on that user alone; the others are computed when they are asked for.
        """
        chosen = [
            (metric, weighted)
            for metric in metrics
            for weighted in sorted(set(weightings))
            if getattr(metric, "by_user", False) and (metric, weighted) not in self._values
        ]
        if len(self.ranked) < 2 * PART or self.ranked.sampling is not None or not chosen:
            return

        def values(part: tuple[slice, RankedPositives]) -> list[FloatArray]:
            rows, ranked = part
            return [
                metric.user_values(ranked, self.weights[rows] if weighted else None, ties=self.ties)
                for metric, weighted in chosen
            ]

        n_threads = n_threads or available_cores()
        try:
            if n_threads == 1:
                made = [values(part) for part in self.ranked.parts(PART)]
            else:
                with ThreadPoolExecutor(n_threads) as pool:
                    made = list(pool.map(values, self.ranked.parts(PART)))
        except InputError:
            return  # raised again, with the numbers of the whole, when the value is asked for
        for place, key in enumerate(chosen):
            self._values[key] = readonly(np.concatenate([one[place] for one in made]))

    def user_values(self, metric: Metric, *, weighted: bool) -> FloatArray:
        """Return the metric of each user with positives, computed once per metric and weighting."""
        key = (metric, weighted)
        if key not in self._values:
            weights = self.weights if weighted else None
            self._values[key] = readonly(metric.user_values(self.ranked, weights, ties=self.ties))
        return self._values[key]


@dataclass(frozen=True, eq=False)
class UserSums:
    """Per-user sums from which an estimate and its uncertainty follow: R = (ΣN/ΣD) · (ΣV/n).

    Users are the independent units. Sums of x_u = (N_u, D_u, V_u) and of their products over users are all
    that inference reads, and they add up over any partition of the users.

    Attributes
    ----------
    users : (n,) int array
        User codes, ascending.
    numerator, denominator : (n,) float arrays
        N_u and D_u.
    volume : (n,) float array or None
        V_u, the factor that scales sum metrics to the observed volume; None stands for 1.
    n_undefined : int
        Users left out because the metric is undefined for them.
    """

    users: IntArray
    numerator: FloatArray
    denominator: FloatArray
    volume: FloatArray | None = None
    n_undefined: int = 0

    @classmethod
    def of(
        cls,
        users: IntArray,
        numerator: FloatArray,
        denominator: FloatArray | None = None,
        volume: FloatArray | None = None,
    ) -> UserSums:
        """Return the sums without the users whose numerator is NaN (metric undefined), which are counted."""
        if denominator is None:
            denominator = np.ones(users.size)
        defined = ~np.isnan(numerator)
        n_undefined = int((~defined).sum())
        if n_undefined:
            users, numerator, denominator = users[defined], numerator[defined], denominator[defined]
            volume = None if volume is None else volume[defined]
        return cls(users, numerator, denominator, volume, n_undefined)

    def __repr__(self) -> str:
        undefined = f", {self.n_undefined:,} left out" if self.n_undefined else ""
        return f"UserSums({counted(self.n_users, 'user')}{undefined})"

    @property
    def n_users(self) -> int:
        """Number of users that the estimate averages over."""
        return int(self.users.size)

    def value(self) -> float:
        """Return R; NaN without users or with a zero denominator."""
        total = float(self.denominator.sum())
        if self.n_users == 0 or total == 0:
            return float("nan")
        ratio = float(self.numerator.sum()) / total
        return ratio if self.volume is None else ratio * float(self.volume.mean())

    def influence(self) -> FloatArray:
        """Return ψ_u, (n,), with mean 0: R̂ − R ≈ mean ψ_u, so that SE² = Σψ²/(n(n − 1)).

        For a ratio ψ_u = (N_u − R D_u)/D̄; the volume factor adds its own variation by the product rule.
        """
        if self.n_users == 0 or self.denominator.sum() == 0:
            return np.full(self.n_users, np.nan)
        mean_denominator = self.denominator.mean()
        ratio = self.numerator.sum() / self.denominator.sum()
        psi = (self.numerator - ratio * self.denominator) / mean_denominator
        if self.volume is None:
            return np.asarray(psi)
        mean_volume = self.volume.mean()
        return np.asarray(psi * mean_volume + ratio * (self.volume - mean_volume))

    def user_estimates(self) -> FloatArray:
        """Return N_u/D_u, each user's own value, (n,); NaN where D_u = 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.denominator != 0, self.numerator / self.denominator, np.nan)


class Estimator(Protocol):
    """A way to weight and average the values of users.

    An estimator may also say by `weighting`, in words, and `positive_weights(sample)`, (n_pos,), up to a
    factor, how much each positive weighs in its estimates; without them that is taken to be 1/P.
    """

    @property
    def label(self) -> str:
        """What reports print."""

    @property
    def weighted(self) -> bool:
        """Whether it needs a propensity."""

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return the per-user sums of `metric` on `sample`."""
