"""Vectors of items on the command line: every form gives the same diversity; what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main

VECTORS = np.random.default_rng(1).normal(size=(12, 3))
ITEMS = [f"i{number:02}" for number in range(12)]
COMMAND = ("evaluate", "log.csv", "--model", "popularity", "--metrics", "auc", "--beyond", "ild@4")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((30, 12)) < 0.4), columns=["user", "item"])
    pairs.assign(item=np.array(ITEMS)[pairs["item"]]).to_csv("log.csv", index=False)
    return tmp_path


def table(**more):
    return pd.DataFrame({"item": ITEMS, **dict(zip("xyz", VECTORS.T, strict=True)), **more})


def write(kind):
    """Return the file of the vectors in some form."""
    shuffled = table().sample(frac=1, random_state=0)
    if kind == "csv":
        shuffled.rename(columns={"item": "sku"}).to_csv("v.csv", index=False)
        return "v.csv:item=sku"
    if kind == "parquet":
        arrays = pd.DataFrame({"item": ITEMS, "vector": list(VECTORS)})
        arrays.sample(frac=1, random_state=0).to_parquet("v.parquet")
    else:
        np.save("v.npy", VECTORS)
    return f"v.{kind}"


def test_every_form_gives_the_diversity_of_the_library(folder, capsys):
    split = ipseval.split_random(ipseval.read("log.csv"), rng=0)
    models = {"popularity": ipseval.baselines.popularity(split.train)}
    measures = ipseval.beyond_accuracy(models, split, measures=["ild@4"], item_vectors=VECTORS)
    expected = str(measures)
    for kind in ("csv", "parquet", "npy"):
        arguments = [*COMMAND, "--item-vectors", write(kind), "--quiet"]
        assert main(arguments) == 0, capsys.readouterr().err
        assert expected.strip() in capsys.readouterr().out, kind


WRONG = {
    "no items": (table().drop(columns="item"), "has no column 'item'; it has x, y, z"),
    "a stranger": (pd.concat([table(), table()[:1].assign(item="zz")]), "1 of 13 labels"),
    "a hole": (table(x=[np.nan] * 12), "--item-vectors must be finite"),
    "another number of rows": (VECTORS[1:], "must be numbers of shape (12, d)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case, folder, capsys):
    given, text = WRONG[case]
    if isinstance(given, np.ndarray):
        np.save("v.npy", given)
    else:
        given.to_csv("v.csv", index=False)
    assert main([*COMMAND, "--item-vectors", "v.npy" if case == "another number of rows" else "v.csv"]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


def test_unknown_items_are_left_out_where_that_is_said(folder, capsys):
    pd.concat([table(), table()[:1].assign(item="zz")]).to_csv("v.csv", index=False)
    command = [*COMMAND, "--item-vectors", "v.csv", "--format", "csv"]
    assert main([*command, "--unknown", "drop"]) == 0, capsys.readouterr().err
    assert main([*command, "--unknown", "candidate"]) == 2
    assert "1 of 13 labels" in capsys.readouterr().err
