"""Store: ranks on disk, one file each, whole or not there at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ipseval._artefacts import remove_leftovers, writable
from ipseval._codec import load, save
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.splits import Split

KIND = "ipseval-ranks"
ADVICE = "Delete it and run the study again."


@dataclass(frozen=True)
class Store:
    """A folder of ranks, keyed by content; any number of processes and threads may share it."""

    folder: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Store:
        """Return the store in `path`, which is made if needed; leftovers of killed processes are removed."""
        folder = writable(Path(path) / "ranks" / "any").parent
        remove_leftovers(folder)
        return cls(folder)

    def file(self, key: str) -> Path:
        """Return where the ranks of `key` are, or would be."""
        return self.folder / f"{key}.npz"

    def has(self, key: str) -> bool:
        """Return whether the ranks of `key` are there."""
        return self.file(key).exists()

    def write(self, key: str, ranked: RankedPositives, about: dict[str, Any]) -> None:
        """Store ranks; `about` says in words what they are."""
        save(self.file(key), KIND, ranked, **about)

    def read(self, key: str, split: Split) -> tuple[RankedPositives, dict[str, Any]]:
        """Return stored ranks of a split, and what was said of them when they were written.

        Raises
        ------
        InputError
            When the file cannot be read, or ranks other positives than those of the split.
        """
        ranked, about = load(self.file(key), KIND, ADVICE)
        known = isinstance(ranked, RankedPositives) and all(
            np.array_equal(getattr(ranked, name), getattr(split, name)) for name in ("user_ids", "item_ids")
        )
        if known:
            pair_key = ranked.user * np.int64(split.n_items) + ranked.item
            known = pair_key.size == len(split.test) - ranked.n_not_candidates
            known = known and bool(np.isin(pair_key, split.test.pair_key).all())
        if not known:
            raise InputError(
                f"{self.file(key)} ranks other positives than this split holds: it was made by another "
                "version. Delete it, or give the study another folder."
            )
        return ranked, about
