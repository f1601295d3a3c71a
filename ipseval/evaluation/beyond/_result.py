"""BeyondAccuracy: measures of the lists of several recommenders, with intervals over users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Claim, Estimate
from ipseval.evaluation.beyond._measures import Measure, Recommended, measure
from ipseval.evaluation.evaluation import Evaluation
from ipseval.inference import compare
from ipseval.inference.comparisons import Correction
from ipseval.inference.interval_methods import Interval, bootstrap_intervals, normal_intervals
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.top_lists import TopLists
from ipseval.reporting import Tables
from ipseval.reporting.formatting import decimals
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Notes, Table
from ipseval.utils.checks import as_list, check_models, counted
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import by_label
from ipseval.utils.types import AnyArray, IntervalMethod, RngLike

LISTS = "lists"
DEFAULT_MEASURES = ("coverage@10", "gini@10", "arp@10", "popularity_lift@10", "novelty@10", "calibration@10")
Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False, repr=False)
class BeyondAccuracy(Result):
    """Measures of recommendation lists, one row per recommender and measure in `frame`.

    No propensity enters and nothing is claimed of relevance: they describe what is shown.

    Attributes
    ----------
    measures : tuple of Measure
    estimates : dict
        (recommender, measure, "lists") -> Estimate.
    intervals : dict
        The same keys -> Interval.
    confidence_level : float
    """

    measures: tuple[Measure, ...]
    estimates: dict[Key, Estimate]
    intervals: dict[Key, Interval]
    confidence_level: float = 0.95

    @property
    def models(self) -> list[str]:
        """Names of the recommenders."""
        return list(dict.fromkeys(key[0] for key in self.estimates))

    @property
    def frame(self) -> pd.DataFrame:
        """model, measure, estimate, std_error, ci_low, ci_high, n_users, note; one row for each."""
        rows = []
        for key, one in self.estimates.items():
            interval = self.intervals[key]
            note = "; ".join(filter(None, (*one.notes, interval.note)))
            bounds = (interval.std_error, interval.low, interval.high)
            rows.append((key[0], key[1], one.value, *bounds, one.sums.n_users, note))
        columns = ["model", "measure", "estimate", "std_error", "ci_low", "ci_high", "n_users", "note"]
        return pd.DataFrame(rows, columns=columns)

    def compare(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Return paired differences of recommenders on the same users; columns as in `Evaluation.compare`."""
        found = compare(
            self.estimates,
            reference=reference,
            correction=correction,
            confidence_level=self.confidence_level,
        )
        return found.rename(columns={"metric": "measure"}).drop(columns="estimator")

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a row per recommender, a column per measure, and how to read each."""
        lines = []
        for model in self.models:
            cells = [self._cell((model, one.label, LISTS), digits) for one in self.measures]
            lines.append((Cell(model), *cells))
        header = ("recommender", *(one.label for one in self.measures))
        notes = [
            f"{one.name}: {one.definition.direction}."
            for one in {one.name: one for one in self.measures}.values()
        ]
        said = (f"{key[1]}: {text}." for key, one in self.estimates.items() for text in one.notes)
        notes += list(dict.fromkeys(said))
        return Tables(
            summary=("Beyond accuracy: what the lists show",),
            parts=(Table(header, tuple(lines), "lists"), Notes(tuple(notes))),
        )

    def _cell(self, key: Key, digits: int) -> Cell:
        value, error = self.estimates[key].value, self.intervals[key].std_error
        if np.isnan(value):
            return Cell("undefined")
        shown = decimals([error], digits, default=digits + 1)
        interval = self.intervals[key]
        low, high = interval.low, interval.high
        hint = interval.note if np.isnan(low) else f"interval {low:.{shown}f} to {high:.{shown}f}"
        return Cell(f"{value:,.{shown}f}", f"± {error:.{shown}f}" if error > 0 else "", hint=hint)


def beyond_accuracy(
    models: Mapping[str, Any] | Evaluation,
    split: Split,
    *,
    measures: Iterable[str | Measure] = DEFAULT_MEASURES,
    item_vectors: Any | None = None,
    confidence_level: float = 0.95,
    interval: IntervalMethod = "normal",
    n_resamples: int = 10_000,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> BeyondAccuracy:
    """Return measures of the first k items of every ranked user: coverage, exposure, popularity, diversity.

    Parameters
    ----------
    models : mapping, or Evaluation
        Name -> scorer or trained model, as in `evaluate`; RankedPositives, and those of an evaluation, must
        have lists: `rank_positives(…, top_k=k)`.
    split : Split
        Its training log gives n* and histories; its items are the catalogue.
    measures : labels
        "coverage@10", "gini@10", "entropy@10", "arp@10", "popularity_lift@10", "novelty@10", "ild@10",
        "calibration@10". See `measure`.
    item_vectors : (n_items, d) array, optional
        In the order of `split.item_ids`, for "ild@k"; a pandas frame may have the ids as index.
    n_resamples : int
        Of the bootstrap.
    confidence_level, interval, rng, compute
        As in `evaluate`. Coverage, gini and entropy have jackknife errors, and what is resampled of them are
        the jackknife's terms: a resample of users repeats lists, so that its own value would be biased.

    Raises
    ------
    InputError
        For ranks without lists that long, vectors of another shape, and labels that do not exist.
    """
    chosen = list(dict.fromkeys(measure(one) for one in as_list(measures, "measures")))
    vectors = checked_vectors(item_vectors, split.item_ids, chosen)
    if isinstance(models, Evaluation):
        models = {name: one.ranked for name, one in models.samples.items()}
    check_models(models, "models", "scorer")
    estimates: dict[Key, Estimate] = {}
    depth = max(one.cutoff for one in chosen)
    for name, model in models.items():
        is_ranked = isinstance(model, RankedPositives)
        ranked = model if is_ranked else rank_positives(model, split, name=name, top_k=depth, compute=compute)
        by_depth: dict[int, Recommended] = {}
        for one in chosen:
            if one.cutoff not in by_depth:
                by_depth[one.cutoff] = Recommended(_lists(name, ranked, one.cutoff), split.train, vectors)
            estimates[name, one.label, LISTS] = _estimate(one, by_depth[one.cutoff])
    if interval == "normal":
        intervals = normal_intervals(estimates, confidence_level=confidence_level)
    else:
        options = {"method": interval, "n_resamples": n_resamples, "rng": rng}
        intervals = bootstrap_intervals(estimates, confidence_level=confidence_level, **options)  # type: ignore[arg-type]  # its options, by name
    return BeyondAccuracy(tuple(chosen), estimates, intervals, confidence_level)


def checked_vectors(vectors: Any, item_ids: AnyArray, measures: Sequence[Measure]) -> Any:
    """Return vectors of the items as floats, or raise `InputError` where they are needed and missing."""
    if vectors is None:
        if any(one.name == "ild" for one in measures):
            raise InputError("ild@k reads vectors of the items; pass item_vectors=, an (n_items, d) array.")
        return None
    vectors, n_items = by_label(vectors, item_ids, "item_vectors"), item_ids.size
    try:
        array = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
    except ValueError:
        raise InputError(
            f"item_vectors must be numbers of shape ({n_items}, d); rows differ in length."
        ) from None
    if array.ndim != 2 or array.shape[0] != n_items or not array.size or array.dtype.kind not in "iufb":
        raise InputError(
            f"item_vectors must be numbers of shape ({n_items}, d), rows in the order of split.item_ids; got "
            f"{array.dtype} of shape {array.shape}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError("item_vectors must be finite; some entries are NaN or infinite.")
    return array


def _lists(name: str, ranked: RankedPositives, k: int) -> TopLists:
    if ranked.top is None or ranked.top.depth < k:
        raise InputError(
            f"{name} has no lists of the first {k} items; rank it with rank_positives(…, top_k={k})."
        )
    top = ranked.top.first(k)
    if ranked.left_out is None:
        return top
    stays = ~ranked.left_out[top.users]
    return TopLists(top.users[stays], top.item[stays])


def _estimate(one: Measure, data: Recommended) -> Estimate:
    sums = one.rule(data)
    notes = []
    n_empty = int((data.length == 0).sum())
    if n_empty:
        left_out = " left out" if sums.n_undefined else ""
        notes.append(f"{counted(n_empty, 'user')} without a list{left_out}")
    if sums.n_undefined > n_empty:
        notes.append(f"{counted(sums.n_undefined - n_empty, 'user')} left out: undefined for them")
    n_short = int(((data.length > 0) & (data.length < one.cutoff)).sum())
    if n_short:
        notes.append(f"{counted(n_short, 'list')} shorter than {one.cutoff}")
    claim = Claim("no claim", "it describes the lists")
    return Estimate(one.label, LISTS, sums, int(data.length.sum()), claim, tuple(notes))
