"""Studies with random exposure: Coat, Yahoo! R3, KuaiRand and KuaiRec."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity import Propensity
from ipseval.utils.types import FloatArray, IntArray
from ipseval.validation.datasets._base import CARDS, RandomExposureStudy, check_sizes, check_values
from ipseval.validation.datasets._files import check_sha256, has_file, open_file, read_columns, read_text
from ipseval.validation.datasets._logs import lines_of

COAT = CARDS["coat"]
KUAIRAND = CARDS["kuairand"]
KUAIREC = CARDS["kuairec"]
YAHOO_R3 = CARDS["yahoo-r3"]
TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
TEST = "ydata-ymusic-rating-study-v1_0-test.txt"
KUAIRAND_FILES = ("train", "valid", "test_ood", "test_neg")
KUAIREC_COLUMNS = {"user_id": "int64", "video_id": "int64", "watch_ratio": "float64"}


def load_coat(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    """Return Coat as a study: 6,960 chosen and 4,640 randomly shown ratings, 1–5, positive from 4.

    Each of 290 users rated 24 coats of their choice and 16 that were shown at random, out of 300; 366 pairs
    are in both logs. Published propensities (of a naive Bayes model on user and item attributes) come with
    it, when `propensities.ascii` is there.

    Parameters
    ----------
    path : folder or archive
        Holds `train.ascii` (chosen), `test.ascii` (random) and, optionally, `propensities.ascii`:
        space-separated matrices of users × items, 0 = no rating.
    verify : bool
        Check sizes and sha256 against the published files; False reads any files of this format.

    Raises
    ------
    InputError
        When a file is missing, ragged, not numeric, not of the published size or content, or has ratings
        outside 0–5.

    References
    ----------
    Schnabel et al., Recommendations as Treatments, ICML 2016, arXiv 1602.05352.
    """
    texts, matrices = {}, {}
    for name in ("train.ascii", "test.ascii"):
        texts[name] = read_text(path, name, COAT)
        matrices[name] = _ratings_of(texts[name], name)
        if verify:
            users, items = matrices[name].shape
            check_sizes(COAT, {"users": users, "items": items})
    train, test = matrices["train.ascii"], matrices["test.ascii"]
    if train.shape != test.shape:
        raise InputError(
            f"coat: train.ascii is {train.shape} and test.ascii {test.shape}; expected the same."
        )
    if verify:
        counts = {"biased ratings": (train > 0).sum(), "random-exposure ratings": (test > 0).sum()}
        check_sizes(COAT, {what: int(count) for what, count in counts.items()})
        for name, text in texts.items():
            check_sha256(text.encode(), name, COAT)
    return RandomExposureStudy(
        "coat",
        _of_matrix(train),
        _of_matrix(test),
        threshold=4,
        propensity=_published(path, train.shape, verify),
        card=COAT,
    )


def _matrix(text: str, name: str) -> FloatArray:
    if not text.strip():
        raise InputError(f"coat: {name} is empty.")
    try:
        matrix = np.loadtxt(io.StringIO(text), dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise InputError(
            f"coat: {name} is not a space-separated matrix of numbers, one row per user: {error}"
        ) from None
    return matrix


def _ratings_of(text: str, name: str) -> FloatArray:
    matrix = _matrix(text, name)
    good = np.isin(matrix, np.arange(6))
    check_values(COAT, f"{name} must hold ratings 1–5 and 0 for none", good, matrix)
    return matrix


def _of_matrix(matrix: FloatArray) -> Interactions:
    user, item = np.nonzero(matrix)
    users, items = (np.arange(n) for n in matrix.shape)
    return Interactions(user, item, users, items, value=matrix[user, item])


def _published(path: str | Path, shape: tuple[int, ...], verify: bool) -> Propensity | None:
    name = "propensities.ascii"
    if not has_file(path, name, COAT):
        return None
    matrix = _matrix(read_text(path, name, COAT, verify=verify), name)
    if matrix.shape != shape:
        raise InputError(f"coat: propensities.ascii is {matrix.shape}; expected {shape} like train.ascii.")
    key = np.arange(matrix.size)
    return Propensity(None, True, "published with Coat", shape[1], pair=matrix.ravel(), pair_key=key)


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
    train, test = (_read_yahoo(path, name) for name in (TRAIN, TEST))
    n_users, n_items = (int(max(one[name].max() for one in (train, test))) for name in ("user", "item"))
    if verify:
        check_sizes(YAHOO_R3, {"biased ratings": len(train), "random-exposure ratings": len(test)})
        check_sizes(YAHOO_R3, {"users": n_users, "items": n_items})
    users, items = np.arange(1, n_users + 1), np.arange(1, n_items + 1)
    biased, random = (
        Interactions.from_frame(frame, value="rating", users=users, items=items) for frame in (train, test)
    )
    return RandomExposureStudy("yahoo-r3", biased, random, threshold=4, card=YAHOO_R3)


def _read_yahoo(path: str | Path, name: str) -> pd.DataFrame:
    columns = {"user": "int64", "item": "int64", "rating": "int64"}
    frame = read_columns(path, name, YAHOO_R3, columns, sep="\t", header=list(columns))
    rating, lowest = frame["rating"], frame[["user", "item"]].min(axis=1)
    check_values(YAHOO_R3, f"{name} must hold ratings 1–5", rating.between(1, 5), rating)
    check_values(YAHOO_R3, f"{name} must hold ids from 1", lowest >= 1, lowest)
    return frame


def load_kuairand(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    """Return KuaiRand as a study: 501,398 clicks of the feed and 589,636 random exposures, clicked or not.

    value = 1 for a click and 0 for none; positive from 1. Videos that were drawn uniformly at random stood in
    the feed of 16,087 of 19,685 users: 127,147 of them were clicked.

    * Only users with at least one random click are exposed. Click rates, averages over users and numbers of
      relevant items are therefore too high. Pooled ratios and γ are not affected.
    * The random part covers the last 17 days of 31, the feed all of them: a part of the difference between
      both is time. The files hold no times.

    Parameters
    ----------
    path : folder or archive
        Holds `train.txt` and `valid.txt`, two parts of the clicks of the feed, `test_ood.txt`, random
        exposures with a click, and `test_neg.txt`, those without. Each line is a user and then its videos.
    verify : bool
        Check the published sizes; False reads any files of this format (ids 0 to the largest).

    Raises
    ------
    InputError
        When a file is missing or malformed, a pair repeats, or sizes differ from the published ones.

    References
    ----------
    Gao et al., KuaiRand, CIKM 2022, doi 10.1145/3511808.3557624.
    """
    users, items = zip(*(_read_clicks(path, f"{name}.txt") for name in KUAIRAND_FILES), strict=True)
    user_ids, item_ids = (np.arange(max(int(part.max()) for part in column) + 1) for column in (users, items))
    value = np.repeat([1.0, 1.0, 1.0, 0.0], [part.size for part in items])
    row, column = np.concatenate(users), np.concatenate(items)
    n_biased = items[0].size + items[1].size
    biased, random = (
        Interactions(row[part], column[part], user_ids, item_ids, value=value[part])
        for part in (slice(n_biased), slice(n_biased, None))
    )
    if verify:
        counts = (user_ids.size, item_ids.size, n_biased, len(random), items[2].size)
        check_sizes(KUAIRAND, dict(zip(KUAIRAND.sizes, counts, strict=True)))
    return RandomExposureStudy("kuairand", biased, random, threshold=1, card=KUAIRAND)


def _read_clicks(path: str | Path, name: str) -> tuple[IntArray, IntArray]:
    with open_file(path, name, KUAIRAND) as stream:
        lines = lines_of(stream.read(), name)
    return np.repeat(lines.user, lines.count), lines.item


def load_kuairec(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    """Return KuaiRec as a study: the big matrix as biased log, the small one as fully observed truth.

    value = watch ratio (time watched / length), the largest where a pair occurs several times; positive from
    2, as in the paper. The block of 1,411 users × 3,327 videos is 99.6% observed: its positives are S_u
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
    big, small = (_read_kuairec(path, name, verify) for name in ("big_matrix.csv", "small_matrix.csv"))
    users = np.union1d(big["user"], small["user"])
    items = np.union1d(big["item"], small["item"])
    if verify:
        check_sizes(
            KUAIREC,
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
    return RandomExposureStudy("kuairec", biased, block, threshold=2, card=KUAIREC)


def _read_kuairec(path: str | Path, name: str, verify: bool) -> pd.DataFrame:
    frame = read_columns(path, name, KUAIREC, KUAIREC_COLUMNS)
    if verify:
        check_sizes(KUAIREC, {f"rows of {name}": len(frame)})
    ratio = frame["watch_ratio"]
    check_values(KUAIREC, f"watch ratios of {name} must be >= 0", np.isfinite(ratio) & (ratio >= 0), ratio)
    frame.columns = pd.Index(["user", "item", "value"])
    best: pd.DataFrame = frame.groupby(["user", "item"], sort=True).max().reset_index()
    return best
