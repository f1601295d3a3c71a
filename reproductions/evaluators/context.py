"""The context of one split of one log: everything that an evaluator may read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval import Interactions, RankedPositives, Split, split_random
from ipseval.correction import Correction, correct_ranks
from ipseval.correction._correct import RanksWithExposure
from ipseval.correction.prediction_powered import list_pairs_to_predict, measure_training_overlap
from ipseval.data import RandomExposure
from ipseval.evaluation import evaluate_ranks
from ipseval.metrics import metric
from ipseval.propensity import Propensity
from ipseval.utils.ids import union_keys
from ipseval.validation._population import positive_pair_keys, rank_with_pairs, select_pairs
from reproductions.evaluators.logs import DividedLog
from reproductions.field_study import ONE_THREAD

METRICS = ("recall@10", "mean_dcg@10", "atop")
SMALL_SAMPLE = 100
Estimand = Literal["interactions", "users"]
# Estimand of an evaluator -> words of the column `estimand` of ipseval.
ESTIMAND_WORDS: dict[Estimand, str] = {
    "interactions": "mean over interactions",
    "users": "mean over users",
}
USER_ESTIMATORS = ("aoa", "snips", "snips-global", "ips")
Ranks = dict[str, RankedPositives]


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """What an evaluator may read of one split of one log; nothing of it is from the users of the truth.

    Attributes
    ----------
    split : Split
        `split.train` are the training interactions of all users, `split.test` the held-out interactions of
        the users whom evaluators see.
    models : dict of name to scorer
        Recommenders, trained on `split.train`.
    metrics : tuple of str
        Labels of the metrics to estimate.
    ranks : dict of name to RankedPositives
        Ranks of `split.test` by each recommender.
    exposure : RandomExposure
        Items outside training that were shown at random to the users whom evaluators see.
    liked_ranks : dict of name to RankedPositives
        Ranks of the liked pairs of `exposure`.
    interactions : Interactions or None
        All interactions of the log where some are not positive.
    measured : dict of name to Propensity
        Propensities that come with the log, up to a factor.
    test_fraction : float
        Share of the positives that is held out.
    seed : int
        Number of the split, for random draws.
    estimand : {"interactions", "users"} or None
        What the running evaluator was registered for; `evaluate` and `correct` check it. None: no check.
    """

    split: Split
    models: dict[str, object]
    metrics: tuple[str, ...]
    ranks: Ranks
    exposure: RandomExposure
    liked_ranks: Ranks
    interactions: Interactions | None
    measured: dict[str, Propensity]
    test_fraction: float
    seed: int
    pair_ranks: Ranks = field(repr=False)
    shown_exposure: RandomExposure = field(repr=False)
    results: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    estimand: Estimand | None = None

    def compute_once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, called once per split, for results that several evaluators share."""
        if key not in self.results:
            self.results[key] = make()
        return self.results[key]

    def evaluate(self, estimator: str, propensity: Propensity | None = None) -> pd.DataFrame:
        """Return estimates of one estimator of ipseval with 95% intervals, as an evaluator returns them.

        Estimators of the mean over users are computed over the users who have held-out and liked random
        items, as is their truth.

        Raises
        ------
        ValueError
            If the evaluator that runs was registered for another estimand than that of the estimator.
        """
        ranks = self.ranks
        if estimator in USER_ESTIMATORS:
            ranks = self.common_user_ranks
        frame = make_frame(ranks, estimator, propensity, self.metrics)
        self.check_estimand(estimator, frame["estimand"].iloc[0])
        return take_estimates(frame)

    @staticmethod
    def evaluate_ranks(
        ranks: Ranks, estimator: str, propensity: Propensity | None, metrics: tuple[str, ...]
    ) -> pd.DataFrame:
        """Return estimates from ranks with 95% intervals, one row per model and metric."""
        return take_estimates(make_frame(ranks, estimator, propensity, metrics))

    def check_estimand(self, estimator: str, estimated: str) -> None:
        """Raise `ValueError` if an estimator estimates something else than the evaluator is registered for."""
        if self.estimand is None or estimated == ESTIMAND_WORDS[self.estimand]:
            return
        fitting = [estimand for estimand, words in ESTIMAND_WORDS.items() if words == estimated]
        advice = "Use an estimator of a mean."
        if fitting:
            advice = f"Pass estimand={fitting[0]!r} to add_evaluator."
        raise ValueError(
            f"{estimator} estimates a {estimated}, but the evaluator is registered with "
            f"estimand={self.estimand!r}. {advice}"
        )

    @property
    def common_user_ranks(self) -> Ranks:
        """Ranks of held-out interactions of the users who liked a random item."""
        return select_common_users(self.ranks, self.liked_ranks)

    def draw_users(self, n_users: int) -> RandomExposure:
        """Return the exposure of some users, drawn at random; all of it if there are no more users."""
        return draw_users(self.exposure, n_users, self.seed)

    def correct(self, n_users: int | None, *, uses_interactions: bool = False) -> Correction:
        """Return the result of `ipseval.correct` with the exposure of some users, of none (0) or all (None)."""
        self.check_estimand("correct", ESTIMAND_WORDS["interactions"])
        key = ("correct", n_users, uses_interactions)
        return self.compute_once(key, lambda: self._correct(n_users, uses_interactions=uses_interactions))

    def _correct(self, n_users: int | None, *, uses_interactions: bool) -> Correction:
        """Compute the correction from the ranks of the split."""
        test_keys = self.split.test.pair_key
        no_keys = np.zeros(0, dtype=np.int64)
        exposure: RandomExposure | None = None
        liked_keys = no_keys
        candidate_keys = no_keys
        overlap = None
        if n_users != 0:
            exposure = self.exposure
            shown_exposure = self.shown_exposure
            if n_users is not None:
                exposure = self.draw_users(n_users)
                shown_exposure = select_exposure_users(shown_exposure, exposure.user)
            liked_keys = positive_pair_keys(exposure)
            candidate_keys = list_pairs_to_predict(exposure, self.split)
            overlap = measure_training_overlap(shown_exposure, self.split)
        interactions = None
        if uses_interactions:
            interactions = self.interactions
        ranks = RanksWithExposure(
            ranks=self.pair_ranks,
            test_keys=test_keys,
            liked_keys=liked_keys,
            exposure=exposure,
            candidate_keys=candidate_keys,
            overlap=overlap,
        )
        return correct_ranks(
            ranks,
            self.split,
            metrics=[metric(label) for label in self.metrics],
            interactions=interactions,
            rng=self.seed,
        )


