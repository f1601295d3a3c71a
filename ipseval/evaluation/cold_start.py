"""Users and items without training interactions: their share of an evaluation, and the first place without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ipseval.data.interactions import TrainingCounts
from ipseval.estimators import Estimate, Estimator, Sample, UserSums
from ipseval.evaluation.verdict import FirstPlace, ModelRanking
from ipseval.inference.comparisons import compute_pair_tests
from ipseval.inference.intervals import Key
from ipseval.ranking import RankedPositives
from ipseval.reporting.formatting import format_percent, join_names
from ipseval.utils.checks import format_count
from ipseval.utils.types import BoolArray

# Users of a smaller share change a mean of values between 0 and 1 by less than this share.
REPORTED_SHARE = 0.05
MAJORITY = 0.5


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """The evaluated users and items without training interactions.

    Attributes
    ----------
    n_users, n_items : int
        Evaluated users and items without training interactions.
    n_all_users, n_all_items : int
        All evaluated users and items.
    n_positives_of_users : int
        Held-out interactions of these users.
    n_all_positives : int
        All held-out interactions that entered the estimates.
    models_with_ties : tuple of str
        Recommenders that score all candidates of each of these users equally.
    first_places : dict
        (metric, estimator) -> the first recommenders among users with training interactions; empty where the
        share of users without them is not reported.
    """

    n_users: int
    n_items: int
    n_all_users: int
    n_all_items: int
    n_positives_of_users: int
    n_all_positives: int
    models_with_ties: tuple[str, ...] = ()
    first_places: dict[tuple[str, str], FirstPlace] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the users or of the held-out interactions, whichever is larger, in [0, 1]."""
        return max(self.n_users / self.n_all_users, self.n_positives_of_users / self.n_all_positives)

    @property
    def is_reported(self) -> bool:
        """Whether reports state the users without training interactions."""
        return self.share >= REPORTED_SHARE

    @property
    def has_warm_users(self) -> bool:
        """Whether any evaluated user has training interactions."""
        return self.n_users < self.n_all_users

    @property
    def is_majority_with_ties(self) -> bool:
        """Whether some recommender scores all items equally for more than half of the users or interactions."""
        return self.share > MAJORITY and bool(self.models_with_ties)


def describe_cold_users(cold_start: ColdStart) -> str:
    """Return the number of users without training interactions, and the recommenders that cannot rank for them."""
    n_users = cold_start.n_users
    share = format_percent(cold_start.n_positives_of_users / cold_start.n_all_positives)
    verb = "has" if n_users == 1 else "have"
    text = (
        f"{n_users:,} of {format_count(cold_start.n_all_users, 'user')} ({share} of the held-out interactions) "
        f"{verb} no training interactions."
    )
    models = cold_start.models_with_ties
    if not models:
        return text
    users = "this user" if n_users == 1 else "these users"
    if len(models) == 1:
        verbs = ("scores", "ranks")
        subject = "it"
    else:
        verbs = ("score", "rank")
        subject = "they"
    return (
        f"{text} {join_names(models)} {verbs[0]} all items equally for {users}, so {subject} {verbs[1]} the items "
        "at random."
    )


def measure_cold_start(
    samples: Mapping[str, Sample],
    counts: TrainingCounts | None,
    estimates: Mapping[Key, Estimate],
    estimators: Sequence[Estimator],
) -> ColdStart | None:
    """Count the users and items without training interactions; None without training data or positives."""
    if counts is None or not samples or not counts.activity.any():
        return None
    ranked = next(iter(samples.values())).ranked
    if not len(ranked) or counts.activity.size != ranked.unit_ids.size:
        return None
    is_cold = counts.activity == 0
    units = ranked.unit(ranked.user)
    is_of_cold_user = is_cold[units]
    items = np.unique(ranked.item)
    cold_start = ColdStart(
        n_users=np.unique(units[is_of_cold_user]).size,
        n_items=int((counts.popularity[items] == 0).sum()),
        n_all_users=np.unique(units).size,
        n_all_items=items.size,
        n_positives_of_users=int(is_of_cold_user.sum()),
        n_all_positives=len(ranked),
    )
    if not cold_start.is_reported:
        return cold_start
    models = []
    for model, sample in samples.items():
        if _are_all_tied(sample.ranked, is_of_cold_user):
            models.append(model)

    return replace(
        cold_start,
        models_with_ties=tuple(models),
        first_places=find_first_places(estimates, estimators, ~is_cold),
    )


def _are_all_tied(positives: RankedPositives, is_selected: BoolArray) -> bool:
    """Return whether each selected positive ties with all other candidates, of which there are some."""
    n_others = positives.n_candidates[is_selected] - 1
    n_tied = positives.n_tied[is_selected]
    return bool((n_tied == n_others).all() and n_others.any())


def find_first_places(
    estimates: Mapping[Key, Estimate], estimators: Sequence[Estimator], is_included: BoolArray
) -> dict[tuple[str, str], FirstPlace]:
    """Return (metric, estimator) -> the first recommenders among some users, as their own evaluation ranks them.

    The weights are taken as known. Estimators whose sums of a user depend on the other users are left out, as are
    single recommenders.
    """
    separable = {estimator.label for estimator in estimators if estimator.separable}
    selected: dict[Key, Estimate] = {}
    for key, estimate in estimates.items():
        if key[2] in separable and isinstance(estimate.sums, UserSums):
            selected[key] = replace(estimate, sums=estimate.sums.select_users(is_included))

    first_places: dict[tuple[str, str], FirstPlace] = {}
    for (metric, estimator), tests in compute_pair_tests(selected).items():
        rows = []
        for model in tests.place:
            rows.append((model, estimator, selected[model, metric, estimator].value))

        frame = pd.DataFrame(rows, columns=["model", "estimator", "estimate"])
        ranking = ModelRanking.from_rows(frame, tests)
        if not np.isnan(ranking.closest_p_value):
            first_places[metric, estimator] = FirstPlace.from_ranking(ranking)
    return first_places
