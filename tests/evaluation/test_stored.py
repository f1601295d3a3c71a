"""Stored results: files of one format number are read, and names in files outlive private modules."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import Evaluation, RankedPositives
from ipseval.errors import InputError
from ipseval.evaluation.segments import Segments
from ipseval.studies.protocols import run_config
from tests.inside.utils import CLASSES
from tests.inside.utils import artefacts as _artefacts
from tests.worlds import random_split


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 40, 30, 0.3)
    models = {"als": rng.random((split.n_users, split.n_items)), "ease": rng.random((40, split.n_items))}
    return ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics=["recall@5"])


def test_a_file_written_before_private_files_are_renamed_is_read_after_it(evaluation, tmp_path, monkeypatch):
    evaluation.save(tmp_path / "now.npz")
    for old, new in (("utils.notes", "_tallies"), ("estimators.user_sums", "estimators._x")):
        # The class is at its new place alone, which stored_classes.py has.
        monkeypatch.setitem(sys.modules, f"ipseval.{new}", sys.modules[f"ipseval.{old}"])
        monkeypatch.setitem(sys.modules, f"ipseval.{old}", None)
        for name, place in list(CLASSES.items()):
            monkeypatch.setitem(CLASSES, name, place.replace(f"ipseval.{old}:", f"ipseval.{new}:"))
    pd.testing.assert_frame_equal(Evaluation.load(tmp_path / "now.npz").frame, evaluation.frame)


def with_header(path: Path, change: Any) -> None:
    """Write an archive again with another header, and a checksum that fits it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members[_artefacts.HEADER])
    change(header)
    del header["seal"]
    header["seal"] = _artefacts._compute_digest(header)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {_artefacts.HEADER: json.dumps(header).encode()}).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "name", ["os", "os:system", "ipseval.__main__:main", "ipseval.cli:main", "ipseval.no:No"]
)
def test_a_file_names_only_registered_classes(name, evaluation, tmp_path):
    evaluation.save(tmp_path / "a.npz")
    with_header(tmp_path / "a.npz", lambda header: header["value"].update({"class": name}))
    with pytest.raises(InputError, match=f"there is no '{name}' in this version.* Compute the result again"):
        Evaluation.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("number", "got"),
    [(2, "format 2"), (0, "format 0"), (None, "a file without a format number")],
)
def test_a_result_of_another_format_or_of_none_is_refused_with_the_call_that_makes_it_again(
    number, got, evaluation, tmp_path
):
    path = tmp_path / "a.npz"
    evaluation.save(path)

    def change_format(header: dict[str, Any]) -> None:
        del header["format"]
        if number is not None:
            header["format"] = number

    with_header(path, change_format)
    with pytest.raises(InputError) as caught:
        Evaluation.load(path)
    assert str(caught.value) == (
        f"{path} must have storage format 1; got {got}. Compute the result again and store it with "
        "`.save(path)` or `ipseval evaluate --out`."
    )


def test_a_field_that_a_class_does_not_have_is_an_error(evaluation, tmp_path):
    path = tmp_path / "a.npz"
    evaluation.save(path)
    with_header(path, lambda header: header["value"]["fields"].update(gone=None))
    with pytest.raises(InputError, match="evaluation has no gone in this version"):
        Evaluation.load(path)


@pytest.mark.usefixtures("no_pictures")
def test_a_file_without_ranks_is_smaller_prints_the_same_and_names_missing_data(evaluation, tmp_path):
    evaluation.save(tmp_path / "whole.npz")
    evaluation.save(tmp_path / "small.npz", ranks=False)
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    small = Evaluation.load(tmp_path / "small.npz")
    for ask in (Evaluation.to_html, Evaluation.to_json, lambda result: result.compare().to_csv()):
        assert ask(small) == ask(evaluation)
    assert len(small.diff(evaluation).frame) == len(evaluation.frame)
    with pytest.raises(InputError, match=r"this needs the ranked positives, which stayed .* out of the file"):
        small.sensitivity()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(
    "read_device", [Segments.load, Evaluation.load, RankedPositives.from_parquet, run_config]
)
def test_a_device_is_not_read(read_device):
    with pytest.raises(InputError, match="/dev/full is a device or pipe"):
        read_device("/dev/full")


@pytest.mark.parametrize("name", ["e.json", "e.csv", "e"])
def test_the_name_of_a_stored_result_ends_in_npz(name, evaluation, tmp_path):
    with pytest.raises(InputError, match=rf"a file of stored results must end in \.npz; got '.*{name}'"):
        evaluation.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
