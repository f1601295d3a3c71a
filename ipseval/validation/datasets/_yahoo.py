"""Yahoo! R3: song ratings of users' choice, and ratings of songs drawn at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data._interactions import Interactions
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, check_sizes
from ipseval.validation.datasets._files import read_columns

TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
TEST = "ydata-ymusic-rating-study-v1_0-test.txt"
CARD = DataCard(
    name="yahoo-r3",
    title="Yahoo! R3 (Music ratings for user selected and randomly selected songs, version 1.0)",
    url="https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
    how_to_get="Request data set R3 from Yahoo! Webscope and pass the folder with its two rating files.",
    licence="Yahoo! Webscope agreement: research only, no redistribution",
    citation=(
        "Marlin, Zemel: Collaborative Prediction and Ranking with Non-Random Missing Data, RecSys 2009, "
        "doi 10.1145/1639714.1639717"
    ),
    sizes={"users": 15400, "items": 1000, "biased ratings": 311704, "random-exposure ratings": 54000},
)


def load_yahoo_r3(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    """Return Yahoo! R3 as a study: 311,704 chosen and 54,000 random ratings, 1–5, positive from 4.

    15,400 users rated songs of their choice among 1,000; the first 5,400 of them also rated 10 songs drawn at
    random. Ids run from 1, as in the files.

    Parameters
    ----------
    path : folder or archive
        Holds `ydata-ymusic-rating-study-v1_0-train.txt` and `…-test.txt`: user, song and rating, separated by
        tabs, without a header.
    verify : bool
        Check the published sizes; False reads any files of this format (ids 1 to the largest).

    Raises
    ------
    InputError
        When a file is missing, a row is not three whole numbers, an id is below 1 or above the published
        number, a rating is outside 1–5, a pair repeats, or sizes differ from the published ones.

    References
    ----------
    Marlin & Zemel, Collaborative Prediction and Ranking with Non-Random Missing Data, RecSys 2009, doi
    10.1145/1639714.1639717.
    """
    train, test = (_read(path, name) for name in (TRAIN, TEST))
    if verify:
        check_sizes(CARD, {"biased ratings": len(train), "random-exposure ratings": len(test)})
    found = {
        "users": int(max(train["user"].max(), test["user"].max())),
        "items": int(max(train["item"].max(), test["item"].max())),
    }
    if verify:
        check_sizes(CARD, found)
    users, items = (np.arange(1, found[what] + 1) for what in ("users", "items"))
    biased, random = (
        Interactions.from_frame(frame, value="rating", users=users, items=items) for frame in (train, test)
    )
    return RandomExposureStudy("yahoo-r3", biased, random, threshold=4, card=CARD)


def _read(path: str | Path, name: str) -> pd.DataFrame:
    columns = {"user": "int64", "item": "int64", "rating": "int64"}
    frame = read_columns(path, name, CARD, columns, sep="\t", header=list(columns))
    bad = ~frame["rating"].between(1, 5) | (frame["user"] < 1) | (frame["item"] < 1)
    if bad.any():
        row = frame[bad].iloc[0].tolist()
        raise InputError(
            f"yahoo-r3: {name} must hold ids from 1 and ratings 1–5; {int(bad.sum())} of {len(frame):,} rows "
            f"do not (first: {row})."
        )
    return frame