def make_frame(
    ranks: Ranks, estimator: str, propensity: Propensity | None, metrics: tuple[str, ...]
) -> pd.DataFrame:
    """Return the rows of one estimator from the frame of an evaluation of ipseval."""
    frame = evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=metrics,
        estimators=[estimator],
        low_ess="ignore",
        compute=ONE_THREAD,
    ).frame
    return frame[frame["estimator"] == estimator]


def take_estimates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of an evaluator from a frame of ipseval with one estimator."""
    columns = {"ci_low": "low", "ci_high": "high"}
    renamed = frame.rename(columns=columns)
    return renamed[["model", "metric", "estimate", "low", "high"]].reset_index(drop=True)


def select_common_users(ranks: Ranks, liked_ranks: Ranks) -> Ranks:
    """Return the ranks of the users who have ranks of both kinds."""
    first_liked = next(iter(liked_ranks.values()))
    selected: Ranks = {}
    for name, ranked in ranks.items():
        selected[name] = ranked.select(np.isin(ranked.user, first_liked.users))
    return selected


def select_exposure_users(exposure: RandomExposure, users: np.ndarray) -> RandomExposure:
    """Return the exposure of some users."""
    return exposure.select(np.isin(exposure.user, users))


def draw_users(exposure: RandomExposure, n_users: int, seed: int) -> RandomExposure:
    """Return the exposure of some users, drawn at random."""
    users = np.unique(exposure.user)
    if n_users >= users.size:
        return exposure
    drawn = np.random.default_rng([seed, n_users]).choice(users, n_users, replace=False)
    return select_exposure_users(exposure, drawn)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedSplit:
    """A split that is ready for evaluators: their context, and the ranks of the truth.

    Attributes
    ----------
    context : Context
    truth_ranks : dict of name to RankedPositives
        Ranks of the liked pairs of the truth.
    truth_held_out_users : (n,) int array
        Users of the truth who have held-out interactions.
    users : (n,) int array
        All users with random exposure, of both halves.
    """

    context: Context
    truth_ranks: Ranks
    truth_held_out_users: np.ndarray
    users: np.ndarray


def prepare_split(
    log: DividedLog, number: int, trainers: Mapping[str, Callable[[Interactions], object]]
) -> PreparedSplit:
    """Train the recommenders on one split of a log, and rank all pairs that evaluators and truth need."""
    whole_split = split_random(log.positives, test_fraction=log.test_fraction, rng=number)
    is_seen = np.isin(whole_split.test.user, log.exposure.user)
    split = replace(whole_split, test=whole_split.test.select(is_seen))
    exposure = log.exposure.exclude(split.train)
    truth = log.truth.exclude(split.train)
    truth_keys = positive_pair_keys(truth)

    small_exposure = draw_users(exposure, SMALL_SAMPLE, number)
    pairs = union_keys(exposure.pair_key, truth_keys)
    for sample in (exposure, small_exposure):
        pairs = union_keys(pairs, list_pairs_to_predict(sample, split))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: train(split.train) for name, train in trainers.items()}
        all_ranks = rank_with_pairs(models, split, pairs, ONE_THREAD)

    seen_pairs = np.setdiff1d(union_keys(pairs, split.test.pair_key), truth_keys)
    context = Context(
        split=split,
        models=models,
        metrics=METRICS,
        ranks=select_pairs(all_ranks, split.test.pair_key, split.n_items),
        exposure=exposure,
        liked_ranks=select_pairs(all_ranks, positive_pair_keys(exposure), split.n_items),
        interactions=log.interactions,
        measured={name: fit(split.train) for name, fit in log.measured.items()},
        test_fraction=log.test_fraction,
        seed=number,
        pair_ranks=select_pairs(all_ranks, seen_pairs, split.n_items),
        shown_exposure=log.exposure,
    )
    return PreparedSplit(
        context=context,
        truth_ranks=select_pairs(all_ranks, truth_keys, split.n_items),
        truth_held_out_users=np.unique(whole_split.test.user[np.isin(whole_split.test.user, log.truth.user)]),
        users=np.union1d(log.exposure.user, log.truth.user),
    )
