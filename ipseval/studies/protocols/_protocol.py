"""Protocol: one way to filter, order, split and rank; grids of protocols; tuned recommenders."""

from __future__ import annotations

import inspect
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal

import numpy as np

from ipseval.data import Interactions
from ipseval.data.splits import (
    Split,
    repeated_splits,
    split_global_time,
    split_leave_one_out,
    split_random,
    split_temporal,
)
from ipseval.errors import DataWarning, InputError
from ipseval.metrics import Metric
from ipseval.metrics import metric as find_metric
from ipseval.utils.checks import (
    check_callable,
    check_choice,
    check_fraction,
    check_positive_int,
    format_examples,
)
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, IntArray

Order = Literal["random", "temporal"]
Holdout = Literal["ratio", "leave-one-out", "global-time"]
# The abbreviations of Zhao et al. (CIKM 2020), and GT for the split by time, which they did not study.
SPLIT_LABELS = {
    ("random", "ratio"): "RO_RS",
    ("temporal", "ratio"): "TO_RS",
    ("random", "leave-one-out"): "RO_LS",
    ("temporal", "leave-one-out"): "TO_LS",
    ("temporal", "global-time"): "GT",
}
SPLITS: dict[tuple[str, str], Callable[..., Split]] = {
    ("random", "ratio"): split_random,
    ("temporal", "ratio"): split_temporal,
    ("random", "leave-one-out"): split_leave_one_out,
    ("temporal", "leave-one-out"): partial(split_leave_one_out, order="temporal"),
    ("temporal", "global-time"): split_global_time,
}
IMPOSSIBLE = (("random", "global-time"),)
LEGEND = (
    "RO random order, TO order in time; RS ratio, LS leave-one-out; GT one point in time for all users; "
    "full: candidates are the catalogue minus the user's training items; "
    "with seen items: training items are candidates too, and may be held out again."
)
N_RESAMPLES = 200  # of validation users, for the share of draws with the same choice


