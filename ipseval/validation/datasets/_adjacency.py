"""Logs of files with one line per user, as LightGCN has them."""

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
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, IntArray

PARTS = ("train", "validation", "test")
MAX_DIGITS = 18  # of a 64-bit integer
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
N_CHARACTERS_SHOWN = 40  # of a malformed line


@dataclass(frozen=True)
class Lines:
    """The user of each line (n_lines,), the number of its items (n_lines,), and all items (n,)."""

    user: IntArray
    n_items: IntArray
    item: IntArray


@public_function
def load_adjacency(
    files: str | Path | Mapping[str, str | Path], *, ordered: bool = False
) -> Interactions | Split:
    r"""Load a log, or the split of several files, in which each line is "user item item …".

    Ids are whole numbers, separated by spaces or tabs; lines may end with CR LF. A line with a user alone is
    a user without items, which is included in `user_ids`. An item that a line repeats counts once; its
    repetitions are counted in `n_duplicates_dropped`.

    Parameters
    ----------
    files : str, Path, or mapping of "train", "test" and optionally "validation" to paths
        One file gives `Interactions`. Several give a `Split` over the ids of all of them.
    ordered : bool, default False
        Whether items are in the order of time. Their positions, from 0, are then the timestamps; the
        positions of a user continue from the training file to the validation file and the test file.

    Returns
    -------
    Interactions or Split
        The log of one file, or the split of several.

    Raises
    ------
    InputError
        For files that are missing or contain no pair; with the number of the line, for text that is not a
        whole number, an empty line, and a second line of a user; for a pair that is in two files.

    See Also
    --------
    ipseval.read : Read files of other layouts.
    ipseval.datasets.load_movielens : Load MovieLens.

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
        (log,) = _build_logs([_read_lines(Path(files))], ordered)
        return log
    for name in files:
        check_choice("files", name, PARTS)
    if "train" not in files or "test" not in files:
        raise InputError(f"files must name train and test; got {', '.join(files) or 'none'}.")
    names = [name for name in PARTS if name in files]
    lines_by_part = []
    for name in names:
        lines_by_part.append(_read_lines(Path(files[name])))

    logs = _build_logs(lines_by_part, ordered)
    log_by_name = dict(zip(names, logs, strict=True))
    return Split(log_by_name["train"], log_by_name["test"], log_by_name.get("validation"))


def _build_logs(files: list[Lines], ordered: bool) -> list[Interactions]:
    """Return the logs of files over the ids of all; with `ordered`, positions continue in the next file."""
    user_ids, users_of_files = _encode_ids([lines.user for lines in files])
    item_ids, items_of_files = _encode_ids([lines.item for lines in files])
    n_earlier_items = np.zeros(user_ids.size, dtype=np.int64)  # per user, in the files before
    logs = []
    for lines, line_users, item in zip(files, users_of_files, items_of_files, strict=True):
        line_starts = np.cumsum(lines.n_items) - lines.n_items
        position_in_line = np.arange(item.size) - np.repeat(line_starts, lines.n_items)
        timestamp = position_in_line + np.repeat(n_earlier_items[line_users], lines.n_items)
        n_earlier_items[line_users] += lines.n_items
        user = np.repeat(line_users, lines.n_items)
        pair_keys = user * np.int64(item_ids.size) + item
        is_duplicate = pd.Series(pair_keys).duplicated().to_numpy()
        logs.append(
            Interactions(
                user=user[~is_duplicate],
                item=item[~is_duplicate],
                user_ids=user_ids,
                item_ids=item_ids,
                timestamp=timestamp[~is_duplicate] if ordered else None,
                n_duplicates_dropped=int(is_duplicate.sum()),
            )
        )
    return logs


def _encode_ids(columns: list[IntArray]) -> tuple[AnyArray, list[IntArray]]:
    """Return the sorted ids of all columns, and each column as positions among them."""
    codes, ids = pd.factorize(np.concatenate(columns), sort=True)
    ends = np.cumsum([column.size for column in columns])
    return ids, np.split(codes.astype(np.int64), ends[:-1])


def _read_lines(path: Path) -> Lines:
    """Return the lines of a file; raise `InputError` if it cannot be read."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # a name that no file can have is a ValueError
        reason = getattr(error, "strerror", None) or "no file can have that name"
        raise InputError(f"{path!s:.200} cannot be read ({reason}).") from None
    return parse_lines(content, path)


def parse_lines(content: bytes, path: str | Path) -> Lines:
    """Return the lines of a file's content, tokenised as one array of bytes."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    characters = np.frombuffer(content, dtype=np.uint8)
    is_digit = (characters >= ord("0")) & (characters <= ord("9"))
    is_space = (characters == ord(" ")) | ((characters >= ord("\t")) & (characters <= ord("\r")))
    is_invalid = ~is_digit & ~is_space
    if is_invalid.any():
        number = content[: int(is_invalid.argmax())].count(b"\n") + 1
        raise _malformed_line_error(
            path, content, number, "contains something other than whole numbers and spaces"
        )

    token_edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
    token_starts = token_edges[::2]
    token_ends = token_edges[1::2]
    token_lines = np.searchsorted(np.flatnonzero(characters == ord("\n")), token_starts)
    is_too_long = token_ends - token_starts > MAX_DIGITS
    if is_too_long.any():
        number = int(token_lines[is_too_long.argmax()]) + 1
        raise _malformed_line_error(
            path, content, number, f"contains a number of more than {MAX_DIGITS} digits"
        )
    n_tokens = np.bincount(token_lines)
    if n_tokens.sum() == n_tokens.size:
        raise InputError(f"{path} contains no item; expected lines of a user and then its items.")
    if not n_tokens.all():
        raise _malformed_line_error(path, content, int(n_tokens.argmin()) + 1, "is empty")

    tokens = np.fromstring(content, dtype=np.int64, sep=" ")
    user_positions = np.cumsum(n_tokens) - n_tokens
    users = tokens[user_positions]
    is_repeated_user = pd.Series(users).duplicated().to_numpy()
    if is_repeated_user.any():
        index = int(is_repeated_user.argmax())
        first_line = int((users == users[index]).argmax()) + 1
        raise _malformed_line_error(
            path, content, index + 1, f"begins with the user of line {first_line} again"
        )
    return Lines(user=users, n_items=n_tokens - 1, item=np.delete(tokens, user_positions))


def _malformed_line_error(path: str | Path, content: bytes, number: int, problem: str) -> InputError:
    """Return the error for a line, which is quoted."""
    line = content.split(b"\n", number)[number - 1]
    text = line[:N_CHARACTERS_SHOWN].decode(errors="replace").strip()
    return InputError(
        f"line {number} of {path} {problem}: {text!r}. Expected one line per user: the user and then its "
        "items, as whole numbers. ipseval.read reads tables of pairs."
    )
