"""What random exposure says of weights: what they get wrong, and what no weight of an item can remove.

`check_weights` does what `ipseval.validate` does, and keeps two comparisons beside it: the popularity of the
weighted positives, and selection by user and item. docs/validation.md says what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import split_random
from ipseval.estimators import Estimator, Sample, UserSums
from ipseval.estimators.base import Target
from ipseval.estimators.labels import resolve_estimator
from ipseval.estimators.sample import build_sample
from ipseval.metrics import AdditiveMetric, metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.ranking.adapters import adapt
from ipseval.utils.types import FloatArray, IntArray, TieChoice
from ipseval.validation._accumulator import ValidationAccumulator
from ipseval.validation._calibration import with_seeds
from ipseval.validation._criteria import draw_user_weights
from ipseval.validation._population import (
    PairedPositives,
    exposure_outside_training,
    positive_pair_keys,
    rank_with_pairs,
    select_pairs,
)
from ipseval.validation.datasets import RandomExposureStudy
from reproductions.conditional_score import ConditionalScore, conditional_score
from reproductions.joint_test import family_test

POPULARITY, SELECTION = "popularity", "selection"
ANY_ITEM_WEIGHT = "any weight per item"
ALL_MODELS = "mean of all"
# An imbalance of popularity up to this many standard deviations is no fault of the weights: `snips-global`
# has as much with the true ones, by the noise of its users' means. (By convention .1 is poor balance.)
NEGLIGIBLE = {POPULARITY: 0.02, SELECTION: 0.0}
RIGHT = "nothing found"
Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False, repr=False)
class _ItemMean(AdditiveMetric):
    """Weighted mean of a number of the item, in the place of a metric: estimators balance it or do not."""

    of_item: FloatArray = field(kw_only=True)

    name = "item_mean"
    kind = "mean"

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the number of each positive's item."""
        return self.of_item[ranked.item]


@dataclass(frozen=True, eq=False)
class SplitBalance:
    """What the checks of one split need: all positives that are compared, and the items' log(n* + 1)."""

    pooled: PairedPositives
    log_popularity: FloatArray
    _made: dict[tuple[int, Target], tuple[RankedPositives, UserSums]] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def ranks(self) -> FloatArray:
        """Normalised ranks by every recommender, and their mean: held-out, then random positives."""
        held_out, random = self.pooled.held_out, self.pooled.random
        ranks = [
            np.concatenate([normalised_rank(part[name]) for part in (held_out, random)]) for name in random
        ]
        return np.column_stack([*ranks, np.mean(ranks, axis=0)])

    def selection(self, propensity: Propensity | None) -> ConditionalScore | None:
        """Return how the ranks shift the odds of being in the log beyond users, items and the propensity.

        None where the propensity is not known for the random positives.
        """
        user, item = (
            np.concatenate([getattr(one, of) for one in self.pooled.first]) for of in ("user", "item")
        )
        first = np.arange(user.size) < len(self.pooled.first[0])
        keep, offset = ~np.isnan(self.ranks).any(axis=1), None
        if propensity is not None:
            offset = np.log(propensity.for_pairs(user, item))
            if np.isnan(offset[~first]).any():
                return None
            keep &= ~np.isnan(offset)
            offset = offset[keep]
        n_users = self.pooled.first[0].n_population
        return conditional_score(
            user[keep], item[keep], first[keep], self.ranks[keep], n_users=n_users, offset=offset
        )

    @cached_property
    def mean(self) -> _ItemMean:
        """The mean of log popularity; it reads no rank: lists of any length do."""
        return _ItemMean(1, of_item=self.log_popularity)

    def _reference(self, compared: PairedPositives) -> UserSums:
        """Return the mean of log popularity over random positives, made once for the same ones."""
        random = compared.first[1]
        key = (id(random), compared.target)
        if key not in self._made:  # the positives are held, so that no identity returns
            made = compared.plain.sums(build_sample(random, None, None, "default"), self.mean)
            self._made[key] = random, made
        return self._made[key][1]

    def popularity(
        self, kind: Estimator, sample: Sample, compared: PairedPositives
    ) -> tuple[float, FloatArray]:
        """Return the standardised difference of log popularity, and its influence (n_users,).

        (mean by the estimator over held-out positives − plain mean over the random positives of the same
        users) / SD over random positives.
        """
        random = compared.first[1]
        spread = float(np.std(self.log_popularity[random.item]))
        reference = self._reference(compared)
        own = kind.sums(sample, self.mean)
        influence = np.zeros(random.n_population)
        for sums, sign in ((own, 1.0), (reference, -1.0)):
            influence[sums.users] += sign * sums.influence() / sums.n_users
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(own.value() - reference.value(), spread)), influence / spread


def normalised_rank(ranked: RankedPositives) -> FloatArray:
    """Return (n − r)/(n − 1) with mean ranks of ties, (n_pos,); all ranks beyond a list's end count alike."""
    n = ranked.n_candidates.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (n - 1 - ranked.n_above - ranked.n_tied / 2) / (n - 1)
    return np.where(n > 1, place, np.nan)


