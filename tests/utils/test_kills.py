"""A process that is killed at any moment leaves each of its files old or new, and whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ipseval import Evaluation
from tests.inside.utils import artefacts

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the platform has no SIGKILL")

# Every array of round n holds n, which is the name of its recommender.
PROGRAM = """
import importlib.util
import sys
from pathlib import Path
import numpy as np
import pandas as pd
import ipseval
from ipseval.utils import artefacts
folder, number = Path(sys.argv[1]), 0
train = pd.DataFrame({"user": range(200), "item": 0})
test = pd.DataFrame([(user, item) for user in range(200) for item in range(1, 9) if (user * item) % 3 == 1],
                    columns=["user", "item"])
split = ipseval.Split.from_frames(train, test, items=range(9))
ranked = ipseval.rank_positives(np.random.default_rng(0).random((200, 9)), split)
ipseval.evaluate_ranks
print("ready", flush=True)
while True:
    number += 1
    for _ in range(9):
        with artefacts.open_atomically(folder / "b.npz") as stream:
            artefacts.write_archive(stream, {"number": number}, [np.full(50000, number)])
    one = ipseval.evaluate_ranks({str(number): ranked}, metrics=["recall@3"])
    one.save(folder / "a.npz")
    one.to_html(folder / "a.html")
    if importlib.util.find_spec("pyarrow"):
        ranked.to_parquet(folder / "a.parquet")
"""


def check(folder: Path) -> None:
    if (folder / "b.npz").exists():
        header, (array,) = artefacts.read_archive(folder / "b.npz", "")
        assert (array == header["number"]).all()
    if (folder / "a.npz").exists():
        assert int(Evaluation.load(folder / "a.npz").models[0]) > 0
    if (folder / "a.html").exists():
        assert (folder / "a.html").read_text().rstrip().endswith("</html>")


def kill(folder: Path, n_kills: int) -> None:
    choose = np.random.default_rng(0)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    for _ in range(n_kills):
        command = [sys.executable, "-c", PROGRAM, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        with process.stdout as ready:
            ready.readline()
            time.sleep(choose.uniform(0, 0.25))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        check(folder)
    artefacts.write_text(folder / "a.json", "")  # what was left half written goes
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize("n_kills", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_a_writer_killed_at_random_moments_leaves_whole_files(n_kills: int, tmp_path: Path) -> None:
    kill(tmp_path, n_kills)
