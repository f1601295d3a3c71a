"""The report of a study, as Markdown: tables, what differs beyond its uncertainty, what to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ipseval.protocols._compare import FACTORS, ProtocolComparison
from ipseval.protocols._protocol import LEGEND

if TYPE_CHECKING:
    from ipseval.protocols._result import ProtocolStudy

NAMES = {
    "split": "splits",
    "k_core": "filters",
    "candidates": "candidates",
    "estimator": "estimators",
    "log": "logs",
}
MAX_EXAMPLES = 12
IDENTICAL = "snips is identical to aoa here"


def to_markdown(study: ProtocolStudy) -> str:
    """Return the whole report."""
    comparisons = {
        factor: study.comparisons(factor, reference=_reference(study, factor)) for factor in FACTORS
    }
    compared = [factor for factor in FACTORS if comparisons[factor]]
    lines = ["# Protocol study", "", *_summary(study), ""]
    for factor in compared:
        if factor != "log":
            lines += _table_section(study, factor)
    if "log" in compared:
        lines += _matrix_section(study)
    lines += _verdict_section(study, {factor: comparisons[factor] for factor in compared})
    return "\n".join([*lines, *_notes_section(study)]) + "\n"


def _summary(study: ProtocolStudy) -> list[str]:
    counts = ", ".join(
        f"{len(study.levels(factor))} {NAMES[factor]} ({', '.join(study.levels(factor))})"
        for factor in FACTORS
    )
    return [
        f"{len(study.models)} recommenders ({', '.join(study.models)}); {counts}; metrics "
        f"{', '.join(study.metrics)}.",
        "",
        LEGEND,
        "",
        "or@k: share of the top k in common; src: Spearman's correlation; ipc: number of inverted pairs of "
        f"recommenders, of {len(study.models) * (len(study.models) - 1) // 2}; tau_b: Kendall's. n_beyond: "
        "pairs of recommenders that swap beyond their uncertainty, summed over logs. In brackets: "
        f"{study.confidence_level:.0%} bootstrap intervals over the users of these logs; a replicate carries "
        "the noise of the data twice, so that intervals lean towards less agreement and need not hold the "
        "value. Tables show the first level of what they do not compare; agreement_*.csv have all.",
    ]


def _reference(study: ProtocolStudy, factor: str) -> str | None:
    """Return the level that tables compare with: the full catalogue, the first estimator; else all pairs."""
    levels = study.levels(factor)
    if factor == "candidates":
        return "full" if "full" in levels else levels[0]
    return levels[0] if factor == "estimator" else None


def _table_section(study: ProtocolStudy, factor: str) -> list[str]:
    """Return one table per metric, with every split, and the first level of what else does not differ."""
    fixed = {
        name: study.levels(name)[0]
        for name in ("k_core", "candidates", "estimator")
        if name != factor and study.levels(name)
    }
    lines = [f"## Between {NAMES[factor]} ({', '.join(fixed.values())})", ""]
    for metric in study.metrics:
        table = study.table(factor, metric=metric, reference=_reference(study, factor))
        for name, value in fixed.items():
            table = table[table[name] == value]
        constant = ["split"] if "split" in table and table["split"].nunique() == 1 else []
        table = table.drop(columns=["metric", *fixed, *constant])
        lines += [f"### {metric}", "", *markdown_table(_with_intervals(table)), ""]
    return lines


def _matrix_section(study: ProtocolStudy) -> list[str]:
    lines = ["## Between logs: mean src over all settings", ""]
    for metric in study.metrics:
        matrix = study.matrix("log", "src", metric=metric).map(_number)
        lines += [f"### {metric}", "", *markdown_table(matrix.reset_index(names="log")), ""]
    return lines


def _verdict_section(study: ProtocolStudy, comparisons: dict[str, list[ProtocolComparison]]) -> list[str]:
    """Return, per pair of levels, in how many comparisons recommenders swap beyond their uncertainty."""
    alpha = 1 - study.confidence_level
    lines = [
        "## Which differences are larger than their uncertainty",
        "",
        "Two settings differ beyond their uncertainty when at least one pair of recommenders is in opposite "
        f"order, clear of zero in both (Gail–Simon test at {alpha:.0%}, Holm over the pairs of "
        "recommenders). Other differences in order may be noise between users.",
        "",
    ]
    for factor, found in comparisons.items():
        lines += [f"### {NAMES[factor].capitalize()}", ""]
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
        lines += [*markdown_table(pd.DataFrame(rows)), ""]
        lines += [*_examples(study, factor, found, alpha), ""]
    return lines


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
    study: ProtocolStudy, factor: str, comparisons: Sequence[ProtocolComparison], alpha: float
) -> list[str]:
    """Return a line per comparison with clear swaps, those at the first level of other factors if any."""
    clear = [one for one in comparisons if one.beyond_uncertainty(alpha)]
    if not clear:
        return ["No pair of recommenders swaps beyond its uncertainty."]
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
        lines.append(f"- {', '.join(one.other_levels().values())}, {one.metric}: {shown}{more}.")
    if len(clear) > len(chosen):
        lines.append(f"- and {len(clear) - len(chosen)} other comparisons: agreement_{factor}.csv.")
    return lines


def _notes_section(study: ProtocolStudy) -> list[str]:
    lines = ["## What to know", ""]
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
        "Intervals and tests are over users of the recommenders as trained; training again on other data, or "
        "with another seed, adds to the uncertainty. std_repeats in estimates.csv shows it for repeated "
        "splits."
    )
    return lines + [f"- {note}" for note in dict.fromkeys(notes)]


def _with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with ``value [low, high]`` in one cell."""
    shown = pd.DataFrame(index=table.index)
    for name in table.columns:
        if name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in table:
            continue
        if f"{name}_low" in table:
            bounds = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
            shown[name] = [
                f"{_number(value)} [{_number(low)}, {_number(high)}]" for value, low, high in bounds
            ]
        else:
            shown[name] = [_number(value) if isinstance(value, float) else value for value in table[name]]
    return shown


def _number(value: float) -> str:
    return "undefined" if np.isnan(value) else f"{value:.2f}"


def markdown_table(frame: pd.DataFrame) -> list[str]:
    """Return the lines of a Markdown table."""
    rows: list[Iterable[object]] = [frame.columns, ["---"] * len(frame.columns)]
    rows += frame.itertuples(index=False)
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
