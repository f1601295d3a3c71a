"""Evaluation.log with the trackers themselves: what goes into their files comes back."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.filterwarnings("ignore")  # mlflow's own
def test_mlflow_gives_back_metrics_table_page_and_hash(evaluation, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    try:
        with mlflow.start_run() as run:
            evaluation.log(mlflow)
        stored = mlflow.MlflowClient().get_run(run.info.run_id)
        frame = evaluation.frame.set_index(["metric", "estimator", "model"])
        assert len(stored.data.metrics) == len(frame)
        assert (
            stored.data.metrics["recall_at_5/snips-global/als"]
            == frame.loc[("recall@5", "snips-global", "als"), "estimate"]
        )
        assert stored.data.tags["ipseval.data_sha256"] == evaluation.data_hash
        folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="ipseval"))
        assert (folder / "report.html").read_text(encoding="utf-8") == evaluation.to_html()
        assert (folder / "estimates.csv").read_text(encoding="utf-8") == evaluation.to_csv()
    finally:
        mlflow.set_tracking_uri(None)


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
