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
from ipseval.inference.bootstrap_intervals import compute_bootstrap_intervals
from ipseval.inference.comparisons import Correction
from ipseval.inference.intervals import Interval, compute_normal_intervals
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.top_lists import TopLists
from ipseval.reporting import Tables
from ipseval.reporting.formatting import count_decimals
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Notes, Table
from ipseval.utils.checks import as_list, check_models
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import align_labels
from ipseval.utils.notes import Note, join_notes
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import AnyArray, FloatArray, IntervalMethod, RngLike

LISTS = "lists"
DEFAULT_MEASURES = ("coverage@10", "gini@10", "arp@10", "popularity_lift@10", "novelty@10", "calibration@10")
COLUMNS = ["model", "measure", "estimate", "std_error", "ci_low", "ci_high", "n_users", "note"]
Key = tuple[str, str, str]  # (recommender, measure, LISTS)


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class BeyondAccuracy(Result):
    """Measures of recommendation lists, one row per recommender and measure in `frame`.

    The measures describe the lists. No propensity enters, and they say nothing about relevance.

    Parameters
    ----------
    measures : tuple of Measure
        The measures, in the order of the tables.
    estimates : dict
        (recommender, measure, "lists") -> Estimate.
    intervals : dict
        The same keys -> Interval.
    confidence_level : float, default 0.95
        Level of the intervals.

    See Also
    --------
    beyond_accuracy : Compute the measures.

    Examples
    --------
    >>> from ipseval import simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> result = beyond_accuracy(models, split, measures=["coverage@10", "gini@10"])
    >>> result.frame[["model", "measure", "estimate", "std_error"]].round(3)
         model      measure  estimate  std_error
    0    taste  coverage@10     0.838      0.028
    1    taste      gini@10     0.696      0.006
    2  popular  coverage@10     0.200      0.012
    3  popular      gini@10     0.860      0.001
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
        for (model, label, _), estimate in self.estimates.items():
            interval = self.intervals[model, label, LISTS]
            row = {
                "model": model,
                "measure": label,
                "estimate": estimate.value,
                "std_error": interval.std_error,
                "ci_low": interval.low,
                "ci_high": interval.high,
                "n_users": estimate.sums.n_users,
                "note": join_notes(*estimate.notes, *interval.notes),
            }
            rows.append(row)
        return pd.DataFrame(rows, columns=COLUMNS)

    def compare(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Compare recommenders by paired differences on the same users.

        Parameters
        ----------
        reference : str, optional
            Recommender that the others are compared with. Default: all pairs.
        correction : {"holm", "bonferroni", None}, default "holm"
            Adjustment of the p-values.

        Returns
        -------
        DataFrame
            Columns as in `Evaluation.compare`, with "measure" in place of "metric".
        """
        differences = compare(
            self.estimates,
            reference=reference,
            correction=correction,
            confidence_level=self.confidence_level,
        )
        return differences.rename(columns={"metric": "measure"}).drop(columns="estimator")

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a row per recommender, a column per measure, and the meaning of each measure.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors.
        page : bool, default False
            Accepted as in other results; the report is the same.

        Returns
        -------
        Tables
            Parts of the report, as every format prints them.
        """
        rows = []
        for model in self.models:
            cells = []
            for shown_measure in self.measures:
                cells.append(self._build_cell((model, shown_measure.label, LISTS), digits))

            rows.append((Cell(model), *cells))
        header = ("recommender", *(shown.label for shown in self.measures))

        notes = [f"{shown.name}: {shown.definition.direction}." for shown in self.measures]
        for (_, label, _), estimate in self.estimates.items():
            notes += [f"{label}: {text}." for text in estimate.notes]
        return Tables(
            summary=("Beyond accuracy: measures of the lists",),
            parts=(Table(header, tuple(rows), "lists"), Notes(tuple(dict.fromkeys(notes)))),
        )

    def _build_cell(self, key: Key, digits: int) -> Cell:
        """Return the cell of a value with its standard error."""
        value = self.estimates[key].value
        interval = self.intervals[key]
        error = interval.std_error
        if np.isnan(value):
            return Cell("undefined")
        places = count_decimals([error], digits, default=digits + 1)
        spread = ""
        if error > 0:
            spread = f"± {error:.{places}f}"
        hint = interval.note
        if not np.isnan(interval.low):
            hint = f"interval {interval.low:.{places}f} to {interval.high:.{places}f}"
        return Cell(f"{value:,.{places}f}", spread, hint=hint)


@public_function
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
    """Measure the recommendation lists of every ranked user: coverage, exposure, popularity and diversity.

    Parameters
    ----------
    models : mapping, or Evaluation
        Name -> scorer or trained model, as in `evaluate`. RankedPositives, and those of an evaluation, must
        have lists: `rank_positives(…, top_k=k)`.
    split : Split
        Its training log gives n* and histories; its items are the catalogue.
    measures : labels
        "coverage@10", "gini@10", "entropy@10", "arp@10", "popularity_lift@10", "novelty@10", "ild@10",
        "calibration@10". See `measure`. Default: all of these but "entropy@10" and "ild@10".
    item_vectors : (n_items, d) array, optional
        In the order of `split.item_ids`, for "ild@k"; a pandas frame may have the ids as index.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).
    interval : {"normal", "percentile", "bca"}, default "normal"
        Method of the intervals, as in `evaluate`.
    n_resamples : int, default 10000
        Resamples of the bootstrap.
    rng : int, Generator or None, default None
        Random seed of the bootstrap.
    compute : ComputeOptions, optional
        Threads, memory, engine, and whether a progress bar is shown.

    Returns
    -------
    BeyondAccuracy
        `frame` has one row per model and measure, with estimate, std_error, ci_low, ci_high and n_users.

    Raises
    ------
    InputError
        For ranks without lists that long, vectors of another shape, and labels that do not exist.

    See Also
    --------
    measure : Return a measure, whose card defines it.

    Notes
    -----
    Coverage, gini and entropy have jackknife errors, and a bootstrap resamples the terms of the jackknife: a
    resample of users repeats lists, so the measure of the resample itself would be biased.

    Examples
    --------
    Both users get the item "c", one of three, at the top of their list:

    >>> import numpy as np
    >>> from ipseval import Interactions, Split
    >>> ids = {"user_ids": ["anna", "ben"], "item_ids": ["a", "b", "c"]}
    >>> train = Interactions(user=[0, 0, 1], item=[0, 1, 1], **ids)
    >>> test = Interactions(user=[0, 1], item=[2, 0], **ids)
    >>> scores = np.array([[0.1, 0.2, 0.9], [0.5, 0.1, 0.7]])
    >>> lists = beyond_accuracy({"model": scores}, Split(train, test), measures=["coverage@1"], rng=0)
    >>> lists.frame[["model", "measure", "estimate"]].round(3)
       model     measure  estimate
    0  model  coverage@1     0.333
    """
    measure_objects = []
    for label in as_list(measures, "measures"):
        measure_objects.append(measure(label))

    chosen = list(dict.fromkeys(measure_objects))
    vectors = check_vectors(item_vectors, split.item_ids, chosen)
    if isinstance(models, Evaluation):
        models = {name: sample.ranked for name, sample in models.samples.items()}
    check_models(models, "models", "scorer")
    max_cutoff = max(selected.cutoff for selected in chosen)
    estimates: dict[Key, Estimate] = {}
    for name, model in models.items():
        if isinstance(model, RankedPositives):
            ranked = model
        else:
            ranked = rank_positives(model, split, name=name, top_k=max_cutoff, compute=compute)
        data_by_cutoff: dict[int, Recommended] = {}
        for selected in chosen:
            cutoff = selected.cutoff
            if cutoff not in data_by_cutoff:
                top_lists = select_lists(name, ranked, cutoff)
                data_by_cutoff[cutoff] = Recommended(top_lists, split.train, vectors)
            estimates[name, selected.label, LISTS] = _make_estimate(selected, data_by_cutoff[cutoff])
    if interval == "normal":
        intervals = compute_normal_intervals(estimates, confidence_level=confidence_level)
    else:
        intervals = compute_bootstrap_intervals(
            estimates,
            confidence_level=confidence_level,
            method=interval,
            n_resamples=n_resamples,
            rng=rng,
            n_threads=compute.threads,
        )
    return BeyondAccuracy(
        measures=tuple(chosen),
        estimates=estimates,
        intervals=intervals,
        confidence_level=confidence_level,
    )


def check_vectors(vectors: object, item_ids: AnyArray, measures: Sequence[Measure]) -> FloatArray | None:
    """Return vectors of the items as floats, or raise `InputError` where they are needed and missing."""
    if vectors is None:
        if any(selected.name == "ild" for selected in measures):
            raise InputError("ild@k requires vectors of the items.", advice="Pass {item_vectors}")
        return None
    vectors = align_labels(vectors, item_ids, "item_vectors")
    n_items = item_ids.size
    try:
        array = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
    except ValueError:
        raise InputError(
            f"must be numbers of shape ({n_items}, d); rows differ in length.", argument="item_vectors"
        ) from None
    if array.ndim != 2 or array.shape[0] != n_items or not array.size or array.dtype.kind not in "iufb":
        raise InputError(
            f"must be numbers of shape ({n_items}, d), rows in the order of split.item_ids; got "
            f"{array.dtype} of shape {array.shape}.",
            argument="item_vectors",
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError("must be finite; some entries are NaN or infinite.", argument="item_vectors")
    return array


def select_lists(name: str, positives: RankedPositives, k: int) -> TopLists:
    """Return the first k items of every ranked user that is not left out."""
    if positives.top is None or positives.top.depth < k:
        raise InputError(
            f"{name} has no lists of the first {k} items; rank it with rank_positives(…, top_k={k})."
        )
    top = positives.top.first(k)
    if positives.left_out is None:
        return top
    is_included = ~positives.left_out[top.users]
    return TopLists(top.users[is_included], top.item[is_included])


def _make_estimate(selected: Measure, data: Recommended) -> Estimate:
    """Return the value of a measure, with notes on users without a list and on short lists."""
    sums = selected.rule(data)
    notes = []
    n_empty = int((data.length == 0).sum())
    if n_empty:
        notes.append(Note.create("users_without_list", n=n_empty, left_out=sums.n_undefined > 0))
    if sums.n_undefined > n_empty:
        notes.append(Note.create("undefined_lists", n=sums.n_undefined - n_empty))
    n_short = int(((data.length > 0) & (data.length < selected.cutoff)).sum())
    if n_short:
        notes.append(Note.create("lists_below_cutoff", n=n_short, cutoff=selected.cutoff))
    return Estimate(
        metric=selected.label,
        estimator=LISTS,
        sums=sums,
        n_positives=int(data.length.sum()),
        claim=Claim("no guarantee", "it describes the lists"),
        notes=tuple(notes),
    )