@public_class
@dataclass(frozen=True, eq=False)
class Protocol:
    """One way to evaluate: filter, order, holdout and candidates.

    Parameters
    ----------
    order : {"random", "temporal"}
        Order of a user's interactions, of which the last are held out: random, or in time.
    holdout : {"ratio", "leave-one-out", "global-time"}
        A share of each user's interactions, one of each user, or everything after one point in time
        (temporal order only).
    k_core : int or None
        Users and items with fewer interactions are removed first, until stable; None: no filter.
    candidates : "all", a data frame or a sampling scheme
        Passed on to `rank_positives` as it is. A scheme needs its own seed.
    candidates_name : str
        Name of the candidates in tables. Default: ``"full"``, ``"given lists"``, ``"uniform-100"``, or their
        text.
    test_fraction, validation_fraction : float
        Shares for "ratio" and "global-time". The validation part is held out; only `Tuned` recommenders read
        it.
    n_validation : int
        Number of validation interactions per user for "leave-one-out".
    n_repeats : int
        Independent random splits to average over. In temporal order the split is the same each time, and only
        the draw of settings of `Tuned` recommenders differs.
    seen : {"exclude", "include"}
        Whether training items are candidates and may be positives again; see `Split`.

    See Also
    --------
    grid : Combine the options of protocols.
    study : Compare the ranking of recommenders between protocols.

    Examples
    --------
    >>> protocol = Protocol(order="temporal", holdout="leave-one-out", k_core=None)
    >>> protocol.label
    'TO_LS, no filter, full'
    >>> protocol.needs_time, protocol.has_validation
    (True, True)
    """

    order: Order = "random"
    holdout: Holdout = "ratio"
    k_core: int | None = 5
    candidates: Any = "all"
    candidates_name: str = ""
    test_fraction: float = 0.1
    validation_fraction: float = 0.1
    n_validation: int = 1
    n_repeats: int = 1
    seen: Literal["exclude", "include"] = "exclude"

    def __post_init__(self) -> None:
        check_choice("order", self.order, ("random", "temporal"))
        check_choice("holdout", self.holdout, ("ratio", "leave-one-out", "global-time"))
        check_fraction("test_fraction", self.test_fraction)
        check_fraction("validation_fraction", self.validation_fraction, low_open=False)
        check_positive_int("n_validation", self.n_validation, minimum=0)
        check_positive_int("n_repeats", self.n_repeats)
        check_choice("seen", self.seen, ("exclude", "include"))
        if self.k_core is not None:
            check_positive_int("k_core", self.k_core)
        if (self.order, self.holdout) in IMPOSSIBLE:
            raise InputError(
                f"order must be 'temporal' with holdout='global-time'; got {self.order!r}. Use "
                "order='temporal'."
            )

    @property
    def split_label(self) -> str:
        """Abbreviation of the split: RO_RS, TO_RS, RO_LS, TO_LS or GT."""
        return SPLIT_LABELS[self.order, self.holdout]

    @property
    def core_label(self) -> str:
        """Name of the filter: ``"5-core"``, or ``"no filter"``."""
        return "no filter" if self.k_core is None else f"{self.k_core}-core"

    @property
    def candidates_label(self) -> str:
        """``"full"``, or the name of the sampling scheme; and whether training items are candidates."""
        label = self.candidates_name or self._default_candidates_label
        if self.seen == "include":
            return f"{label} with seen items"
        return label

    @property
    def _default_candidates_label(self) -> str:
        """Name of the candidates that have no name in the protocol."""
        candidates = self.candidates
        if isinstance(candidates, str):
            return "full" if candidates == "all" else candidates
        distribution = getattr(candidates, "distribution", None)
        if isinstance(distribution, str) and hasattr(candidates, "n_sampled"):
            return f"{distribution}-{candidates.n_sampled}"
        return "given lists" if hasattr(candidates, "columns") else str(candidates)

    @property
    def label(self) -> str:
        """Split, filter and candidates, for tables."""
        return f"{self.split_label}, {self.core_label}, {self.candidates_label}"

    @property
    def needs_time(self) -> bool:
        """Whether the log must have timestamps."""
        return self.order == "temporal"

    @property
    def has_validation(self) -> bool:
        """Whether there is a validation part for the choice of settings."""
        if self.holdout == "leave-one-out":
            return self.n_validation > 0
        return self.validation_fraction > 0

    def split_number(self, repeat: int) -> int:
        """Return the number of the split of a repeat: in temporal order there is one split.

        Parameters
        ----------
        repeat : int
            Number of the repeat, from 0.

        Returns
        -------
        int
            0 in temporal order, else the number of the repeat.
        """
        return 0 if self.needs_time else repeat

    @property
    def split_key(self) -> dict[str, Any]:
        """Fields that determine each split: protocols with the same key share splits and trained models."""
        key: dict[str, object] = {
            "order": self.order,
            "holdout": self.holdout,
            "k_core": self.k_core,
            "seen": self.seen,
        }
        key.update(self._split_sizes)
        return key

    @property
    def _split_sizes(self) -> dict[str, float]:
        """Options for the sizes of the parts of a split."""
        if self.holdout == "leave-one-out":
            return {"n_validation": self.n_validation}
        return {"test_fraction": self.test_fraction, "validation_fraction": self.validation_fraction}

    def splits(self, core: Interactions, rng: int) -> Iterator[Split]:
        """Return the splits of a log that is already filtered, one for each repeat.

        Parameters
        ----------
        core : Interactions
            Filtered log.
        rng : int
            Seed of random splits.

        Returns
        -------
        iterator of Split
            One split per repeat; in temporal order, the same split each time.
        """
        method = SPLITS[self.order, self.holdout]
        options: dict[str, Any] = {"seen": self.seen, **self._split_sizes}
        if not self.needs_time:
            return repeated_splits(core, self.n_repeats, method=method, rng=rng, **options)
        with warnings.catch_warnings():
            # The table of a study reports the leakage of every split.
            warnings.filterwarnings("ignore", ".*later training rows", DataWarning)
            split = method(core, **options)
        return iter([split] * self.n_repeats)


