"""Semi-synthetic KuaiRand: likes by a factor model of its random exposure, and a log of its real users.

The probability of a like is a logistic factor model, fitted to the clicks on videos that were shown at random.
What a user meets follows a factorisation of the user's real clicks in the feed, the popularity of videos there,
and the user's activity. A world draws users, videos, likes and the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds
from scipy.special import expit, logit

from ipseval import Interactions, Split
from ipseval.validation.datasets import load_kuairand
from reproductions.correction_coat import recommenders
from reproductions.feedback_worlds import FeedbackWorld, log_of

N_LIKE_FACTORS = 8
N_LOG_FACTORS = 16
N_STEPS = 300
LEARNING_RATE = 0.05
PENALTIES = {"user": 2.0, "item": 2.0, "factors": 4.0}
DECAYS = (0.9, 0.999)  # of the moments of the gradient, as by Adam
N_USERS = 1500
N_ITEMS = 800
POSITIVES_PER_USER = 25.0
MAX_CHANCE = 0.9


@dataclass(frozen=True, eq=False)
class KuaiRandModel:
    """Scores of likes and of exposure of all users and videos of KuaiRand.

    Attributes
    ----------
    like_user, like_item : (n, N_LIKE_FACTORS + 2) arrays
        Factors of users and videos, whose product is the logit of the probability of a like.
    log_user, log_item : (n, N_LOG_FACTORS) arrays
        Factors of the real clicks.
    popularity : (n_items,) array
        Clicks of each video in the feed.
    activity : (n_users,) array
        Clicks of each user in the feed.
    """

    like_user: np.ndarray
    like_item: np.ndarray
    log_user: np.ndarray
    log_item: np.ndarray
    popularity: np.ndarray
    activity: np.ndarray

    def build(self, rng: np.random.Generator) -> tuple[Split, dict[str, Any], Interactions]:
        """Return a split of a log, trained recommenders, and the relevant pairs outside training."""
        world = self.build_world(rng)
        return world.split, world.models, world.left()

    def build_world(self, rng: np.random.Generator) -> FeedbackWorld:
        """Return the log of a world with trained recommenders, every pair that was met, and every like."""
        users = rng.choice(self.activity.size, N_USERS, replace=False)
        items = rng.choice(self.popularity.size, N_ITEMS, replace=False)
        liking = expit(self.like_user[users] @ self.like_item[items].T)
        is_liked = rng.random(liking.shape) < liking

        score = self.log_user[users] @ self.log_item[items].T
        score = (score - score.mean()) / score.std()
        popularity = np.log1p(self.popularity[items])
        popularity = (popularity - popularity.mean()) / popularity.std()
        strength = rng.uniform(0.3, 1.0, 2)
        form = np.exp(strength[0] * score.clip(-3, 3) + strength[1] * popularity)
        form *= np.sqrt(self.activity[users] + 1)[:, None]
        level = POSITIVES_PER_USER * N_USERS / (form * liking).sum()
        is_met = rng.random(form.shape) < np.minimum(level * form, MAX_CHANCE)

        is_training = rng.random(form.shape) < 0.8
        split = Split(log_of(is_met & is_liked & is_training), log_of(is_met & is_liked & ~is_training))
        models = {}
        for name, train in recommenders().items():
            models[name] = train(split.train)
        return FeedbackWorld("kuairand", split, models, log_of(is_met), is_liked)


def fit_kuairand(data: Path, cache: Path) -> KuaiRandModel:
    """Return the model of KuaiRand, from the folder of the cache if it is there."""
    file = cache / "kuairand-model.npz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        study = load_kuairand(data)
        like_user, like_item = fit_likes(study.random)
        clicks = study.biased.to_csr().astype(np.float64)
        log_user, log_item = factorise_clicks(clicks)
        np.savez(
            file,
            like_user=like_user,
            like_item=like_item,
            log_user=log_user,
            log_item=log_item,
            popularity=study.biased.popularity,
            activity=study.biased.activity,
        )
    with np.load(file) as arrays:
        return KuaiRandModel(**arrays)


def factorise_clicks(clicks: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of the clicks, with videos scaled by the root of their popularity."""
    scale = 1 / np.sqrt(np.asarray(clicks.sum(axis=0)).ravel() + 1)
    start = np.ones(min(clicks.shape))
    left, values, right = svds(clicks @ sparse.diags(scale), k=N_LOG_FACTORS, v0=start)
    return left * values, right.T


def fit_likes(random: Interactions) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of users and videos whose product is the logit of a click, by penalised likelihood."""
    rng = np.random.default_rng(0)
    assert random.value is not None
    clicked = random.value
    intercept = float(logit(clicked.mean()))
    parameters = {
        "user": np.zeros((random.n_users, 1)),
        "item": np.zeros((random.n_items, 1)),
        "user_factors": 0.1 * rng.standard_normal((random.n_users, N_LIKE_FACTORS)),
        "item_factors": 0.1 * rng.standard_normal((random.n_items, N_LIKE_FACTORS)),
    }
    rows = np.arange(len(random))
    ones = np.ones(len(random))
    to_user = sparse.csr_matrix((ones, (random.user, rows)), shape=(random.n_users, rows.size))
    to_item = sparse.csr_matrix((ones, (random.item, rows)), shape=(random.n_items, rows.size))
    first_moments = {name: np.zeros_like(value) for name, value in parameters.items()}
    second_moments = {name: np.zeros_like(value) for name, value in parameters.items()}
    for step in range(1, N_STEPS + 1):
        user_factors = parameters["user_factors"][random.user]
        item_factors = parameters["item_factors"][random.item]
        score = intercept + parameters["user"][random.user, 0] + parameters["item"][random.item, 0]
        score = score + (user_factors * item_factors).sum(axis=1)
        residual = (expit(score) - clicked)[:, None]
        gradients = {
            "user": to_user @ residual + PENALTIES["user"] * parameters["user"],
            "item": to_item @ residual + PENALTIES["item"] * parameters["item"],
            "user_factors": to_user @ (residual * item_factors)
            + PENALTIES["factors"] * parameters["user_factors"],
            "item_factors": to_item @ (residual * user_factors)
            + PENALTIES["factors"] * parameters["item_factors"],
        }
        for name, gradient in gradients.items():
            first = DECAYS[0] * first_moments[name] + (1 - DECAYS[0]) * gradient
            second = DECAYS[1] * second_moments[name] + (1 - DECAYS[1]) * gradient**2
            first_moments[name] = first
            second_moments[name] = second
            size = np.sqrt(second / (1 - DECAYS[1] ** step)) + 1e-8
            parameters[name] = parameters[name] - LEARNING_RATE * first / (1 - DECAYS[0] ** step) / size
    user_part = np.column_stack(
        [parameters["user"] + intercept, np.ones(random.n_users), parameters["user_factors"]]
    )
    item_part = np.column_stack([np.ones(random.n_items), parameters["item"], parameters["item_factors"]])
    return user_part, item_part
