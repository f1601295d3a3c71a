"""Offline and online differences of the same experiments, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import counted, examples
from ipseval.errors import InputError

VERSIONS = ["model", "reference"]
INDICATOR = ("metric", "estimator", "gamma")


@dataclass(frozen=True, eq=False)
class Joined:
    """One row per experiment and indicator: offline and online difference with their standard errors."""

    frame: pd.DataFrame  # indicator, experiment, offline, offline_error, online, online_error
    indicators: pd.DataFrame  # one row per indicator, indexed by its number
    notes: tuple[str, ...]


def joined(offline: Any, online: Any) -> Joined:
    """Return the differences of experiments that both frames have, the same ones for every indicator."""
    offline, online = _checked("offline", offline), _checked("online", online)
    keys = ["experiment"] if "experiment" in online and "experiment" in offline else VERSIONS
    for name, frame in (("offline", offline), ("online", online)):
        missing = [key for key in keys if key not in frame]
        if missing:
            raise InputError(
                f"{name} needs a column 'experiment', or 'model' and 'reference' (the two versions); it has "
                f"{examples(frame.columns, 12)}."
            )
    offline, online = _keyed(offline, keys), _keyed(online, keys)
    repeated = online["key"][online["key"].duplicated()].unique()
    if repeated.size:
        raise InputError(f"online has several rows for {examples(repeated)}; pool them into one each.")
    named = [name for name in INDICATOR if name in offline]
    indicators = offline[named].drop_duplicates().reset_index(drop=True) if named else pd.DataFrame(index=[0])
    # A frame without columns has rows in some versions of pandas only, so one indicator is no look-up.
    numbers = {tuple(row): n for n, row in enumerate(indicators.fillna("").itertuples(index=False))}
    rows = offline[named].fillna("").itertuples(index=False)
    offline["indicator"] = [numbers[tuple(row)] for row in rows] if named else 0
    twice = offline.duplicated(["indicator", "key"])
    if twice.any():
        raise InputError(
            f"offline has several rows for {examples(offline['key'][twice].unique())} and one indicator; "
            f"an indicator is told by the columns {', '.join(INDICATOR)}."
        )
    return _matched(offline, online, indicators)


def _matched(offline: pd.DataFrame, online: pd.DataFrame, indicators: pd.DataFrame) -> Joined:
    both = offline.merge(online, on="key", suffixes=("_offline", "_online"))
    notes = []
    for name, frame, other in (("offline", offline, online), ("online", online, offline)):
        n_alone = (~frame.drop_duplicates("key")["key"].isin(other["key"])).sum()
        if n_alone:
            notes.append(f"{counted(int(n_alone), 'experiment')} of {name} has no match and is left out")
    flip = np.where(both["flipped_offline"] == both["flipped_online"], 1.0, -1.0)
    frame = pd.DataFrame(
        {
            "indicator": both["indicator"],
            "experiment": both["key"],
            "offline": flip * both["difference_offline"],
            "offline_error": both["std_error_offline"],
            "online": both["difference_online"],
            "online_error": both["std_error_online"],
        }
    )
    known = frame[["offline", "offline_error", "online", "online_error"]].notna().all(axis=1)
    whole = frame[known].groupby("experiment")["indicator"].nunique() == len(indicators)
    kept = frame["experiment"].isin(whole.index[whole])
    n_partial = frame["experiment"][~kept].nunique()
    if n_partial:
        text = counted(n_partial, "experiment")
        notes.append(f"{text} without a defined difference for every indicator left out of all")
    return Joined(frame[kept].reset_index(drop=True), indicators, tuple(notes))


def _checked(name: str, given: Any) -> pd.DataFrame:
    if not isinstance(given, pd.DataFrame):
        raise InputError(f"{name} must be a DataFrame; got {type(given).__name__}.")
    missing = [column for column in ("difference", "std_error") if column not in given]
    if missing:
        raise InputError(
            f"{name} needs columns difference and std_error; it has {examples(given.columns, 12)}."
        )
    frame = given.reset_index(drop=True).copy()
    for column in ("difference", "std_error"):
        try:
            frame[column] = frame[column].astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"column {column!r} of {name} must hold numbers.") from None
    numbers = frame[["difference", "std_error"]].to_numpy(dtype=np.float64)
    bad = (numbers[:, 1] < 0) | np.isinf(numbers).any(axis=1)
    if bad.any():
        raise InputError(f"{int(bad.sum())} rows of {name} are infinite or have a std_error below 0.")
    return frame


def _keyed(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add the key of the experiment, and whether its two versions stand in the other order."""
    frame["flipped"] = False
    if keys == VERSIONS:
        first, second = frame["model"].astype(str), frame["reference"].astype(str)
        frame["flipped"] = first < second
        low, high = first.where(first < second, second), second.where(first < second, first)
        frame["key"] = low + " / " + high
    else:
        frame["key"] = frame["experiment"].astype(str)
    return frame
