"""citeulike-a: articles in the libraries of researchers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ipseval.datasets._base import DataCard, check_sha256, check_sizes, find_file
from ipseval.errors import InputError
from ipseval.interactions import Interactions

CARD = DataCard(
    name="citeulike-a",
    title="citeulike-a",
    url="https://github.com/js05212/citeulike-a",
    how_to_get="Download users.dat from the authors' repository and pass its folder.",
    licence="public for research; cite the paper",
    citation="Wang, Chen, Li: Collaborative Topic Regression with Social Regularization, IJCAI 2013",
    sizes={"users": 5551, "items": 16980, "pairs": 204986},
    sha256={"users.dat": "53211d82c14ff261e595634d285ed9fbf8049cf81dcb751d924d695b9612a02c"},
)


def load_citeulike_a(path: str | Path, *, verify: bool = True) -> Interactions:
    """Return citeulike-a: 204,986 user–article pairs of 5,551 users and 16,980 articles, without values.

    Parameters
    ----------
    path : folder
        Holds `users.dat`: one line per user, the number of articles and then their 0-based ids.
    verify : bool
        Check sizes and sha256; False reads any file of this format (items: 0 to the largest id).

    Raises
    ------
    InputError
        When the file is missing, a line does not hold as many ids as it says, an id is not a whole number
        >= 0 or repeats within a line, or sizes or checksum differ from the published ones.

    References
    ----------
    Wang, Chen & Li, Collaborative Topic Regression with Social Regularization, IJCAI 2013.
    """
    file = find_file(path, "users.dat", CARD)
    libraries = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            count, *ids = (int(token) for token in line.split())
        except ValueError:
            raise InputError(
                f"citeulike-a: line {number} of users.dat must be a count and then ids; got {line[:40]!r}."
            ) from None
        if count != len(ids) or len(set(ids)) != len(ids) or min(ids, default=0) < 0:
            raise InputError(
                f"citeulike-a: line {number} of users.dat announces {count} ids and holds {len(set(ids))} "
                "distinct ones >= 0 at most; the file is truncated or changed."
            )
        libraries.append(ids)
    item = np.array([i for ids in libraries for i in ids], dtype=np.int64)
    if item.size == 0:
        raise InputError("citeulike-a: users.dat holds no pair.")
    user = np.repeat(np.arange(len(libraries)), [len(ids) for ids in libraries])
    n_items = CARD.sizes["items"] if verify else int(item.max()) + 1
    if verify:
        check_sizes(CARD, {"users": len(libraries), "pairs": item.size})
        check_sha256(file, CARD, file.name)
    return Interactions(user, item, np.arange(len(libraries)), np.arange(n_items))
