"""The documentation of metrics lists all registered metrics, and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ipseval
from ipseval.estimators import Claim, claim
from ipseval.metrics import METRICS, Metric
from tests.inside.metrics import RATING_METRICS, resolve_rating_metric
from tests.metric_labels import metric_labels
from tests.metrics.queries import N_ITEMS, random_queries

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


# The words of the page for the guarantees of SNIPS.
SNIPS_CELLS = {
    "consistent given relative propensities, for the average over all relevant pairs": "yes",
    (
        "nearly consistent given relative propensities, equally exposed users, "
        "and held-out interactions of nearly all users"
    ): "nearly",
    "consistent up to the observation rate, given relative propensities": "up to a constant factor",
    "consistent given the propensities and independent observations, for the share of pairs won": (
        "if P is calibrated and observations are independent"
    ),
    "plug-in: no guarantee (observed positives represent all relevant items)": "no guarantee",
}
IPS_CELLS = {
    "exactly unbiased given the propensities": "P",
    "exactly unbiased given the propensities and the numbers of relevant items": "P and s",
    "exactly unbiased given the propensities and independent observations": "P and independence",
    "exactly unbiased given the propensities, the numbers of relevant items and independent observations": (
        "P, s and independence"
    ),
    "consistent given the propensities, as the root of an unbiased mean": "not unbiased; consistent given P",
    "plug-in: no guarantee (it has no unbiased form)": "no unbiased form",
}


def read_guarantees() -> list[tuple[str, tuple[str, str, str]]]:
    """Return each label of the table of all metrics, with its cells on ips, snips-global and snips-pooled."""
    table = PAGE.split("`snips-pooled` is consistent |\n")[1].split("\n\n")[0]
    rows = []
    for line in table.splitlines()[1:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        ips, snips_global, snips_pooled = cells[-3:]
        for label in re.findall("`([^`]+)`", cells[0].split(", with `gain=")[0]):
            rows.append((label, (ips, snips_global, snips_pooled)))
    return rows


def create_metric(label: str) -> Metric:
    """Return the metric of a label of the page, such as `recall@k` or `rbp(p)`."""
    if label in RATING_METRICS:
        return resolve_rating_metric(label)
    return ipseval.metric(label.replace("@k", "@10").replace("(p)", "(0.8)"))


def state_claim(label: str, estimator: str) -> Claim:
    """Return the best guarantee of an estimator: with calibrated P and known numbers of relevant items."""
    return claim(create_metric(label), estimator, is_probability=True, n_relevant="known")


GUARANTEES = read_guarantees()
METRICS_BY_KIND = {
    kind: {name for name, family in METRICS.items() if family.kind == kind} for kind in ("mean", "sum")
}


def check_list(text: str, names: set[str], place: str) -> None:
    """Assert that a text of the page lists the labels of all metrics of the given names, and no others."""
    labels = re.findall("`([^`]+)`", text)
    listed = {re.split("[@(]", label)[0] for label in labels}
    assert listed == names, (
        f"in docs/metrics.md, {place} must list {sorted(names)}; it lists {sorted(listed)}"
    )


@pytest.mark.parametrize(("label", "cells"), GUARANTEES)
def test_the_guarantees_on_the_page_are_those_of_the_estimators(label: str, cells: tuple[str, str, str]):
    ips, snips_global, snips_pooled = cells
    assert ips == IPS_CELLS[str(state_claim(label, "ips"))]
    assert snips_global == SNIPS_CELLS[str(state_claim(label, "snips-global"))]
    assert snips_pooled == SNIPS_CELLS[str(state_claim(label, "snips-pooled"))]


def test_the_table_of_guarantees_has_every_metric():
    names = {re.split("[@(]", label)[0] for label, _ in GUARANTEES}
    missing = {*METRICS, *RATING_METRICS} - names
    assert not missing, f"add rows for {sorted(missing)} to the table *All metrics* of docs/metrics.md"
    assert names == {*METRICS, *RATING_METRICS}


def test_the_sentences_on_aoa_and_on_snips_per_user_are_those_of_the_estimators():
    unequal = "biased unless all propensities are equal"
    with_s = set()
    for label, _ in GUARANTEES:
        if str(state_claim(label, "aoa")) == unequal and label not in RATING_METRICS:
            with_s.add(create_metric(label).name)
        else:
            assert label in RATING_METRICS or "every relevant item" in str(state_claim(label, "aoa"))
    assert with_s == METRICS_BY_KIND["mean"]
    (names,) = re.findall(r"for means over relevant items \((.*?)\) unless all propensities are equal", PAGE)
    check_list(names, METRICS_BY_KIND["mean"], "*AOA is usually biased*")
    for label, _ in GUARANTEES:
        level = state_claim(label, "snips").level
        has_bias = create_metric(label).name in with_s or label in RATING_METRICS
        assert level == ("not consistent" if has_bias else "no guarantee")
        # "If the table says *nearly* for `snips-global`, a bias of order 1/m remains."
        assert has_bias == (state_claim(label, "snips-global").level == "nearly consistent")


def test_the_rows_on_weighted_values_list_the_means_and_sums():
    for kind in ("mean", "sum"):
        (names,) = re.findall(rf"^\| a {kind} over relevant items \(kind \*{kind}\*\): (.*?) \|", PAGE, re.M)
        check_list(names, METRICS_BY_KIND[kind], f"*a {kind} over relevant items*")


def test_the_sentences_on_ips_are_those_of_the_estimator():
    (names,) = re.findall(r"\*\*`ips`\*\* is unbiased for all metrics of the table but (.*?), if the", PAGE)
    labels = [label for label, _ in GUARANTEES if state_claim(label, "ips").level != "exactly unbiased"]
    check_list(names, {re.split("[@(]", label)[0] for label in labels}, "*`ips` is unbiased*")
    # "Where the table states no s, these products also account for the relevant items that were not observed."
    without_s = [label for label, cells in GUARANTEES if cells[0] == "P and independence"]
    assert without_s
    assert not any(create_metric(label).needs_n_relevant for label in without_s)


def test_global_and_pooled_snips_of_a_sum_are_the_same_number():
    ranked = random_queries(0).ranked
    labels = [label for label in metric_labels(5) if ipseval.metric(label).kind == "sum"]
    frame = ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=ipseval.KnownPropensity(item=np.linspace(0.2, 0.9, N_ITEMS)).fit(ranked),
        metrics=labels,
        estimators=["snips-global", "snips-pooled"],
    ).frame
    pooled = frame["estimator"] == "snips-pooled"
    assert frame.loc[pooled, "estimate"].tolist() == pytest.approx(frame.loc[~pooled, "estimate"].tolist())


def test_a_power_law_gives_snips_of_auc_no_guarantee():
    """The column of `snips-pooled` says so for propensities that are known up to a constant factor only."""
    assert claim(ipseval.metric("auc"), "snips-pooled").level == "no guarantee"


def test_the_default_tie_rules_are_those_of_the_page():
    has_mean_rank = {name for name in METRICS if METRICS[name].default_ties == "mean"}
    assert has_mean_rank == {"auc", "atop"}, "correct the table *Ties* of docs/metrics.md and this test"
    assert '`"mean"` for `auc` and `atop`, and `"expected"` for all other metrics' in PAGE


def test_the_card_on_the_page_is_the_printed_one():
    assert f"```text\n{ipseval.estimators.card('recall@10')}\n```" in PAGE


@pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning")  # two positives make a short example
def test_the_examples_print_the_output_in_their_comments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # The page registers it: gone again after the test.
    monkeypatch.setitem(METRICS, "f1", None)
    del METRICS["f1"]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
        printed = capsys.readouterr().out
        for comment in re.findall(r"^print\(.*?\)\s+# (.*)$", block, re.MULTILINE):
            assert comment in printed


@pytest.mark.slow
def test_the_table_of_rating_errors_is_the_output_of_its_command(shared_data):
    data = shared_data("coat").parent
    command = [sys.executable, "-W", "ignore", "reproductions/ratings_coat.py", "--data", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for line in done.stdout.strip().splitlines():
        assert line in PAGE
