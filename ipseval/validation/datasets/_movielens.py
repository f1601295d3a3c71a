"""MovieLens: ratings of films, in every layout GroupLens has used."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ipseval._base.checks import check_choice
from ipseval.data._interactions import Interactions
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard
from ipseval.validation.datasets._files import has_file, open_file, read_columns

N_RATINGS = {
    "100k": 100_000,
    "1m": 1_000_209,
    "10m": 10_000_054,
    "20m": 20_000_263,
    "25m": 25_000_095,
    "32m": 32_000_204,
}
_MD5 = {
    "100k": "0e33842e24a9c977be4e0107933c0723",
    "1m": "c4d9eecfca2ab87c1945afe126590906",
    "10m": "ce571fd55effeba0271552578f2648bd",
    "20m": "cd245b17a1ae2cc31bb14903e1204af3",
    "25m": "6b51fb2759a8657d3bfcbfc42b592ada",
}
CARD = DataCard(
    name="movielens",
    title="MovieLens",
    url="https://grouplens.org/datasets/movielens/",
    how_to_get="Download a release from GroupLens; pass the .zip, or the folder with u.data or ratings.*.",
    licence="GroupLens terms: research use with acknowledgement, no redistribution without permission",
    citation=(
        "Harper, Konstan: The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015, "
        "doi 10.1145/2827872"
    ),
    sizes={f"ratings ({release})": count for release, count in N_RATINGS.items()},
    downloads={
        f"ml-{release}.zip": (
            f"https://files.grouplens.org/datasets/movielens/ml-{release}.zip",
            f"md5:{md5}",
        )
        for release, md5 in _MD5.items()
    },
)
COLUMNS = {"user": "int64", "item": "int64", "rating": "float64", "timestamp": "int64"}


def load_movielens(path: str | Path, *, release: str | None = None) -> Interactions:
    """Return MovieLens ratings: value = rating (0.5–5), timestamp in seconds since 1970.

    Parameters
    ----------
    path : folder or archive
        Holds `u.data` (100K: tabs; a line of names may come first), `ratings.dat` (1M, 10M: "::") or
        `ratings.csv` (20M and later).
    release : {"100k", "1m", "10m", "20m", "25m", "32m"}, optional
        Check the number of ratings of this release. Default: no check of the size, as for the `latest`
        releases, which change.

    Raises
    ------
    InputError
        When no rating file is there, a row does not have the four fields, a rating is outside 0.5–5, a pair
        repeats, or the number of ratings is not that of `release`.

    References
    ----------
    Harper & Konstan, The MovieLens Datasets, ACM TiiS 2015, doi 10.1145/2827872.
    """
    if release is not None:
        check_choice("release", release, N_RATINGS)
    frame = _read(path)
    if release is not None and len(frame) != N_RATINGS[release]:
        raise InputError(
            f"movielens: release {release} has {N_RATINGS[release]:,} ratings; the file has {len(frame):,}. "
            "It is truncated or another release."
        )
    bad = ~frame["rating"].between(0.5, 5)
    if bad.any():
        raise InputError(
            f"movielens: ratings must be in 0.5–5; {int(bad.sum())} of {len(frame):,} are not "
            f"(e.g. {frame['rating'][bad].iloc[0]:g})."
        )
    return Interactions.from_frame(frame, value="rating", timestamp="timestamp")


def _read(path: str | Path) -> pd.DataFrame:
    if has_file(path, "u.data"):
        with open_file(path, "u.data", CARD) as stream:
            first = stream.readline().decode("utf-8", "replace").rstrip("\r\n").split("\t")
        if not first[0].isdigit() and len(first) == len(COLUMNS):  # a copy with a line of names
            found = read_columns(
                path, "u.data", CARD, dict(zip(first, COLUMNS.values(), strict=True)), sep="\t"
            )
            return found.set_axis(list(COLUMNS), axis=1)
        return read_columns(path, "u.data", CARD, COLUMNS, sep="\t", header=list(COLUMNS))
    if has_file(path, "ratings.dat"):
        # "::" read as ":" with empty columns between: the fast parser takes single characters only.
        header = ["user", "a", "item", "b", "rating", "c", "timestamp"]
        return read_columns(path, "ratings.dat", CARD, COLUMNS, sep=":", header=header)
    names = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
    columns = {name: COLUMNS[ours] for name, ours in names.items()}
    return read_columns(path, "ratings.csv", CARD, columns).rename(columns=names)
