"""Populations of users that are compared: estimates and their reference are averages over the same users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample, Snips
from ipseval.estimators.base import Target
from ipseval.estimators.labels import get_unweighted_estimator
from ipseval.estimators.sample import build_sample
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import is_member, same_ids, union_keys
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieChoice
from ipseval.validation._criteria import Estimates, compute_contributions, compute_estimates
from ipseval.validation.datasets import RandomExposureStudy

Ranks = dict[str, RankedPositives]


def exposure_outside_training(
    study: RandomExposureStudy, split: Split, threshold: float | None = None
) -> RandomExposure:
    """Return the random exposure without training pairs, with its positives at a threshold."""
    if not same_ids(split, study.biased):
        raise InputError("the split must be over the user_ids and item_ids of the study.")
    if threshold is None:
        threshold = study.threshold
    return remove_training_pairs(RandomExposure.from_ratings(study.random, threshold=threshold), split)


def remove_training_pairs(random_exposure: RandomExposure, split: Split) -> RandomExposure:
    """Return a random exposure without training pairs, or raise `InputError` if no positive remains."""
    split.check_seen_excluded("validation against random exposure")
    exposure = random_exposure.exclude(split.train)
    if not exposure.positive.any():
        raise InputError("every random-exposure positive is a training pair: there is no reference.")
    return exposure


def positive_pair_keys(exposure: RandomExposure) -> IntArray:
    """Return the keys of the positive pairs of a random exposure."""
    return exposure.pair_key[exposure.positive]


@dataclass(frozen=True, eq=False)
class PairedPositives:
    """Held-out and random positives of the same users, ranked by every recommender.

    Pooled averages are over all users with random exposure: a user without positives of one kind contributes
    0 to both sums, and dropping the user from the other kind only would bias the comparison. Averages over
    users are over the users with positives of both kinds. The mean of c over a user's random positives is
    unbiased for its mean over S_u given that there is one, so both kinds have the same expectation under
    correct weights. It is not the average over all users: the probability of a random positive rises with
    |S_u|.
    """

    target: Target
    metrics: tuple[Metric, ...]
    held_out: Ranks
    random: Ranks
    ties: TieChoice
    exposure: RandomExposure | None = None  # with the weights of the random positives; None for equal weights

    @classmethod
    def build_by_target(
        cls,
        targets: Iterable[Target],
        metrics: Iterable[Metric],
        held_out: Ranks,
        random: Ranks,
        has_exposure: BoolArray,
        ties: TieChoice,
        exposure: RandomExposure | None = None,
    ) -> dict[Target, PairedPositives]:
        """Return the comparison for each target, over the users with random exposure, (n_users,)."""
        everyone = cls(
            target="pooled",
            metrics=tuple(metrics),
            held_out=held_out,
            random=random,
            ties=ties,
            exposure=exposure,
        )
        pooled = everyone.select_users(has_exposure)
        comparisons: dict[Target, PairedPositives] = {}
        for target in targets:
            comparison = pooled._restrict_to_common_users() if target == "user" else pooled
            if not comparison.n_users:
                raise InputError(
                    "no user has both held-out and random-exposure positives: nothing can be compared."
                )
            comparisons[target] = comparison
        return comparisons

    def _restrict_to_common_users(self) -> PairedPositives:
        """Return the comparison of averages over the users with positives of both kinds."""
        held_out, random = self.first
        has_positives = np.zeros(held_out.n_population, dtype=bool)
        has_positives[np.intersect1d(held_out.users, random.users)] = True
        return replace(self.select_users(has_positives), target="user")

    @property
    def plain(self) -> Estimator:
        """Unweighted average (AOA): on random positives the reference, on held-out ones the baseline."""
        return get_unweighted_estimator(self.target)

    @property
    def first(self) -> tuple[RankedPositives, RankedPositives]:
        """Held-out and random positives as the first recommender ranks them."""
        held_out = next(iter(self.held_out.values()))
        random = next(iter(self.random.values()))
        return held_out, random

    @property
    def n_users(self) -> int:
        """Number of users with held-out positives."""
        held_out, _ = self.first
        return int(held_out.users.size)

    def select_users(self, users: BoolArray) -> PairedPositives:
        """Return the comparison over some of the users, (n_users,)."""
        first_held_out, first_random = self.first
        is_held_out_selected = users[first_held_out.user]
        is_random_selected = users[first_random.user]
        held_out = {}
        for name, ranked in self.held_out.items():
            held_out[name] = ranked.select(is_held_out_selected)

        random = {}
        for name, ranked in self.random.items():
            random[name] = ranked.select(is_random_selected)

        return replace(
            self,
            held_out=held_out,
            random=random,
        )

    @cached_property
    def reference(self) -> Estimates:
        """Averages over random positives, weighted by 1/π where the exposure has weights."""
        samples = self._build_unweighted_samples(self.random)
        contributions = compute_contributions(samples, self.metrics)
        estimator = self.plain
        if self.exposure is not None:
            estimator = Snips(normalize="pooled")
            for name, sample in samples.items():
                samples[name] = replace(sample, propensity=1 / _find_weights(sample.ranked, self.exposure))
        return compute_estimates(samples, self.metrics, estimator, contributions)

    @cached_property
    def baseline(self) -> Estimates:
        """Unweighted averages over held-out positives."""
        return self.compute_estimates(self._build_unweighted_samples(self.held_out), self.plain)

    @cached_property
    def contributions(self) -> FloatArray:
        """Contributions c of the held-out positives, (n_pos, K); NaN in a column without contributions."""
        return compute_contributions(self._build_unweighted_samples(self.held_out), self.metrics)

    def compute_estimates(self, samples: Mapping[str, Sample], estimator: Estimator) -> Estimates:
        """Return the estimates from weighted held-out positives."""
        return compute_estimates(samples, self.metrics, estimator, self.contributions)

    def _build_unweighted_samples(self, ranks: Ranks) -> dict[str, Sample]:
        """Return the samples of every recommender without weights."""
        samples: dict[str, Sample] = {}
        for name, ranked in ranks.items():
            samples[name] = build_sample(ranked, None, None, self.ties)

        return samples

    def weighted(self, propensity: Propensity) -> tuple[PairedPositives, Mapping[str, Sample]]:
        """Return the comparison without positives that have no propensity, and their weighted samples.

        A user without any remaining positive is dropped from both kinds in averages over users.
        """
        samples = {}
        for name, ranked in self.held_out.items():
            samples[name] = build_sample(ranked, propensity, None, self.ties)
        first = next(iter(samples.values()))
        if not first.n_without_propensity:
            return self, samples
        comparison = replace(self, held_out={name: sample.ranked for name, sample in samples.items()})
        if self.target == "user":
            has_positives = np.zeros(first.ranked.n_population, dtype=bool)
            has_positives[first.ranked.users] = True
            comparison = comparison.select_users(has_positives)
        return comparison, samples


def _find_weights(ranked: RankedPositives, exposure: RandomExposure) -> FloatArray:
    """Return the weights of ranked pairs of an exposure that has weights."""
    assert exposure.weight is not None
    keys = ranked.user * np.int64(exposure.n_items) + ranked.item
    order = np.argsort(exposure.pair_key)
    rows = order[np.searchsorted(exposure.pair_key, keys, sorter=order)]
    return np.asarray(exposure.weight[rows])


def rank_with_pairs(
    scorers: Mapping[str, object], split: Split, pairs: IntArray, compute: ComputeOptions = DEFAULT_COMPUTE
) -> Ranks:
    """Return the ranks of held-out positives and of other pairs by every recommender, made in one pass."""
    keys = union_keys(split.test.pair_key, pairs)
    positives = Interactions(
        keys // split.n_items, keys % split.n_items, user_ids=split.user_ids, item_ids=split.item_ids
    )
    ranking_split = Split(split.train, positives, description="held-out and random-exposure positives")
    ranks = {}
    for name, scorer in scorers.items():
        ranks[name] = rank_positives(scorer, ranking_split, name=name, compute=compute)
    return ranks


def select_pairs(ranks: Mapping[str, RankedPositives], pairs: IntArray, n_items: int) -> Ranks:
    """Return the ranked positives that are among the pairs with these keys."""
    first = next(iter(ranks.values()))
    is_selected = is_member(first.user * np.int64(n_items) + first.item, pairs)
    selected_ranks = {}
    for name, ranked in ranks.items():
        selected_ranks[name] = ranked.select(is_selected)

    return selected_ranks
