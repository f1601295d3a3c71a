"""What was asked of an evaluation, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, InputError, PropensityError, UnknownNameError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.guarantees import NRelevant
from ipseval.estimators.labels import default_estimators, resolve_estimator
from ipseval.estimators.sample import Extent, NRelevantLike, check_sampled_lists, weighted_sample
from ipseval.inference.intervals import INTERVAL_METHODS
from ipseval.metrics import Metric
from ipseval.metrics.sampled.sampled_metric import requested_metrics
from ipseval.propensity import KnownPropensity, Propensity, parse_propensity
from ipseval.ranking import RankedPositives, SampledCandidates
from ipseval.ranking.ranked_positives import OWN_LIST
from ipseval.utils.checks import (
    as_generator,
    as_list,
    check_choice,
    check_fraction,
    distinct_labels,
    warn_user,
)
from ipseval.utils.peer_names import suggest_replacement
from ipseval.utils.types import IntervalMethod, LowEss, Missing, RngLike, TieChoice

DEFAULT_METRICS = ("recall@10", "mean_dcg@10")
TIES = ("default", "mean", "min", "max", "expected")
MISSING_LISTS = ("zero", "drop", "raise")
LOW_ESS = ("warn", "raise", "nan", "ignore")


class CommonOptions(TypedDict, total=False):
    """Options that `evaluate` describes, for every door."""

    missing_lists: Missing
    ties: TieChoice
    confidence_level: float
    n_relevant: NRelevantLike
    low_ess: LowEss


class Options(CommonOptions, total=False):
    """The same for doors that hold the sums of each user, and so may resample them."""

    interval: IntervalMethod
    rng: RngLike


def check_options(options: Mapping[str, Any], known: type) -> None:
    """Raise `UnknownNameError` for an option that a door does not take."""
    for name in options.keys() - known.__annotations__:
        raise UnknownNameError("option", name, known.__annotations__, suggest_replacement(name))


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of an evaluation, with labels resolved and every option checked."""

    metrics: Sequence[Metric]
    estimators: Sequence[Estimator]
    propensity: Propensity | None
    has_rewards: bool
    missing_lists: Missing = "zero"
    ties: TieChoice = "default"
    confidence_level: float = 0.95
    n_relevant: NRelevantLike = None
    low_ess: LowEss = "warn"
    interval: IntervalMethod = "normal"
    rng: RngLike = None

    @classmethod
    def of(
        cls,
        metrics: Iterable[str | Metric],
        estimators: Iterable[str | Estimator] | None,
        propensity: Propensity | None,
        has_rewards: bool = False,
        **options: Any,
    ) -> Request:
        """Return the request that labels, objects and options make."""
        check_options(options, Options)
        chosen = requested_estimators(estimators, propensity)
        asked = tuple(requested_metrics(metrics)), tuple(chosen)
        return cls(*asked, propensity, has_rewards=has_rewards, **options)

    def __post_init__(self) -> None:
        check_fraction("confidence_level", self.confidence_level)
        check_choice("low_ess", self.low_ess, LOW_ESS)
        check_choice("missing_lists", self.missing_lists, MISSING_LISTS)
        check_choice("ties", self.ties, TIES)
        check_choice("interval", self.interval, INTERVAL_METHODS)
        as_generator(self.rng)  # a wrong seed is an error also where nothing is drawn
        if isinstance(self.n_relevant, str):
            check_choice("n_relevant", self.n_relevant, ("estimated",))
        lacking = [one.label for one in self.estimators if one.needs_rewards and not self.has_rewards]
        if lacking:
            raise InputError(
                f"{', '.join(lacking)} need impressions. Use ipseval.policies.evaluate_rewards(models, "
                "split, Rewards(log)), log an ImpressionLog."
            )
        for one in self.estimators:
            for each in self.metrics:
                one.check(each, is_probability=self.is_probability, n_relevant=self.n_relevant_kind)

    @property
    def depth(self) -> int:
        """The largest cutoff of the metrics, at least 1."""
        return max(one.cutoff or 1 for one in self.metrics)

    @property
    def n_relevant_kind(self) -> NRelevant:
        """What is known of s_u."""
        if self.n_relevant is None:
            return "absent"
        return "estimated" if isinstance(self.n_relevant, str) else "known"

    @property
    def is_probability(self) -> bool:
        """Whether P is on the scale of probabilities."""
        return self.propensity is not None and self.propensity.is_probability

    def sample(self, ranked: RankedPositives) -> Sample:
        """Return the positives of one recommender that have a propensity, with it; there may be none."""
        return weighted_sample(ranked, self.propensity, self.n_relevant, self.ties, allow_empty=True)


