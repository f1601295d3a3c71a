"""The printed form of a policy evaluation: values, who earns most, and what the weights allow."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int
from ipseval.estimators._labels import DR, IPS, SNIPS
from ipseval.inference._comparisons import adjust
from ipseval.report import Tables
from ipseval.report._tables import Remark, Table
from ipseval.report._words import LEVEL, decimals, listed, shown_p

OF_RECORD = (DR, "dr-sn", SNIPS, "ips-cv", IPS)  # the first of these that was asked for


class Evaluated(Protocol):
    """What the report reads of an evaluation of policies."""

    @property
    def frame(self) -> pd.DataFrame: ...
    @property
    def overlap(self) -> pd.DataFrame: ...  # an attribute
    @property
    def confidence_level(self) -> float: ...
    def compare(self, reference: str | None = None) -> pd.DataFrame: ...


def policy_tables(found: Evaluated, n_impressions: int, *, digits: int = 2) -> Tables:
    """Return the report: a row per policy, a column per estimator, the verdict, the weights, the claims."""
    check_positive_int("digits", digits)
    frame = found.frame
    labels = list(frame["estimator"].unique())
    record = next((one for one in OF_RECORD if one in labels), labels[0])
    own = frame[frame["estimator"] == record].sort_values("estimate", ascending=False, kind="stable")
    shown = pd.DataFrame({"policy": own["policy"].to_numpy()})
    for label in labels:
        rows = frame[frame["estimator"] == label].set_index("policy").loc[shown["policy"]]
        shown[label] = rows["estimate"].to_numpy()
        shown[f"{label}_low"], shown[f"{label}_high"] = rows["ci_low"].to_numpy(), rows["ci_high"].to_numpy()
    places = decimals(((frame["ci_high"] - frame["ci_low"]) / 2).dropna(), digits)
    claims = {
        str(text): list(part["estimator"].unique()) for text, part in frame.groupby("claim", sort=False)
    }
    remarks = (
        Remark("Verdict", (_verdict(found, list(own["policy"]), record),)),
        Remark("Weights", tuple(_weights(found.overlap, n_impressions))),
        Remark("Claim", tuple(f"{listed(names)}: {text}." for text, names in claims.items())),
    )
    return Tables(
        summary=(
            f"{n_impressions:,} impressions · clicks per impression · {found.confidence_level:.0%} "
            "intervals in brackets",
        ),
        parts=(Table.of(shown, formats=f".{places}f"),),
        verdict=remarks,
    )


def _verdict(found: Evaluated, policies: list[str], record: str) -> str:
    """Return who earns most by the estimator of record, and from whom that is told (Holm)."""
    first, *others = policies
    if not others:
        return f"One policy: its value by {record} stands above."
    tests = found.compare()
    with_first = (tests["policy"] == first) | (tests["reference"] == first)
    tests = tests[(tests["estimator"] == record) & with_first]
    name = np.where(tests["policy"] == first, tests["reference"], tests["policy"])
    adjusted = pd.Series(adjust(tests, "holm", ["estimator"]), index=name)
    told = [one for one in others if adjusted[one] < LEVEL]
    untold = [one for one in others if one not in told]
    parts = [f"By {record}, {first} earns most."]
    if told:
        p_value = shown_p(float(adjusted[told].max()), most=len(told) > 1)
        parts.append(f"It is told from {listed(told)} ({p_value}).")
    if untold:
        parts.append(f"These data do not tell it from {listed(untold)}.")
    return " ".join(parts)


def _weights(overlap: pd.DataFrame, n_impressions: int) -> list[str]:
    """Return the effective number of impressions of each policy, and how much of the log serves none."""
    lines = []
    for row in overlap.to_dict("records"):
        text = f"{row['policy']}: {row['ess']:,.0f} effective impressions of {n_impressions:,}"
        if row["share_unmatched"] > 0:
            text += f"; {row['share_unmatched']:.0%} show items that it never shows there"
        lines.append(f"{text}.")
    return lines
