"""The difference of two evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimate, UserSums
from ipseval.estimators.labels import is_plain
from ipseval.inference import compare
from ipseval.inference.comparisons import adjust
from ipseval.inference.intervals import Key, normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, decimals, fixed, listed, shown_level, shown_p, signed_at
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Heading, Part, Remark, Table
from ipseval.utils.checks import counted

COLUMNS = (
    *("model", "metric", "estimator", "old", "new", "difference", "std_error", "ci_low", "ci_high"),
    *("p_value", "p_adjusted", "paired", "note"),
)


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationDiff(Result):
    """What changed between two evaluations.

    Attributes
    ----------
    frame : DataFrame
        model, metric, estimator; old and new estimate, difference = new − old with std_error, ci_low, ci_high
        and p_value; p_adjusted by Holm over all rows; paired (True: from the differences of users; False:
        from the two standard errors as if independent, as the users are others); note (why not to rely on
        it). NaN where an estimate is undefined.
    changed : DataFrame
        what, old, new: versions, options and hashes that are not the same.
    only_new, only_old : tuple of str
        Recommenders that only one of the two has.
    same_data : bool
        Whether both are of the same held-out positives.
    confidence_level : float
    """

    frame: pd.DataFrame
    changed: pd.DataFrame
    only_new: tuple[str, ...]
    only_old: tuple[str, ...]
    same_data: bool
    confidence_level: float

    @classmethod
    def of(cls, new: Any, old: Any, models: Mapping[str, str] | None) -> EvaluationDiff:
        """Return the differences of what two evaluations have; `models`: name in new -> name in old.

        Raises
        ------
        InputError
            When they have no recommender, or no metric and estimator, in common.
        """
        mine, theirs, confidence_level = new.models, old.models, new.confidence_level
        pairs = {name: name for name in mine if name in theirs} if models is None else dict(models)
        unknown = [one for one in pairs if one not in mine] + [
            one for one in pairs.values() if one not in theirs
        ]
        if not pairs or unknown:
            raise InputError(
                f"no recommender {', '.join(map(repr, unknown)) or 'in common'}; the new evaluation has "
                f"{', '.join(mine)}, the old one {', '.join(theirs)}. Pass models={{new name: old name}}."
            )
        # Moments of users that were merged on a cluster cannot be paired with those of another evaluation.
        whole = (*new.estimates.values(), *old.estimates.values())
        kept = all(isinstance(one.sums, UserSums) for one in whole)
        paired = kept and np.array_equal(new.user_ids, old.user_ids)
        rows = []
        other_weights = new._record.get("propensity") != old._record.get("propensity")
        for key in new.estimates:
            was = (pairs.get(key[0], ""), *key[1:])
            if key[0] in pairs and was in old.estimates:
                found = _tested(new.estimates[key], old.estimates[was], key, paired, confidence_level)
                if other_weights and not is_plain(key[2]):  # another quantity: there is nothing to test
                    found["p_value"] = np.nan
                rows.append(dict(zip(COLUMNS, key, strict=False)) | found)
        if not rows:
            raise InputError("the two evaluations have no metric and estimator in common.")
        frame = pd.DataFrame(rows)
        frame.insert(COLUMNS.index("p_adjusted"), "p_adjusted", adjust(frame, "holm", []))
        return cls(
            frame,
            changed_between(new._record, old._record),
            tuple(one for one in mine if one not in pairs),
            tuple(one for one in theirs if one not in pairs.values()),
            new._hash is not None and new._hash == old._hash,
            confidence_level,
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: what rose and fell beyond chance, each difference, and what else changed."""
        parts: list[Part] = [
            _table(str(metric), part, digits) for metric, part in self.frame.groupby("metric", sort=False)
        ]
        if len(self.changed):
            parts += [Heading("What else changed"), Table.of(self.changed, "Versions, options and data")]
        number = counted(len(self.frame), "estimate")
        return Tables(
            (f"{number} in both, new minus old, {shown_level(self.confidence_level)} intervals",),
            tuple(parts),
            title="Difference of two evaluations" if page else "",
            warnings=tuple(self._warnings()),
            verdict=(Remark("Verdict", self._concluded()),),
        )

    def _concluded(self) -> tuple[str, ...]:
        frame = self.frame
        if (frame["difference"] == 0).all():
            return ("Nothing changed: every estimate is the same.",)
        weights = self.changed[self.changed["what"] == "propensity"]
        lines = []
        if len(weights):
            old, new = weights["old"].item(), weights["new"].item()
            lines.append(
                f"The propensity changed from {old} to {new}, so weighted estimates are of another quantity, "
                "and their differences are not tested."
            )
            frame = frame[frame["estimator"].map(is_plain)]
            if not len(frame):
                return tuple(lines)
        noted = frame["note"] != ""
        clear = frame[(frame["p_adjusted"] < LEVEL) & ~noted]
        n_before = len(lines)
        for word, rows in (
            ("higher", clear[clear["difference"] > 0]),
            ("lower", clear[clear["difference"] < 0]),
        ):
            if len(rows):
                count = (
                    f"{len(rows):,} of {len(frame):,} estimates {'is' if len(rows) == 1 else 'are'} {word}"
                )
                lines.append(f"{count} beyond chance: {listed(_named(rows))}.")
        if len(lines) == n_before:
            lines += [f"No {'reliable ' if noted.any() else ''}estimate changed beyond chance."]
        if noted.any():
            lines.append("Nothing is concluded from those that are unreliable.")
        return (" ".join(lines), f"Holm's correction is over all {len(frame):,} differences, p < {LEVEL:g}.")

    def _warnings(self) -> list[str]:
        lines = []
        if not self.same_data:
            lines.append("The held-out positives are not the same, so differences are of data as well.")
        if not self.frame["paired"].all():
            lines.append("The users are not the same, so standard errors are those of independent samples.")
        noted = self.frame[self.frame["note"] != ""]
        if len(noted):
            why = noted["note"].iloc[0]
            lines.append(f"Unreliable: {listed(_named(noted))}. {why[:1].upper()}{why[1:]}.")
        for which, names in (("new", self.only_new), ("old", self.only_old)):
            if names:
                lines.append(f"Only in the {which} evaluation: {listed(names)}.")
        return lines


