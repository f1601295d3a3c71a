"""Logs of papers that the library has no loader for: citeulike-a, Tradesy and Amazon reviews."""

from __future__ import annotations

import ast
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval import Interactions


def load_citeulike_a(folder: Path) -> Interactions:
    """Return citeulike-a (Wang, Chen and Li, IJCAI 2013).

    `users.dat` has one line per user, the number of articles and then their ids:
    https://github.com/js05212/citeulike-a. 5,551 users, 16,980 articles, 204,986 pairs.
    """
    lines = [line.split() for line in (folder / "users.dat").read_text(encoding="utf-8").splitlines()]
    assert all(int(count) == len(ids) for count, *ids in lines), "users.dat is truncated or changed"
    user = np.repeat(np.arange(len(lines)), [len(ids) for _, *ids in lines])
    item = np.array([int(one) for _, *ids in lines for one in ids])
    return Interactions(user, item, np.arange(len(lines)), np.arange(item.max() + 1))


def load_tradesy(path: Path, lists: tuple[str, ...] = ("bought", "want")) -> Interactions:
    """Return what users of Tradesy bought and wanted (He and McAuley, VBPR, AAAI 2016), without time.

    `tradesy.json.gz` has a Python literal per line, {'uid': …, 'lists': {'bought': […], …}}:
    https://cseweb.ucsd.edu/~jmcauley/datasets.html#bartering_data.
    """
    rows = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = ast.literal_eval(line)
            rows += [
                (str(entry["uid"]), str(item)) for name in lists for item in entry["lists"].get(name, ())
            ]
    return Interactions.from_frame(pd.DataFrame(rows, columns=["user", "item"]), duplicates="drop")


def load_amazon_reviews(path: Path) -> Interactions:
    """Return a category of Amazon reviews of 2014 or 2018: value = stars, timestamp in seconds.

    `reviews_*_5.json.gz` (2014) and `*_5.json.gz` (2018) have a review in JSON per line:
    https://amazon-reviews-2023.github.io (with links to both). The first review of a product counts.
    """
    keys = ["reviewerID", "asin", "overall", "unixReviewTime"]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        reviews = (json.loads(line) for line in lines)
        rows = [[review[key] for key in keys] for review in reviews]
    frame = pd.DataFrame(rows, columns=["user", "item", "value", "timestamp"])
    return Interactions.from_frame(frame, value="value", timestamp="timestamp", duplicates="drop")
