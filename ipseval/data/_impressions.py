"""The columns of an exposure log: read, checked and, where asked for, repaired, with counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ipseval.errors import InputError, Problem, PropensityError
from ipseval.utils.checks import check_choice, examples
from ipseval.utils.counts import Count, some
from ipseval.utils.types import AnyArray, BoolArray, IntArray

SUM_TOLERANCE = 1e-3  # logs store propensities in single precision or rounded
COLUMNS = ("user", "item", "clicked", "timestamp", "position", "propensity", "query")

Columns = dict[str, AnyArray]


@dataclass
class Treatment:
    """What is wrong with a log, said in one error, and what was done about faults that may be kept."""

    problems: list[Problem] = field(default_factory=list)
    counted: list[Count] = field(default_factory=list)

    def fault(self, what: str, way_out: str) -> None:
        """Add what is wrong."""
        self.problems.append(Problem(what, way_out))

    def count(self, what: str, number: int, of: int) -> None:
        """Add what was treated; 0 is no line."""
        self.counted += some(Count(what, number, of))

    def settle(self, data: Columns, duplicates: str, gaps: str, unshown_clicks: str) -> Columns:
        """Return the impressions after all treatments; what was done is counted, what is wrong a fault."""
        data = merge_repeated(keep_shown(data, unshown_clicks, self), duplicates, self)
        check_gaps(data, gaps, self)
        self.find(data)
        return data

    def find(self, data: Columns) -> None:
        """Add the faults of positions, which become whole numbers, and of propensities."""
        if "position" in data:
            data["position"] = as_positions(data["position"], self)
        if {"position", "query"} <= set(data):
            again = pd.DataFrame({name: data[name] for name in ("query", "position")}).duplicated()
            if again.any():
                what = (
                    f"{int(again.sum())} of {again.size} rows have the position of another row of their slate"
                )
                self.fault(what, "Each position of a slate must hold one item")
        values = data.get("propensity", np.ones(1))
        n_low, n_high = int((~(values > 0)).sum()), int((values > 1).sum())
        if n_low:
            what = f"{n_low} of {values.size} propensities are 0, negative or missing"
            self.fault(
                f"{what}, though these rows were shown",
                "Leave out the rows of policies whose chances are not known",
            )
        if n_high:
            what = f"{n_high} of {values.size} propensities are above 1 (largest: {values.max():.4g})"
            advice = "A propensity is a chance, not an expected number of showings"
            self.fault(what, f"{advice}. Correct or leave out these rows")

    def raise_all(self) -> None:
        """Raise one error for all faults."""
        found = self.problems
        if found:
            kind = PropensityError if all("propensit" in one.what for one in found) else InputError
            start = f"the log has {len(found)} faults. " if len(found) > 1 else ""
            raise kind(start + " ".join(one.said() for one in found))


def check_options(**options: str) -> None:
    """Raise `UnknownNameError` for a treatment that there is not."""
    for name, value in options.items():
        check_choice(name, value, ("raise", "keep" if name == "gaps" else "drop"))


def rows_of(data: Columns, keep: BoolArray) -> Columns:
    """Return the rows of a mask over the same ids."""
    return {key: one if key.endswith("_ids") else one[keep] for key, one in data.items()}


def first_pair(data: Columns, rows: BoolArray) -> str:
    """Return the ids of user and item in the first row of a mask, in words."""
    row = int(rows.argmax())
    return examples(data[f"{name}_ids"][data[name][row]] for name in ("user", "item"))


def keep_shown(data: Columns, unshown_clicks: str, treatment: Treatment) -> Columns:
    """Leave out candidates that were not shown, after the checks that need them."""
    shown = data.pop("shown", None)
    if shown is None:
        return data
    if "query" in data and "propensity" in data and not shown.all():
        n_slates = data["query_ids"].size
        total = np.bincount(data["query"], data["propensity"], minlength=n_slates)
        n_shown = np.bincount(data["query"], shown, minlength=n_slates)
        off = np.abs(total - n_shown) > SUM_TOLERANCE * np.maximum(n_shown, 1)
        if off.any():
            first = int(np.flatnonzero(off)[0])
            treatment.fault(
                f"the propensities of {int(off.sum())} of {n_slates} slates do not sum to their number of "
                f"rows shown (slate {data['query_ids'][first]}: sum {total[first]:.4g}, shown "
                f"{n_shown[first]:.0f})",
                "List all candidates of a slate with their chance to be shown",
            )
    orphans = data["clicked"] & ~shown
    if orphans.any() and unshown_clicks == "raise":
        treatment.fault(
            f"{int(orphans.sum())} of {int(data['clicked'].sum())} clicks are on rows that were not shown",
            "Mark these rows as shown, or pass {unshown_clicks=drop} to leave them out",
        )
    treatment.count("clicks without an impression, left out", int(orphans.sum()), shown.size)
    treatment.count("candidates that were not shown, left out", int((~shown & ~orphans).sum()), shown.size)
    return rows_of(data, shown)


def merge_repeated(data: Columns, duplicates: str, treatment: Treatment) -> Columns:
    """Merge impressions that are logged more than once; without a time or slate each row is one showing."""
    if "query" not in data and "timestamp" not in data:
        return data
    named = [name for name in COLUMNS if name in data and name not in ("clicked", "propensity")]
    key = pd.DataFrame({name: data[name] for name in named})
    again = key.duplicated().to_numpy()
    if not again.any():
        return data
    if duplicates == "raise":
        treatment.fault(
            f"{int(again.sum())} of {again.size} rows repeat an impression of the same user, item, time, "
            f"position and slate (first: {first_pair(data, again)})",
            "Pass {duplicates=drop} to keep one row of each",
        )
    treatment.count("repeated impressions, merged", int(again.sum()), again.size)
    group = key.groupby(named, sort=False).ngroup().to_numpy()
    any_click = np.bincount(group, data["clicked"]) > 0
    return rows_of({**data, "clicked": any_click[group]}, ~again)


def check_gaps(data: Columns, gaps: str, treatment: Treatment) -> None:
    """Find slates whose positions are not 1, 2, 3, …."""
    if "query" not in data or "position" not in data:
        return
    n_slates = data["query_ids"].size
    last = np.zeros(n_slates)
    np.maximum.at(last, data["query"], data["position"])
    gapped = last > np.bincount(data["query"], minlength=n_slates)
    if gapped.any() and gaps == "raise":
        first = int(np.flatnonzero(gapped)[0])
        held = np.sort(data["position"][data["query"] == first])
        treatment.fault(
            f"{int(gapped.sum())} of {n_slates} slates lack positions (slate {data['query_ids'][first]} has "
            f"{examples(held, 6)})",
            "Add the rows, or pass {gaps=keep} if only these were shown",
        )
    treatment.count("slates with gaps in their positions, kept", int(gapped.sum()), n_slates)


def as_positions(values: AnyArray, treatment: Treatment) -> IntArray:
    """Return positions as whole numbers from 1 on; a fault where they are none."""
    numeric = values.dtype.kind in "iuf"
    good = (values >= 1) & (values == np.floor(values)) if numeric else np.zeros(values.size, dtype=bool)
    if not good.all():
        treatment.fault(
            f"{int((~good).sum())} of {values.size} positions are no whole numbers from 1 on "
            f"(first: {examples(values[~good][:1])})",
            "Add 1 where the first place is 0" if numeric and values.min() == 0 else "Correct them",
        )
    return values.astype(np.int64) if good.all() else np.arange(1, values.size + 1)
