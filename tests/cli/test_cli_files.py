"""The command line and files: formats by suffix, columns of each file, damage, names that steer."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from tests.cli.test_cli import evaluate, files

__all__ = ["files"]  # a fixture


def test_the_suffix_of_out_says_the_format_and_no_two_files_share_anything(files, capsys):
    scores = ["--model", f"als={files / 'als.npy'}", "--metrics", "auc"]
    starts = {
        ".json": "{",
        ".html": "<!DOCTYPE html>",
        ".md": "",
        ".tex": "",
        ".csv": "model,metric,estimator",
    }
    outs = [word for suffix in starts for word in ("--out", str(files / f"new/x{suffix}"))]
    assert evaluate(files, *scores, *outs) == 0
    found = {path.suffix: path.read_text() for path in (files / "new").iterdir()}
    assert set(found) == set(starts)
    for suffix, start in starts.items():
        assert found[suffix].startswith(start), suffix
    assert "| ---" in found[".md"]
    assert "\\begin{tabular}" in found[".tex"]
    capsys.readouterr()
    assert evaluate(files, *scores, "--out", str(files / "x.xls")) == 2
    assert "--out must end in .txt, .md, .tex, .csv, .json, .html, .npz" in capsys.readouterr().err


def test_where_out_cannot_be_written_is_said_before_any_file_is_read(files, capsys):
    (files / "folder.json").mkdir()
    for out in (files / "folder.json", files / "als.npy" / "x.json"):
        assert (
            main(["evaluate", "--train", "none", "--test", "none", "--model", "a=b", "--out", str(out)]) == 2
        )
        error = capsys.readouterr().err
        assert error.startswith("ipseval: error: ")
        assert str(out) in error
    assert main(["validate", "coat", "--data", "none", "--out", str(files / "folder.json")]) == 2
    assert "folder.json" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_column_options_apply_to_every_file_that_has_them(files, capsys):
    names = {"user": "uid", "item": "sku"}
    for name in ("train.csv", "top.csv"):
        pd.read_csv(files / name).rename(columns=names).to_csv(files / name, index=False)
    test = pd.read_csv(files / "test.csv")
    test.rename(columns=names).to_csv(files / "test.csv", index=False)
    pd.DataFrame({"sku": range(20), "propensity": 0.5}).to_csv(files / "p.csv", index=False)
    pd.DataFrame({"uid": range(30)}).to_csv(files / "users.csv", index=False)
    pd.DataFrame({"item": range(20)}).to_csv(files / "items.csv", index=False)
    options = ["--model", f"top={files / 'top.csv'}", "--propensity", str(files / "p.csv")]
    universe = ["--users", str(files / "users.csv"), "--items", str(files / "items.csv")]
    columns = ["--user", "uid", "--item", "sku", "--metrics", "recall@5"]
    assert evaluate(files, *options, *universe, *columns) == 0, capsys.readouterr().err
    capsys.readouterr()
    pd.read_csv(files / "top.csv").rename(columns={"uid": "who"}).to_csv(files / "top.csv", index=False)
    assert evaluate(files, *options, *columns) == 2
    assert "Name it by FILE:user=COLUMN" in capsys.readouterr().err
    pd.read_csv(files / "p.csv").assign(item=1).to_csv(files / "p.csv", index=False)
    assert evaluate(files, "--model", f"als={files / 'als.npy'}", *columns, *options[2:]) == 2
    assert "has columns sku and item" in capsys.readouterr().err


def test_lists_without_options_are_treated_as_in_python(files, capsys):
    lists = pd.read_csv(files / "top.csv")
    stranger = pd.DataFrame({"user": [999], "item": [lists["item"].iloc[0]], "rank": [1]})
    pd.concat([lists, stranger]).to_csv(files / "top.csv", index=False)
    columns = ["--metrics", "recall@5"]
    model = f"top={files / 'top.csv'}"
    assert evaluate(files, "--model", model, *columns) == 0, capsys.readouterr().err
    printed = " ".join(capsys.readouterr().out.split())
    assert "left out (entries of users without test positives that are unknown to the split)" in printed
    assert evaluate(files, "--model", f"{model}:unknown=raise", *columns) == 2
    assert "1 user: 999" in capsys.readouterr().err


def damage(path: Path) -> dict[str, bytes]:
    content = path.read_bytes()
    locked = bytearray(content)
    locked[locked.index(b"PK\x03\x04") + 6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    method = bytearray(content)
    method[method.index(b"PK\x03\x04") + 8] = method[method.index(b"PK\x01\x02") + 10] = 99
    return {
        "truncated": content[:-50],
        "flipped": content[:300] + bytes([content[300] ^ 255]) + content[301:],
        "encrypted": bytes(locked),
        "an unknown compression": bytes(method),
        "empty": b"",
        "text": b"hello",
    }


def test_every_kind_of_damage_is_one_line_with_the_name_of_the_file(files, capsys):
    parquet = files / "test.parquet"
    pd.read_csv(files / "test.csv").to_parquet(parquet)
    for name in ("bpr.npz", "als.npy", "test.parquet", "train.csv"):
        whole = (files / name).read_bytes()
        if name == "bpr.npz":
            cases = damage(files / name)
        else:
            cases = {"truncated": whole[:-50], "empty": b"", "binary": bytes(range(256)) * 4}
        for case, content in cases.items():
            if name == "train.csv" and case == "truncated":
                continue  # a shorter table is a table
            (files / name).write_bytes(content)
            scores = "als.npy" if name == "als.npy" else "bpr.npz"
            assert evaluate(files, "--test", str(parquet), "--model", f"m={files / scores}") == 2, (
                name,
                case,
            )
            error = capsys.readouterr().err
            assert error.startswith("ipseval: error: "), (name, case)
            assert name in error, (name, case)
            assert error.count("\n") == 1, (name, case)
        (files / name).write_bytes(whole)


def test_names_cannot_steer_the_terminal_or_a_spreadsheet(files, capsys):
    name = "\x1b]0;owned\x07a\rb\u202e"
    out = files / "x.csv"
    scores = ["--model", f"{name}={files / 'als.npy'}"]
    auc = ["--metrics", "auc", "--out", str(out)]
    assert evaluate(files, *scores, *auc) == 0
    printed = capsys.readouterr().out + out.read_text()
    assert not set(printed) & set("\x1b\x07\r\u202e")
    assert "\\x1b]0;owned\\x07a\\rb\\u202e" in printed
    assert evaluate(files, f"--model=@cmd={files / 'als.npy'}", *auc) == 0
    assert "\n'@cmd," in out.read_text()


def test_a_reader_that_stops_reading_is_no_error_and_not_worse(monkeypatch, capfd):
    reading, writing = os.pipe()
    os.close(reading)
    with open(
        writing, "w", encoding="utf-8"
    ) as stream:  # its end writes what is left, as that of Python does
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["evaluate", "--list-metrics", "ap@10,auc,mae"]) == 141
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_is_one_line(tmp_path, monkeypatch, capfd):
    interrupts = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    (tmp_path / "slow.py").write_text(f"{interrupts}raise AssertionError('it went on')\n")
    (tmp_path / "study.toml").write_text(
        '[logs.a]\nfile = "a.csv"\n[models.a]\nfunction = "slow:a"\n[models.b]\nfunction = "slow:a"\n'
    )
    monkeypatch.setattr(sys, "argv", ["ipseval", "study", str(tmp_path / "study.toml")])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, too
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(Path(ipseval.__file__).with_name("__main__.py")), run_name="__main__")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 130
    assert capfd.readouterr() == ("", "ipseval: interrupted\n")


def test_an_error_of_a_model_is_exit_code_two_not_worse(tmp_path, capsys):
    (tmp_path / "breaking.py").write_text("def fit(train):\n    raise RuntimeError('no memory')\n")
    pd.DataFrame({"user": np.repeat(range(20), 8), "item": list(range(8)) * 20}).to_csv(
        tmp_path / "a.csv", index=False
    )
    (tmp_path / "study.toml").write_text(
        '[logs.a]\nfile = "a.csv"\n[models.a]\nfunction = "breaking:fit"\n'
        '[models.b]\nfunction = "breaking:fit"\n[protocols]\norder = ["random"]\n'
    )
    assert main(["study", str(tmp_path / "study.toml")]) == 2
    assert "RuntimeError: no memory" in capsys.readouterr().err


def test_a_fitted_propensity_is_read_again_and_weights_as_the_model_itself(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert main(["fit", "propensity", "train.csv", "--gamma", "0", "--out", "p.csv"]) == 0
    assert {"item", "relative_propensity"} < set(pd.read_csv("p.csv"))  # above 1, as a factor is not known
    scores, weights = ["--model", "als=als.npy", "--metrics", "recall@5", "--format", "csv"], []
    for options in (["--gamma", "0"], ["--propensity", "p.csv"]):
        capsys.readouterr()
        assert evaluate(files, *scores, *options) == 0
        rows = (line.split(",") for line in capsys.readouterr().out.splitlines())
        weights.append([row[3] for row in rows if row[2:3] == ["snips-global"]])
    assert weights[0] == weights[1] != []
    assert evaluate(files, *scores, "--propensity", "p.csv", "--estimators", "ips") == 2
    assert "requires calibrated propensities, but these are relative" in capsys.readouterr().err
