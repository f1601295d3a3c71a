"""Evaluation.log with W&B: what goes into its files comes back; with MLflow: see `test_integrations.py`."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from tests.worlds import random_split


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 50, 25)
    models = {name: rng.normal(size=(split.n_users, split.n_items)) for name in ("als", "ease (v2) @ γ")}
    return ipseval.evaluate(
        models, split, propensity=ipseval.PowerLawPropensity(gamma=0.0), metrics=["recall@5"]
    )


@pytest.mark.filterwarnings("ignore")  # wandb's own
def test_wandb_keeps_a_run_offline(evaluation, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(ipseval.InputError, match=r"no run of wandb is open; call wandb.init\(\) first"):
        evaluation.log(wandb)
    with wandb.init(dir=tmp_path, project="toy") as run:
        evaluation.log(wandb)
        summary = dict(run.summary)
        assert run.config["ipseval"]["data_sha256"] == evaluation.data_hash
    frame = evaluation.frame.set_index(["metric", "estimator", "model"])
    expected = frame.loc[("recall@5", "aoa", "als"), "estimate"]
    assert summary["recall_at_5/aoa/als"] == pytest.approx(expected, abs=1e-15)
    pages = list(tmp_path.rglob("*.html"))
    assert [page.read_text(encoding="utf-8") for page in pages] == [evaluation.to_html()]