def is_per_item(propensity: Propensity, positives: RankedPositives, fold: IntArray) -> bool:
    """Return whether P depends on the item only, fold by fold of users where it was fitted that way."""
    if propensity.item is not None:
        return True
    values = propensity.for_pairs(positives.user, positives.item)
    known = ~np.isnan(values)
    n_folds = int(fold.max(initial=0)) + 1
    cell = positives.item[known] * n_folds + fold[positives.user[known]]
    log = np.log(values[known])
    low, high = np.full(int(cell.max()) + 1, np.inf), np.full(int(cell.max()) + 1, -np.inf)
    np.minimum.at(low, cell, log)
    np.maximum.at(high, cell, log)
    return bool((high - low)[cell].max() < 1e-9)


class Balance:
    """Averages over splits; filled by `add_…`, read by `frame`."""

    def __init__(self, models: Sequence[str]) -> None:
        self.features = {POPULARITY: ["log popularity"], SELECTION: [*models, ALL_MODELS]}
        self.total: dict[Key, tuple[FloatArray, FloatArray, int]] = {}
        self.per_item: dict[str, bool] = {}

    def add(self, key: Key, value: FloatArray, influence: FloatArray) -> None:
        """Add the numbers (k,) of one split and their influence (n_users, k)."""
        before, errors, count = self.total.get(key, (np.zeros_like(value), np.zeros_like(influence), 0))
        self.total[key] = (before + value, errors + influence, count + 1)

    def add_split(self, split: SplitBalance) -> None:
        """Add what holds for all weights of items: selection within them."""
        self._add_selection(ANY_ITEM_WEIGHT, split.selection(None))

    def add_propensity(
        self,
        label: str,
        propensity: Propensity,
        estimators: Sequence[tuple[Estimator, PairedPositives, Mapping[str, Sample]]],
        split: SplitBalance,
        fold: IntArray,
    ) -> None:
        """Add the balance of one propensity by each estimator, over the users that it is compared on."""
        per_item = is_per_item(propensity, split.pooled.first[0], fold)
        self.per_item[label] = self.per_item.get(label, True) and per_item
        if not per_item:
            self._add_selection(label, split.selection(propensity))
        for kind, compared, samples in estimators:
            value, influence = split.popularity(kind, next(iter(samples.values())), compared)
            self.add((label, kind.label, POPULARITY), np.array([value]), influence[:, None])

    def _add_selection(self, label: str, found: ConditionalScore | None) -> None:
        if found is not None:
            self.add((label, "", SELECTION), found.value, found.influence)

    def frame(self, confidence_level: float) -> pd.DataFrame:
        """Return one row per propensity, estimator, check and feature, with simultaneous intervals.

        Each of the two checks takes half of 1 − `confidence_level`, so that a right propensity gets a flag of
        either kind no more often than that.
        """
        rows = []
        level = 1 - (1 - confidence_level) / len(self.features)
        for (label, estimator, check), (value, influence, count) in self.total.items():
            mean, errors = value / count, influence / count
            test = family_test(mean, errors.T @ errors, confidence_level=level)
            for place, feature in enumerate(self.features[check]):
                reach = test.critical * test.std_error[place] if not np.isnan(test.z[place]) else np.nan
                low, high = float(mean[place] - reach), float(mean[place] + reach)
                rows.append(
                    {
                        "propensity": label,
                        "estimator": estimator,
                        "check": check,
                        "feature": feature,
                        "value": float(mean[place]),
                        "std_error": np.nan if np.isnan(reach) else float(test.std_error[place]),
                        "ci_low": low,
                        "ci_high": high,
                        "p_value": float(np.minimum(1, len(self.features) * test.p_value[place])),
                        "flag": None if np.isnan(reach) else bool(max(low, -high) > NEGLIGIBLE[check]),
                    }
                )
        return pd.DataFrame(rows).astype({"flag": "boolean"})


class _Keeping(ValidationAccumulator):
    """What a validation collects, with the last propensity fitted under each name."""

    fitted: dict[str, Propensity]

    def _fit_propensity(self, *, label: str, **arguments: Any) -> Propensity:
        propensity = super()._fit_propensity(label=label, **arguments)
        self.fitted = {**getattr(self, "fitted", {}), label: propensity}
        return propensity


@dataclass(frozen=True, eq=False)
class Checks:
    """Rows of the two checks, of every estimate as `Validation.frame` has them, and which P are per item."""

    balance: pd.DataFrame
    frame: pd.DataFrame
    per_item: dict[str, bool]

    @cached_property
    def diagnostics(self) -> pd.DataFrame:
        """One row per propensity and estimator.

        per_item: whether P differs between items only; popularity_smd, …_low, …_high, …_flag; selection_odds:
        odds ratio per standard deviation of the recommender with the largest |z|, selection_p,
        selection_flag; factor and factor_beyond_noise: the largest over recommenders and metrics; verdict.
        """
        return verdicts(self.balance, self.frame, self.per_item)


