"""The examples of the page on adapters that evaluate inside a library give the values of `evaluate`."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from ipseval.data.reading import Lists
from ipseval.evaluation import evaluate
from tests.ranking.adapters.test_docs import PAGE, SECTIONS, SETUP, blocks, module_name
from tests.worlds import top_ten

INSIDE = PAGE[PAGE.index("## Metrics inside") : PAGE.index("## Ids")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("heading", ["LensKit", "RecTools", "RecBole"])
def test_the_example_inside_a_library_gives_the_same_value_as_evaluate(
    heading, tmp_path, monkeypatch, shared_data
):
    library = pytest.importorskip(module_name(heading), reason=f"{heading} is not installed")
    if heading == "LensKit" and not library.__version__.startswith("2025."):
        pytest.skip("from 2026 on LensKit does not show metrics whose a list is")
    (tmp_path / "coat").symlink_to(shared_data("coat"))
    monkeypatch.chdir(tmp_path)
    first, *examples = blocks(INSIDE)
    (block,) = [code for code in examples if code.startswith(f"# {heading}\n")]
    names = {}
    with patch.dict(np.__dict__):
        for code in [*blocks(SETUP), *blocks(SECTIONS.get(heading, "")), first]:
            exec(code, names)
        names["lists"] = top_ten(names["split"])
        exec(block, names)
    result = names["result"]
    lists = names["lists"]
    if heading == "RecBole":  # it drew a part of its own, which tests/evaluation/test_integrations.py follows
        assert 0 < result["snips-global-recall@10"] < 1
        return
    if heading == "LensKit":
        lists = names["run"].to_df()
        result = {"snips": result.global_metrics()["recall@10 snips-global"]}
    (value,) = result.values()
    options = {"propensity": names["propensity"], "metrics": ["recall@10"]}
    evaluation = evaluate({"one": Lists(lists)}, names["split"], **options)
    assert evaluation.estimate("one", "recall@10", "snips-global").value == pytest.approx(
        value, rel=0, abs=1e-12
    )
