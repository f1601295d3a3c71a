"""KuaiRec: a log of short videos, and a block of users × videos that is (almost) fully observed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data._interactions import Interactions
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, check_sizes
from ipseval.validation.datasets._files import read_columns

CARD = DataCard(
    name="kuairec",
    title="KuaiRec 2.0",
    url="https://kuairec.com",
    how_to_get="Download KuaiRec.zip from the authors' page; pass the archive, or its folder `data`.",
    licence="CC BY-SA 4.0",
    citation=(
        "Gao, Li, Lei, Chen, Li, Jiang, He, Mao, Chua: KuaiRec: A Fully-Observed Dataset and Insights for "
        "Evaluating Recommender Systems, CIKM 2022, doi 10.1145/3511808.3557220"
    ),
    sizes={
        "users": 7176,
        "items": 10728,
        "users of the block": 1411,
        "items of the block": 3327,
        "rows of big_matrix.csv": 12530806,
        "rows of small_matrix.csv": 4676570,
    },
)
COLUMNS = {"user_id": "int64", "video_id": "int64", "watch_ratio": "float64"}


def load_kuairec(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    """Return KuaiRec as a study: the big matrix as biased log, the small one as fully observed truth.

    value = watch ratio (time watched / length), the largest where a pair occurs several times; positive from
    2, as in the paper. The block of 1,411 users × 3,327 videos is 99.6 % observed: its positives are S_u
    within the block. Its pairs were taken out of the big matrix, so a held-out part of the big matrix shows
    the same users on *other* videos: a comparison with the block is fair for models and candidates limited to
    the block's users, and says less about items outside it.

    Parameters
    ----------
    path : folder or archive
        Holds `big_matrix.csv` and `small_matrix.csv`, with columns user_id, video_id and watch_ratio.
    verify : bool
        Check the published sizes; False reads any files of this format.

    Raises
    ------
    InputError
        When a file or column is missing, an entry is not a number, a watch ratio is negative, or sizes
        differ.

    References
    ----------
    Gao et al., KuaiRec, CIKM 2022, doi 10.1145/3511808.3557220.
    """
    big, small = (_read(path, name, verify) for name in ("big_matrix.csv", "small_matrix.csv"))
    users = np.union1d(big["user"], small["user"])
    items = np.union1d(big["item"], small["item"])
    if verify:
        check_sizes(
            CARD,
            {
                "users": users.size,
                "items": items.size,
                "users of the block": small["user"].nunique(),
                "items of the block": small["item"].nunique(),
            },
        )
    biased, block = (
        Interactions.from_frame(frame, value="value", users=users, items=items) for frame in (big, small)
    )
    return RandomExposureStudy("kuairec", biased, block, threshold=2, card=CARD)


def _read(path: str | Path, name: str, verify: bool) -> pd.DataFrame:
    frame = read_columns(path, name, CARD, COLUMNS)
    if verify:
        check_sizes(CARD, {f"rows of {name}": len(frame)})
    bad = ~np.isfinite(frame["watch_ratio"]) | (frame["watch_ratio"] < 0)
    if bad.any():
        raise InputError(f"kuairec: {int(bad.sum())} of {len(frame):,} watch ratios of {name} are not >= 0.")
    frame.columns = pd.Index(["user", "item", "value"])
    best: pd.DataFrame = frame.groupby(["user", "item"], sort=True).max().reset_index()
    return best
