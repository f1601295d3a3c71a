"""Which settings of a study put recommenders in another order, beyond the noise between users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from ipseval._base.checks import counted
from ipseval.report._tables import Heading, Notes, Part, Remark, Table
from ipseval.studies.protocols._compare import ProtocolComparison

MAX_EXAMPLES = 12


def verdict_section(
    comparisons: Mapping[str, list[ProtocolComparison]],
    names: Mapping[str, str],
    first: Mapping[str, str],
    alpha: float,
) -> list[Part]:
    """Return, per pair of levels, in how many comparisons recommenders swap beyond their uncertainty."""
    parts: list[Part] = [
        Heading("Which differences are larger than their uncertainty"),
        "Two settings differ beyond their uncertainty when some pair of recommenders is in opposite order, "
        f"clear of zero in both. The test is Gail and Simon's at {alpha:.0%}, Holm-corrected over the pairs "
        "of recommenders. Other differences in order may be noise between users.",
    ]
    for factor, found in comparisons.items():
        parts.append(Heading(names[factor].capitalize(), 3))
        pairs: dict[tuple[str, str], list[ProtocolComparison]] = {}
        for one in found:
            pairs.setdefault((one.level_a, one.level_b), []).append(one)
        rows = []
        for (a, b), group in pairs.items():
            known = [one for one in group if one.agreement is not None]
            clear = [one for one in known if one.beyond_uncertainty(alpha)]
            inverted = [one for one in known if one.inversions]
            rows.append((a, b, len(known), len(inverted), len(clear), _most_frequent(clear, alpha)))
        columns = ("a", "b", "comparisons", "another order", "beyond uncertainty", "most frequent swap")
        parts += [
            Table.of(pd.DataFrame(rows, columns=columns), n_keys=2),
            Notes(_examples(factor, found, first, alpha)),
        ]
    return parts


def _most_frequent(comparisons: Sequence[ProtocolComparison], alpha: float) -> str:
    swaps = Counter(
        f"{swap.better_in_a} > {swap.better_in_b} under a, the reverse under b"
        for one in comparisons
        for swap in one.beyond_uncertainty(alpha)
    )
    return "".join(f"{text} ({count})" for text, count in swaps.most_common(1))


def _examples(
    factor: str, comparisons: Sequence[ProtocolComparison], first: Mapping[str, str], alpha: float
) -> tuple[str, ...]:
    """Return a line per comparison with clear swaps, those at the first level of other factors if any."""
    clear = [one for one in comparisons if one.beyond_uncertainty(alpha)]
    if not clear:
        return ("No pair of recommenders swaps beyond its uncertainty.",)
    usual = [one for one in clear if {**one.other_levels(), **first} == {**first, **one.other_levels()}]
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


def conclusions(
    compared: Mapping[str, Sequence[ProtocolComparison]], notes: Sequence[str], alpha: float
) -> tuple[Remark, ...]:
    """Return how often each choice changes the order of recommenders, and how often clear of noise."""
    lines = []
    for name, comparisons in compared.items():
        known = [one for one in comparisons if one.agreement is not None]
        if known:
            changed = sum(bool(one.inversions) for one in known)
            clear = sum(bool(one.beyond_uncertainty(alpha)) for one in known)
            lines.append(
                f"Other {name} change the order of recommenders in {changed:,} of "
                f"{counted(len(known), 'comparison')}, in {clear:,} of them beyond its uncertainty."
            )
    verdict = Remark("Verdict", tuple(lines) or ("There is one setting, so there is nothing to compare.",))
    return (verdict, Remark("Data", tuple(notes))) if notes else (verdict,)