@public_function
def grid(
    *,
    order: Iterable[Order] = ("random", "temporal"),
    holdout: Iterable[Holdout] = ("ratio", "leave-one-out"),
    k_core: Iterable[int | None] = (5,),
    candidates: Iterable[Any] | Mapping[str, Any] = ("all",),
    n_repeats: int = 1,
    n_searches: int = 1,
    **options: Any,
) -> list[Protocol]:
    """Return every combination of the given options that exists, as protocols.

    "global-time" is combined with temporal order only; `n_repeats` applies to random order.

    Parameters
    ----------
    order, holdout, k_core : iterables
        Values of the fields of `Protocol`.
    candidates : iterable, or mapping name → value
        Values of the field; the names are shown in tables.
    n_repeats : int, default 1
        Number of random splits, for protocols in random order.
    n_searches : int, default 1
        Number of repeats in temporal order, where only the settings that `Tuned` recommenders try differ.
    **options
        Other fields of `Protocol`, the same for all.

    Returns
    -------
    list of Protocol
        Protocols in the order of the options.

    Raises
    ------
    InputError
        For unknown options, and when no combination exists.

    See Also
    --------
    study : Evaluate recommenders under every protocol.

    Examples
    --------
    >>> [protocol.label for protocol in grid(holdout=["ratio", "global-time"])]
    ['RO_RS, 5-core, full', 'TO_RS, 5-core, full', 'GT, 5-core, full']
    """
    unknown = sorted(set(options) - set(inspect.signature(Protocol).parameters))
    if unknown:
        raise InputError(f"{', '.join(unknown)}: no such field of Protocol.")
    lists = {"order": order, "holdout": holdout, "k_core": k_core, "candidates": candidates}
    for name, values in lists.items():
        if isinstance(values, (str, int)):
            raise InputError(f"{name} must be a list of values; got {values!r}. Write [{values!r}].")
    if isinstance(candidates, Mapping):
        named_candidates = list(candidates.items())
    else:
        named_candidates = []
        for value in candidates:
            named_candidates.append(("", value))

    protocols = []
    combinations = product(k_core, holdout, order, named_candidates)
    for core, holdout_name, order_name, (candidates_name, candidates_value) in combinations:
        if (order_name, holdout_name) in IMPOSSIBLE:
            continue
        protocol = Protocol(
            order=order_name,
            holdout=holdout_name,
            k_core=core,
            candidates=candidates_value,
            candidates_name=candidates_name,
            n_repeats=n_repeats if order_name == "random" else n_searches,
            **options,
        )
        protocols.append(protocol)
    if not protocols:
        raise InputError("no protocol is left: 'global-time' goes with temporal order only.")
    return protocols


