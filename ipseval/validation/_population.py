"""The users that are compared: estimates and their reference are averages over the same people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.base import Target
from ipseval.estimators.labels import plain_estimator
from ipseval.estimators.sample import weighted_sample
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import among, same_ids, union
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieChoice
from ipseval.validation._criteria import Estimates, contributions_of, estimates
from ipseval.validation.datasets import RandomExposureStudy

Ranks = dict[str, RankedPositives]


def shown_outside(study: RandomExposureStudy, split: Split, threshold: float | None = None) -> RandomExposure:
    """Return what was shown at random outside training, and what of it was liked."""
    split.check_seen_excluded("validation against random exposure")
    if not same_ids(split, study.biased):
        raise InputError("the split must be over the user_ids and item_ids of the study.")
    cut = study.threshold if threshold is None else threshold
    shown = RandomExposure.from_ratings(study.random, threshold=cut).without(split.train)
    if not shown.positive.any():
        raise InputError("every random-exposure positive is a training pair: there is no reference.")
    return shown


def liked_pairs(shown: RandomExposure) -> IntArray:
    """Return the keys of the pairs that were shown and liked."""
    return shown.pair_key[shown.positive]


@dataclass(frozen=True, eq=False)
class Compared:
    """Held-out and random positives of the same users, ranked by every recommender."""

    # Pooled averages are over all users with random exposure: a user without positives of a kind contributes
    # 0 to both sums, and dropping it from the other side only would bias the comparison. Averages over users
    # are over those with positives of both kinds. The mean of c over a user's random positives is unbiased
    # for its mean over S_u given that there is one, so both sides have the same expectation under right
    # weights. It is not the average over all users: the chance of a random positive rises with |S_u|.

    target: Target
    metrics: tuple[Metric, ...]
    held_out: Ranks
    random: Ranks
    ties: TieChoice

    @classmethod
    def of(
        cls,
        targets: Iterable[Target],
        metrics: Iterable[Metric],
        held_out: Ranks,
        random: Ranks,
        exposed: BoolArray,
        ties: TieChoice,
    ) -> dict[Target, Compared]:
        """Return the comparisons over the users with random exposure, (n_users,)."""
        pooled = cls("pooled", tuple(metrics), held_out, random, ties).only(exposed)
        made: dict[Target, Compared] = {}
        for target in targets:
            found = pooled
            if target == "user":
                users = np.zeros(exposed.size, dtype=bool)
                one, other = pooled.first
                users[np.intersect1d(one.users, other.users)] = True
                found = replace(pooled.only(users), target=target)
            if not found.n_users:
                raise InputError(
                    "no user has both held-out and random-exposure positives: nothing can be compared."
                )
            made[target] = found
        return made

    @property
    def plain(self) -> Estimator:
        """The plain average: on random positives the reference, on held-out ones the baseline."""
        return plain_estimator(self.target)

    @property
    def first(self) -> tuple[RankedPositives, RankedPositives]:
        """Held-out and random positives as the first recommender ranks them."""
        return next(iter(self.held_out.values())), next(iter(self.random.values()))

    @property
    def n_users(self) -> int:
        """Number of users with held-out positives."""
        return int(self.first[0].users.size)

    def only(self, users: BoolArray) -> Compared:
        """Return the comparison over some of the users, (n_users,)."""
        held_out, random = (users[one.user] for one in self.first)
        return replace(
            self,
            held_out={name: one.select(held_out) for name, one in self.held_out.items()},
            random={name: one.select(random) for name, one in self.random.items()},
        )

    @cached_property
    def reference(self) -> Estimates:
        """The plain averages over random positives."""
        samples = self._unweighted(self.random)
        return estimates(samples, self.metrics, self.plain, contributions_of(samples, self.metrics))

    @cached_property
    def baseline(self) -> Estimates:
        """The plain averages over held-out positives."""
        return self.estimates(self._unweighted(self.held_out), self.plain)

    @cached_property
    def contributions(self) -> FloatArray:
        """C of the held-out positives, (n_pos, K); NaN in a column for which there is none."""
        return contributions_of(self._unweighted(self.held_out), self.metrics)

    def estimates(self, samples: Mapping[str, Sample], kind: Estimator) -> Estimates:
        """Return the estimates from weighted held-out positives."""
        return estimates(samples, self.metrics, kind, self.contributions)

    def _unweighted(self, ranks: Ranks) -> dict[str, Sample]:
        return {name: weighted_sample(one, None, None, self.ties) for name, one in ranks.items()}

    def weighted(self, propensity: Propensity) -> tuple[Compared, Mapping[str, Sample]]:
        """Return the comparison without positives that have no propensity, and their weighted samples."""
        # A user who has none left leaves both sides of an average over users.
        samples = {
            name: weighted_sample(one, propensity, None, self.ties) for name, one in self.held_out.items()
        }
        first = next(iter(samples.values()))
        if not first.n_without_propensity:
            return self, samples
        left = replace(self, held_out={name: one.ranked for name, one in samples.items()})
        if self.target == "user":
            users = np.zeros(first.ranked.n_population, dtype=bool)
            users[first.ranked.users] = True
            left = left.only(users)
        return left, samples


def rank_beside(
    scorers: Mapping[str, Any], split: Split, pairs: IntArray, compute: ComputeOptions = DEFAULT_COMPUTE
) -> Ranks:
    """Return the ranks of held-out positives and of these pairs by every recommender, made in one pass."""
    key = union(split.test.pair_key, pairs)
    both = Interactions(key // split.n_items, key % split.n_items, split.user_ids, split.item_ids)
    whole = Split(split.train, both, description="held-out and random-exposure positives")
    return {name: rank_positives(one, whole, name=name, compute=compute) for name, one in scorers.items()}


def choose(ranks: Mapping[str, RankedPositives], pairs: IntArray, n_items: int) -> Ranks:
    """Return the ranked positives that are among the pairs with these keys."""
    first = next(iter(ranks.values()))
    keep = among(first.user * np.int64(n_items) + first.item, pairs)
    return {name: ranked.select(keep) for name, ranked in ranks.items()}
