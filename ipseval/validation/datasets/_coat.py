"""Coat: ratings that users chose to give, and ratings of items shown at random."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from ipseval._base.types import FloatArray
from ipseval.data._interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity import Propensity
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, check_sizes
from ipseval.validation.datasets._files import check_sha256, has_file, read_text

CARD = DataCard(
    name="coat",
    title="Coat Shopping",
    url="https://www.cs.cornell.edu/~schnabts/mnar/",
    how_to_get="Download coat.zip from the authors' page; pass the folder with train.ascii and test.ascii.",
    licence="made public by the authors for research; no licence text",
    citation=(
        "Schnabel, Swaminathan, Singh, Chandak, Joachims: Recommendations as Treatments: Debiasing Learning "
        "and Evaluation, ICML 2016, arXiv 1602.05352"
    ),
    sizes={"users": 290, "items": 300, "biased ratings": 6960, "random-exposure ratings": 4640},
    sha256={
        "train.ascii": "a87bd9e7eaf3b89f976df3f25d4aa5d5d871be8a00b58947df9e6e015559bd37",
        "test.ascii": "de6714ab105a5e0be8166be7fd313901b29f9a09c3bea307901457d1d71847e6",
        "propensities.ascii": "a72e3142a413623c4a6b9d20c4f70fcc017e0db67cc3eb242116f69fb8fb9661",
    },
)


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
        texts[name] = read_text(path, name, CARD)
        matrices[name] = _ratings(texts[name], name)
        if verify:
            users, items = matrices[name].shape
            check_sizes(CARD, {"users": users, "items": items})
    train, test = matrices["train.ascii"], matrices["test.ascii"]
    if train.shape != test.shape:
        raise InputError(
            f"coat: train.ascii is {train.shape} and test.ascii {test.shape}; expected the same."
        )
    if verify:
        counts = {"biased ratings": (train > 0).sum(), "random-exposure ratings": (test > 0).sum()}
        check_sizes(CARD, {what: int(count) for what, count in counts.items()})
        for name, text in texts.items():
            check_sha256(text.encode(), name, CARD)
    return RandomExposureStudy(
        "coat",
        _log(train),
        _log(test),
        threshold=4,
        propensity=_published(path, train.shape, verify),
        card=CARD,
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


def _ratings(text: str, name: str) -> FloatArray:
    matrix = _matrix(text, name)
    bad = ~np.isin(matrix, np.arange(6))
    if bad.any():
        raise InputError(
            f"coat: {name} must hold ratings 1–5 and 0 for none; {int(bad.sum())} of {matrix.size} "
            f"entries are something else (e.g. {matrix[bad][0]:g})."
        )
    return matrix


def _log(matrix: FloatArray) -> Interactions:
    user, item = np.nonzero(matrix)
    users, items = (np.arange(n) for n in matrix.shape)
    return Interactions(user, item, users, items, value=matrix[user, item])


def _published(path: str | Path, shape: tuple[int, ...], verify: bool) -> Propensity | None:
    name = "propensities.ascii"
    if not has_file(path, name):
        return None
    matrix = _matrix(read_text(path, name, CARD, verify=verify), name)
    if matrix.shape != shape:
        raise InputError(f"coat: propensities.ascii is {matrix.shape}; expected {shape} like train.ascii.")
    key = np.arange(matrix.size)
    return Propensity(None, True, "published with Coat", shape[1], pair=matrix.ravel(), pair_key=key)
