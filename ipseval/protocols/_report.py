"""The report of a study: tables, what differs beyond its uncertainty, what to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import pandas as pd

from ipseval._checks import counted
from ipseval.protocols._compare import FACTORS, ProtocolComparison
from ipseval.protocols._protocol import LEGEND
from ipseval.report import Heading, Notes, Part, Table, Tables

NAMES = {
    "split": "splits",
    "k_core": "filters",
    "candidates": "candidates",
    "estimator": "estimators",
    "log": "logs",
}
MAX_EXAMPLES = 12
IDENTICAL = "snips is identical to aoa here"


class Compared(Protocol):
    """What the report asks of a study."""

    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def metrics(self) -> list[str]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def frame(self) -> pd.DataFrame: ...
    @property
    def confidence_level(self) -> float: ...
    def levels(self, factor: str) -> list[str]: ...
    def comparisons(self, factor: str, *, reference: str | None) -> list[ProtocolComparison]: ...
    def table(self, factor: str, *, metric: str, reference: str | None) -> pd.DataFrame: ...
    def matrix(self, factor: str, measure: str, *, metric: str) -> pd.DataFrame: ...


def study_tables(study: Compared, *, digits: int = 2) -> Tables:
    """Return the whole report; agreements have so many decimals."""
    comparisons = {
        factor: study.comparisons(factor, reference=_reference(study, factor)) for factor in FACTORS
    }
    compared = [factor for factor in FACTORS if comparisons[factor]]
    parts: list[Part] = []
    for factor in compared:
        if factor != "log":
            parts += _table_section(study, factor, digits)
    if "log" in compared:
        parts += _matrix_section(study, digits)
    parts += _verdict_section(study, {factor: comparisons[factor] for factor in compared})
    parts += [Heading("What to know"), Notes(_notes(study))]
    return Tables(_summary(study), tuple(parts), title="Protocol study")


def _summary(study: Compared) -> tuple[str, ...]:
    counts = ", ".join(
        f"{len(study.levels(factor))} {NAMES[factor]} ({', '.join(study.levels(factor))})"
        for factor in FACTORS
    )
    n_pairs = len(study.models) * (len(study.models) - 1) // 2
    return (
        f"{counted(len(study.models), 'recommender')} ({', '.join(study.models)}); {counts}; metrics "
        f"{', '.join(study.metrics)}.",
        LEGEND,
        "or@k is the share of the top k in common, src Spearman's correlation, tau_b Kendall's. ipc is the "
        f"number of inverted pairs of recommenders, of {n_pairs}. n_beyond counts, over all logs, the pairs "
        "that swap beyond their uncertainty.",
        f"Brackets hold {study.confidence_level:.0%} bootstrap intervals over the users of these logs. A "
        "replicate carries the noise of the data twice. Intervals therefore lean towards less agreement, and "
        "need not hold the value.",
        "Tables show the first level of what they do not compare. agreement_*.csv have all levels.",
    )


def _reference(study: Compared, factor: str) -> str | None:
    """Return the level that tables compare with: the full catalogue, the first estimator; else all pairs."""
    levels = study.levels(factor)
    if factor == "candidates":
        return "full" if "full" in levels else levels[0]
    return levels[0] if factor == "estimator" else None


def _table_section(study: Compared, factor: str, digits: int) -> list[Part]:
    """Return one table per metric, with every split, and the first level of what else does not differ."""
    fixed = {
        name: study.levels(name)[0]
        for name in ("k_core", "candidates", "estimator")
        if name != factor and study.levels(name)
    }
    parts: list[Part] = [Heading(f"Between {NAMES[factor]} ({', '.join(fixed.values())})")]
    for metric in study.metrics:
        table = study.table(factor, metric=metric, reference=_reference(study, factor))
        for name, value in fixed.items():
            table = table[table[name] == value]
        constant = ["split"] if "split" in table and table["split"].nunique() == 1 else []
        table = table.drop(columns=["metric", *fixed, *constant])
        parts += [Heading(metric, 3), Table.of(table, formats=f".{digits}f", n_keys=2)]
    return parts


def _matrix_section(study: Compared, digits: int) -> list[Part]:
    parts: list[Part] = [Heading("Between logs: mean src over all settings")]
    for metric in study.metrics:
        matrix = study.matrix("log", "src", metric=metric).reset_index(names="log")
        parts += [Heading(metric, 3), Table.of(matrix, formats=f".{digits}f")]
    return parts


def _verdict_section(study: Compared, comparisons: dict[str, list[ProtocolComparison]]) -> list[Part]:
    """Return, per pair of levels, in how many comparisons recommenders swap beyond their uncertainty."""
    alpha = 1 - study.confidence_level
    parts: list[Part] = [
        Heading("Which differences are larger than their uncertainty"),
        "Two settings differ beyond their uncertainty when some pair of recommenders is in opposite order, "
        f"clear of zero in both. The test is Gail and Simon's at {alpha:.0%}, Holm-corrected over the pairs "
        "of recommenders. Other differences in order may be noise between users.",
    ]
    for factor, found in comparisons.items():
        parts.append(Heading(NAMES[factor].capitalize(), 3))
        pairs: dict[tuple[str, str], list[ProtocolComparison]] = {}
        for one in found:
            pairs.setdefault((one.level_a, one.level_b), []).append(one)
        rows = []
        for (a, b), group in pairs.items():
            known = [one for one in group if one.agreement is not None]
            clear = [one for one in known if one.beyond_uncertainty(alpha)]
            inverted = [one for one in known if one.inversions]
            rows.append(
                {
                    "a": a,
                    "b": b,
                    "comparisons": len(known),
                    "another order": len(inverted),
                    "beyond uncertainty": len(clear),
                    "most frequent swap": _most_frequent(clear, alpha),
                }
            )
        parts += [Table.of(pd.DataFrame(rows), n_keys=2), Notes(_examples(study, factor, found, alpha))]
    return parts


def _most_frequent(comparisons: Iterable[ProtocolComparison], alpha: float) -> str:
    swaps = Counter(
        f"{swap.better_in_a} > {swap.better_in_b} under a, the reverse under b"
        for one in comparisons
        for swap in one.beyond_uncertainty(alpha)
    )
    if not swaps:
        return ""
    text, count = swaps.most_common(1)[0]
    return f"{text} ({count})"


def _examples(
    study: Compared, factor: str, comparisons: Sequence[ProtocolComparison], alpha: float
) -> tuple[str, ...]:
    """Return a line per comparison with clear swaps, those at the first level of other factors if any."""
    clear = [one for one in comparisons if one.beyond_uncertainty(alpha)]
    if not clear:
        return ("No pair of recommenders swaps beyond its uncertainty.",)
    first = {name: study.levels(name)[0] for name in ("k_core", "candidates", "estimator")}
    usual = [
        one
        for one in clear
        if all(value == first[name] for name, value in one.other_levels().items() if name in first)
    ]
    chosen = (usual or clear)[:MAX_EXAMPLES]
    lines = []
    for one in chosen:
        swaps = one.beyond_uncertainty(alpha)
        shown = "; ".join(
            f"{swap.better_in_a} > {swap.better_in_b} under {one.level_a}, the reverse under {one.level_b} "
            f"(p = {swap.p_value:.2g})"
            for swap in swaps[:2]
        )
        more = f"; and {len(swaps) - 2} more" if len(swaps) > 2 else ""
        lines.append(f"{', '.join(one.other_levels().values())}, {one.metric}: {shown}{more}.")
    if len(clear) > len(chosen):
        lines.append(f"and {len(clear) - len(chosen)} other comparisons: agreement_{factor}.csv.")
    return tuple(lines)


def _notes(study: Compared) -> tuple[str, ...]:
    notes = list(study.notes)
    same = study.frame[study.frame["note"].str.contains(IDENTICAL, regex=False)]
    if len(same):
        splits = same.groupby("split", sort=False)["log"].unique()
        where = "; ".join(f"{split} ({', '.join(logs)})" for split, logs in splits.items())
        notes.insert(
            0,
            f"Every user has one positive under {where}: there per-user snips equals aoa for every γ, "
            "whatever the propensity. Their agreement is no evidence of anything; snips-global does use the "
            "weights.",
        )
    notes.append(
        "Intervals and tests are over users of the recommenders as trained. Another training set or seed "
        "adds to the uncertainty; std_repeats in estimates.csv shows it for repeated splits."
    )
    return tuple(dict.fromkeys(notes))
