"""Every claim shown to users, held against a simulated world whose truth is known.

The claims are read from the registry that cards and tables print, and every metric of the registry is
simulated. A level that has no check here is a failure. Ten users with fixed rankings and relevant items are
observed 20,000 times with independent chances P_i that fall with the rank, as popularity bias makes them;
repetitions are extra users of one evaluation. Their sums are then grouped into populations of 10, 100 and 1,000
users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import ipseval
from ipseval.estimators import card, claim
from ipseval.ranking import RankedPositives
from tests.golden import oracle
from tests.inside.estimators import ESTIMATORS_SHOWN
from tests.metric_labels import metric_labels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N_TYPES, N_ITEMS = 10, 30
LABELS = [*metric_labels(5, with_ratios=False), "precision(denominator=min)@5", "ap(denominator=s)@5"]
SIGMAS = 4


@dataclass(frozen=True)
class Truth:
    """1/|U| Σ_u value given S_u; Σ_uΣ c/Σ s_u (auc: won pairs over pairs); E m/P(m > 0)."""

    per_user: float
    pooled: float


class World:
    """Relevant items, ranks and chances of ten users; popular items are ranked high and seen often."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20_180_910)
        self.chance = np.linspace(0.85, 0.2, N_ITEMS)
        self.size = rng.integers(3, 8, size=N_TYPES)
        score = -np.arange(N_ITEMS) + rng.normal(scale=6, size=(N_TYPES, N_ITEMS))
        self.rank = (-score).argsort(axis=1).argsort(axis=1)  # 0-based
        place = rng.random((N_TYPES, N_ITEMS)).argsort(axis=1)
        self.relevant = place < self.size[:, None]
        seen = np.where(self.relevant, self.chance, 0.0)
        self.positives_per_active_user = seen.sum() / (1 - (1 - seen).prod(axis=1)).sum()

    def truth(self, label: str) -> Truth:
        name, k = oracle.parse_label(label)
        values, sums, weights = [], [], []
        for rank, relevant in zip(self.rank, self.relevant, strict=True):
            items = np.flatnonzero(relevant).tolist()
            user = oracle.User(dict(enumerate((-rank).astype(float).tolist())), dict.fromkeys(items, 1.0))
            value = oracle.user_value(name, k, user, weighted=False)
            values.append(value)
            per_pair = len(items) if ipseval.metric(label).kind == "mean" else 1
            weights.append(len(items) * (N_ITEMS - len(items)) if name == "auc" else per_pair)
            sums.append(value * weights[-1])
        total = sum(weights) if ipseval.metric(label).kind != "sum" else int(self.size.sum())
        return Truth(float(np.mean(values)), sum(sums) / total)

    def observe(self, repetitions: int, seed: int) -> RankedPositives:
        """Return the positives of `repetitions` × 10 users, one observation of the world after the other."""
        rng = np.random.default_rng(seed)
        seen = self.relevant & (rng.random((repetitions, N_TYPES, N_ITEMS)) < self.chance)
        repetition, kind, item = np.nonzero(seen)
        n_users = repetitions * N_TYPES
        return RankedPositives(
            repetition * N_TYPES + kind,
            item,
            self.rank[kind, item],
            np.zeros(item.size, dtype=int),
            np.full(item.size, N_ITEMS),
            np.arange(n_users),
            np.arange(N_ITEMS),
            candidates_by_user=np.full(n_users, N_ITEMS),
        )


WORLD = World()


