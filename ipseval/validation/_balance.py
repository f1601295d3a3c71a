"""Balance against random exposure: what the weights get wrong, and what no weight of an item can remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ipseval._types import FloatArray, IntArray, TieChoice
from ipseval.estimators import Estimator, Sample, UserSums, weighted_sample
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
COLUMNS = (
    "propensity",
    "estimator",
    "check",
    "feature",
    "value",
    "std_error",
    "ci_low",
    "ci_high",
    "p_value",
    "flag",
)
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
    """What the checks of one split need: both sets of positives, and properties of items and of pairs.

    Attributes
    ----------
    held_out, random : RankedPositives
        Ranked positives of the biased log and of the random exposure.
    pairs : (n_held_out + n_random, n_models + 1) float array
        Normalised ranks by every recommender, and their mean.
    log_popularity : (n_items,) float array
        log(n* + 1).
    n_users : int
    """

    held_out: RankedPositives
    random: RankedPositives
    pairs: FloatArray
    log_popularity: FloatArray
    n_users: int

    @classmethod
    def of(
        cls,
        held_out: Mapping[str, RankedPositives],
        random: Mapping[str, RankedPositives],
        log_popularity: FloatArray,
        n_users: int,
    ) -> SplitBalance:
        """Return the checks of a split from the ranks of every model."""
        ranks = [
            np.concatenate([normalised_rank(part[name]) for part in (held_out, random)]) for name in held_out
        ]
        pairs = np.column_stack([*ranks, np.mean(ranks, axis=0)])
        first = next(iter(held_out))
        return cls(held_out[first], random[first], pairs, log_popularity, n_users)

    def selection(self, propensity: Propensity | None) -> ConditionalScore | None:
        """Return how the ranks shift the odds of being in the log beyond users, items and the propensity.

        None where the propensity is not known for the random positives.
        """
        user = np.concatenate([self.held_out.user, self.random.user])
        item = np.concatenate([self.held_out.item, self.random.item])
        first = np.arange(user.size) < len(self.held_out)
        keep, offset = ~np.isnan(self.pairs).any(axis=1), None
        if propensity is not None:
            offset = np.log(propensity.at(user, item))
            if np.isnan(offset[~first]).any():
                return None
            keep &= ~np.isnan(offset)
            offset = offset[keep]
        return conditional_score(
            user[keep], item[keep], first[keep], self.pairs[keep], n_users=self.n_users, offset=offset
        )

    def popularity(self, kind: Estimator, sample: Sample, compared: Compared) -> tuple[float, FloatArray]:
        """Return the standardised difference of log popularity, and its influence (n_users,).

        (mean by the estimator over held-out positives − plain mean over the random positives of the same
        users) / SD over random positives.
        """
        mean = _ItemMean(of_item=self.log_popularity)
        random = compared.first[1]
        spread = float(np.std(self.log_popularity[random.item]))
        reference = compared.plain.sums(weighted_sample(random, None, None, "default"), mean)
        own = kind.sums(sample, mean)
        influence = np.zeros(self.n_users)
        for sums, sign in ((own, 1.0), (reference, -1.0)):
            influence[sums.users] += sign * _share(sums)
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
        per_item = is_per_item(propensity, split.held_out, fold)
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
                    (
                        *(label, estimator, check, feature, float(mean[place])),
                        *(float(test.std_error[place]) if reach == reach else float("nan"), low, high),
                        float(np.minimum(1, len(self.features) * test.p_value[place])),
                        None if np.isnan(reach) else bool(max(low, -high) > NEGLIGIBLE[check]),
                    )
                )
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"flag": "boolean"})


def _share(sums: UserSums) -> FloatArray:
    """Return the influence of each user on the estimate itself, ψ_u/n."""
    return np.asarray(sums.influence() / sums.n_users)
