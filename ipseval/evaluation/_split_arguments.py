"""The split that `evaluate` uses: as passed, or from training and test interactions."""

from __future__ import annotations

from typing import Any

from ipseval.data.splits import Split
from ipseval.data.splits.split import check_split
from ipseval.errors import InputError


def resolve_split(split: object, train: Any, test: Any) -> Split:
    """Return the split that was passed, or the one of `train` and `test`.

    Raises
    ------
    InputError
        Unless exactly one of `split` and the pair (`train`, `test`) was passed.
    """
    has_parts = train is not None or test is not None
    if split is not None and has_parts:
        raise InputError("Pass either `split` or `train` and `test`; got both.")
    if split is not None:
        check_split(split)
        assert isinstance(split, Split)
        return split
    if test is None:
        if train is None:
            raise InputError(
                "evaluate needs `split`, or `train` and `test`; got neither. Pass split_random(log), or "
                "train=frame and test=frame."
            )
        raise InputError("`train` requires `test`, the held-out interactions; got None. Pass test=frame.")
    if train is None:
        raise InputError(
            "`test` requires `train`, the training interactions; got None. Pass train=frame, or "
            "split=Split.from_frames(None, test) where there are none."
        )
    return Split.from_frames(train, test)
