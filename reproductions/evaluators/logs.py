"""The registry of logs: each loader divides a log into the biased part, random exposure for fitting, and truth.

The users with random exposure are divided at random into two halves, anew for each split. An evaluator sees
the held-out interactions and the random exposure of the first half. The truth is what the second half liked
among items that were shown to them at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ipseval import Interactions
from ipseval.data import RandomExposure
from ipseval.propensity import Propensity
from ipseval.validation.datasets import (
    RandomExposureStudy,
    load_cm100k,
    load_coat,
    load_kuairand,
    load_kuairec,
    load_yahoo_r3,
)
from ipseval.validation.simulation import World

FitPropensity = Callable[[Interactions], Propensity]


@dataclass(frozen=True, eq=False, kw_only=True)
class DividedLog:
    """One division of a log. Everything is over the same user_ids and item_ids.

    Attributes
    ----------
    positives : Interactions
        Positive interactions of the biased log, of all users.
    interactions : Interactions or None
        All interactions of the biased log where some are not positive, such as all ratings.
    exposure : RandomExposure
        Items that were shown at random to the users whom evaluators see.
    truth : RandomExposure
        Items that were shown at random to the other users.
    test_fraction : float
        Share of each user's positives that is held out.
    measured : mapping of name to function
        Propensities that come with the log: training part -> Propensity.
    """

    positives: Interactions
    interactions: Interactions | None
    exposure: RandomExposure
    truth: RandomExposure
    test_fraction: float
    measured: dict[str, FitPropensity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for exposure, name in ((self.exposure, "exposure"), (self.truth, "truth")):
            exposure.check_ids(self.positives, f"log, for the {name}")
            if not exposure.positive.any():
                raise ValueError(f"the {name} must have a positive pair.")
        if np.isin(self.exposure.user, self.truth.user).any():
            raise ValueError("exposure and truth must have no user in common.")


LoadLog = Callable[[Path, int], DividedLog]
LOGS: dict[str, LoadLog] = {}


def add_log(name: str) -> Callable[[LoadLog], LoadLog]:
    """Return a decorator that adds a function (data folder, number of the split) -> DividedLog."""
    if name in LOGS:
        raise ValueError(f"the log {name!r} is there already. Choose another name.")

    def register(load: LoadLog) -> LoadLog:
        """Add the loader to the registry, and return it unchanged."""
        LOGS[name] = load
        return load

    return register


def divide_study(study: RandomExposureStudy, number: int, *, test_fraction: float) -> DividedLog:
    """Divide the users with random exposure into two random halves.

    Where the study has a part for calibration, the first half is seen with that part, so that pairs that
    propensities were counted on are not in the truth.
    """
    positives = study.positives().biased
    fitting_ratings = study.random
    if study.calibration is not None:
        fitting_ratings = study.calibration
    exposed_users = np.unique(study.random.user)
    rng = np.random.default_rng([number, exposed_users.size])
    first_half = rng.permutation(exposed_users)[: exposed_users.size // 2]
    second_half = np.setdiff1d(exposed_users, first_half)
    interactions = None
    if len(study.biased) > len(positives):
        interactions = study.biased
    return DividedLog(
        positives=positives,
        interactions=interactions,
        exposure=select_users(fitting_ratings, first_half, study.threshold),
        truth=select_users(study.random, second_half, study.threshold),
        test_fraction=test_fraction,
        measured=list_measured_propensities(study),
    )


def select_users(ratings: Interactions, users: np.ndarray, threshold: float) -> RandomExposure:
    """Return the random exposure of some users, from their ratings."""
    exposure = RandomExposure.from_ratings(ratings, threshold=threshold)
    return exposure.select(np.isin(exposure.user, users))


def list_measured_propensities(study: RandomExposureStudy) -> dict[str, FitPropensity]:
    """Return the propensities that come with a study: published or counted ones."""
    measured: dict[str, FitPropensity] = {}
    if study.propensity is not None:
        published = study.propensity

        def take_published(train: Interactions) -> Propensity:
            """Return the published propensities up to the factor of the held-out share."""
            del train
            return replace(published, is_probability=False)

        measured["published"] = take_published
    if study.counted_propensity is not None:
        counts = study.counted_propensity

        def fit_counts(train: Interactions) -> Propensity:
            """Return the counted propensities up to the share of pairs that are in the log."""
            return replace(counts.fit(train), is_probability=False)

        measured["counted"] = fit_counts
    return measured


@add_log("coat")
def divide_coat(folder: Path, number: int) -> DividedLog:
    """Coat: ratings of coats that users chose, and of coats that were shown to them at random."""
    return divide_study(load_coat(folder / "coat"), number, test_fraction=0.3)


@add_log("cm100k")
def divide_cm100k(folder: Path, number: int) -> DividedLog:
    """CM100K: liked tracks that users knew, and ratings of random tracks."""
    return divide_study(load_cm100k(folder / "cm100k", rng=number), number, test_fraction=0.5)


@add_log("kuairand")
def divide_kuairand(folder: Path, number: int) -> DividedLog:
    """KuaiRand: clicks of the feed, and videos that were inserted into it at random."""
    return divide_study(load_kuairand(folder / "kuairand"), number, test_fraction=0.2)


@add_log("yahoo-r3")
def divide_yahoo_r3(folder: Path, number: int) -> DividedLog:
    """Yahoo! R3: ratings of songs that users chose, and of songs that were shown to them at random."""
    return divide_study(load_yahoo_r3(folder / "yahoo-r3"), number, test_fraction=0.2)


@add_log("kuairec")
def divide_kuairec(folder: Path, number: int) -> DividedLog:
    """KuaiRec: watched videos, and a block of users and videos that is observed completely."""
    return divide_study(load_kuairec(folder / "kuairec"), number, test_fraction=0.2)


@add_log("simulated")
def divide_simulated(folder: Path, number: int) -> DividedLog:
    """A small simulated log that needs no data: exposure depends on the popularity of items."""
    del folder
    world = World(n_users=600, n_items=120, mean_relevant=20, gamma=0.0, max_propensity=0.6, rng=number)
    study = world.study(number, n_per_user=20)
    return divide_study(study, number, test_fraction=0.3)
