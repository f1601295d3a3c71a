"""Tuned: a recommender whose settings are chosen on the validation part of each split."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from ipseval._base.checks import check_callable, check_positive_int, examples
from ipseval._base.types import FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.metrics import metric as find_metric

N_RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class Tuned:
    """A recommender of a study whose settings are chosen on the validation part, anew in every split.

    Each setting is trained on the training part, ranked on the validation part with the candidates of the
    protocol, and judged by the mean of `metric` over validation users. The best one (of equals the first) is
    ranked on the test part, which the choice never reads. The model is not trained again with the validation
    part: its items stay candidates.

    Attributes
    ----------
    fit : function
        Takes training `Interactions` and one setting as keywords, returns a scorer. Without a `grid`: takes
        training and validation `Interactions`, and chooses by itself.
    grid : mapping, list of mappings, or None
        Name → values, all combinations in order; or the settings themselves.
    metric : str
        What is compared on the validation part, higher is better.
    budget : int or None
        Number of settings tried in a split, drawn at random without repetition; None: all.
    default : mapping or None
        The setting of `untuned`; None: the first.

    Raises
    ------
    InputError
        For an empty grid, a setting that is no mapping, a budget beyond the grid, and a bad metric.

    Examples
    --------
    >>> from ipseval.ranking.baselines import ease, item_knn
    >>> tuned = Tuned(ease, {"regularization": [50.0, 200.0, 800.0]}, budget=2)
    >>> tuned.settings[0], tuned.draw(0).size
    ({'regularization': 50.0}, 2)
    """

    fit: Callable[..., Any]
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None
    metric: str = "ndcg@10"
    budget: int | None = None
    default: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_callable("fit", self.fit)
        find_metric(self.metric)
        n_settings = len(self.settings)
        if self.budget is not None and check_positive_int("budget", self.budget) > n_settings:
            raise InputError(f"budget must be at most {n_settings}, the number of settings.")

    def __repr__(self) -> str:
        tried = len(self.settings) if self.budget is None else self.budget
        name = getattr(self.fit, "__name__", type(self.fit).__name__)
        return f"Tuned({name}, {tried} of {len(self.settings)} settings, {self.metric})"

    @cached_property
    def settings(self) -> tuple[dict[str, Any], ...]:
        """Every setting, in the order of the grid; empty where the function chooses by itself."""
        if self.grid is None:
            return ()
        if isinstance(self.grid, Mapping):
            lists = list(self.grid.values())
            if any(isinstance(one, str) or not isinstance(one, Sequence) for one in lists):
                raise InputError("each entry of grid must be a list of values, such as [10, 100].")
            found = [dict(zip(self.grid, values, strict=True)) for values in product(*lists) if lists]
        else:
            found = [dict(one) if isinstance(one, Mapping) else one for one in self.grid]
        if not found or not all(isinstance(one, dict) for one in found):
            raise InputError(f"grid must hold settings, mappings of name to value; got {self.grid!r:.80}.")
        return tuple(found)

    @property
    def untuned(self) -> Callable[..., Any]:
        """The fit function with the setting `default`, for a study without tuning."""
        return partial(self.fit, **(self.settings[0] if self.default is None else self.default))

    @property
    def is_random(self) -> bool:
        """Whether another draw of settings may lead to another choice."""
        return self.budget is not None and self.budget < len(self.settings)

    @cached_property
    def judge(self) -> Metric:
        """The metric of the validation part."""
        return find_metric(self.metric)

    def with_setting(self, number: int) -> Callable[..., Any]:
        """Return the fit function with one setting."""
        return partial(self.fit, **self.settings[number])

    def draw(self, *seed: int | str) -> IntArray:
        """Return the numbers of the settings that are tried under a seed, ascending."""
        if not self.is_random:
            return np.arange(len(self.settings))
        words = [zlib.crc32(str(one).encode()) for one in seed]
        drawn = np.random.default_rng(words).choice(len(self.settings), self.budget, replace=False)
        return np.sort(drawn)


@dataclass(frozen=True)
class Choice:
    """The setting chosen on a validation part, and how firmly."""

    setting: int
    value: float
    std_error: float
    n_tried: int
    chosen_share: float

    @classmethod
    def among(cls, numbers: Sequence[int], values: Sequence[FloatArray], seed: int) -> Choice:
        """Return the best of settings by users' metrics, (n_users,) each, and its share over redraws."""
        table = np.stack(values)
        table = table[:, ~np.isnan(table).any(axis=0)]
        if not table.size:
            raise InputError("the validation metric is undefined for every user; choose another metric.")
        best = int(np.argmax(table.mean(axis=1)))
        generator, wins = np.random.default_rng(seed), 0
        n_users = table.shape[1]
        for _ in range(N_RESAMPLES):
            times = np.bincount(generator.integers(0, n_users, n_users), minlength=n_users)
            # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
            drawn = np.einsum("u,su->s", times.astype(np.float64), table)
            wins += int(np.argmax(drawn)) == best
        error = float(table[best].std(ddof=1) / np.sqrt(n_users)) if n_users > 1 else np.nan
        value = float(table[best].mean())
        return cls(int(numbers[best]), value, error, len(numbers), wins / N_RESAMPLES)


def described(setting: Mapping[str, Any]) -> str:
    """Return a setting as text, such as 'n_factors=8, seen=True'."""
    return ", ".join(f"{name}={examples([value])}" for name, value in setting.items())