@dataclass(frozen=True)
class Simulation:
    """All sums of one evaluation of many repetitions."""

    result: ipseval.Evaluation
    repetitions: int

    def estimates(self, label: str, estimator: str, n_users: int) -> np.ndarray:
        """Return the estimate of each group of `n_users` users: R = (ΣN/ΣD)(ΣV/n)."""
        sums = self.result.estimate("m", label, estimator).sums
        shape = (self.repetitions * N_TYPES // n_users, n_users)

        def grouped(values: np.ndarray) -> np.ndarray:
            every = np.zeros(shape[0] * shape[1])
            every[sums.users] = values
            return every.reshape(shape).sum(axis=1)

        ratio = grouped(sums.numerator) / grouped(sums.denominator)
        if sums.volume is None:
            return ratio
        return ratio * grouped(sums.volume) / grouped(np.ones(sums.users.size))

    def bias(self, label: str, estimator: str, n_users: int, truth: float) -> tuple[float, float]:
        """Return mean − truth over the groups, and its standard error."""
        values = self.estimates(label, estimator, n_users)
        return float(values.mean() - truth), float(values.std(ddof=1) / np.sqrt(values.size))


@cache
def simulate(repetitions: int, seed: int) -> Simulation:
    result = ipseval.evaluate_ranks(
        {"m": (ranked := WORLD.observe(repetitions, seed))},
        propensity=ipseval.KnownPropensity(item=WORLD.chance).fit(ranked),
        metrics=LABELS,
        estimators=ESTIMATORS_SHOWN,
        n_relevant=np.tile(WORLD.size, repetitions),
    )
    return Simulation(result, repetitions)


def target(label: str, estimator: str) -> float:
    """Return what is estimated: the pooled ideal, scaled for sum metrics, or the mean over users."""
    metric, truth = ipseval.metric(label), WORLD.truth(label)
    if metric.kind == "sum" and estimator in ("snips-global", "snips-pooled"):
        return truth.pooled * WORLD.positives_per_active_user
    if estimator.endswith("-pooled") and (metric.kind == "mean" or label == "auc"):
        return truth.pooled
    return truth.per_user


def exactly_unbiased(run: Simulation, label: str, estimator: str) -> None:
    for n_users in (10, 100):
        bias, error = run.bias(label, estimator, n_users, target(label, estimator))
        assert abs(bias) < SIGMAS * error, (n_users, bias, error)


def consistent(run: Simulation, label: str, estimator: str) -> None:
    """Bias ∝ 1/|U| and error ∝ 1/√|U|."""
    truth = target(label, estimator)
    (few, few_error), (many, many_error) = (run.bias(label, estimator, n, truth) for n in (10, 100))
    most, most_error = run.bias(label, estimator, 1000, truth)
    assert abs(few - 10 * many) < SIGMAS * np.hypot(few_error, 10 * many_error), (few, many)
    assert abs(most) < SIGMAS * most_error + abs(few) / 100, (few, most)
    spread = [run.estimates(label, estimator, n).std() for n in (10, 1000)]
    assert spread[0] / spread[1] == pytest.approx(10, rel=0.25)


def nearly_consistent(run: Simulation, label: str, estimator: str) -> None:
    """What stays is small beside the bias of aoa, and smaller than that of snips."""
    left, plain, per_user = (
        abs(run.bias(label, name, 1000, WORLD.truth(label).per_user)[0])
        for name in (estimator, "aoa", "snips")
    )
    assert left < 0.25 * plain
    assert left < 0.75 * per_user


def not_consistent(run: Simulation, label: str, estimator: str) -> None:
    """The bias of 100 users is still that of 1,000."""
    truth = target(label, estimator)
    (some, some_error), (many, many_error) = (run.bias(label, estimator, n, truth) for n in (100, 1000))
    assert abs(many) > SIGMAS * many_error, (many, many_error)
    assert abs(some - many) < SIGMAS * np.hypot(some_error, many_error)


def biased(run: Simulation, label: str, estimator: str) -> None:
    bias, error = run.bias(label, estimator, 1000, target(label, estimator))
    assert abs(bias) > SIGMAS * error, (bias, error)


def no_claim(run: Simulation, label: str, estimator: str) -> None:
    """A number comes out; nothing is promised of it."""
    assert np.isfinite(run.estimates(label, estimator, 1000)).all()


CHECKS: dict[str, Callable[[Simulation, str, str], None]] = {
    "exactly unbiased": exactly_unbiased,
    "consistent": consistent,
    "nearly consistent": nearly_consistent,
    "not consistent": not_consistent,
    "biased": biased,
    "no guarantee": no_claim,
}


def level(label: str, estimator: str) -> str:
    return claim(ipseval.metric(label), estimator, is_probability=True, n_relevant="known").level


@pytest.mark.parametrize("label", LABELS)
def test_the_table_prints_the_claim_that_is_tested(label: str):
    frame = simulate(400, 1).result.frame
    for estimator in ESTIMATORS_SHOWN:
        row = frame[(frame["metric"] == label) & (frame["estimator"] == estimator)]
        assert level(label, estimator) in row["claim"].item()
        assert row["claim"].item() in card(label)


@pytest.mark.parametrize("label", LABELS)
def test_exactly_unbiased_means_unbiased_in_a_short_simulation(label: str):
    assert level(label, "ips") == "exactly unbiased"
    exactly_unbiased(simulate(400, 1), label, "ips")


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS_SHOWN)
@pytest.mark.parametrize("label", LABELS)
def test_the_claim_holds(label: str, estimator: str):
    CHECKS[level(label, estimator)](simulate(20_000, 2), label, estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "estimator"),
    [
        (exactly_unbiased, "aoa"),
        (exactly_unbiased, "snips-pooled"),
        (consistent, "aoa-pooled"),
        (consistent, "snips"),
        (nearly_consistent, "snips"),
        (not_consistent, "ips"),
        (biased, "ips"),
    ],
)
@pytest.mark.parametrize("label", ["recall@5", "mean_dcg", "atop"])
def test_a_wrong_claim_would_be_found_out(check, estimator: str, label: str):
    with pytest.raises(AssertionError):
        check(simulate(20_000, 2), label, estimator)
