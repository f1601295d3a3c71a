"""The same random split, drawn again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ipseval._base.checks import as_generator, check_callable, check_positive_int
from ipseval._base.types import RngLike
from ipseval.data._interactions import Interactions
from ipseval.data.splits._base import Split
from ipseval.data.splits._per_user import split_random


def repeated_splits(
    log: Interactions,
    n_repeats: int = 5,
    *,
    method: Callable[..., Split] = split_random,
    rng: RngLike = None,
    **options: Any,
) -> Iterator[Split]:
    """Return an iterator over `n_repeats` independent random splits of a log, one in memory at a time.

    Repeat r gets the r-th child of `rng`, so the first repeats are the same whatever `n_repeats` is.

    Parameters
    ----------
    method : function
        `split_random`, `split_leave_one_out`, or any function of a log with an `rng` keyword.
    rng : int, Generator or None
        Source of randomness.
    **options
        Passed on to `method`, for example `test_fraction=0.1, validation_fraction=0.1`.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0] * 10, "item": range(10)}))
    >>> [len(split.test) for split in repeated_splits(log, 3, test_fraction=0.3, rng=0)]
    [3, 3, 3]
    """
    check_callable("method", method)
    n_repeats = check_positive_int("n_repeats", n_repeats)
    children = as_generator(rng).spawn(n_repeats)

    def generate() -> Iterator[Split]:
        for number, child in enumerate(children, start=1):
            split = method(log, rng=child, **options)
            yield replace(split, description=f"{split.description}, repeat {number} of {n_repeats}")

    return generate()
