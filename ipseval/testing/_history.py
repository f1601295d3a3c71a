"""history(): the gates of a season, and what changed from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.differences import changed_between
from ipseval.reporting import Tables, load
from ipseval.reporting.formatting import decimals, fixed, listed, signed_at
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Remark, Table
from ipseval.testing._gate import Gate, gate, said_of, shown
from ipseval.utils.checks import counted

KEY = ("candidate", "incumbent", "metric", "estimator")
NUMBERS = ("old", "new", "difference", "low", "high", "smallest_visible_loss", "n_users")


@dataclass(frozen=True, eq=False, repr=False)
class GateHistory(Result):
    """Gates in the order of their names, such as 2026-W31.

    Attributes
    ----------
    gates : dict
        Name -> Gate.
    """

    gates: dict[str, Gate]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per gate: model (its name), outcome, what decided, numbers, ci_low, ci_high and changed.

        changed: what is other than in the gate before, of data, propensity, options and versions.
        """
        rows = []
        before: Gate | None = None
        for name, one in self.gates.items():
            row: dict[str, Any] = {"model": name, "outcome": one.outcome}
            row |= {each: getattr(one, each) for each in (*KEY, *NUMBERS)}
            rows.append(row | {"changed": "" if before is None else _changed(one, before)})
            before = one
        return pd.DataFrame(rows).rename(columns={"low": "ci_low", "high": "ci_high"})

    @property
    def verdict(self) -> str:
        """How many gates there are, the last decision, and which were worse, suspicious or undecided."""
        name, last = list(self.gates.items())[-1]
        found: dict[str, list[str]] = {}
        for outcome, words in (
            ("worse", "WORSE"),
            ("suspicious", "suspicious"),
            ("cannot tell", "undecided"),
        ):
            names = [each for each, one in self.gates.items() if one.outcome == outcome]
            found |= {words: names} if names else {}
        rest = "".join(f" {words[:1].upper()}{words[1:]}: {listed(names)}." for words, names in found.items())
        return f"{counted(len(self.gates), 'gate')}.{rest} Last, {name}: {last.verdict}"

    @property
    def exit_code(self) -> int:
        """That of the last gate."""
        return list(self.gates.values())[-1].exit_code

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per gate, with its interval and what changed."""
        frame, gates = self.frame, list(self.gates.values())
        places = decimals((frame["ci_high"] - frame["ci_low"]) / 4, digits)
        rows = []
        for row in frame.to_dict("records"):
            low, gap, high = (row[name] for name in ("ci_low", "difference", "ci_high"))
            interval = f"[{signed_at(low, places)}, {signed_at(high, places)}]"
            difference = Cell(signed_at(gap, places), interval, at=(low, gap, high))
            values = [Cell(fixed(row[name], places)) for name in ("old", "new")]
            rest = (Cell(shown(row["smallest_visible_loss"])), Cell(row["outcome"]), Cell(row["changed"]))
            rows.append((Cell(row["model"]), *values, difference, *rest))
        header = ("gate", "old", "new", "difference", "smallest visible loss", "outcome", "changed")
        last, weeks = gates[-1], max(one.weeks for one in gates)
        summary = (
            f"{last.names} by {last.metric} ({last.estimator})",
            f"False alarms: at most {1 - last.confidence_level:.2g} {said_of(weeks)}, one share each.",
        )
        table = Table(header, tuple(rows), words=frozenset({0, 5, 6}), signed=True, metric=last.metric)
        lines = [f"{len(gates)} gates share what was meant for {weeks}."] if len(gates) > weeks else []
        lines += [
            f"The {name} is not the same in all: {listed(list(dict.fromkeys(frame[name])))}."
            for name in KEY
            if frame[name].nunique() > 1
        ]
        return Tables(
            summary,
            (table, *([] if page else [self.verdict])),
            title="History of a gate" if page else "",
            warnings=tuple(lines),
            verdict=(Remark("Verdict", (self.verdict,)),) if page else (),
        )


def _changed(new: Gate, old: Gate) -> str:
    """Return what is other than in the gate before, the data by name only."""
    found = changed_between(new.record, old.record).to_dict("records")
    words = [
        "data" if one["what"] == "data_sha256" else f"{one['what']} {one['old']} -> {one['new']}"
        for one in found
    ]
    return "; ".join(words)


def history(folder: str | Path, **options: Any) -> GateHistory:
    """Return the gates of a folder of results, one per week, in the order of the file names.

    Parameters
    ----------
    folder : path
        Files .npz: saved gates as they are, and saved evaluations that hold candidate and incumbent.
    **options
        Of `gate`, for the evaluations.

    Raises
    ------
    InputError
        When the folder holds no results, or one of another kind.
    """
    files = sorted(Path(folder).glob("*.npz")) if Path(folder).is_dir() else []
    if not files:
        raise InputError(f"{folder} is no folder with results (.npz).")
    gates = {}
    for path in files:
        one = load(path)
        if not isinstance(one, (Gate, Evaluation)):
            raise InputError(f"{path} holds neither an evaluation nor a gate.")
        gates[path.stem] = one if isinstance(one, Gate) else gate(one, **options)
    return GateHistory(gates)
