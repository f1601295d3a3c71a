"""What the checks against random exposure say of each propensity, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ipseval.validation._balance import ANY_ITEM_WEIGHT, POPULARITY, SELECTION
from ipseval.validation._gammas import ALL_METRICS

RIGHT = "nothing found"


def verdicts(balance: pd.DataFrame, frame: pd.DataFrame, per_item: Mapping[str, bool]) -> pd.DataFrame:
    """Return one row per propensity and estimator; see `Validation.diagnostics`."""
    selection = balance[balance["check"] == SELECTION]
    popularity = balance[balance["check"] == POPULARITY]
    names = ["propensity", "estimator", "model", "metric"]
    over_splits = frame.groupby(names)[["factor", "factor_beyond_noise"]].mean()
    largest = over_splits.groupby(level=names[:2]).max().to_dict("index")
    rows = []
    for row in popularity.to_dict("records"):
        name, estimator = row["propensity"], row["estimator"]
        found = selection[selection["propensity"] == (ANY_ITEM_WEIGHT if per_item[name] else name)]
        odds, p_value, flag = _selection(found)
        smd = np.nan if pd.isna(row["flag"]) else row["value"] if row["flag"] else 0.0
        rows.append(
            {
                "propensity": name,
                "estimator": estimator,
                "per_item": per_item[name],
                "popularity_smd": row["value"],
                "popularity_low": row["ci_low"],
                "popularity_high": row["ci_high"],
                "popularity_flag": row["flag"],
                "selection_odds": odds,
                "selection_p": p_value,
                "selection_flag": flag,
                **largest[name, estimator],
                "verdict": _words(per_item[name], smd, flag),
            }
        )
    flags = {"popularity_flag": "boolean", "selection_flag": "boolean"}
    return pd.DataFrame(rows).astype(flags)


def _selection(found: pd.DataFrame) -> tuple[float, float, bool | None]:
    """Return the odds ratio of the recommender with the largest |z|, the family's p, and the flag.

    NaN, NaN and None where nothing could be checked.
    """
    known = found[found["p_value"].notna()]
    if known.empty:
        return float("nan"), float("nan"), None
    value = known["value"].to_numpy()
    strongest = int(np.argmax(np.abs(value / known["std_error"].to_numpy())))
    return (
        float(np.exp(value[strongest])),
        float(known["p_value"].min()),
        bool(known["flag"].any()),
    )


def _words(per_item: bool, smd: float, selection: bool | None) -> str:
    parts = []
    if selection:
        parts.append("user × item selection" if per_item else "user × item selection left")
    if np.isnan(smd):
        parts.append("popularity unchecked")
    elif smd:
        parts.append(f"weighted positives too {'popular' if smd > 0 else 'rare'}")
    if selection is None:
        parts.append("user × item selection unchecked")
    return "; ".join(parts) if parts else RIGHT


def conclusions(balance: pd.DataFrame, gammas: pd.DataFrame) -> list[str]:
    """Return the sentences that tell a reader what to conclude."""
    lines = _on_selection(balance)
    names = list(dict.fromkeys(gammas["metric"]))
    chosen = gammas["metric"].isin([ALL_METRICS] if len(names) > 1 else names)
    for row in gammas[chosen].to_dict("records"):
        if row["explained"]:
            where = f"gamma {row['gamma_low']:g} to {row['gamma_high']:g} reaches the reference."
        else:
            where = (
                "no gamma reaches the reference for all recommenders "
                f"(nearest {row['gamma']:g}, {_p(row['p_value'])})."
            )
        lines.append(f"{row['estimator']}: {where}")
    return lines


def _on_selection(balance: pd.DataFrame) -> list[str]:
    found = balance[(balance["check"] == SELECTION) & (balance["propensity"] == ANY_ITEM_WEIGHT)]
    odds, p_value, flag = _selection(found)
    if np.isnan(p_value):
        return ["User × item selection: cannot be checked, as no recommender tells users apart."]
    if flag:
        return [
            f"User × item selection: found ({_p(p_value)}). Given user and item, one standard deviation up a "
            f"recommender's list multiplies the odds of being in the log by {odds:.2f}. No weight per item "
            "removes that; weights per user and item may."
        ]
    return [
        f"User × item selection: none found ({_p(p_value)}), as far as these recommenders tell users apart. "
        "Weights of items may remove the rest of the bias."
    ]


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"
