"""World: a simulated population of users and items with known relevance and known propensities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.interactions import Interactions, check_codes
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.metrics import Metric, metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.utils.checks import (
    as_generator,
    check_counts,
    check_fraction,
    check_positive_int,
    check_real,
    to_real,
)
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import is_member
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray, RngLike, as_readonly
from ipseval.validation.datasets import RandomExposureStudy
from ipseval.validation.simulation._sampling import Taste, draw_distinct, uniform_hash

RELEVANT_RATING = 4
MAX_STRENGTH = 1e6  # exponentials of larger values overflow
STRENGTHS = ("relevant_spread", "popularity_skew", "affinity", "selection", "self_selection")


def compute_truth(
    models: Mapping[str, object],
    metrics: Iterable[str | Metric],
    split: Split,
    relevant: Interactions,
    *,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return the exact value of every metric for every model on all relevant pairs outside training.

    One row per model and metric: ideal, ideal_pooled, n_users and n_relevant, as in `World.truth`.
    """
    is_excluded = is_member(relevant.pair_key, split.excluded_pairs.pair_key)
    relevant_split = Split(
        split.train, relevant.select(~is_excluded), description="all relevant items", seen=split.seen
    )
    metric_objects = [metric(request) for request in metrics]
    if not (metric_objects and models):
        raise InputError("models and metrics must not be empty.")
    rows = []
    for name, model in models.items():
        ranked = rank_positives(model, relevant_split, name=name, compute=compute)
        for metric_object in metric_objects:
            values = metric_object.user_values(ranked)
            rows.append(
                {
                    "model": name,
                    "metric": metric_object.label,
                    "ideal": _average_values(metric_object, values, ranked),
                    "ideal_pooled": _pool_values(metric_object, values, ranked),
                    "n_users": int(ranked.users.size),
                    "n_relevant": len(ranked),
                }
            )
    return pd.DataFrame(rows)


def _average_values(metric: Metric, values: FloatArray, ranked: RankedPositives) -> float:
    """Return the mean of users' values, or the ratio of sums over users for a metric that is one."""
    sums = metric.ratio_sums(ranked)
    if sums is None:
        return float(np.mean(values))
    numerator, denominator = sums
    return float(np.sum(numerator) / np.sum(denominator))


def _pool_values(metric: Metric, values: FloatArray, positives: RankedPositives) -> float:
    """Return the mean of users' values over relevant items or pairs; NaN for metrics without such a mean."""
    n_relevant = positives.counts.astype(np.float64)
    if metric.kind == "mean":
        weight = n_relevant
    elif metric.has_pairs:
        weight = n_relevant * (positives.n_candidates[positives.starts] - n_relevant)
    else:
        return float("nan")
    return float(np.sum(weight * values) / np.sum(weight))