@public_class
@dataclass(frozen=True, eq=False)
class Tuned:
    """A recommender with settings that are chosen on the validation part, separately in every split.

    Each setting is trained on the training part, ranked on the validation part with the candidates of the
    protocol, and compared by the mean of `metric` over validation users. The best setting (the first of equal
    ones) is ranked on the test part, which the choice never reads. The model is not trained again with the
    validation part: its items stay candidates.

    Parameters
    ----------
    fit : function
        Takes training `Interactions` and one setting as keywords, returns a scorer. Without a `grid`: takes
        training and validation `Interactions`, and chooses by itself.
    grid : mapping, list of mappings, or None
        Name → values, all combinations in order; or the settings themselves.
    metric : str
        Metric of the validation part, higher is better.
    budget : int or None
        Number of settings tried in a split, drawn at random without repetition; None: all.

    Raises
    ------
    InputError
        For an empty grid, a setting that is not a mapping, a budget beyond the grid, and a bad metric.

    See Also
    --------
    ipseval.studies.protocols.study : Run a study with tuned recommenders.

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

    def __post_init__(self) -> None:
        check_callable("fit", self.fit)
        find_metric(self.metric)
        n_settings = len(self.settings)
        if self.budget is not None and check_positive_int("budget", self.budget) > n_settings:
            raise InputError(f"budget must be at most {n_settings}, the number of settings.")

    def __repr__(self) -> str:
        n_settings = len(self.settings)
        n_tried = n_settings if self.budget is None else self.budget
        name = getattr(self.fit, "__name__", type(self.fit).__name__)
        return f"Tuned({name}, {n_tried} of {n_settings} settings, {self.metric})"

    @cached_property
    def settings(self) -> tuple[dict[str, Any], ...]:
        """Every setting, in the order of the grid; empty where the function chooses by itself."""
        if self.grid is None:
            return ()
        if isinstance(self.grid, Mapping):
            settings: list[Mapping[str, object]] = [*_combine_values(self.grid)]
        else:
            settings = list(self.grid)
        if not settings or not all(isinstance(setting, Mapping) for setting in settings):
            raise InputError(f"grid must contain settings, mappings of name to value; got {self.grid!r:.80}.")
        return tuple(dict(setting) for setting in settings)

    @property
    def is_random(self) -> bool:
        """Whether another draw of settings may lead to another choice."""
        return self.budget is not None and self.budget < len(self.settings)

    @cached_property
    def judge(self) -> Metric:
        """Metric of the validation part."""
        return find_metric(self.metric)

    def with_setting(self, number: int) -> Callable[..., Any]:
        """Return the fit function with one setting.

        Parameters
        ----------
        number : int
            Position in `settings`.

        Returns
        -------
        callable
            Function train -> scorer.
        """
        return partial(self.fit, **self.settings[number])

    def draw(self, *seed: int | str) -> IntArray:
        """Return the numbers of the settings that are tried under a seed, ascending.

        Parameters
        ----------
        *seed : int or str
            Parts of the seed.

        Returns
        -------
        (n_tried,) int array
            Positions in `settings`; all of them if there is no smaller budget.
        """
        if not self.is_random:
            return np.arange(len(self.settings))
        seed_numbers = [zlib.crc32(str(part).encode()) for part in seed]
        generator = np.random.default_rng(seed_numbers)
        return np.sort(generator.choice(len(self.settings), self.budget, replace=False))


def _combine_values(values_by_name: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return all combinations of the values of a grid, as settings."""
    for values in values_by_name.values():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InputError("each entry of grid must be a list of values, such as [10, 100].")
    if not values_by_name:
        return []
    combinations = product(*values_by_name.values())
    settings: list[dict[str, object]] = []
    for values in combinations:
        settings.append(dict(zip(values_by_name, values, strict=True)))

    return settings


@dataclass(frozen=True)
class Choice:
    """The setting chosen on a validation part, and the stability of the choice."""

    setting: int
    value: float
    std_error: float
    n_tried: int
    chosen_share: float

    @classmethod
    def from_values(cls, numbers: Sequence[int], values: Sequence[FloatArray], seed: int) -> Choice:
        """Return the best of settings by users' metrics, (n_users,) each, and its share over resamples."""
        table = np.stack(values)
        table = table[:, ~np.isnan(table).any(axis=0)]
        if not table.size:
            raise InputError("the validation metric is undefined for every user; choose another metric.")
        best = int(np.argmax(table.mean(axis=1)))
        best_values = table[best]
        n_users = best_values.size
        std_error = float(best_values.std(ddof=1) / np.sqrt(n_users)) if n_users > 1 else np.nan
        return cls(
            setting=int(numbers[best]),
            value=float(best_values.mean()),
            std_error=std_error,
            n_tried=len(numbers),
            chosen_share=_compute_chosen_share(table, best, seed),
        )


def _compute_chosen_share(table: FloatArray, best: int, seed: int) -> float:
    """Return the share of resamples of users in which one setting of (n_settings, n_users) is the best."""
    generator = np.random.default_rng(seed)
    n_users = table.shape[1]
    n_chosen = 0
    for _ in range(N_RESAMPLES):
        multiplicity = np.bincount(generator.integers(0, n_users, n_users), minlength=n_users)
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        sums = np.einsum("u,su->s", multiplicity.astype(np.float64), table)
        if int(np.argmax(sums)) == best:
            n_chosen += 1
    return n_chosen / N_RESAMPLES


def format_setting(setting: Mapping[str, object]) -> str:
    """Return a setting as text, such as 'n_factors=8, seen=True'."""
    assignments = []
    for name, value in setting.items():
        assignments.append(f"{name}={format_examples([value])}")

    return ", ".join(assignments)
