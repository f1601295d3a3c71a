"""The extension drill: what a member of a family costs, written as a user would write it, in a new module."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.evaluation import FRAME_COLUMNS
from tests.contracts.test_copies import tables_of
from tests.worlds import random_world

ROOT = Path(__file__).resolve().parents[2]
METRICS = ("recall@5", "atop")

# Each user counts by its mean weight, made of weights of its own: `snips-global` is what it must equal.
OWN_ESTIMATOR = """
from ipseval.estimators import Claim, Estimator, LinearForm, UserSums

CONDITION = "given relative propensities, equally exposed users, and held-out interactions of nearly all users"

class Own(Estimator):
    label, weighting, target = "own", "1/P over |S*_u|", "user"

    def sums(self, sample, metric):
        ranked, weights = sample.ranked, self.weight_positives(sample)
        total, values = ranked.sum_by_user(weights), metric.user_values(ranked, weights, ties=sample.ties)
        return UserSums.from_values(ranked.users, total * values, total)

    def weight_positives(self, sample):
        return sample.weights / sample.ranked.counts[sample.ranked.segment]

    def claim(self, metric, **known):
        return Claim("nearly consistent", CONDITION)

    def linear_form(self, metric, ranked, **known):
        return LinearForm(ranked, False, True, own=1 / ranked.counts[ranked.segment])
"""


def loaded(path: Path, source: str):
    """Return the module that the source makes."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_estimator_with_weights_of_its_own_takes_fifteen_lines(tmp_path):
    custom = loaded(tmp_path / "own.py", OWN_ESTIMATOR).Own()
    body = OWN_ESTIMATOR.partition("class ")[2].splitlines()
    assert len([line for line in body if line.strip()]) <= 15
    world = random_world(4)
    mine, known = (
        tables_of(
            ipseval.evaluate(
                {"a": world.scores, "b": np.roll(world.scores, 1, axis=1)},
                world.split,
                propensity=ipseval.PowerLawPropensity(gamma=0.5, scale="max"),
                metrics=METRICS,
                estimators=[estimator],
                low_ess="ignore",
            )
        )
        for estimator in (custom, "snips-global")
    )
    for name, table in known.items():
        expected = table.replace({"estimator": {"snips-global": "own"}})
        pd.testing.assert_frame_equal(mine[name], expected, rtol=1e-11, obj=name)


def test_own_weights_move_estimates_and_bounds_alike(tmp_path):
    # One user, recall@1 of three positives: c = 1, 0, 0. Weights 1/P = 1, 2, 4 times prices 3, 2, 1.
    source = OWN_ESTIMATOR.replace("1 / ranked.counts[ranked.segment]", "3.0 - ranked.item").replace(
        "sample.weights / sample.ranked.counts[sample.ranked.segment]",
        "sample.weights * (3.0 - sample.ranked.item)",
    )
    custom = loaded(tmp_path / "priced.py", source).Own()
    ranked = ipseval.RankedPositives(
        [0] * 3, [0, 1, 2], [0, 3, 4], [0] * 3, [6] * 3, [0], range(6), candidates_by_user=[6]
    )
    result = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=ipseval.KnownPropensity(item=[1, 1 / 2, 1 / 4, 1, 1, 1]).fit(ranked),
        metrics=["recall@1"],
        estimators=[custom],
        low_ess="ignore",
    )
    assert result.frame["estimate"].tolist() == pytest.approx([3 / 11])
    rows = result.bounds([1.0, 2.0])
    assert rows["estimate"].tolist() == pytest.approx([3 / 11] * 2)
    # Λ = 2: the first weight 3/2 of 3/2 + 16, or 6 of 6 + 4.
    assert rows["lower"].tolist() == pytest.approx([3 / 11, 1.5 / 17.5])
    assert rows["upper"].tolist() == pytest.approx([3 / 11, 6 / 10])
    # (3 + 4 + 4)² / (9 + 16 + 16).
    assert result.diagnostics["ess_own"].tolist() == pytest.approx([121 / 41])


RANK_ONE = """
import numpy as np, pandas as pd, ipseval
n, rng = 1_000_000, np.random.default_rng(0)
user = np.repeat(rng.choice(n, 2000, replace=False), 2)
item = rng.choice(n, user.size, replace=False)
train = pd.DataFrame({"user": user, "item": rng.choice(n, user.size, replace=False)})
test = pd.DataFrame({"user": user, "item": item})
split = ipseval.Split.from_frames(train, test, users=np.arange(n), items=np.arange(n))
known = ipseval.KnownPropensity(user=rng.uniform(0.1, 1, n), item=rng.uniform(0.1, 1, n))
lists = pd.DataFrame({"user": user[::2], "item": item[::2], "rank": 1})
ipseval.evaluate({"m": lists}, split, propensity=known, metrics=["recall@1"], estimators=["snips-pooled"])
# Of this program alone: ru_maxrss counts what the process that started it had, too.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_rank_one_over_a_million_users_and_items_takes_less_than_a_gigabyte_of_memory():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RANK_ONE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < 1e9


def on_this_machine():
    world = random_world(4)
    return ipseval.evaluate({"m": world.scores}, world.split, metrics=METRICS)


def of_ratings():
    log = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "value": [1.0, 2.0, 3.0]})
    ratings = ipseval.Interactions.from_frame(log, value="value")
    return ipseval.evaluation.evaluate_ratings({"m": np.zeros((2, 2))}, ratings)


def on_dask():
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed: pip install dask")
    frames = [pd.DataFrame({"user": [0, 1], "item": items}) for items in ([0, 1], [1, 2])]
    model = np.ones((2, 1)), np.arange(3.0)[:, None]
    parts = [dd.from_pandas(frame, npartitions=1) for frame in frames]
    return ipseval.distributed.evaluate_dask({"m": model}, *parts, users=[0, 1], items=[0, 1, 2])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("made", [on_this_machine, of_ratings, on_dask])
def test_a_column_of_every_result_is_one_line(made, monkeypatch):
    expected = [*made().frame.columns, "n_items"]
    monkeypatch.setitem(FRAME_COLUMNS, "n_items", lambda row: row.weights.n_items)
    frame = made().frame
    assert list(frame.columns) == expected
    assert (frame["n_items"] > 0).all()