@public_class
@dataclass(frozen=True, eq=False)
class World:
    """Simulate a population with known relevance S_u and known propensity P_ui, drawn once from a seed.

    Relevance: user u draws s_u distinct items (log-normal around `mean_relevant`) with probability
    ∝ rank_i^(−popularity_skew) · exp(affinity · x_u·y_i), x and y of unit length and `n_factors` dimensions.

    Exposure: with n_i the number of users for whom i is relevant (its true popularity),

        P_ui = max_propensity · (n_i / max n)^a · exp(selection (x_u·y_i − 1) − self_selection (5 − r_ui))

    and a = η/(1 − η), η = (γ+1)/2. Then observed popularity n* ∝ n_i^(1+a), so that P_i ∝ (n*_i)^η: the power
    law of Yang et al. holds with exactly `gamma` when `selection` and `self_selection` are 0. With a positive
    `selection` users tend to be exposed to items that suit them, and with a positive `self_selection` they
    tend to report items that they rate highly; no weight per item can remove either.

    Parameters
    ----------
    n_users, n_items : int
        Sizes; memory and time grow with the number of relevant pairs, not with users × items.
    mean_relevant, relevant_spread : float
        Mean of s_u and the standard deviation of log s_u; s_u is kept in [1, n_items / 2].
    popularity_skew : float
        Zipf exponent of the items' appeal, >= 0.
    affinity : float
        Strength of personal taste, >= 0; 0: all users have the same taste.
    n_factors : int
        Dimensions of taste.
    gamma : float
        γ < 1 of the exposure; −1: all items have the same propensity. With γ >= 1, items that are relevant to
        more users would have to be observed less in total.
    max_propensity : float
        P of the most popular item (at perfect affinity and rating), in (0, 1].
    selection, self_selection : float
        Strength of user × item selection and of self-selection by rating, >= 0.
    rng : int, Generator or None
        Source of the population; logs are drawn with other generators.

    Attributes
    ----------
    user_factors, item_factors : (n_users, n_factors), (n_items, n_factors) arrays of unit rows
    appeal : (n_items,) array
        Log of the item weight, −popularity_skew · log rank_i.
    n_relevant : (n_users,) int array
        s_u.

    See Also
    --------
    ipseval.validate : Measure the bias of estimates of a simulated study.
    ipseval.split_random : Split a log that was observed.

    References
    ----------
    Yang et al., Unbiased Offline Recommender Evaluation for Missing-Not-At-Random Implicit Feedback,
    RecSys 2018, doi 10.1145/3240323.3240355.

    Examples
    --------
    >>> world = World(n_users=50, n_items=40, mean_relevant=5, rng=0)
    >>> world.n_relevant.sum() == len(world.relevant)
    np.True_
    >>> float(world.propensity.item.max())
    0.5
    """

    n_users: int = 2000
    n_items: int = 1000
    mean_relevant: float = 30.0
    relevant_spread: float = 0.5
    popularity_skew: float = 0.8
    affinity: float = 2.0
    n_factors: int = 8
    gamma: float = 0.0
    max_propensity: float = 0.5
    selection: float = 0.0
    self_selection: float = 0.0
    rng: RngLike = field(default=None, repr=False)

    user_factors: FloatArray = field(init=False, repr=False)
    item_factors: FloatArray = field(init=False, repr=False)
    appeal: FloatArray = field(init=False, repr=False)
    n_relevant: IntArray = field(init=False, repr=False)
    relevant: Interactions = field(init=False, repr=False)
    _rating_seed: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_parameters()
        rng = as_generator(self.rng)
        appeal = -self.popularity_skew * np.log(rng.permutation(self.n_items) + 1.0)
        user_factors = _draw_unit_rows(rng, self.n_users, self.n_factors)
        item_factors = _draw_unit_rows(rng, self.n_items, self.n_factors)
        n_relevant = self._draw_relevant_counts(rng)
        taste = Taste(user_factors, item_factors, self.affinity) if self.affinity else None
        user, item = draw_distinct(n_relevant, appeal, rng, taste)
        order = np.argsort(user * np.int64(self.n_items) + item)
        relevant = Interactions(user[order], item[order], np.arange(self.n_users), np.arange(self.n_items))
        vars(self).update(
            appeal=as_readonly(appeal),
            user_factors=as_readonly(user_factors),
            item_factors=as_readonly(item_factors),
            n_relevant=as_readonly(n_relevant),
            relevant=relevant,
            _rating_seed=int(rng.integers(2**62)),
        )

    def _draw_relevant_counts(self, rng: np.random.Generator) -> IntArray:
        """Return the log-normal numbers of relevant items of the users, in [1, n_items / 2]."""
        spread = self.relevant_spread
        normal = rng.standard_normal(self.n_users)
        counts = self.mean_relevant * np.exp(spread * normal - spread**2 / 2)
        return np.clip(np.rint(counts), 1, self.n_items // 2).astype(np.int64)

    def _check_parameters(self) -> None:
        """Raise `InputError` for a parameter out of range."""
        for name, minimum in (("n_users", 1), ("n_items", 2), ("n_factors", 1)):
            check_positive_int(name, getattr(self, name), minimum=minimum)
        check_fraction("max_propensity", self.max_propensity, high_open=False)
        for name in STRENGTHS:
            value = getattr(self, name)
            check_real(name, value, low=0, low_open=False)
            if value > MAX_STRENGTH:
                raise InputError(f"{name} must be at most {MAX_STRENGTH:g}; got {value!r}.")
        if not 1 <= to_real(self.mean_relevant) <= self.n_items / 2:
            raise InputError(
                f"mean_relevant must be in [1, n_items / 2] = [1, {self.n_items / 2:g}]; "
                f"got {self.mean_relevant!r}."
            )
        if not -1 <= to_real(self.gamma) < 1:
            raise InputError(
                f"gamma must be in [-1, 1); got {self.gamma!r}. From 1 on, observed popularity would no "
                "longer rise with true popularity, and no exposure by true popularity produces it."
            )

    @property
    def eta(self) -> float:
        """Exponent of P_i ∝ (n*_i)^η, η = (γ+1)/2."""
        return (self.gamma + 1) / 2

    @cached_property
    def item_propensity(self) -> FloatArray:
        """max_propensity · (n_i / max n)^a, (n_items,): the item part of P; n = 0 counts as 1."""
        popularity = np.maximum(self.relevant.popularity, 1)
        exponent = self.eta / (1 - self.eta)
        return np.asarray(self.max_propensity * (popularity / popularity.max()) ** exponent)

    @cached_property
    def relevant_propensity(self) -> FloatArray:
        """P_ui of every pair of `relevant`, (n_relevant_pairs,)."""
        return as_readonly(self.propensity_at(self.relevant.user, self.relevant.item))

    @cached_property
    def propensity(self) -> Propensity:
        """The true calibrated propensity: per item, or per relevant pair under selection."""
        if self.selection == 0 and self.self_selection == 0:
            return Propensity(self.item_propensity, True, "known per item", self.n_items)
        return Propensity(
            item=None,
            is_probability=True,
            model="known per user–item pair",
            n_items=self.n_items,
            pair=self.relevant_propensity,
            pair_key=self.relevant.pair_key,
        )

    def propensity_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return P_ui of any pairs.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the users and items.

        Returns
        -------
        (n_pairs,) float array
            Propensities in the order of the pairs.
        """
        user, item = self._check_pairs(user, item)
        log_factor = np.zeros(user.size)
        if self.selection:
            log_factor += self.selection * (self.affinity_at(user, item) - 1)
        if self.self_selection:
            log_factor -= self.self_selection * (5 - self.rating_at(user, item))
        return np.asarray(self.item_propensity[item] * np.exp(log_factor))

    def affinity_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return x_u·y_i in [−1, 1] of each pair.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the users and items.

        Returns
        -------
        (n_pairs,) float array
            Affinities in the order of the pairs.
        """
        user, item = self._check_pairs(user, item)
        cosine = np.einsum("ij,ij->i", self.user_factors[user], self.item_factors[item])
        return np.asarray(np.clip(cosine, -1, 1), dtype=np.float64)

    def rating_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the rating 1–5 of each pair: 4 or 5 where relevant, 1 to 3 elsewhere.

        Ratings rise with affinity and include noise of the pair, which is the same at every call.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the users and items.

        Returns
        -------
        (n_pairs,) float array
            Ratings in the order of the pairs.
        """
        user, item = self._check_pairs(user, item)
        keys = user * np.int64(self.n_items) + item
        liking = (self.affinity_at(user, item) + 1) / 4 + uniform_hash(keys, self._rating_seed) / 2
        is_relevant = is_member(keys, self.relevant.pair_key)
        rating_if_relevant = np.where(liking > 0.5, 5.0, 4.0)
        rating_if_not = np.minimum(np.floor(3 * liking) + 1, 3)
        return np.where(is_relevant, rating_if_relevant, rating_if_not)

    def _check_pairs(self, user: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
        """Return valid codes of users and items of equal length; raise `InputError` for others."""
        user = check_codes("user", np.asarray(user), self.n_users)
        item = check_codes("item", np.asarray(item), self.n_items)
        if user.shape != item.shape:
            raise InputError(f"user and item must have one length; got {user.size} and {item.size}.")
        return user, item

    def with_ratings(self, log: Interactions) -> Interactions:
        """Return the pairs of `log` with their ratings 1–5 as value.

        Parameters
        ----------
        log : Interactions
            Pairs of this population.

        Returns
        -------
        Interactions
            The same pairs in the same order; relevant pairs have the rating 4 or 5.
        """
        return replace(log, value=self.rating_at(log.user, log.item))

    def observe(self, rng: RngLike = None, *, scale: float = 1.0) -> Interactions:
        """Draw one biased log: each relevant pair, independently, with probability `scale` · P_ui.

        Parameters
        ----------
        rng : int, Generator or None, default None
            Source of the draw.
        scale : float, default 1.0
            Factor of all propensities.

        Returns
        -------
        Interactions
            The observed pairs.

        Raises
        ------
        InputError
            When `scale` · P exceeds 1 for a pair.

        See Also
        --------
        split : Draw a training log and a test log.
        expose : Draw a random-exposure sample.
        """
        return self.relevant.select(self._draw_observations(as_generator(rng), scale))

    def split(self, rng: RngLike = None, *, train_scale: float = 1.0, test_scale: float = 1.0) -> Split:
        """Draw a training log and a test log that is observed independently of it.

        The training log is one draw with probability `train_scale` · P_ui. The test log is a second draw,
        with `test_scale` · P_ui, from the relevant pairs that are not in the training log. So the candidates
        C_u (catalogue minus training items) do not depend on the test log, the test propensity *given the
        training log* is exactly `test_scale` · P_ui, and the estimand is the average over S_u minus the
        training items: `World.truth` of this split.

        Parameters
        ----------
        rng : int, Generator or None, default None
            Source of the draws.
        train_scale, test_scale : float, default 1.0
            Factors of all propensities.

        Returns
        -------
        Split
            Training and test log over the same users and items.
        """
        generator = as_generator(rng)
        in_train = self._draw_observations(generator, train_scale)
        in_test = self._draw_observations(generator, test_scale) & ~in_train
        return Split(
            self.relevant.select(in_train),
            self.relevant.select(in_test),
            description="two independent logs of a simulation",
        )

    def _draw_observations(self, generator: np.random.Generator, scale: float) -> BoolArray:
        """Return for each relevant pair whether it is observed."""
        probability = check_real("scale", scale) * self.relevant_propensity
        if not (scale > 0 and probability.max() <= 1):
            limit = 1 / self.relevant_propensity.max()
            raise InputError(f"scale must be in (0, {limit:.6g}], so that no P exceeds 1; got {scale!r}.")
        return np.asarray(generator.random(probability.size) < probability)

    def expose(self, n_per_user: int = 16, rng: RngLike = None) -> Interactions:
        """Draw a random-exposure sample: per user, `n_per_user` uniformly drawn items with their ratings.

        A rating of 4 or 5 means relevant, so the positives are a simple random sample of S_u.

        Parameters
        ----------
        n_per_user : int, default 16
            Number of items per user.
        rng : int, Generator or None, default None
            Source of the draw.

        Returns
        -------
        Interactions
            Pairs with ratings as value.
        """
        n_exposed = check_positive_int("n_per_user", n_per_user)
        if n_exposed > self.n_items:
            raise InputError(f"n_per_user must be at most n_items = {self.n_items}; got {n_exposed}.")
        sizes = np.full(self.n_users, n_exposed)
        user, item = draw_distinct(sizes, np.zeros(self.n_items), as_generator(rng))
        order = np.argsort(user * np.int64(self.n_items) + item)
        exposed = Interactions(
            user[order], item[order], user_ids=self.relevant.user_ids, item_ids=self.relevant.item_ids
        )
        return self.with_ratings(exposed)

    def study(self, rng: RngLike = None, *, n_per_user: int = 16, scale: float = 1.0) -> RandomExposureStudy:
        """Draw a biased log and a random-exposure sample as a study, for `ipseval.validate`.

        The biased log contains relevant pairs only (ratings 4 and 5). Its propensity is of the whole log; the
        propensity of a held-out part is `study.propensity.held_out(test_fraction=…, popularity_source="log")`.

        Parameters
        ----------
        rng : int, Generator or None, default None
            Source of the draws.
        n_per_user : int, default 16
            Number of randomly exposed items per user.
        scale : float, default 1.0
            Factor of all propensities of the biased log.

        Returns
        -------
        RandomExposureStudy
            The biased log, the random-exposure sample and, for `scale=1`, the true propensity.
        """
        generator = as_generator(rng)
        biased = self.with_ratings(self.observe(generator, scale=scale))
        random = self.expose(n_per_user, generator)
        return RandomExposureStudy(
            name="a simulated log",
            biased=biased,
            random=random,
            threshold=RELEVANT_RATING,
            propensity=self.propensity if scale == 1 else None,
        )

    def recommend(
        self,
        popularity: npt.ArrayLike,
        *,
        length: int = 50,
        n_lists: int | None = None,
        noise: float = 0.0,
        rng: RngLike = None,
    ) -> Interactions:
        """Draw lists of the logging recommender: `length` distinct items each, value = rank.

        Items are drawn with probability ∝ (n*_i)^γ · exp(noise · z_i) without replacement, z_i standard
        normal: selection ∝ (n*)^γ is the assumption from which γ is fitted. `.popularity` of the result is
        the number of lists with each item.

        Parameters
        ----------
        popularity : (n_items,) counts
            Observed popularity n*_i; items with 0 are recommended as if they had ½.
        length : int, default 50
            Items per list.
        n_lists : int, optional
            Number of lists. Default: one per user.
        noise : float, default 0.0
            Standard deviation of an item effect that popularity does not explain.
        rng : int, Generator or None, default None
            Source of the draw.

        Returns
        -------
        Interactions
            One pair per list and item.
        """
        counts = np.maximum(check_counts("popularity", popularity, size=self.n_items), 0.5)
        check_positive_int("length", length)
        if check_real("noise", noise, low=0, low_open=False) > MAX_STRENGTH:
            raise InputError(f"noise must be at most {MAX_STRENGTH:g}; got {noise!r}.")
        if length > self.n_items:
            raise InputError(f"length must be at most n_items = {self.n_items}; got {length}.")
        if n_lists is None:
            n_lists = self.n_users
        check_positive_int("n_lists", n_lists)
        generator = as_generator(rng)
        log_weight = self.gamma * np.log(counts) + noise * generator.standard_normal(self.n_items)
        row, item = draw_distinct(np.full(n_lists, length), log_weight, generator)
        list_ids = self.relevant.user_ids if n_lists == self.n_users else np.arange(n_lists)
        rank = np.tile(np.arange(1, length + 1), n_lists)
        return Interactions(row, item, list_ids, self.relevant.item_ids, value=rank)

    def example_models(self, split: Split, rng: RngLike = None) -> dict[str, Any]:
        """Return example scorers that differ in quality and in their preference for popular items.

        "taste": the true appeal and affinity; "noisy": factors with noise; "niche": affinity alone;
        "popular": training popularity; "appeal": true item appeal; "random". All are factor tuples.

        Parameters
        ----------
        split : Split
            A split of this population.
        rng : int, Generator or None, default None
            Source of the noise.

        Returns
        -------
        dict
            Name -> scorer.
        """
        if not isinstance(split, Split) or (split.n_users, split.n_items) != (self.n_users, self.n_items):
            raise InputError(
                f"the split must be one of this world, {self.n_users} × {self.n_items}; got {split!r}."
            )
        generator = as_generator(rng)
        scaled_user_factors = self.affinity * self.user_factors
        user_noise = 0.5 * generator.standard_normal(self.user_factors.shape)
        item_noise = 0.5 * generator.standard_normal(self.item_factors.shape)
        jitter = generator.random(self.n_items)  # breaks ties of popularity, one order for all users
        zero_user_factors = np.zeros((self.n_users, 1))
        zero_item_factors = np.zeros((self.n_items, 1))
        return {
            "taste": (scaled_user_factors, self.item_factors, self.appeal),
            "noisy": (scaled_user_factors + user_noise, self.item_factors + item_noise, self.appeal),
            "niche": (scaled_user_factors, self.item_factors),
            "popular": (zero_user_factors, zero_item_factors, split.train.popularity + jitter),
            "appeal": (zero_user_factors, zero_item_factors, self.appeal),
            "random": (
                generator.standard_normal((self.n_users, 2)),
                generator.standard_normal((self.n_items, 2)),
            ),
        }

    def truth(
        self,
        models: Mapping[str, Any],
        metrics: Iterable[Any],
        split: Split,
        *,
        compute: ComputeOptions = DEFAULT_COMPUTE,
    ) -> pd.DataFrame:
        """Compute the exact value of every metric for every model on this split's S_u minus training items.

        `ideal` is the mean over users of the metric given S_u, which aoa, ips, snips and snips-global
        estimate. `ideal_pooled`, of pooled estimators, is Σ_u Σ_{i∈S_u} c / Σ_u s_u for means, the same over
        pairs for auc, else NaN.

        Parameters
        ----------
        models : mapping
            Name -> scorer.
        metrics : iterable of str or Metric
            Labels or objects.
        split : Split
            A split of this population.
        compute : ComputeOptions
            As in `rank_positives`.

        Returns
        -------
        DataFrame
            Columns model, metric, ideal, ideal_pooled, n_users and n_relevant; one row per model and metric.
        """
        return compute_truth(models, metrics, split, self.relevant, compute=compute)


def _draw_unit_rows(rng: np.random.Generator, n_rows: int, n_columns: int) -> FloatArray:
    """Return a matrix of random rows of unit length."""
    matrix = rng.standard_normal((n_rows, n_columns))
    length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    return np.asarray(matrix / np.maximum(length, np.finfo(np.float64).tiny)[:, None])
