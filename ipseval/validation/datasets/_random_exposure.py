"""Studies with random exposure: Coat, Yahoo! R3, KuaiRand and KuaiRec."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity import Propensity
from ipseval.utils.checks import check_choice
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray, IntArray
from ipseval.validation.datasets._adjacency import parse_lines
from ipseval.validation.datasets._base import CARDS, RandomExposureStudy, check_sizes, check_values
from ipseval.validation.datasets._files import check_sha256, has_file, open_data_file, read_columns, read_text
from ipseval.validation.datasets._kuairand_logs import SIGNALS, has_original_logs, load_original_logs

COAT = CARDS["coat"]
KUAIRAND = CARDS["kuairand"]
KUAIREC = CARDS["kuairec"]
YAHOO_R3 = CARDS["yahoo-r3"]
TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
TEST = "ydata-ymusic-rating-study-v1_0-test.txt"
# Signal of KuaiRec -> value from which it is positive.
KUAIREC_SIGNALS = {"watch_ratio": 2, "play_duration": 1}


@public_function
def load_coat(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    r"""Load Coat as a study: 6,960 chosen and 4,640 randomly shown ratings, 1–5, positive from 4.

    Each of 290 users rated 24 coats of their choice and 16 that were shown at random, out of 300; 366 pairs
    are in both logs. The study includes the published propensities (of a naive Bayes model on user and item
    attributes) when `propensities.ascii` is there.

    Parameters
    ----------
    path : str or Path
        Folder or archive with `train.ascii` (chosen), `test.ascii` (random) and, optionally,
        `propensities.ascii`: space-separated matrices of users × items, 0 = no rating.
    verify : bool, default True
        Check sizes and sha256 against the published files; False reads any files of this format.

    Returns
    -------
    RandomExposureStudy
        The chosen ratings, the random ratings and, if their file exists, the published propensities.

    Raises
    ------
    InputError
        When a file is missing, ragged, not numeric, not of the published size or content, or has ratings
        outside 0–5.

    See Also
    --------
    ipseval.validate : Measure the bias of estimators on the study.

    References
    ----------
    Schnabel et al., Recommendations as Treatments, ICML 2016, arXiv 1602.05352.

    Examples
    --------
    Small files of the same format; drop `verify=False` for the published files:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "train.ascii").write_text("5 0 4\n0 2 4\n")
    ...     _ = (Path(folder) / "test.ascii").write_text("0 1 0\n4 0 0\n")
    ...     study = load_coat(folder, verify=False)
    >>> study
    RandomExposureStudy(coat: 4 biased and 2 random ratings; 2 users, 3 items; positive from 4)
    """
    texts = {}
    matrices = {}
    for name in ("train.ascii", "test.ascii"):
        texts[name] = read_text(path, name, COAT)
        matrices[name] = _parse_ratings(texts[name], name)
        if verify:
            n_users, n_items = matrices[name].shape
            check_sizes(COAT, {"users": n_users, "items": n_items})
    train = matrices["train.ascii"]
    test = matrices["test.ascii"]
    if train.shape != test.shape:
        raise InputError(
            f"coat: train.ascii is {train.shape} and test.ascii {test.shape}; expected the same."
        )
    if verify:
        n_biased = int((train > 0).sum())
        n_random = int((test > 0).sum())
        check_sizes(COAT, {"biased ratings": n_biased, "random-exposure ratings": n_random})
        for name, text in texts.items():
            check_sha256(text.encode(), name, COAT)
    return RandomExposureStudy(
        name="coat",
        biased=_matrix_to_interactions(train),
        random=_matrix_to_interactions(test),
        threshold=4,
        propensity=_read_published_propensity(path, train.shape, verify),
        card=COAT,
    )


def _parse_matrix(text: str, name: str) -> FloatArray:
    """Return a space-separated matrix of numbers."""
    if not text.strip():
        raise InputError(f"coat: {name} is empty.")
    try:
        matrix = np.loadtxt(io.StringIO(text), dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise InputError(
            f"coat: {name} is not a space-separated matrix of numbers, one row per user: {error}"
        ) from None
    return matrix


def _parse_ratings(text: str, name: str) -> FloatArray:
    """Return a matrix of ratings 1–5, with 0 for no rating."""
    matrix = _parse_matrix(text, name)
    is_valid = np.isin(matrix, np.arange(6))
    check_values(COAT, f"{name} must contain ratings 1–5 and 0 for none", is_valid, matrix)
    return matrix


def _matrix_to_interactions(matrix: FloatArray) -> Interactions:
    """Return the ratings of a matrix of users × items."""
    user, item = np.nonzero(matrix)
    n_users, n_items = matrix.shape
    return Interactions(user, item, np.arange(n_users), np.arange(n_items), value=matrix[user, item])


def _read_published_propensity(path: str | Path, shape: tuple[int, ...], verify: bool) -> Propensity | None:
    """Return the propensities published with Coat; None if their file is missing."""
    name = "propensities.ascii"
    if not has_file(path, name, COAT):
        return None
    matrix = _parse_matrix(read_text(path, name, COAT, verify=verify), name)
    if matrix.shape != shape:
        raise InputError(f"coat: propensities.ascii is {matrix.shape}; expected {shape} like train.ascii.")
    _, n_items = shape
    return Propensity(
        item=None,
        is_probability=True,
        model="published with Coat",
        n_items=n_items,
        pair=matrix.ravel(),
        pair_key=np.arange(matrix.size),
    )


@public_function
def load_yahoo_r3(path: str | Path, *, verify: bool = True) -> RandomExposureStudy:
    r"""Load Yahoo! R3 as a study: 311,704 chosen and 54,000 random ratings, 1–5, positive from 4.

    15,400 users rated songs of their choice among 1,000; the first 5,400 of them also rated 10 songs drawn at
    random. Ids run from 1, as in the files.

    Parameters
    ----------
    path : str or Path
        Folder or archive with `ydata-ymusic-rating-study-v1_0-train.txt` and `…-test.txt`: user, song and
        rating, separated by tabs, without a header.
    verify : bool, default True
        Check the published sizes; False reads any files of this format (ids 1 to the largest).

    Returns
    -------
    RandomExposureStudy
        The ratings of chosen songs and of songs drawn at random.

    Raises
    ------
    InputError
        When a file is missing, a row is not three whole numbers, an id is below 1 or above the published
        number, a rating is outside 1–5, a pair repeats, or sizes differ from the published ones.

    See Also
    --------
    ipseval.validate : Measure the bias of estimators on the study.

    References
    ----------
    Marlin & Zemel, Collaborative Prediction and Ranking with Non-Random Missing Data, RecSys 2009, doi
    10.1145/1639714.1639717.

    Examples
    --------
    Small files of the same format; drop `verify=False` for the published files:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "ydata-ymusic-rating-study-v1_0-train.txt").write_text("1\t1\t5\n2\t1\t2\n")
    ...     _ = (Path(folder) / "ydata-ymusic-rating-study-v1_0-test.txt").write_text("1\t2\t1\n2\t3\t4\n")
    ...     study = load_yahoo_r3(folder, verify=False)
    >>> study
    RandomExposureStudy(yahoo-r3: 2 biased and 2 random ratings; 2 users, 3 items; positive from 4)
    """
    train = _read_yahoo(path, TRAIN)
    test = _read_yahoo(path, TEST)
    n_users = int(max(train["user"].max(), test["user"].max()))
    n_items = int(max(train["item"].max(), test["item"].max()))
    if verify:
        check_sizes(YAHOO_R3, {"biased ratings": len(train), "random-exposure ratings": len(test)})
        check_sizes(YAHOO_R3, {"users": n_users, "items": n_items})
    users = np.arange(1, n_users + 1)
    items = np.arange(1, n_items + 1)
    return RandomExposureStudy(
        name="yahoo-r3",
        biased=Interactions.from_frame(train, value="rating", users=users, items=items),
        random=Interactions.from_frame(test, value="rating", users=users, items=items),
        threshold=4,
        card=YAHOO_R3,
    )


def _read_yahoo(path: str | Path, name: str) -> pd.DataFrame:
    """Return the ratings of one file of Yahoo! R3."""
    columns = {"user": "int64", "item": "int64", "rating": "int64"}
    frame = read_columns(path, name, YAHOO_R3, columns, sep="\t", header=list(columns))
    rating = frame["rating"]
    lowest_id = frame[["user", "item"]].min(axis=1)
    check_values(YAHOO_R3, f"{name} must contain ratings 1–5", rating.between(1, 5), rating)
    check_values(YAHOO_R3, f"{name} must contain ids from 1", lowest_id >= 1, lowest_id)
    return frame


@public_function
def load_kuairand(path: str | Path, *, signal: str = "is_click", verify: bool = True) -> RandomExposureStudy:
    r"""Load KuaiRand as a study: a feed, and videos drawn at random that were shown in it, clicked or not.

    Two forms of the data are read.

    *The original logs* of KuaiRand-Pure, 1K or 27K. value = the signal of each shown video, and the timestamp is
    in milliseconds; positive from 1. Of a pair that was shown several times, the largest signal counts, with its
    first time. Both logs contain what was shown, whatever the signal. For signals that are durations, pass a
    threshold to `positives`.

    *Lists of clicks* that were made from them: 501,398 clicks of the feed and 589,636 random exposures. value = 1
    for a click and 0 for none; positive from 1. Videos that were drawn uniformly at random were shown in the feed
    of 16,087 of 19,685 users: 127,147 of them were clicked.

    * In the lists, only users with at least one random click are exposed. Click rates, averages over users and
      numbers of relevant items are therefore too high. Pooled ratios and γ are not affected.
    * The random part covers the last 17 days of 31, and the feed all 31 days, so a part of the difference
      between them is due to time. The lists contain no times; the original logs do.

    Parameters
    ----------
    path : str or Path
        Folder or archive with the original logs `log_standard_*.csv` and `log_random_*.csv`; or with `train.txt`
        and `valid.txt`, two parts of the clicks of the feed, `test_ood.txt`, random exposures with a click, and
        `test_neg.txt`, random exposures without a click. Each line of these is a user and then its videos.
    signal : str, default "is_click"
        Column of the original logs: "is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate",
        "long_view", "is_profile_enter", "play_time_ms", "duration_ms", "profile_stay_time" or
        "comment_stay_time". Lists of clicks have "is_click" alone.
    verify : bool, default True
        Check the published sizes; False reads any files of this format (ids 0 to the largest for lists).

    Returns
    -------
    RandomExposureStudy
        The clicks of the feed, and the random exposures with and without a click.

    Raises
    ------
    InputError
        When a file is missing or malformed, a pair of the lists repeats, or sizes differ from the published ones.
    UnknownNameError
        For a signal that does not exist.

    See Also
    --------
    ipseval.validate : Measure the bias of estimators on the study.

    References
    ----------
    Gao et al., KuaiRand, CIKM 2022, doi 10.1145/3511808.3557624.

    Examples
    --------
    Small files of the same format; drop `verify=False` for the published files:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "train.txt").write_text("0 0 1\n1 0\n")
    ...     _ = (Path(folder) / "valid.txt").write_text("1 2\n")
    ...     _ = (Path(folder) / "test_ood.txt").write_text("0 2\n1 1\n")
    ...     _ = (Path(folder) / "test_neg.txt").write_text("0 3\n1 3\n")
    ...     study = load_kuairand(folder, verify=False)
    >>> study
    RandomExposureStudy(kuairand: 4 biased and 4 random ratings; 2 users, 4 items; positive from 1)
    """
    check_choice("signal", signal, SIGNALS)
    if has_original_logs(path):
        return load_original_logs(path, signal=signal, verify=verify)
    if signal != "is_click":
        raise InputError(
            f"must be 'is_click' for lists of clicks; got {signal!r}. Other signals are in the original logs, "
            "log_standard_*.csv and log_random_*.csv.",
            argument="signal",
        )
    train_users, train_items = _read_clicks(path, "train.txt")
    valid_users, valid_items = _read_clicks(path, "valid.txt")
    clicked_users, clicked_items = _read_clicks(path, "test_ood.txt")
    ignored_users, ignored_items = _read_clicks(path, "test_neg.txt")
    biased_users = np.concatenate([train_users, valid_users])
    biased_items = np.concatenate([train_items, valid_items])
    random_users = np.concatenate([clicked_users, ignored_users])
    random_items = np.concatenate([clicked_items, ignored_items])
    user_ids = np.arange(max(biased_users.max(), random_users.max()) + 1)
    item_ids = np.arange(max(biased_items.max(), random_items.max()) + 1)
    biased_clicks = np.ones(biased_items.size)
    random_clicks = np.repeat([1.0, 0.0], [clicked_items.size, ignored_items.size])
    biased = Interactions(biased_users, biased_items, user_ids, item_ids, value=biased_clicks)
    random = Interactions(random_users, random_items, user_ids, item_ids, value=random_clicks)
    if verify:
        sizes = {
            "users": user_ids.size,
            "items": item_ids.size,
            "biased clicks": len(biased),
            "random exposures": len(random),
            "random clicks": clicked_items.size,
        }
        check_sizes(KUAIRAND, sizes)
    return RandomExposureStudy(name="kuairand", biased=biased, random=random, threshold=1, card=KUAIRAND)


def _read_clicks(path: str | Path, name: str) -> tuple[IntArray, IntArray]:
    """Return the users and the videos of the pairs in one file of KuaiRand."""
    with open_data_file(path, name, KUAIRAND) as stream:
        lines = parse_lines(stream.read(), name)
    return np.repeat(lines.user, lines.n_items), lines.item


@public_function
def load_kuairec(
    path: str | Path, *, signal: str = "watch_ratio", verify: bool = True
) -> RandomExposureStudy:
    """Load KuaiRec as a study: the big matrix as biased log, the small matrix as fully observed block.

    value = the signal, the largest where a pair occurs several times: the watch ratio (time watched / length),
    positive from 2 as in the paper, or the play duration in milliseconds, positive from 1. The block of 1,411
    users × 3,327 videos is 99.6% observed: its positives are S_u within the block. Its pairs were removed from
    the big matrix, so a held-out part of the big matrix has the same users on *other* videos. A comparison with
    the block is fair for models and candidates limited to the block's users, and less informative about items
    outside the block.

    Parameters
    ----------
    path : str or Path
        Folder or archive with `big_matrix.csv` and `small_matrix.csv`, with columns user_id, video_id and the
        signal.
    signal : {"watch_ratio", "play_duration"}, default "watch_ratio"
        Column that is the value.
    verify : bool, default True
        Check the published sizes; False reads any files of this format.

    Returns
    -------
    RandomExposureStudy
        The big matrix as biased log, and the small matrix as random-exposure log.

    Raises
    ------
    InputError
        When a file or column is missing, an entry is not a number, a value is negative, or sizes differ.
    UnknownNameError
        For a signal that does not exist.

    See Also
    --------
    ipseval.validate : Measure the bias of estimators on the study.

    References
    ----------
    Gao et al., KuaiRec, CIKM 2022, doi 10.1145/3511808.3557220.

    Examples
    --------
    Small files of the same format; drop `verify=False` for the published files:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> big = pd.DataFrame({"user_id": [7, 9], "video_id": [1, 1], "watch_ratio": [2.5, 0.4]})
    >>> small = pd.DataFrame({"user_id": [7, 9], "video_id": [2, 2], "watch_ratio": [0.1, 3.0]})
    >>> with TemporaryDirectory() as folder:
    ...     big.to_csv(Path(folder) / "big_matrix.csv", index=False)
    ...     small.to_csv(Path(folder) / "small_matrix.csv", index=False)
    ...     study = load_kuairec(folder, verify=False)
    >>> study
    RandomExposureStudy(kuairec: 2 biased and 2 random ratings; 2 users, 2 items; positive from 2)
    """
    check_choice("signal", signal, KUAIREC_SIGNALS)
    big = _read_kuairec(path, "big_matrix.csv", signal, verify)
    small = _read_kuairec(path, "small_matrix.csv", signal, verify)
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
    return RandomExposureStudy(
        name="kuairec",
        biased=Interactions.from_frame(big, value="value", users=users, items=items),
        random=Interactions.from_frame(small, value="value", users=users, items=items),
        threshold=KUAIREC_SIGNALS[signal],
        card=KUAIREC,
    )


def _read_kuairec(path: str | Path, name: str, signal: str, verify: bool) -> pd.DataFrame:
    """Return the largest signal of each pair in one file of KuaiRec."""
    columns = {"user_id": "int64", "video_id": "int64", signal: "float64"}
    frame = read_columns(path, name, KUAIREC, columns)
    if verify:
        check_sizes(KUAIREC, {f"rows of {name}": len(frame)})
    values = frame[signal]
    is_valid = np.isfinite(values) & (values >= 0)
    check_values(KUAIREC, f"{signal.replace('_', ' ')}s of {name} must be >= 0", is_valid, values)
    frame.columns = pd.Index(["user", "item", "value"])
    largest: pd.DataFrame = frame.groupby(["user", "item"], sort=True).max().reset_index()
    return largest
