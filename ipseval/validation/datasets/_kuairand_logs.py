"""The original logs of KuaiRand: `log_standard_*.csv` of the feed and `log_random_*.csv` of random exposure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice
from ipseval.validation.datasets._base import CARDS, RandomExposureStudy, check_values
from ipseval.validation.datasets._files import find_files, read_columns

KUAIRAND = CARDS["kuairand"]
STANDARD = "log_standard_*.csv"
RANDOM = "log_random_*.csv"
USER = "user_id"
ITEM = "video_id"
TIME = "time_ms"

# The twelve signals of feedback; those without a duration are 0 or 1.
BINARY_SIGNALS = (
    *("is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate"),
    *("long_view", "is_profile_enter"),
)
TIME_SIGNALS = ("play_time_ms", "duration_ms", "profile_stay_time", "comment_stay_time")
SIGNALS = (*BINARY_SIGNALS, *TIME_SIGNALS)

# Version -> rows of the logs of the feed and of random exposure, as published by the authors.
PUBLISHED_ROWS: Mapping[str, tuple[int, int]] = {
    "KuaiRand-Pure": (1_436_609, 1_186_059),
    "KuaiRand-1K": (11_713_045, 43_028),
    "KuaiRand-27K": (322_278_385, 1_186_059),
}


def has_original_logs(path: str | Path) -> bool:
    """Return whether a folder or archive contains an original log of the feed or of random exposure."""
    return bool(find_files(path, STANDARD, KUAIRAND) or find_files(path, RANDOM, KUAIRAND))


def load_original_logs(path: str | Path, *, signal: str, verify: bool) -> RandomExposureStudy:
    """Return the study of one signal in the original logs of any version of KuaiRand."""
    check_choice("signal", signal, SIGNALS)
    standard = _read_logs(path, STANDARD, signal)
    random = _read_logs(path, RANDOM, signal)
    if verify:
        _check_published_rows(len(standard), len(random))
    standard = _merge_repeats(standard)
    random = _merge_repeats(random)
    users = np.union1d(standard["user"], random["user"])
    items = np.union1d(standard["item"], random["item"])
    return RandomExposureStudy(
        name="kuairand",
        biased=Interactions.from_frame(standard, value="value", timestamp="time", users=users, items=items),
        random=Interactions.from_frame(random, value="value", timestamp="time", users=users, items=items),
        threshold=1,
        card=KUAIRAND,
    )


def _read_logs(path: str | Path, pattern: str, signal: str) -> pd.DataFrame:
    """Return user, item, time and the signal of all rows of the logs with names of a pattern."""
    names = find_files(path, pattern, KUAIRAND)
    if not names:
        raise InputError(
            f"{KUAIRAND.name}: {pattern} is not in {path}; expected at least one file. Pass the folder `data` of a "
            f"version from {KUAIRAND.url}."
        )
    columns = {USER: "int64", ITEM: "int64", TIME: "int64", signal: "int64"}
    frames = [read_columns(path, name, KUAIRAND, columns) for name in names]
    frame = pd.concat(frames, ignore_index=True)
    values = frame[signal]
    requirement = f"{signal} of {pattern} must be >= 0"
    is_valid = values >= 0
    if signal in BINARY_SIGNALS:
        requirement = f"{signal} of {pattern} must be 0 or 1"
        is_valid = values.isin([0, 1])
    check_values(KUAIRAND, requirement, is_valid, values)
    frame.columns = pd.Index(["user", "item", "time", "value"])
    return frame


def _check_published_rows(n_standard: int, n_random: int) -> None:
    """Raise `InputError` unless both logs have the rows of one version."""
    if (n_standard, n_random) in PUBLISHED_ROWS.values():
        return
    versions = []
    for version, (standard, random) in PUBLISHED_ROWS.items():
        versions.append(f"{version} {standard:,} and {random:,}")
    raise InputError(
        f"{KUAIRAND.name}: the logs have {n_standard:,} rows of the feed and {n_random:,} of random exposure; "
        f"expected {'; '.join(versions)}. They are truncated or a part; get them again, or pass verify=False to "
        "read them as they are."
    )


def _merge_repeats(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the row with the largest signal of each pair, and the first in time of equal ones."""
    ordered = frame.sort_values(["value", "time"], ascending=[False, True], kind="stable")
    first = ordered.drop_duplicates(["user", "item"])
    return first.sort_values(["time", "user", "item"], kind="stable").reset_index(drop=True)
