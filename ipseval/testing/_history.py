"""history(): the gates of a season, and the changes from one gate to the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.differences import tabulate_changes
from ipseval.reporting import Tables, load
from ipseval.reporting.formatting import count_decimals, format_fixed, format_signed, join_names
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Remark, Table
from ipseval.testing._gate import Gate, Outcome, describe_false_alarms, format_loss, gate, name_interval
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_function

KEY_FIELDS = ("candidate", "incumbent", "metric", "estimator")
NUMBER_FIELDS = ("old", "new", "difference", "low", "high", "smallest_visible_loss", "n_users")
# The outcomes that a verdict lists by the names of their gates, with the label of the list.
LISTED_OUTCOMES: dict[Outcome, str] = {
    "worse": "WORSE",
    "suspicious": "Suspicious",
    "cannot tell": "Undecided",
    "no difference": "No difference",
}
HEADER = ("gate", "old", "new", "difference", "smallest visible loss", "outcome", "changed")
WORD_COLUMNS = frozenset({0, 5, 6})  # columns of the header that contain words


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
        """One row per gate: model (its name), outcome, keys, numbers, ci_low, ci_high and changed.

        changed: the differences to the previous gate in data, propensity, options and versions.
        """
        rows = []
        previous_gate: Gate | None = None
        for name, decision in self.gates.items():
            row: dict[str, Any] = {"model": name, "outcome": decision.outcome}
            for field in (*KEY_FIELDS, *NUMBER_FIELDS):
                row[field] = getattr(decision, field)
            row["changed"] = "" if previous_gate is None else _describe_changes(decision, previous_gate)
            rows.append(row)
            previous_gate = decision
        return pd.DataFrame(rows).rename(columns={"low": "ci_low", "high": "ci_high"})

    @property
    def verdict(self) -> str:
        """Number of gates, names of those that were worse, suspicious or undecided, and last decision."""
        sentences = [f"{format_count(len(self.gates), 'gate')}."]
        for outcome, label in LISTED_OUTCOMES.items():
            names = []
            for name, decision in self.gates.items():
                if decision.outcome == outcome:
                    names.append(name)

            if names:
                sentences.append(f"{label}: {join_names(names)}.")
        last_name, last_gate = self._last
        sentences.append(f"Last, {last_name}: {last_gate.verdict}")
        return " ".join(sentences)

    @property
    def exit_code(self) -> int:
        """Exit code of the last gate."""
        _, last_gate = self._last
        return last_gate.exit_code

    @property
    def _last(self) -> tuple[str, Gate]:
        """Name and decision of the last gate."""
        return list(self.gates.items())[-1]

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per gate, with its interval and the changes to the previous gate."""
        frame = self.frame
        _, last_gate = self._last
        n_comparisons = max(decision.n_comparisons for decision in self.gates.values())
        summary = (
            f"{last_gate.names} by {last_gate.metric} ({last_gate.estimator}), each with its "
            f"{name_interval(last_gate.interval_level)}",
            describe_false_alarms(last_gate.confidence_level, n_comparisons),
        )
        table = Table(
            HEADER, _format_rows(frame, digits), words=WORD_COLUMNS, signed=True, metric=last_gate.metric
        )
        warnings = self._list_warnings(frame, n_comparisons)
        if page:
            return Tables(
                summary,
                (table,),
                title="History of a gate",
                warnings=warnings,
                remarks=(Remark("Verdict", (self.verdict,)),),
            )
        return Tables(summary, (table, self.verdict), warnings=warnings)

    def _list_warnings(self, frame: pd.DataFrame, n_comparisons: int) -> tuple[str, ...]:
        """Return the reasons why the gates do not form one season."""
        warnings = []
        if len(self.gates) > n_comparisons:
            warnings.append(
                f"{len(self.gates)} gates share a probability of a false alarm that was set for {n_comparisons}."
            )
        for field in KEY_FIELDS:
            values = frame[field].unique().tolist()
            if len(values) > 1:
                warnings.append(f"The {field} is not the same in all gates: {join_names(values)}.")
        return tuple(warnings)


def _format_rows(frame: pd.DataFrame, digits: int) -> tuple[tuple[Cell, ...], ...]:
    """Return one row of cells per gate, with as many decimals as the widths of the intervals allow."""
    n_decimals = count_decimals((frame["ci_high"] - frame["ci_low"]) / 4, digits)
    rows = []
    for row in frame.to_dict("records"):
        low = row["ci_low"]
        high = row["ci_high"]
        difference = row["difference"]
        interval = f"[{format_signed(low, n_decimals)}, {format_signed(high, n_decimals)}]"
        rows.append(
            (
                Cell(row["model"]),
                Cell(format_fixed(row["old"], n_decimals)),
                Cell(format_fixed(row["new"], n_decimals)),
                Cell(format_signed(difference, n_decimals), interval, at=(low, difference, high)),
                Cell(format_loss(row["smallest_visible_loss"])),
                Cell(row["outcome"]),
                Cell(row["changed"]),
            )
        )
    return tuple(rows)


def _describe_changes(new: Gate, old: Gate) -> str:
    """Return the differences between the records of two gates as text; data are given by name only."""
    changes = []
    for change in tabulate_changes(new.record, old.record).to_dict("records"):
        if change["what"] == "data_sha256":
            changes.append("data")
        else:
            changes.append(f"{change['what']} {change['old']} -> {change['new']}")
    return "; ".join(changes)


@public_function
def history(folder: str | Path, **options: Any) -> GateHistory:
    """Read the gates of a folder of results, one per week, in the order of the file names.

    Parameters
    ----------
    folder : str or Path
        Folder with files .npz. Saved gates are used as they are; saved evaluations, which must contain the
        candidate and the incumbent, are passed to `gate`.
    **options
        Options of `gate`, for the evaluations.

    Returns
    -------
    GateHistory
        The gates, a table of them and the last decision.

    Raises
    ------
    InputError
        When the folder contains no results, or a result of another kind.

    See Also
    --------
    gate : One decision.

    Examples
    --------
    The gates of two weeks, each with a log of its own:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"incumbent": examples["popular"], "candidate": examples["taste"]}
    >>> with TemporaryDirectory() as folder:
    ...     for week in (1, 2):
    ...         evaluation = evaluate(models, world.split(rng=week), metrics=["recall@10"])
    ...         evaluation.save(Path(folder) / f"2024-0{week}.npz", ranks=False)
    ...     gates = history(folder, candidate="candidate", incumbent="incumbent")
    >>> [(week, decision.outcome) for week, decision in gates.gates.items()]
    [('2024-01', 'not worse'), ('2024-02', 'not worse')]
    """
    try:
        files = sorted(Path(folder).glob("*.npz"))
    except ValueError:  # of a name that no file system allows, such as one with a null character
        files = []
    if not files:
        raise InputError(f"folder must be a folder with results (.npz); got {folder}.")
    gates = {}
    for path in files:
        result = load(path)
        if isinstance(result, Gate):
            gates[path.stem] = result
        elif isinstance(result, Evaluation):
            gates[path.stem] = gate(result, **options)
        else:
            raise InputError(f"{path} contains neither an evaluation nor a gate. Remove it from the folder.")
    return GateHistory(gates)
