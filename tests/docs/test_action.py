"""The steps of the GitHub Action, run by bash as GitHub runs them, but that nothing is downloaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ipseval
from tests.worlds import random_split

ROOT = Path(__file__).resolve().parents[2]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # what `shell: bash` stands for


@pytest.fixture
def folder(tmp_path):
    """A working folder with parts of a log and scores, and programs in front of the others."""
    split = random_split(np.random.default_rng(0), 80, 40, 0.3)
    for name in ("train", "test"):
        getattr(split, name).to_frame().to_csv(tmp_path / f"{name}.csv", index=False)
    good = split.test.to_csr().toarray() + np.random.default_rng(1).random((80, 40))
    np.save(tmp_path / "good.npy", good)
    how = {"propensity": "power-law:gamma=1", "metrics": ["recall@5"]}
    ipseval.evaluate({"als": -good}, split, **how).save(tmp_path / "bad.npz")
    (tmp_path / "bin").mkdir()
    for name, line in {"ipseval": f'"{sys.executable}" -m ipseval "$@"', "python": 'echo "$@" > pip'}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def run_action(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the steps in order until one fails; return how the last ended."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert set(given) <= set(action["inputs"])
    values = {name: given.get(name, one.get("default")) for name, one in action["inputs"].items()}
    assert None not in values.values()
    paths = {"PYTHONPATH": str(ROOT), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    for step in action["runs"]["steps"]:
        condition = re.fullmatch(r"inputs\.(\w+) != ''", step.get("if", "inputs.install != ''"))
        if not values[condition[1]]:
            continue
        names = {k: re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", v)[1] for k, v in step["env"].items()}
        environment = {name: values[one] for name, one in names.items()}
        environment |= paths | {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
        done = subprocess.run(
            [*BASH, "-c", step["run"]],
            cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            break
    return done


def test_the_steps_pass_an_equal_recommender_and_stop_at_a_worse_one_and_at_a_broken_file(folder):
    parts = "--train train.csv --test test.csv --model als=good.npy --gamma 1 --metrics recall@5 --quiet"
    done = run_action(folder, evaluate=parts, accepted="new.npz", compare="--metric recall@5")
    assert done.returncode == 0, done.stderr
    assert (folder / "pip").read_text() == "-m pip install --quiet ipseval\n"
    assert "als" in (folder / "summary.md").read_text()
    given = {"new": "bad.npz", "accepted": "new.npz", "compare": "--metric recall@5"}
    worse = run_action(folder, **given)
    assert worse.returncode
    assert "WORSE" in worse.stdout
    (folder / "new.npz").write_bytes(b"no result")
    broken = run_action(folder, **given)
    assert broken.returncode
    assert "WORSE" not in broken.stdout