def _tested(new: Estimate, old: Estimate, key: Key, paired: bool, level: float) -> dict[str, Any]:
    """Return old, new and their difference, with its error, interval, p-value and note."""
    if paired:
        two = {("new", *key[1:]): new, ("old", *key[1:]): old}
        (row,) = compare(two, reference="old", correction=None, confidence_level=level).to_dict("records")
        found = {name: row[name] for name in COLUMNS[5:10]}
    else:
        gap, error = new.value - old.value, float(np.hypot(new.standard_error, old.standard_error))
        low, high = normal_interval(gap, error, confidence_level=level)
        p_value = math.erfc(abs(gap) / error / math.sqrt(2)) if error > 0 else np.nan
        found = dict(zip(COLUMNS[5:10], (gap, error, float(low), float(high), p_value), strict=True))
    note = "; ".join(dict.fromkeys(filter(None, (new.trust, old.trust))))
    return {"old": old.value, "new": new.value, **found, "paired": paired, "note": note}


def changed_between(new: Mapping[str, Any], old: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table of the options that differ between two evaluations."""
    names = [one for one in dict.fromkeys([*old, *new]) if old.get(one) != new.get(one)]
    rows = [(one, str(old.get(one)), str(new.get(one))) for one in names]
    return pd.DataFrame(rows, columns=["what", "old", "new"])


def _named(rows: pd.DataFrame) -> list[str]:
    keys = zip(rows["model"], rows["metric"], rows["estimator"], strict=True)
    return [f"{model} ({metric} by {estimator})" for model, metric, estimator in keys]


def _table(metric: str, rows: pd.DataFrame, digits: int) -> Table:
    """Return the table of one metric: old, new and difference by each estimator."""
    header, columns = ["recommender"], []
    models = list(dict.fromkeys(rows["model"]))
    for estimator, part in rows.groupby("estimator", sort=False):
        header += [f"{estimator}: old", "new", "difference"]
        by_model = {row["model"]: _cells(row, digits) for row in part.to_dict("records")}
        columns.append([by_model[model] for model in models])
    body = tuple(
        (Cell(model), *(cell for column in columns for cell in column[place]))
        for place, model in enumerate(models)
    )
    return Table(tuple(header), body, metric, signed=True, metric=metric)


def _cells(row: Mapping[Any, Any], digits: int) -> tuple[Cell, Cell, Cell]:
    """Return the cells old, new and difference; an unreliable difference has no interval and no p-value."""
    places = decimals([row["std_error"]], digits)
    difference = row["difference"]
    low = row["ci_low"]
    high = row["ci_high"]
    p_value = row["p_adjusted"]
    flag = row["note"]
    text = "undefined"
    if difference == 0:
        text = "0"
    elif not np.isnan(difference):
        text = signed_at(difference, places)
    test = ""
    is_tested = difference != 0 and not np.isnan(p_value)
    if is_tested and not flag:
        test = f"[{signed_at(low, places)}, {signed_at(high, places)}] {shown_p(p_value)}"
    strong = p_value < LEVEL and not flag
    drawn = (np.nan, difference, np.nan) if flag else (low, difference, high)
    cell = Cell(text, test, strong=strong, flag=flag, at=drawn)
    return Cell(_shown(row["old"], places)), Cell(_shown(row["new"], places)), cell


def _shown(value: float, places: int) -> str:
    return "undefined" if np.isnan(value) else fixed(value, places)
