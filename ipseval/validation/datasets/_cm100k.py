"""CM100K: the one public log in which observation was measured, so that propensities can be counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity import CountedPropensity
from ipseval.utils.checks import as_generator
from ipseval.utils.public import public_function
from ipseval.utils.types import BoolArray, FloatArray, IntArray, RngLike
from ipseval.validation.datasets._base import CARDS, RandomExposureStudy, check_sizes, check_values
from ipseval.validation.datasets._files import read_columns

CM100K = CARDS["cm100k"]
COLUMNS = {"user": "int64", "item": "int64", "rating": "int64", "known": "int64"}
# Shares of each user's tracks that form the log, and the log or the counting part; the rest is the truth.
LOG_SHARE = 0.6
LOG_OR_COUNTING_SHARE = 0.8
LIKE = 1


@public_function
def load_cm100k(path: str | Path, *, rng: RngLike = 0, verify: bool = True) -> RandomExposureStudy:
    r"""Load CM100K as a study: 103,584 ratings of random tracks, with a flag of which tracks were known.

    1,054 users rated about 98 tracks each, which were drawn uniformly at random from 1,084, as 0 (dislike),
    1 (like) or 2 (like strongly), and said which of them they had known before. The rated tracks of each user
    are divided at random into three disjoint parts:

    * the log (60%): the tracks that the user knew, with their ratings;
    * a part for counting (20%), on which `counted_propensity` counts P(known | liked) of each track, and which is
      `calibration` of the study;
    * the truth (20%): all ratings, whether the track was known or not.

    A positive is a rating from 1. Hold out half of the log (`test_fraction=0.5`), because it has few
    interactions per user.

    * *Known* is what a user remembers to have heard. It is not a click, and no recommender chose the tracks.
    * The log has about four liked tracks per user, so two in training.
    * Some tracks are liked by users, but nobody knew them. No weight can represent them.
    * Users are paid workers of a crowdsourcing platform.

    Parameters
    ----------
    path : str or Path
        Folder or archive with `ratings.tsv`: tab-separated columns user, item, rating and known (0 or 1).
    rng : int, Generator or None, default 0
        Source of the division into three parts. The default is a number, so that the study is always the
        same; other numbers give other divisions.
    verify : bool, default True
        Check the published sizes; False reads any file of this format.

    Returns
    -------
    RandomExposureStudy
        Its `calibration` holds the ratings of the part for counting, and `counted_propensity` the model of their
        counts.

    Raises
    ------
    InputError
        When the file is missing or malformed, a pair repeats, or sizes differ from the published ones.

    See Also
    --------
    load_coat : A log of chosen items with a sample of randomly shown items.

    References
    ----------
    Cañamares & Castells, Should I Follow the Crowd?, SIGIR 2018, doi 10.1145/3209978.3210014.

    Examples
    --------
    The sizes of the three parts, for a file of the same format with one user and ten tracks:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": 1, "item": range(10), "rating": [0, 1] * 5, "known": [0, 1] * 5})
    >>> with TemporaryDirectory() as folder:
    ...     frame.to_csv(Path(folder) / "ratings.tsv", sep="\t", index=False)
    ...     study = load_cm100k(folder, verify=False)
    >>> len(study.biased), len(study.calibration), len(study.random)
    (3, 2, 2)
    """
    frame = _read_ratings(path)
    users, user = np.unique(frame["user"], return_inverse=True)
    items, item = np.unique(frame["item"], return_inverse=True)
    rating = frame["rating"].to_numpy(dtype=np.float64)
    is_known = frame["known"].to_numpy() == 1
    is_liked = rating >= LIKE
    if verify:
        check_sizes(
            CM100K,
            {
                "users": users.size,
                "items": items.size,
                "ratings": len(frame),
                "liked": int(is_liked.sum()),
                "liked and known": int((is_liked & is_known).sum()),
            },
        )
    position = _draw_positions(user, as_generator(rng))
    in_log = position < LOG_SHARE
    in_counting = ~in_log & (position < LOG_OR_COUNTING_SHARE)

    def select(rows: BoolArray) -> Interactions:
        """Return the ratings of some rows."""
        return Interactions(user[rows], item[rows], users, items, value=rating[rows])

    is_counted = in_counting & is_liked
    return RandomExposureStudy(
        name="cm100k",
        biased=select(in_log & is_known),
        random=select(~in_log & ~in_counting),
        threshold=LIKE,
        card=CM100K,
        calibration=select(in_counting),
        counted_propensity=CountedPropensity(
            n_relevant=np.bincount(item[is_counted], minlength=items.size),
            n_observed=np.bincount(item[is_counted & is_known], minlength=items.size),
        ),
    )


def _read_ratings(path: str | Path) -> pd.DataFrame:
    """Return the rows of the file, after a check of their values."""
    name = "ratings.tsv"
    frame = read_columns(path, name, CM100K, COLUMNS, sep="\t")
    rating = frame["rating"]
    known = frame["known"]
    check_values(CM100K, f"ratings of {name} must be 0, 1 or 2", rating.isin([0, 1, 2]), rating)
    check_values(CM100K, f"known of {name} must be 0 or 1", known.isin([0, 1]), known)
    n_repeats = int(frame.duplicated(["user", "item"]).sum())
    if n_repeats:
        raise InputError(
            f"cm100k: {n_repeats} of {len(frame):,} rows of {name} repeat an earlier user–item pair."
        )
    return frame


def _draw_positions(user: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return a position in [0, 1) of every row within its user's rows, in random order.

    Positions of one user are evenly spaced from a random start, so that the shares of the three parts differ
    from the nominal ones by rounding only, and equal them on average over users.
    """
    shuffled = rng.permutation(user.size)
    order = shuffled[np.argsort(user[shuffled], kind="stable")]
    n_rows = np.bincount(user)
    first_row = np.cumsum(n_rows) - n_rows
    start = rng.random(n_rows.size)
    position = np.empty(user.size)
    sorted_user = user[order]
    position[order] = (np.arange(user.size) - first_row[sorted_user] + start[sorted_user]) / n_rows[
        sorted_user
    ]
    return position
