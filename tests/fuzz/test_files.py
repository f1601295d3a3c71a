"""Files of every format that are damaged anywhere: they are read, or an `InputError` says what is wrong."""

from __future__ import annotations

import gzip
import random
import warnings
from contextlib import suppress
from functools import partial

import pandas as pd
import pytest

import ipseval
from tests.conftest import examples
from tests.file_formats import BINARY_WRITERS

FRAME = pd.DataFrame({"user": ["ann", "ann", "bob"], "item": [1, 2, 1], "rating": [4.5, 2.0, 1.0]})
LISTS = pd.DataFrame({"user": ["ann", "bob"], "items": [[1, 2], [1]], "scores": [[4.5, 2.0], [1.0]]})
FORMATS = {
    "log.csv": lambda path: FRAME.to_csv(path, sep=";", decimal=",", index=False),
    "log.json": lambda path: FRAME.to_json(path, orient="records"),
    "columns.json": lambda path: FRAME.to_json(path),
    "split.json": lambda path: FRAME.to_json(path, orient="split"),
    "lists.jsonl": lambda path: LISTS.to_json(path, orient="records", lines=True),
    **{f"lists.{name.lower()}": partial(write, LISTS) for name, write in BINARY_WRITERS.items()},
    "users.json": lambda path: path.write_text('{"ann": {"1": 4.5, "2": 2}, "bob": {"1": 1}}'),
}
PIECES = [*b'{}[]",:;0-.e\n\\', 0, 255]


def damaged(content: bytes, chooser: random.Random) -> bytes:
    """Return bytes of which some are replaced, left out, repeated or added."""
    place, length = chooser.randrange(len(content)), chooser.randrange(12)
    span = content[place : place + length]
    new = bytes(chooser.choices(PIECES, k=chooser.randrange(3)))
    return content[:place] + chooser.choice([new, span + span, b"", new + span]) + content[place + length :]


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(name, tmp_path):
    FORMATS[name](tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    chooser, n_read = random.Random(name), 0
    # How many damaged files are read depends on the bytes that pandas and PyArrow write, so one is whole.
    for number, content in enumerate([whole, *(damaged(whole, chooser) for _ in range(examples(200)))]):
        packed = number % 4 == 0
        path = tmp_path / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
        for reader in (ipseval.read, ipseval.read_lists):
            with warnings.catch_warnings(), suppress(ipseval.InputError):
                warnings.simplefilter("ignore")
                n_read += len(reader(path).data)
    assert n_read
