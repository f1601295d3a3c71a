"""MovieLens: ratings of the releases from 100K on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.utils.public import public_function
from ipseval.validation.datasets._base import CARDS, check_values
from ipseval.validation.datasets._files import has_file, open_data_file, read_columns

MOVIELENS = CARDS["movielens"]
DTYPES = {"user": "int64", "item": "int64", "rating": "float64", "timestamp": "int64"}
CSV_COLUMNS = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}


@public_function
def load_movielens(path: str | Path) -> Interactions:
    r"""Load MovieLens ratings: value = rating (0.5–5), timestamp in seconds since 1970.

    Parameters
    ----------
    path : str or Path
        Folder or archive with `u.data` (100K: tabs; a line of names may come first), `ratings.dat` (1M, 10M:
        "::") or `ratings.csv` (20M and later).

    Returns
    -------
    Interactions
        One pair per rating.

    Raises
    ------
    InputError
        When no rating file is there, a row does not have the four fields, a rating is outside 0.5–5, or a
        pair repeats.

    See Also
    --------
    ipseval.read : Read a log of any other format.
    ipseval.split_random : Split the log.

    References
    ----------
    Harper & Konstan, The MovieLens Datasets, ACM TiiS 2015, doi 10.1145/2827872.

    Examples
    --------
    A file with two ratings:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "u.data").write_text("1\t31\t2\t881250949\n1\t10\t5\t881250950\n")
    ...     log = load_movielens(folder)
    >>> log.to_frame()
       user  item  value  timestamp
    0     1    31    2.0  881250949
    1     1    10    5.0  881250950
    """
    frame = _read_ratings(path)
    rating = frame["rating"]
    check_values(MOVIELENS, "ratings must be in 0.5–5", rating.between(0.5, 5), rating)
    return Interactions.from_frame(frame, value="rating", timestamp="timestamp")


def _read_ratings(path: str | Path) -> pd.DataFrame:
    """Return user, item, rating and timestamp, from the file of whichever release is there."""
    if has_file(path, "u.data", MOVIELENS):
        return _read_tabs(path)
    if has_file(path, "ratings.dat", MOVIELENS):
        # "::" is read as ":" with empty columns between, as the fast parser takes single characters only.
        header = ["user", "empty1", "item", "empty2", "rating", "empty3", "timestamp"]
        return read_columns(path, "ratings.dat", MOVIELENS, DTYPES, sep=":", header=header)
    csv_dtypes = {csv_column: DTYPES[column] for csv_column, column in CSV_COLUMNS.items()}
    return read_columns(path, "ratings.csv", MOVIELENS, csv_dtypes).rename(columns=CSV_COLUMNS)


def _read_tabs(path: str | Path) -> pd.DataFrame:
    """Return the ratings of `u.data`, of which some copies begin with a line of names."""
    with open_data_file(path, "u.data", MOVIELENS) as stream:
        first_line = stream.readline().decode("utf-8", "replace").rstrip("\r\n").split("\t")
    has_header = not first_line[0].isdigit() and len(first_line) == len(DTYPES)
    if has_header:
        dtypes = dict(zip(first_line, DTYPES.values(), strict=True))
        frame = read_columns(path, "u.data", MOVIELENS, dtypes, sep="\t")
    else:
        frame = read_columns(path, "u.data", MOVIELENS, DTYPES, sep="\t", header=list(DTYPES))
    return frame.set_axis(list(DTYPES), axis=1)
