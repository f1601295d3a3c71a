"""The steps of the GitHub Action, run by bash as GitHub runs them, but that nothing is downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ipseval
from tests.worlds import random_split

ROOT = Path(__file__).resolve().parents[2]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # what `shell: bash` stands for
PROGRAMS = {"ipseval": f'"{sys.executable}" -m ipseval "$@"', "python": 'echo "$@" > installed'}


def run_action(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the steps in order until one fails; return how the last ended."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    values = {
        f"inputs.{name}": given.get(name, input_.get("default")) for name, input_ in action["inputs"].items()
    }
    fixed = {
        "GITHUB_ACTION_PATH": "/the/action",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    fixed["GITHUB_STEP_SUMMARY"] = "summary.md"
    for step in action["runs"]["steps"]:
        if "if" in step and not values[step["if"].removesuffix(" != ''")]:
            continue
        environment = {name: values[text[4:-3]] for name, text in step["env"].items()}  # ${{ inputs.new }}
        how = {"cwd": folder, "env": os.environ | fixed | environment, "capture_output": True, "text": True}
        done = subprocess.run([*BASH, step["run"]], check=False, **how)
        if done.returncode:
            break
    return done


@pytest.mark.filterwarnings("ignore:als finds .* Are the scores reversed")
def test_the_steps_pass_an_equal_recommender_and_stop_at_a_worse_one_and_at_a_broken_file(tmp_path):
    for name, line in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    split = random_split(np.random.default_rng(0), 80, 40, 0.3)
    for name in ("train", "test"):
        getattr(split, name).to_frame().to_csv(tmp_path / f"{name}.csv", index=False)
    scores = split.test.to_csr().toarray() + np.random.default_rng(1).random((80, 40))
    np.save(tmp_path / "good.npy", scores)
    options = {"propensity": "power-law:gamma=1", "metrics": ["recall@5"]}
    ipseval.evaluate({"als": -scores}, split, **options).save(tmp_path / "worse.npz")
    parts = "--train train.csv --test test.csv --model als=good.npy --gamma 1 --metrics recall@5 --quiet"
    ipseval.evaluate({"als": scores}, split, **options).save(tmp_path / "accepted.npz")
    same = run_action(tmp_path, evaluate=parts, accepted="accepted.npz", compare="--metric recall@5")
    assert same.returncode == 0, same.stderr
    assert (tmp_path / "installed").read_text() == "-m pip install --quiet /the/action[parquet]\n"
    assert "als" in (tmp_path / "summary.md").read_text()
    lost = run_action(tmp_path, new="worse.npz", accepted="new.npz", compare="--metric recall@5")
    assert lost.returncode
    assert "WORSE" in lost.stdout
    (tmp_path / "new.npz").write_bytes(b"no result")
    broken = run_action(tmp_path, new="worse.npz", accepted="new.npz")
    assert broken.returncode
    assert "no result" not in broken.stdout
