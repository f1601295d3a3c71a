"""Logs without random exposure: MovieLens, and files with one line per user, as LightGCN has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.utils.checks import check_bool, check_choice
from ipseval.utils.types import AnyArray, IntArray
from ipseval.validation.datasets._base import CARDS, check_values
from ipseval.validation.datasets._files import has_file, open_file, read_columns

MOVIELENS = CARDS["movielens"]
COLUMNS = {"user": "int64", "item": "int64", "rating": "float64", "timestamp": "int64"}
PARTS = ("train", "validation", "test")
MOST_DIGITS = 18  # of a 64-bit integer


def load_movielens(path: str | Path) -> Interactions:
    """Return MovieLens ratings: value = rating (0.5–5), timestamp in seconds since 1970.

    Parameters
    ----------
    path : folder or archive
        Holds `u.data` (100K: tabs; a line of names may come first), `ratings.dat` (1M, 10M: "::") or
        `ratings.csv` (20M and later).

    Raises
    ------
    InputError
        When no rating file is there, a row does not have the four fields, a rating is outside 0.5–5, or a
        pair repeats.

    References
    ----------
    Harper & Konstan, The MovieLens Datasets, ACM TiiS 2015, doi 10.1145/2827872.
    """
    frame = _read_ratings(path)
    rating = frame["rating"]
    check_values(MOVIELENS, "ratings must be in 0.5–5", rating.between(0.5, 5), rating)
    return Interactions.from_frame(frame, value="rating", timestamp="timestamp")


def _read_ratings(path: str | Path) -> pd.DataFrame:
    if has_file(path, "u.data", MOVIELENS):
        with open_file(path, "u.data", MOVIELENS) as stream:
            first = stream.readline().decode("utf-8", "replace").rstrip("\r\n").split("\t")
        columns: dict[str, str] = COLUMNS
        header: list[str] | None = list(COLUMNS)
        if not first[0].isdigit() and len(first) == len(COLUMNS):  # a copy with a line of names
            columns, header = dict(zip(first, COLUMNS.values(), strict=True)), None
        found = read_columns(path, "u.data", MOVIELENS, columns, sep="\t", header=header)
        return found.set_axis(list(COLUMNS), axis=1)
    if has_file(path, "ratings.dat", MOVIELENS):
        # "::" read as ":" with empty columns between: the fast parser takes single characters only.
        header = ["user", "a", "item", "b", "rating", "c", "timestamp"]
        return read_columns(path, "ratings.dat", MOVIELENS, COLUMNS, sep=":", header=header)
    names = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
    columns = {name: COLUMNS[ours] for name, ours in names.items()}
    return read_columns(path, "ratings.csv", MOVIELENS, columns).rename(columns=names)


@dataclass(frozen=True)
class Lines:
    """The user of each line (n_lines,), the number of its items (n_lines,), and all items (n,)."""

    user: IntArray
    count: IntArray
    item: IntArray


def load_adjacency(
    files: str | Path | Mapping[str, str | Path], *, ordered: bool = False
) -> Interactions | Split:
    r"""Return a log, or the split of several files, in which each line is "user item item …".

    Ids are whole numbers, separated by spaces or tabs; lines may end with CR LF. A line that holds its user
    alone is a user without items, who is in `user_ids`. An item that a line repeats counts once; the others
    are counted in `n_duplicates_dropped`.

    Parameters
    ----------
    files : path, or mapping of "train", "test" and optionally "validation" to paths
        One file gives `Interactions`. Several give a `Split` over the ids of all of them.
    ordered : bool
        Whether items stand in the order of time. Their places, from 0, are then the timestamps; those of a
        user go on from the training file to the validation file and the test file.

    Raises
    ------
    InputError
        For files that are missing or hold no pair; with the number of the line, for text that is no whole
        number, an empty line, and a second line of a user; for a pair that is in two files.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("0 3 5\n7 3\n")
    >>> load_adjacency(path)
    Interactions(3 pairs, 2 users, 2 items)
    """
    check_bool("ordered", ordered)
    if not isinstance(files, Mapping):
        return _logs([_read_lines(Path(files))], ordered)[0]
    for name in files:
        check_choice("files", name, PARTS)
    if not {"train", "test"} <= files.keys():
        raise InputError(f"files must name train and test; got {', '.join(files) or 'none'}.")
    names = [name for name in PARTS if name in files]
    logs = _logs([_read_lines(Path(files[name])) for name in names], ordered)
    made = dict(zip(names, logs, strict=True))
    return Split(made["train"], made["test"], made.get("validation"))


def _logs(parts: list[Lines], ordered: bool) -> list[Interactions]:
    """Return the logs of files over the ids of all; with `ordered`, places go on from file to file."""
    user_ids, users = _codes([part.user for part in parts])
    item_ids, items = _codes([part.item for part in parts])
    before = np.zeros(user_ids.size, dtype=np.int64)
    logs = []
    for part, user, item in zip(parts, users, items, strict=True):
        place = np.arange(item.size) - np.repeat(np.cumsum(part.count) - part.count, part.count)
        time = place + np.repeat(before[user], part.count)
        before[user] += part.count
        row = np.repeat(user, part.count)
        again = pd.Series(row * np.int64(item_ids.size) + item).duplicated().to_numpy()
        logs.append(
            Interactions(
                row[~again],
                item[~again],
                user_ids,
                item_ids,
                timestamp=time[~again] if ordered else None,
                n_duplicates_dropped=int(again.sum()),
            )
        )
    return logs


def _codes(columns: list[IntArray]) -> tuple[AnyArray, list[IntArray]]:
    """Return the sorted ids of all columns, and each column as places among them."""
    code, ids = pd.factorize(np.concatenate(columns), sort=True)
    return ids, np.split(code.astype(np.int64), np.cumsum([one.size for one in columns])[:-1])


def _read_lines(path: Path) -> Lines:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        why = getattr(error, "strerror", None) or "no file can have that name"
        raise InputError(f"{path!s:.200} cannot be read ({why}).") from None
    return lines_of(data, path)


def lines_of(data: bytes, path: str | Path) -> Lines:
    """Return the lines of a file's content, tokenised as one array of bytes."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    byte = np.frombuffer(data, dtype=np.uint8)
    digit = (byte >= ord("0")) & (byte <= ord("9"))
    strange = ~digit & (byte != 32) & ((byte < 9) | (byte > 13))
    if strange.any():
        number = data[: int(strange.argmax())].count(b"\n") + 1
        raise _malformed(path, data, number, "holds something else than whole numbers and spaces")
    edge = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    start, end = edge[::2], edge[1::2]
    line = np.searchsorted(np.flatnonzero(byte == ord("\n")), start)
    if (end - start > MOST_DIGITS).any():
        number = int(line[(end - start > MOST_DIGITS).argmax()]) + 1
        raise _malformed(path, data, number, f"holds a number of more than {MOST_DIGITS} digits")
    count = np.bincount(line)
    if count.sum() == count.size:
        raise InputError(f"{path} holds no item; expected lines of a user and then its items.")
    if not count.all():
        raise _malformed(path, data, int(count.argmin()) + 1, "is empty")
    token = np.fromstring(data, dtype=np.int64, sep=" ")
    first = np.cumsum(count) - count
    again = pd.Series(token[first]).duplicated().to_numpy()
    if again.any():
        number = int(again.argmax()) + 1
        earlier = int((token[first] == token[first[number - 1]]).argmax()) + 1
        raise _malformed(path, data, number, f"begins with the user of line {earlier} again")
    return Lines(token[first], count - 1, np.delete(token, first))


def _malformed(path: str | Path, data: bytes, number: int, problem: str) -> InputError:
    text = data.split(b"\n", number)[number - 1][:40].decode(errors="replace").strip()
    return InputError(
        f"line {number} of {path} {problem}: {text!r}. Expected one line per user: the user and then its "
        "items, as whole numbers. ipseval.read reads tables of pairs."
    )
