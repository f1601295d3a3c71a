"""Stored results: one format, names that outlive private files, and files of the release candidate.

The files in `tests/evaluation/stored` were written by ipseval 1.0.0rc1. Its format named classes by module.
Training pairs: (a, 10), (b, 10), (c, 10), (a, 20); test pairs: (a, 30), (b, 20), (c, 20), (c, 30); catalogue:
10, 20, 30, 40. Weights: a power law with gamma = 0, so that the pairs of item 30 leave. Scores of als: 0 0 3
1 for a, 0 1 3 2 for b, 0 3 2 1 for c; turned is the opposite of als.
"""

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
from tests.inside.base import CLASSES
from tests.inside.base import artefacts as _artefacts
from tests.worlds import random_split

OLD = Path(__file__).parent / "stored"
LOSS = 1 / np.log2(3)
# b has 20 on place 3 by als and 1 by turned; c on place 1 by als and 2 by turned.
BY_HAND = {
    ("als", "recall@1"): [0.0, 1.0],
    ("turned", "recall@1"): [1.0, 0.0],
    ("als", "ndcg@2"): [0.0, 1.0],
    ("turned", "ndcg@2"): [1.0, LOSS],
}


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 40, 30, 0.3)
    models = {"als": rng.random((split.n_users, split.n_items)), "ease": rng.random((40, split.n_items))}
    return ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics=["recall@5"])


def test_an_evaluation_of_the_release_candidate_is_read():
    found = Evaluation.load(OLD / "evaluation.npz")
    for (model, metric), values in BY_HAND.items():
        for estimator in ("aoa", "snips-global"):
            assert found.per_user(model, metric, estimator).to_dict() == pytest.approx(
                dict(zip("bc", values, strict=True))
            )
            assert found.estimate(model, metric, estimator).value == pytest.approx(np.mean(values))
    assert found.compare()["p_value"].notna().any()
    assert "snips-global" in repr(found.explain())


def test_segments_of_the_release_candidate_are_read():
    found = Segments.load(OLD / "segments.npz")
    assert not any(cell.in_unit for cell in found.cells.values())  # of which these files say nothing
    rows = found.frame.set_index(["model", "metric", "estimator"]).sort_index()
    assert rows.loc[("als", "recall@1", "snips-global"), "n_positives"].sum() == 2


@pytest.mark.parametrize(
    ("read", "name", "words"),
    [
        (Evaluation.load, "baseline.json", "is no file of stored results, which end in .npz: .json"),
        (
            RankedPositives.from_parquet,
            "ranks.parquet",
            "was written by ipseval 1.0.0rc1, whose ranks",
        ),
    ],
)
def test_what_is_not_read_any_more_says_what_to_do(read, name, words):
    with pytest.raises(InputError, match=rf"{name} {words}.*\. (Evaluate|Rank) again and"):
        read(OLD / name)


def test_a_file_written_before_private_files_are_renamed_is_read_after_it(evaluation, tmp_path, monkeypatch):
    evaluation.save(tmp_path / "now.npz")
    files = [tmp_path / "now.npz", OLD / "evaluation.npz"]
    expected = [Evaluation.load(path).frame for path in files]
    for old, new in (("_base.counts", "_tallies"), ("estimators._sums", "estimators._x")):
        # The class is at its new place alone, which places.txt has.
        monkeypatch.setitem(sys.modules, f"ipseval.{new}", sys.modules[f"ipseval.{old}"])
        monkeypatch.setitem(sys.modules, f"ipseval.{old}", None)
        for name, place in list(CLASSES.items()):
            monkeypatch.setitem(CLASSES, name, place.replace(f"ipseval.{old}:", f"ipseval.{new}:"))
    for path, frame in zip(files, expected, strict=True):
        pd.testing.assert_frame_equal(Evaluation.load(path).frame, frame)


def with_header(path: Path, change: Any) -> None:
    """Write an archive again with another header, and a checksum that fits it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members[_artefacts.HEADER])
    change(header)
    del header["seal"]
    header["seal"] = _artefacts._digest(header)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {_artefacts.HEADER: json.dumps(header).encode()}).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "name", ["os", "os:system", "ipseval.__main__:main", "ipseval.cli:main", "ipseval.no:No"]
)
def test_a_file_names_only_registered_classes(name, evaluation, tmp_path):
    evaluation.save(tmp_path / "a.npz")
    with_header(tmp_path / "a.npz", lambda header: header["value"].update({"class": name}))
    with pytest.raises(InputError, match=f"there is no '{name}' in this version.* Evaluate again"):
        Evaluation.load(tmp_path / "a.npz")


def test_what_a_version_has_no_place_for_is_left_out_only_if_it_holds_nothing(evaluation, tmp_path):
    path = tmp_path / "a.npz"
    evaluation.save(path)
    for nothing in (None, [], {"tuple": []}, {"dict": []}):
        with_header(path, lambda header, one=nothing: header["value"]["fields"].update(gone=one))
        assert Evaluation.load(path).frame.equals(evaluation.frame)
    with_header(path, lambda header: header["value"]["fields"].update(gone=1))
    with pytest.raises(InputError, match="evaluation has no gone in this version"):
        Evaluation.load(path)


def test_without_ranks_a_file_is_smaller_prints_the_same_and_says_what_it_lacks(evaluation, tmp_path):
    evaluation.save(tmp_path / "whole.npz")
    evaluation.save(tmp_path / "small.npz", ranks=False)
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    small = Evaluation.load(tmp_path / "small.npz")
    for ask in (Evaluation.to_html, Evaluation.to_json, lambda one: one.compare().to_csv()):
        assert ask(small) == ask(evaluation)
    assert len(small.diff(evaluation).frame) == len(evaluation.frame)
    with pytest.raises(InputError, match=r"this needs the ranked positives, which stayed .* out of the file"):
        small.sensitivity()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("read", [Segments.load, Evaluation.load, RankedPositives.from_parquet, run_config])
def test_a_device_is_not_read(read):
    with pytest.raises(InputError, match="/dev/full is a device or pipe"):
        read("/dev/full")


@pytest.mark.parametrize("name", ["e.json", "e.csv", "e"])
def test_the_name_of_a_stored_result_ends_in_npz(name, evaluation, tmp_path):
    with pytest.raises(InputError, match=rf"a file of stored results must end in \.npz; got '.*{name}'"):
        evaluation.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
