"""Stored results: a JSON file to read and diff, and beside it each user's influence for paired comparison."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ipseval._checks import examples
from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.errors import InputError

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

FORMAT = "ipseval-result"
VERSION = 1

Key: TypeAlias = tuple[str, str, str]
Influence: TypeAlias = tuple[IntArray, FloatArray]


@dataclass(frozen=True)
class Entry:
    """One stored estimate."""

    estimate: float
    std_error: float
    n_users: int
    n_positives: int


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
    influence : dict or None
        Key -> (user codes, ψ_u/n): its sum of squares times n/(n − 1) is SE². None: not stored, and
        comparisons are unpaired.
    source : str
        File name, or "this evaluation", for messages.
    """

    entries: dict[Key, Entry]
    data: dict[str, str | None]
    options: dict[str, Any]
    definitions: dict[str, Any]
    influence: dict[Key, Influence] | None
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
        from ipseval.report import to_json

        return _parse(json.loads(to_json(evaluation)), _influence(evaluation), "this evaluation")

    @classmethod
    def read(cls, path: str | Path) -> StoredResult:
        """Return a stored result.

        Raises
        ------
        InputError
            When the file is missing, no result, or of a newer format.
        """
        file = Path(path)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"there is no stored result {file}. Write it with ipseval.testing.write_baseline(evaluation, "
                "path), or run pytest with --ipseval-update."
            ) from None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(f"{file} is not JSON: {error}.") from None
        return _parse(content, _read_influence(file), str(file))


def write_baseline(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation as a stored result: `path` (JSON) and, beside it, `….users.npz`.

    The second file holds each user's influence on each estimate: with it, later results are compared user by
    user, which is far sharper. Without it they are compared as if independent.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    evaluation.to_json(file)
    arrays: dict[str, AnyArray] = {}
    for number, (users, influence) in enumerate(_influence(evaluation).values()):
        arrays[f"users_{number}"] = users.astype(np.int32)
        arrays[f"influence_{number}"] = influence
    np.savez_compressed(sidecar(file), allow_pickle=False, **arrays)


def sidecar(path: Path) -> Path:
    """Return the name of the file with the users' influence."""
    return path.with_name(f"{path.stem}.users.npz")


def _influence(evaluation: Evaluation) -> dict[Key, Influence]:
    return {
        key: (one.sums.users, one.influence / max(one.sums.n_users, 1))
        for key, one in evaluation.estimates.items()
    }


def _read_influence(file: Path) -> list[Influence] | None:
    beside = sidecar(file)
    if not beside.exists():
        return None
    with np.load(beside, allow_pickle=False) as arrays:
        count = len(arrays.files) // 2
        return [
            (arrays[f"users_{number}"].astype(np.int64), arrays[f"influence_{number}"].astype(np.float64))
            for number in range(count)
        ]


def _parse(
    content: Any, influence: dict[Key, Influence] | list[Influence] | None, source: str
) -> StoredResult:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f'{source} is not a result of ipseval: it has no "format": "{FORMAT}".')
    if content.get("format_version") != VERSION:
        raise InputError(
            f"{source} has format version {content.get('format_version')}; this ipseval reads {VERSION}. "
            "Write it again with this version."
        )
    try:
        entries = {_key(row): _entry(row) for row in content["estimates"]}
        parts = {name: dict(content[name]) for name in ("data", "options", "metrics")}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{source} is damaged: {type(error).__name__} {error}. Write it again.") from None
    if isinstance(influence, list):
        if len(influence) != len(entries):
            raise InputError(
                f"{source} has {len(entries)} estimates and its .users.npz {len(influence)}: the two files "
                f"are not of one run ({examples(entries)}). Write them again."
            )
        influence = dict(zip(entries, influence, strict=True))
    return StoredResult(entries, parts["data"], parts["options"], parts["metrics"], influence, source)


def _key(row: dict[str, Any]) -> Key:
    return str(row["model"]), str(row["metric"]), str(row["estimator"])


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(
        _number(row["estimate"]), _number(row["std_error"]), int(row["n_users"]), int(row["n_positives"])
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