def requested_estimators(
    estimators: Iterable[str | Estimator] | None, propensity: Propensity | None
) -> list[Estimator]:
    """Return the estimators that labels or objects name; those that need a propensity must have one."""
    if estimators is None:
        estimators = default_estimators(weighted=propensity is not None)
    given = [resolve_estimator(one) for one in as_list(estimators, "estimators")]
    chosen = distinct_labels(given, "estimators")
    weighted = [one.label for one in chosen if one.weighted]
    if weighted and propensity is None:
        raise PropensityError(
            f"{', '.join(weighted)} {'needs' if len(weighted) == 1 else 'need'} a propensity; pass "
            "propensity=PowerLawPropensity(gamma=…) or another model, or ask for aoa only."
        )
    return chosen


def fitted_propensity(propensity: Any, fit: Callable[[Any], Propensity]) -> Propensity | None:
    """Return the propensity that is given, or that `fit` makes of a model, or of the model a label names."""
    if isinstance(propensity, str):
        propensity = parse_propensity(propensity)
    if isinstance(propensity, (Mapping, pd.Series)):
        propensity = KnownPropensity(item=propensity)
    if propensity is None or isinstance(propensity, Propensity):
        return propensity
    if not hasattr(propensity, "fit") or isinstance(propensity, type):
        raise PropensityError(
            "propensity must be a Propensity or a model with fit(train), as PowerLawPropensity(gamma=0) is; "
            f"got {type(propensity).__name__}. Pass known values as {{item: P}}, or as "
            "KnownPropensity(item=…) or KnownPropensity(pair=…)."
        )
    return fit(propensity)


def warn_about_few_positives(extent: Extent, estimators: Sequence[Estimator]) -> None:
    """Warn of estimators that need more positives per user to correct anything."""
    for one in estimators:
        of = {"unit": extent.unit} if extent.n_clusters else {}  # of users a member need not be told
        text = one.caution(extent.counts, **of)
        if text:
            warn_user(text, DataWarning)


def check_candidates(candidates: Any, metrics: Sequence[Metric]) -> None:
    """Raise `InputError` for metrics that drawn candidates do not allow, and for a number of them."""
    if isinstance(candidates, (int, np.integer)) and not isinstance(candidates, bool):
        raise InputError(
            f"candidates={candidates} could be drawn in several ways: pass ipseval.SampledCandidates("
            f"{candidates}, rng=0), or 'all'."
        )
    if isinstance(candidates, SampledCandidates):
        check_sampled_lists(candidates.per, metrics)


def warn_about_sampling(ranked: RankedPositives, metrics: Sequence[Metric]) -> None:
    """Warn of metrics that take ranks in a sample, or in each user's own list, for ranks in the catalogue."""
    if ranked.sampling is None:
        if ranked.candidates.startswith(OWN_LIST) and not all(one.linear_in_rank for one in metrics):
            warn_user(
                "Ranks are among each user's own candidates. If these are the items shown at random, "
                "recommenders may stand in another order than in the catalogue (arXiv 2409.04810). Rank what "
                "was liked with candidates='all'.",
                DataWarning,
            )
        return
    # A metric that is linear in the rank is unbiased on a uniform sample.
    uniform = ranked.sampling.uniform
    plain = [one.label for one in metrics if not (one.corrects_sampling or (uniform and one.linear_in_rank))]
    if plain:
        n, m = int(np.median(ranked.sampling.n_candidates)), ranked.sampling.n_sampled
        warn_user(
            f"{', '.join(plain)}: computed on {m:,} sampled candidates of {n - 1:,}. Values are not "
            "comparable with those of the full ranking, and recommenders may change places. Rank all "
            "candidates, or correct with ipseval.metric(label, sampled='bv').",
            DataWarning,
        )