def check_weights(
    models: Mapping[str, Any],
    study: RandomExposureStudy,
    *,
    propensities: Mapping[str, Any],
    metrics: Sequence[str],
    estimators: Sequence[str],
    n_splits: int = 1,
    test_fraction: float = 0.2,
    rng: int = 0,
) -> Checks:
    """Return the checks of each propensity, over the splits that `ipseval.validate` makes with this seed."""
    generator = np.random.default_rng(rng)
    positives, exposed = study.positives(), np.unique(study.random.user)
    kinds = [resolve_estimator(one) for one in estimators]
    rules = with_seeds(propensities, generator.spawn(1)[0])
    weights = draw_user_weights(exposed.size, 0, generator)
    collected = _Keeping(
        [metric(one) for one in metrics], kinds, list(models), rules, exposed, weights, "default", 0.95
    )
    balance = Balance(list(models))
    for number in range(n_splits):
        split = split_random(positives.biased, test_fraction=test_fraction, rng=generator)
        fold = generator.permutation(np.arange(split.n_users) % 2)
        shown_pairs = exposure_outside_training(study, split)
        scorers = {name: adapt(train(split.train), split, name=name) for name, train in models.items()}
        ranks = rank_with_pairs(scorers, split, positive_pair_keys(shown_pairs))
        collected.add(number, split, shown_pairs, scorers, ranks, fold)
        shown = np.isin(np.arange(split.n_users), exposed)
        sides = (
            select_pairs(ranks, one, split.n_items)
            for one in (split.test.pair_key, positive_pair_keys(shown_pairs))
        )
        targets = dict.fromkeys([*(kind.target for kind in kinds), "pooled"])
        compared = PairedPositives.build_by_target(targets, collected.metrics, *sides, shown, "default")
        checks = SplitBalance(compared["pooled"], np.log(split.train.popularity + 1.0))
        balance.add_split(checks)
        for label in rules:
            fitted = collected.fitted[label]
            weighted = {target: one.weighted(fitted) for target, one in compared.items()}
            pairs = [(kind, *weighted[kind.target]) for kind in kinds]
            balance.add_propensity(label, fitted, pairs, checks, fold)
    return Checks(balance.frame(0.95), collected.result(study, len(positives.random)).frame, balance.per_item)


def verdicts(balance: pd.DataFrame, frame: pd.DataFrame, per_item: Mapping[str, bool]) -> pd.DataFrame:
    """Return one row per propensity and estimator; see `Checks.diagnostics`."""
    selection = balance[balance["check"] == SELECTION]
    popularity = balance[balance["check"] == POPULARITY]
    names = ["propensity", "estimator", "model", "metric"]
    over_splits = frame.groupby(names)[["factor", "factor_beyond_noise"]].mean()
    largest = over_splits.groupby(level=names[:2]).max().to_dict("index")
    rows = []
    for row in popularity.to_dict("records"):
        name, estimator = row["propensity"], row["estimator"]
        found = selection[selection["propensity"] == (ANY_ITEM_WEIGHT if per_item[name] else name)]
        odds, p_value, flag = _selection(found)
        smd = np.nan if pd.isna(row["flag"]) else row["value"] if row["flag"] else 0.0
        rows.append(
            {
                "propensity": name,
                "estimator": estimator,
                "per_item": per_item[name],
                "popularity_smd": row["value"],
                "popularity_low": row["ci_low"],
                "popularity_high": row["ci_high"],
                "popularity_flag": row["flag"],
                "selection_odds": odds,
                "selection_p": p_value,
                "selection_flag": flag,
                **largest[name, estimator],
                "verdict": _words(per_item[name], smd, flag),
            }
        )
    flags = {"popularity_flag": "boolean", "selection_flag": "boolean"}
    return pd.DataFrame(rows).astype(flags)


def _selection(found: pd.DataFrame) -> tuple[float, float, bool | None]:
    """Return the odds ratio of the recommender with the largest |z|, the family's p, and the flag.

    NaN, NaN and None where nothing could be checked.
    """
    known = found[found["p_value"].notna()]
    if known.empty:
        return float("nan"), float("nan"), None
    value = known["value"].to_numpy()
    strongest = int(np.argmax(np.abs(value / known["std_error"].to_numpy())))
    return (
        float(np.exp(value[strongest])),
        float(known["p_value"].min()),
        bool(known["flag"].any()),
    )


def _words(per_item: bool, smd: float, selection: bool | None) -> str:
    parts = []
    if selection:
        parts.append("user × item selection" if per_item else "user × item selection left")
    if np.isnan(smd):
        parts.append("popularity unchecked")
    elif smd:
        parts.append(f"weighted positives too {'popular' if smd > 0 else 'rare'}")
    if selection is None:
        parts.append("user × item selection unchecked")
    return "; ".join(parts) if parts else RIGHT
