"""Amazon reviews: ratings of products, as ratings-only tables or as reviews in JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from ipseval._checks import check_choice
from ipseval.datasets._base import DataCard
from ipseval.datasets._files import open_file, read_columns
from ipseval.errors import InputError
from ipseval.interactions import Interactions

CARD = DataCard(
    name="amazon-reviews",
    title="Amazon reviews (2014, 2018, 2023)",
    url="https://amazon-reviews-2023.github.io/",
    how_to_get="Download the ratings or reviews of a category from the authors' page; pass that file.",
    licence="research use; terms on the authors' page",
    citation=(
        "Hou, Li, He, Yan, Chen, McAuley: Bridging Language and Items for Retrieval and Recommendation, "
        "arXiv 2403.03952, 2024 (2018: Ni, Li, McAuley, EMNLP 2019; 2014: He, McAuley, WWW 2016)"
    ),
)
# Header-less tables differ in the order of columns, which cannot be told from the ids with certainty.
HEADERS = {
    "2014": ["user", "item", "rating", "timestamp"],
    "2018": ["item", "user", "rating", "timestamp"],
    "2023": None,
}
JSON_KEYS = {
    "2014": ("reviewerID", "asin", "overall", "unixReviewTime"),
    "2018": ("reviewerID", "asin", "overall", "unixReviewTime"),
    "2023": ("user_id", "parent_asin", "rating", "timestamp"),
}


def load_amazon_reviews(path: str | Path, *, release: str, five_core: bool = False) -> Interactions:
    """Return one category of Amazon reviews: value = stars (1–5), timestamp as in the file.

    A user who reviewed a product again counts once, with the first row of the file; the others are counted in
    `n_duplicates_dropped`. Timestamps are seconds since 1970 (2014, 2018) or milliseconds (2023).

    Parameters
    ----------
    path : file
        `ratings_*.csv` (2014: user, item, rating, time without header; 2018: item, user, rating, time without
        header; 2023: header user_id, parent_asin, rating, timestamp), or reviews in JSON lines (`.json`,
        `.jsonl`); each may end in `.gz`. The 5-core files have the same layouts: `reviews_*_5.json.gz`
        (2014), `*_5.json.gz` (2018), and `*.csv.gz` below `benchmark/5core/rating_only` (2023).
    release : {"2014", "2018", "2023"}
        Which layout: it cannot be told from the ids.
    five_core : bool
        Check that it is a 5-core file: every user and every product has at least five rows. (Where a user
        reviewed a product twice, fewer pairs may be left; `k_core(log, 5)` of the result has none.)

    Raises
    ------
    InputError
        When the file is missing or damaged, a row or JSON object lacks a field, or stars are outside 1–5.

    References
    ----------
    Hou et al., Bridging Language and Items for Retrieval and Recommendation, arXiv 2403.03952.
    """
    check_choice("release", release, HEADERS)
    file = Path(path)
    if not file.is_file():
        raise InputError(f"amazon-reviews: {file} is not a file. {CARD.how_to_get} ({CARD.url})")
    name = file.name.removesuffix(".gz")
    if name.endswith((".json", ".jsonl")):
        frame = _read_json(file, name, JSON_KEYS[release])
    else:
        frame = _read_csv(file, name, release)
    bad = ~frame["rating"].between(1, 5)
    if bad.any():
        raise InputError(
            f"amazon-reviews: stars must be in 1–5; {int(bad.sum())} of {len(frame):,} are not "
            f"(e.g. {frame['rating'][bad].iloc[0]:g}). Is release={release!r} right?"
        )
    if five_core:
        _check_five_core(frame)
    return Interactions.from_frame(frame, value="rating", timestamp="timestamp", duplicates="drop")


def _check_five_core(frame: pd.DataFrame) -> None:
    for name, noun in (("user", "users"), ("item", "products")):
        counts = frame[name].value_counts()
        n_few = int((counts < 5).sum())
        if n_few:
            raise InputError(
                f"amazon-reviews: {n_few:,} of {counts.size:,} {noun} have fewer than five rows, so this is "
                "no 5-core file. Get that one, or use five_core=False and k_core(log, 5)."
            )


def _read_csv(file: Path, name: str, release: str) -> pd.DataFrame:
    kinds = ("str", "str", "float64", "int64")
    columns = dict(zip(("user", "item", "rating", "timestamp"), kinds, strict=True))
    header = HEADERS[release]
    if header is not None:
        return read_columns(file.parent, name, CARD, columns, header=header)
    keys = JSON_KEYS[release]
    frame = read_columns(file.parent, name, CARD, dict(zip(keys, kinds, strict=True)))
    return frame.rename(columns=dict(zip(keys, columns, strict=True)))


def _read_json(file: Path, name: str, keys: tuple[str, ...]) -> pd.DataFrame:
    rows = []
    with open_file(file.parent, name, CARD) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                review = json.loads(line)
                user, item, rating, time = (review[key] for key in keys)
                rows.append((str(user), str(item), float(rating), int(time)))
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"amazon-reviews: line {number} of {name} is not a JSON object with {', '.join(keys)} "
                    f"({type(error).__name__}: {error}); it is truncated or of another release."
                ) from None
    return pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"])
