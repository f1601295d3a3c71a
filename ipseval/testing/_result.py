"""Stored results: one sealed JSON file to read and diff, with each user's influence at its end.

One file, because two can be of different runs: after a kill between two writes, a merge, or a copy of one.
"""

from __future__ import annotations

import base64
import json
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ipseval._artefacts import read_sealed, reading, seal, write_text
from ipseval._checks import examples
from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.errors import InputError

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

KIND = "ipseval-result"
ADVICE = (
    "Write it again: ipseval.testing.write_baseline(evaluation, path), ipseval evaluate --out, or pytest "
    "--ipseval-update."
)

Key: TypeAlias = tuple[str, str, str]
Influence: TypeAlias = tuple[IntArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Entry:
    """One stored estimate.

    `influence` holds user codes, ascending, and ψ_u/n: its sum of squares times n/(n − 1) is SE². None: the
    evaluation did not keep users apart, and comparisons are unpaired. `flag` says why the estimate should not
    be trusted; "" where nothing is wrong.
    """

    estimate: float
    std_error: float
    n_users: int
    n_positives: int
    influence: Influence | None = None
    flag: str = ""


@dataclass(frozen=True, eq=False)
class StoredResult:
    """An evaluation as it is stored: estimates with what they were computed from.

    Attributes
    ----------
    entries : dict
        (model, metric, estimator) -> Entry.
    data : dict
        SHA-256 of positives, users and propensities.
    options : dict
        Ties, candidates, propensity model and what else changes numbers.
    definitions : dict
        Metric label -> its definition.
    source : str
        File name, or "this evaluation", for messages.
    """

    entries: dict[Key, Entry]
    data: dict[str, str | None]
    options: dict[str, Any]
    definitions: dict[str, Any]
    source: str

    @property
    def models(self) -> list[str]:
        """Names of the recommenders, in the order stored."""
        return list(dict.fromkeys(key[0] for key in self.entries))

    def entry(self, key: Key) -> Entry:
        """Return one estimate; an error with the keys that there are otherwise."""
        if key not in self.entries:
            raise InputError(
                f"{self.source} has no estimate {key}; it has models {', '.join(self.models)}, "
                f"metrics {', '.join(dict.fromkeys(one[1] for one in self.entries))}, "
                f"estimators {', '.join(dict.fromkeys(one[2] for one in self.entries))}."
            )
        return self.entries[key]

    @classmethod
    def of(cls, evaluation: Evaluation) -> StoredResult:
        """Return the result of an evaluation, as it would be stored."""
        return _parse(_content(evaluation), "this evaluation")

    @classmethod
    def read(cls, path: str | Path) -> StoredResult:
        """Return a stored result, or that of an evaluation which `Evaluation.save` has written.

        Raises
        ------
        InputError
            When the file is missing, no result, of another format, damaged, or changed since it was written.
        """
        if not Path(path).exists():
            raise InputError(f"there is no stored result {path}. {ADVICE}")
        if zipfile.is_zipfile(path):
            from ipseval.evaluation import Evaluation

            return replace(cls.of(Evaluation.load(path)), source=str(path))
        return _parse(read_sealed(path, KIND, ADVICE), str(path))


def write_baseline(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation as a stored result: one JSON file, whole or not at all.

    Estimates come first, to read and diff. The last part holds each user's influence on each estimate, so
    that later results are compared user by user.
    """
    write_text(path, baseline_text(evaluation))


def baseline_text(evaluation: Evaluation) -> str:
    """Return the text that `write_baseline` writes."""
    return seal(KIND, _content(evaluation))


def _content(evaluation: Evaluation) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(evaluation.to_json())
    users: dict[str, None] = {}
    influence = []
    for one in evaluation.estimates.values():
        moving, effects = one.user_sums.effects()
        packed = _pack(moving, "<i4")
        users[packed] = None
        influence.append([list(users).index(packed), _pack(effects, "<f8")])
    flags = [one.flag for one in evaluation.estimates.values()]
    return content | {"flags": flags, "users": list(users), "influence": influence}


def _pack(array: AnyArray, dtype: str) -> str:
    return base64.b64encode(zlib.compress(array.astype(dtype).tobytes())).decode("ascii")


def _unpack(text: str, dtype: str, size: int) -> AnyArray:
    """Return `size` numbers; never more memory than they need, whatever the text holds."""
    length = size * np.dtype(dtype).itemsize
    content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), length + 1)
    if len(content) != length:
        raise ValueError(f"expected {size} numbers for its users")
    return np.frombuffer(content, dtype)


def _parse(content: dict[str, Any], source: str) -> StoredResult:
    with reading(source, ADVICE):
        rows = content["estimates"]
        stored = content["influence"] or [None] * len(rows)
        entries = {
            (str(row["model"]), str(row["metric"]), str(row["estimator"])): _entry(
                row, one, content["users"], flag
            )
            for row, one, flag in zip(rows, stored, content["flags"], strict=True)
        }
        parts = [dict(content[name]) for name in ("data", "options", "metrics")]
        parts[1] |= {"missing": content.get("missing")}
    if len(entries) != len(rows):
        raise InputError(f"{source} has several rows of one estimate ({examples(entries)}). {ADVICE}")
    is_normal = content.get("interval") == "normal" and not content.get("refit")
    for key, entry in entries.items():
        _check(key, entry, source, is_normal)
    return StoredResult(entries, parts[0], parts[1], parts[2], source)


def _entry(row: dict[str, Any], stored: Any, users: list[str], flag: str) -> Entry:
    numbers = [float("nan") if row[name] is None else float(row[name]) for name in ("estimate", "std_error")]
    n_users = int(row["n_users"])
    influence = None
    if stored is not None:
        codes, values = _unpack(users[stored[0]], "<i4", n_users), _unpack(stored[1], "<f8", n_users)
        influence = codes.astype(np.int64), values.astype(np.float64)
    return Entry(numbers[0], numbers[1], n_users, int(row["n_positives"]), influence, str(flag))


def _check(key: Key, entry: Entry, source: str, is_normal: bool) -> None:
    """Raise `InputError` where the evidence behind an estimate does not fit it: a gate must not pass then."""
    problem = ""
    if np.isinf([entry.estimate, entry.std_error]).any():
        problem = "the estimate or its standard error is infinite"
    elif entry.influence is not None and not np.isnan(entry.estimate):
        n, (users, influence) = entry.n_users, entry.influence
        if not np.isfinite(influence).all():
            problem = "the influence of some users is not finite"
        elif (np.diff(users, prepend=-1) <= 0).any():
            problem = "its users are not ascending codes"
        elif is_normal and n > 1:
            error = float(np.sqrt(n / (n - 1.0) * np.sum(influence**2)))
            if not abs(error - entry.std_error) <= 1e-9 * max(error, abs(entry.estimate)):
                problem = f"its standard error is {entry.std_error:.6g}, that of its users {error:.6g}"
    if problem:
        raise InputError(f"{source} cannot be used: for {', '.join(key)} {problem}. {ADVICE}")
