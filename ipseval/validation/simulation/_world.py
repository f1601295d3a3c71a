"""World: users and items whose relevance and chance to be observed are known."""

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
from ipseval.metrics import metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.utils.checks import (
    as_generator,
    check_counts,
    check_fraction,
    check_positive_int,
    check_real,
)
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import among
from ipseval.utils.types import FloatArray, IntArray, RngLike, readonly
from ipseval.validation.datasets import RandomExposureStudy
from ipseval.validation.simulation._sampling import draw_distinct, uniform_hash

RELEVANT_RATING = 4
MAX_STRENGTH = 1e6  # beyond, exponentials of these overflow


def truth(
    models: Mapping[str, Any],
    metrics: Iterable[Any],
    split: Split,
    relevant: Interactions,
    *,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return model, metric, ideal, ideal_pooled, n_users, n_relevant, of `relevant` outside training."""
    rest = relevant.select(~among(relevant.pair_key, split.excluded.pair_key))
    everything = Split(split.train, rest, description="all relevant items", seen=split.seen)
    parsed = [metric(m) for m in metrics]
    if not (parsed and models):
        raise InputError("models and metrics must not be empty.")
    rows = []
    for name, model in models.items():
        ranked = rank_positives(model, everything, name=name, compute=compute)
        for m in parsed:
            values = m.user_values(ranked)
            rows.append(
                {
                    "model": name,
                    "metric": m.label,
                    "ideal": float(np.mean(values)),
                    "ideal_pooled": _pooled(m, values, ranked),
                    "n_users": int(ranked.users.size),
                    "n_relevant": len(ranked),
                }
            )
    return pd.DataFrame(rows)


def _pooled(m: Any, values: FloatArray, ranked: RankedPositives) -> float:
    size = ranked.counts.astype(np.float64)
    if m.kind == "mean":
        weight = size
    elif m.has_pairs:
        weight = size * (ranked.n_candidates[ranked.starts] - size)
    else:
        return float("nan")
    return float(np.sum(weight * values) / np.sum(weight))


@dataclass(frozen=True, eq=False)
class World:
    """A population with known relevance S_u and known propensity P_ui, drawn once from a seed.

    Relevance: user u draws s_u distinct items (log-normal around `mean_relevant`) with probability
    ∝ rank_i^(−popularity_skew) · exp(affinity · x_u·y_i), x and y of unit length and `n_factors` dimensions.

    Exposure: with n_i the number of users for whom i is relevant (its true popularity),

        P_ui = max_propensity · (n_i / max n)^a · exp(selection (x_u·y_i − 1) − self_selection (5 − r_ui))

    and a = η/(1 − η), η = (γ+1)/2. Then observed popularity n* ∝ n_i^(1+a), so that P_i ∝ (n*_i)^η: the power
    law of Yang et al. holds with exactly `gamma` when `selection` and `self_selection` are 0. With a positive
    `selection` users tend to meet what suits them, and with a positive `self_selection` they report what they
    rate highly; no weight per item can remove either.

    Parameters
    ----------
    n_users, n_items : int
        Sizes; memory and time grow with the number of relevant pairs, not with users × items.
    mean_relevant, relevant_spread : float
        Mean of s_u and the standard deviation of log s_u; s_u is kept in [1, n_items / 2].
    popularity_skew : float
        Zipf exponent of the items' appeal, >= 0.
    affinity : float
        How personal relevance is, >= 0; 0: all users have the same taste.
    n_factors : int
        Dimensions of taste.
    gamma : float
        γ < 1 of the exposure; −1: all items alike. γ >= 1 would need items that are liked by more people
        to be observed less in total.
    max_propensity : float
        P of the most popular item (at perfect affinity and rating), in (0, 1].
    selection, self_selection : float
        Strength of user × item selection and of self-selection by rating, >= 0.
    rng : int, Generator or None
        Source of the world; logs are drawn from it with generators of their own.

    Attributes
    ----------
    user_factors, item_factors : (n_users, n_factors), (n_items, n_factors) arrays of unit rows
    appeal : (n_items,) array
        Log of the item weight, −popularity_skew · log rank_i.
    n_relevant : (n_users,) int array
        s_u.

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
        for name, minimum in (("n_users", 1), ("n_items", 2), ("n_factors", 1)):
            check_positive_int(name, getattr(self, name), minimum=minimum)
        check_fraction("max_propensity", self.max_propensity, high_open=False)
        self._check_strengths()
        rng = as_generator(self.rng)
        appeal = -self.popularity_skew * np.log(rng.permutation(self.n_items) + 1.0)
        factors = [_unit_rows(rng.standard_normal((n, self.n_factors))) for n in (self.n_users, self.n_items)]
        spread = self.relevant_spread
        wanted = self.mean_relevant * np.exp(spread * rng.standard_normal(self.n_users) - spread**2 / 2)
        sizes = np.clip(np.rint(wanted), 1, self.n_items // 2).astype(np.int64)
        taste = (factors[0], factors[1], self.affinity) if self.affinity else None
        user, item = draw_distinct(sizes, appeal, rng, taste)
        order = np.argsort(user * np.int64(self.n_items) + item)
        relevant = Interactions(user[order], item[order], np.arange(self.n_users), np.arange(self.n_items))
        vars(self).update(
            appeal=readonly(appeal),
            user_factors=readonly(factors[0]),
            item_factors=readonly(factors[1]),
            n_relevant=readonly(sizes),
            relevant=relevant,
            _rating_seed=int(rng.integers(2**62)),
        )

    def _check_strengths(self) -> None:
        for name in ("relevant_spread", "popularity_skew", "affinity", "selection", "self_selection"):
            value = getattr(self, name)
            check_real(name, value, low=0, low_open=False)
            if value > MAX_STRENGTH:
                raise InputError(f"{name} must be at most {MAX_STRENGTH:g}; got {value!r}.")
        if not 1 <= self.mean_relevant <= self.n_items / 2:
            raise InputError(
                f"mean_relevant must be in [1, n_items / 2] = [1, {self.n_items / 2:g}]; "
                f"got {self.mean_relevant!r}."
            )
        if not -1 <= self.gamma < 1:
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
        return readonly(self.propensity_at(self.relevant.user, self.relevant.item))

    @cached_property
    def propensity(self) -> Propensity:
        """The true propensity on its true scale: per item, or per relevant pair under selection."""
        if self.selection == 0 and self.self_selection == 0:
            return Propensity(self.item_propensity, True, "known per item", self.n_items)
        return Propensity(
            None,
            True,
            "known per user–item pair",
            self.n_items,
            pair=self.relevant_propensity,
            pair_key=self.relevant.pair_key,
        )

    def propensity_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return P_ui of any pairs, (n_pairs,)."""
        user, item = self._codes(user, item)
        log_factor = np.zeros(user.size)
        if self.selection:
            log_factor += self.selection * (self.affinity_at(user, item) - 1)
        if self.self_selection:
            log_factor -= self.self_selection * (5 - self.rating_at(user, item))
        return np.asarray(self.item_propensity[item] * np.exp(log_factor))

    def affinity_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return x_u·y_i in [−1, 1] of each pair, (n_pairs,)."""
        user, item = self._codes(user, item)
        cosine = np.einsum("ij,ij->i", self.user_factors[user], self.item_factors[item])
        return np.asarray(np.clip(cosine, -1, 1), dtype=np.float64)

    def rating_at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the rating 1–5 of each pair, (n_pairs,): 4 or 5 where relevant, 1 to 3 elsewhere.

        Ratings rise with affinity and carry noise of the pair, the same at every call.
        """
        user, item = self._codes(user, item)
        key = user * np.int64(self.n_items) + item
        liking = (self.affinity_at(user, item) + 1) / 4 + uniform_hash(key, self._rating_seed) / 2
        is_relevant = among(key, self.relevant.pair_key)
        liked = np.where(liking > 0.5, 5.0, 4.0)
        return np.where(is_relevant, liked, np.minimum(np.floor(3 * liking) + 1, 3))

    def _codes(self, user: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
        user = check_codes("user", np.asarray(user), self.n_users)
        item = check_codes("item", np.asarray(item), self.n_items)
        if user.shape != item.shape:
            raise InputError(f"user and item must have one length; got {user.size} and {item.size}.")
        return user, item

    def with_ratings(self, log: Interactions) -> Interactions:
        """Return the pairs of `log` with their ratings 1–5 as value."""
        return replace(log, value=self.rating_at(log.user, log.item))

    def observe(self, rng: RngLike = None, *, scale: float = 1.0) -> Interactions:
        """Return one biased log: each relevant pair, independently, with probability `scale` · P_ui.

        Raises
        ------
        InputError
            When `scale` · P exceeds 1 somewhere.
        """
        return self.relevant.select(self._observed(as_generator(rng), scale))

    def split(self, rng: RngLike = None, *, train_scale: float = 1.0, test_scale: float = 1.0) -> Split:
        """Return a training log and a test log that was observed independently of it.

        The training log is one draw with probability `train_scale` · P_ui. The test log is a second draw,
        with `test_scale` · P_ui, from the relevant pairs that are not in the training log. So the candidates
        C_u (catalogue minus training items) do not depend on what the test shows, the test propensity *given
        the training log* is exactly `test_scale` · P_ui, and what is estimated is the average over S_u minus
        the training items: `World.truth` of this split.
        """
        generator = as_generator(rng)
        in_train = self._observed(generator, train_scale)
        in_test = self._observed(generator, test_scale) & ~in_train
        return Split(
            self.relevant.select(in_train),
            self.relevant.select(in_test),
            description="two independent logs of a simulated world",
        )

    def _observed(self, generator: np.random.Generator, scale: float) -> npt.NDArray[np.bool_]:
        chance = check_real("scale", scale) * self.relevant_propensity
        if not (scale > 0 and chance.max() <= 1):
            limit = 1 / self.relevant_propensity.max()
            raise InputError(f"scale must be in (0, {limit:.6g}], so that no P exceeds 1; got {scale!r}.")
        return np.asarray(generator.random(chance.size) < chance)

    def expose(self, n_per_user: int = 16, rng: RngLike = None) -> Interactions:
        """Return a random-exposure sample: per user, `n_per_user` uniformly drawn items with their ratings.

        A rating of 4 or 5 means relevant, so the positives are a simple random sample of S_u.
        """
        size = check_positive_int("n_per_user", n_per_user)
        if size > self.n_items:
            raise InputError(f"n_per_user must be at most n_items = {self.n_items}; got {size}.")
        sizes = np.full(self.n_users, size)
        user, item = draw_distinct(sizes, np.zeros(self.n_items), as_generator(rng))
        order = np.argsort(user * np.int64(self.n_items) + item)
        ids = (self.relevant.user_ids, self.relevant.item_ids)
        return self.with_ratings(Interactions(user[order], item[order], *ids))

    def study(self, rng: RngLike = None, *, n_per_user: int = 16, scale: float = 1.0) -> RandomExposureStudy:
        """Return a biased log and a random-exposure sample as a study, for `ipseval.validate`.

        The biased log holds relevant pairs only (ratings 4 and 5). Its propensity is that of the whole log;
        that of a held-out part is `study.propensity.held_out(test_fraction=…, counted_on="log")`.
        """
        generator = as_generator(rng)
        return RandomExposureStudy(
            "simulated world",
            self.with_ratings(self.observe(generator, scale=scale)),
            self.expose(n_per_user, generator),
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
        """Return lists of the logging recommender: `length` distinct items each, value = rank.

        Items are drawn with probability ∝ (n*_i)^γ · exp(noise · z_i) without replacement, z_i standard
        normal: selection ∝ (n*)^γ, the assumption from which γ is fitted. `.popularity` of the result is the
        number of lists with each item.

        Parameters
        ----------
        popularity : (n_items,) counts
            Observed popularity n*_i; items with 0 are recommended as if they had ½.
        length, n_lists : int
            Items per list, and number of lists (default: one per user).
        noise : float
            Standard deviation of an item effect that popularity does not explain.
        """
        counts = np.maximum(check_counts("popularity", popularity, size=self.n_items), 0.5)
        check_positive_int("length", length)
        if check_real("noise", noise, low=0, low_open=False) > MAX_STRENGTH:
            raise InputError(f"noise must be at most {MAX_STRENGTH:g}; got {noise!r}.")
        if length > self.n_items:
            raise InputError(f"length must be at most n_items = {self.n_items}; got {length}.")
        lists = self.n_users if n_lists is None else check_positive_int("n_lists", n_lists)
        generator = as_generator(rng)
        log_weight = self.gamma * np.log(counts) + noise * generator.standard_normal(self.n_items)
        row, item = draw_distinct(np.full(lists, length), log_weight, generator)
        ids = self.relevant.user_ids if lists == self.n_users else np.arange(lists)
        rank = np.tile(np.arange(1, length + 1), lists)
        return Interactions(row, item, ids, self.relevant.item_ids, value=rank)

    def example_models(self, split: Split, rng: RngLike = None) -> dict[str, Any]:
        """Return scorers of different quality and taste for popularity, to have something to evaluate.

        "taste": the true appeal and affinity; "noisy": factors with noise; "niche": affinity alone;
        "popular": training popularity; "appeal": true item appeal; "random". All are factor tuples.
        """
        if not isinstance(split, Split) or (split.n_users, split.n_items) != (self.n_users, self.n_items):
            raise InputError(
                f"the split must be one of this world, {self.n_users} × {self.n_items}; got {split!r}."
            )
        generator = as_generator(rng)
        scaled = self.affinity * self.user_factors
        noise = [0.5 * generator.standard_normal(a.shape) for a in (self.user_factors, self.item_factors)]
        none = np.zeros((self.n_users, 1)), np.zeros((self.n_items, 1))
        jitter = generator.random(self.n_items)  # breaks ties of popularity, one order for all users
        return {
            "taste": (scaled, self.item_factors, self.appeal),
            "noisy": (scaled + noise[0], self.item_factors + noise[1], self.appeal),
            "niche": (scaled, self.item_factors),
            "popular": (*none, split.train.popularity + jitter),
            "appeal": (*none, self.appeal),
            "random": tuple(generator.standard_normal((n, 2)) for n in (self.n_users, self.n_items)),
        }

    def truth(
        self,
        models: Mapping[str, Any],
        metrics: Iterable[Any],
        split: Split,
        *,
        compute: ComputeOptions = DEFAULT_COMPUTE,
    ) -> pd.DataFrame:
        """Return the exact value of every metric for every model on this split's S_u minus training items.

        `ideal` is the mean over users of the metric given S_u, which aoa, ips, snips and snips-global
        estimate. `ideal_pooled`, of pooled estimators, is Σ_u Σ_{i∈S_u} c / Σ_u s_u of means, the same over
        pairs of auc, else NaN.
        """
        return truth(models, metrics, split, self.relevant, compute=compute)


def _unit_rows(matrix: FloatArray) -> FloatArray:
    length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    return np.asarray(matrix / np.maximum(length, np.finfo(np.float64).tiny)[:, None])
