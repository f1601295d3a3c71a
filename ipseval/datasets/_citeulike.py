"""citeulike-a: articles in the libraries of researchers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ipseval.datasets._base import DataCard, check_sizes
from ipseval.datasets._files import check_sha256, read_text
from ipseval.errors import InputError
from ipseval.interactions import Interactions

SHA256 = "53211d82c14ff261e595634d285ed9fbf8049cf81dcb751d924d695b9612a02c"
CARD = DataCard(
    name="citeulike-a",
    title="citeulike-a",
    url="https://github.com/js05212/citeulike-a",
    how_to_get="Download users.dat from the authors' repository and pass its folder.",
    licence="public for research; cite the paper",
    citation="Wang, Chen, Li: Collaborative Topic Regression with Social Regularization, IJCAI 2013",
    sizes={"users": 5551, "items": 16980, "pairs": 204986},
    sha256={"users.dat": SHA256},
    downloads={
        "users.dat": (
            "https://raw.githubusercontent.com/js05212/citeulike-a/master/users.dat",
            f"sha256:{SHA256}",
        )
    },
)


def load_citeulike_a(path: str | Path, *, verify: bool = True) -> Interactions:
    """Return citeulike-a: 204,986 user–article pairs of 5,551 users and 16,980 articles, without values.

    Parameters
    ----------
    path : folder or archive
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
    text = read_text(path, "users.dat", CARD)
    libraries = []
    for number, line in enumerate(text.splitlines(), start=1):
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
        check_sha256(text.encode(), "users.dat", CARD)
    return Interactions(user, item, np.arange(len(libraries)), np.arange(n_items))
