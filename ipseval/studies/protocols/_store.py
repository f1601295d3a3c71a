"""The files of a study: ranks, and values on validation users, each stored as soon as it is there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ipseval._base.artefacts import remove_leftovers, writable
from ipseval._base.codec import load, save
from ipseval._base.ids import among
from ipseval._base.types import FloatArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives

ADVICE = "Delete it and run the study again."


@dataclass(frozen=True)
class Store:
    """A folder of ranks, one file each, keyed by content; many processes and threads may share it."""

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

    def write(self, key: str, ranked: RankedPositives, about: dict[str, Any]) -> None:
        """Store ranks, whole or not at all; `about` says in words what they are."""
        save(self.file(key), ranked, **about)

    def read(self, key: str, split: Split) -> tuple[RankedPositives, dict[str, Any]]:
        """Return stored ranks of a split and what was said of them; an error when they are of others."""
        ranked, about = load(self.file(key), RankedPositives, ADVICE)
        known = all(
            np.array_equal(getattr(ranked, name), getattr(split, name)) for name in ("user_ids", "item_ids")
        )
        if known:
            pair_key = ranked.user * np.int64(split.n_items) + ranked.item
            known = pair_key.size == len(split.test) - ranked.n_not_candidates
            known = known and bool(among(pair_key, split.test.pair_key).all())
        if not known:
            raise InputError(
                f"{self.file(key)} ranks other positives than this split holds: it was made by another "
                "version. Delete it, or give the study another folder."
            )
        return ranked, about

    def write_values(self, key: str, values: FloatArray, about: dict[str, Any]) -> None:
        """Store the validation metric of each user."""
        save(self.file(key), values, **about)

    def read_values(self, key: str) -> FloatArray:
        """Return the stored validation metric of each user."""
        return np.asarray(load(self.file(key), np.ndarray, ADVICE)[0], dtype=np.float64)
