"""Balance against random exposure: what the weights get wrong, and what no weight of an item can remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from ipseval._types import FloatArray, IntArray, TieChoice
from ipseval.estimators import Estimator, Sample, Target, UserSums, weighted_sample
from ipseval.metrics import AdditiveMetric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.validation._conditional import ConditionalScore, conditional_score
from ipseval.validation._family import family_test
from ipseval.validation._population import Compared

POPULARITY, SELECTION = "popularity", "selection"
ANY_ITEM_WEIGHT = "any weight per item"
ALL_MODELS = "mean of all"
# An imbalance of popularity up to this many standard deviations is no fault of the weights: `snips-global`
# has as much with the true ones, by the noise of its users' means. (By convention .1 is poor balance.)
NEGLIGIBLE = {POPULARITY: 0.02, SELECTION: 0.0}
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

    pooled: Compared
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
            offset = np.log(propensity.at(user, item))
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

    def _reference(self, compared: Compared) -> UserSums:
        """Return the mean of log popularity over random positives, made once for the same ones."""
        random = compared.first[1]
        key = (id(random), compared.target)
        if key not in self._made:  # the positives are held, so that no identity returns
            made = compared.plain.sums(weighted_sample(random, None, None, "default"), self.mean)
            self._made[key] = random, made
        return self._made[key][1]

    def popularity(self, kind: Estimator, sample: Sample, compared: Compared) -> tuple[float, FloatArray]:
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
    values = propensity.at(positives.user, positives.item)
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
        estimators: Sequence[tuple[Estimator, Compared, Mapping[str, Sample]]],
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
