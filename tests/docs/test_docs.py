"""The documentation names everything public, its examples run, and its pages are all in the menu.

What is slow here runs with the documentation site, where a page or the library changed: see `.ci/run`.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from reproductions import correction_summary
from tests.contracts.api import public_modules
from tests.docs import outputs
from tests.inside import ranking
from tests.testing.pytest_runs import run_pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
OPTIONS_OF_GATES = "regression-tests-options.md"
REFERENCE = set(
    re.findall(r"^::: (\S+)$", "\n".join(page.read_text() for page in DOCS.glob("api/*.md")), re.MULTILINE)
)
EXAMPLES = (
    pytest.param("which-estimator.md", marks=pytest.mark.slow),
    *("why-numbers-differ.md", "protocols.md", "slates.md"),
)

OTHERWISE = {"ipseval.cli", "ipseval.pytest_plugin"}  # pages have their commands and fixtures


def test_every_public_name_is_in_the_reference():
    missing = []
    for name in public_modules():
        module = importlib.import_module(name)
        for member in module.__all__:
            value = getattr(module, member)
            short = getattr(ipseval, member, None) is value and f"ipseval.{member}" in REFERENCE
            home = any(one.endswith(f".{member}") for one in REFERENCE) if name == "ipseval" else False
            if isinstance(value, types.ModuleType) or member == "__version__" or name in OTHERWISE:
                continue
            if not (short or home or f"{name}.{member}" in REFERENCE):
                missing.append(f"{name}.{member}")
    assert missing == []


def test_every_name_in_the_reference_exists_and_says_what_it_is():
    for module, _, member in (name.rpartition(".") for name in sorted(REFERENCE)):
        value = getattr(importlib.import_module(module), member)
        assert value.__doc__ or not (inspect.isfunction(value) or inspect.isclass(value)), member


PAGES = sorted(
    page.name for page in DOCS.glob("api/*.md") if re.search("^:::", page.read_text(), re.MULTILINE)
)


def read_examples(page: str) -> list[str]:
    """Return the examples of a page of the reference."""
    text = (DOCS / "api" / page).read_text(encoding="utf-8")
    return re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_reference_has_a_stability_and_an_example_of_every_name(page: str):
    text = (DOCS / "api" / page).read_text(encoding="utf-8")
    stability = r"^Stability: \[(?:stable|provisional)\]\(\.\./support\.md#stability\)\.$"
    assert len(re.findall(stability, text, re.MULTILINE)) == 1
    blocks = read_examples(page)
    assert "isinstance" not in blocks[0]  # the first example is a call that a user makes
    block = "\n".join(blocks)
    names = [name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    assert [name for name in names if not re.search(rf"\b{name}\b", block)] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore")
def test_the_examples_of_a_page_of_the_reference_print_what_stands_below_them(page: str, empty_folder):
    if page == "distributed.md":
        pytest.importorskip("dask", reason="dask is not installed: pip install dask")
        pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    if page == "integrations.md":
        lenskit = pytest.importorskip("lenskit", reason="lenskit is not installed")
        if not lenskit.__version__.startswith("2025."):
            pytest.skip("from 2026 on LensKit does not show metrics whose a list is")
    block = "\n".join(read_examples(page))
    example = doctest.DocTestParser().get_doctest(block, {}, page, page, 0)
    metrics = dict(ipseval.metrics.METRICS)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0
    for name in ipseval.metrics.METRICS.keys() - metrics:  # registered by an example
        del ipseval.metrics.METRICS[name]


@pytest.mark.parametrize("page", EXAMPLES)
@pytest.mark.filterwarnings("ignore:the median user has:ipseval.errors.DataWarning")
def test_the_examples_of_a_page_print_what_stands_below_them(page: str):
    # Blank lines at the end of a fence belong to the page, not to what is printed.
    found = doctest.testfile(
        str(DOCS / page), module_relative=False, encoding="utf-8", optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 5
    assert found.failed == 0


def run_page(page: str, skipping: tuple[str, ...] = (), **names: object) -> dict[str, object]:
    """Run the Python blocks of a page in order, in one namespace, without those that contain one of these words."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if not any(word in block for word in skipping):
            exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """A working folder where a page may write."""
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_and_compare(
    page: str, skipping: Callable[[str], bool] = lambda block: False, **names: object
) -> dict[str, object]:
    """Run the Python blocks of a page in order, and compare what they print with the text below them."""
    n_outputs = 0
    for kind, block, shown in outputs.BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind != "python" or skipping(block):
            continue
        printed = outputs.print_block(block, names)
        if shown:
            n_outputs += 1
            assert outputs.strip_lines(printed) == outputs.strip_lines(shown)
    assert n_outputs > 0
    return names


def test_the_blocks_of_the_pages_on_the_correction_print_the_text_below_them(empty_folder):
    names = run_and_compare("correction.md")
    assert names["exposure"].positive.any()
    names = run_and_compare("correction-other-data.md")
    assert names["correction"].reference_values["model"].tolist() == ["ease"]
    truth = (
        names["world"]
        .truth(names["models"], ["recall@10"], names["split"])
        .set_index("model")["ideal_pooled"]
    )
    page = (DOCS / "correction-other-data.md").read_text(encoding="utf-8")
    values = f"{truth['popular']:.3f}, {truth['ease']:.3f} and {truth['item_knn']:.3f}"
    assert f"the true values are {values}." in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_exposure_logs_print_the_text_below_them():
    assert "truth" in run_and_compare("exposure-logs.md")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_verdicts_print_the_text_below_them():
    assert run_and_compare("how-the-verdict-is-made.md")["evaluation"].leader == "popular"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_impression_weights_print_the_text_below_them():
    assert "pooled" in run_and_compare("impression-weights.md")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_logged_probabilities_print_the_text_below_them():
    assert "weights_by_position" in run_and_compare("logged-probabilities.md")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_doubly_robust_estimates_print_the_text_below_them():
    assert "result" in run_and_compare("doubly-robust.md")


def test_the_blocks_of_the_page_on_other_policies_print_the_text_below_them():
    assert "found" in run_and_compare("off-policy.md")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_uncertainty_print_the_text_below_them():
    assert "refitted" in run_and_compare("uncertainty.md")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_protocols_print_the_text_below_them(empty_folder):
    names = run_and_compare("protocols.md")
    assert names["study"].winners()["winner"].tolist() == ["EASE", "recent"]
    assert len(names["windows"]) == 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_propensities_print_the_text_below_them():
    assert "evaluation" in run_and_compare("propensity.md")


def test_the_blocks_of_the_page_on_complete_logs_print_the_text_below_them():
    assert run_and_compare("complete-logs.md")["held_out"].is_probability


def test_the_table_of_the_page_on_complete_logs_is_what_held_out_computes():
    in_the_log = ipseval.propensity.Propensity(np.array([0.01, 0.02, 0.4, 0.8]), True, "known", 4)
    p = in_the_log.held_out(test_fraction=0.2, popularity_source="log").item
    page = (DOCS / "complete-logs.md").read_text(encoding="utf-8")
    assert f"| 0.01 | 0.02 | 2.0 | {p[0]:.4f} | {p[1]:.4f} | {p[1] / p[0]:.1f} |" in page
    assert f"| 0.4 | 0.8 | 2.0 | {p[2]:.3f} | {p[3]:.3f} | {p[3] / p[2]:.1f} |" in page


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_sampled_candidates_print_the_text_below_them():
    assert run_and_compare("sampled.md")["low"] < 0.683  # the value of the full ranking


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_verdict_with_a_winner_is_printed_as_on_the_page():
    evaluated = run_and_compare("reading-a-result.md")
    winner = ipseval.evaluate(
        evaluated["models"], evaluated["split"], propensity=evaluated["propensity"], metrics=["recall@10"]
    ).leader
    assert winner == "popular"


@pytest.mark.parametrize("name", list(correction_summary.tables()))
def test_the_tables_on_the_accuracy_of_the_correction_are_computed_from_the_files(name: str):
    page = correction_summary.PAGE.read_text("utf-8")
    assert f"<!-- {name} -->\n{correction_summary.tables()[name]}\n<!-- /{name} -->" in page


def write_lists(path: Path, scores: np.ndarray, split: ipseval.Split) -> None:
    """Write the lists of all items that a user does not have in training, in the order of the scores."""
    new_scores = np.where(split.train.to_csr().toarray() > 0, -np.inf, scores)
    rows = []
    for user, user_scores in enumerate(new_scores):
        items = np.argsort(-user_scores)[: np.isfinite(user_scores).sum()]
        for rank, item in enumerate(items, start=1):
            rows.append((split.user_ids[user], split.item_ids[item], rank))
    pd.DataFrame(rows, columns=["user", "item", "rank"]).to_csv(path, index=False)


@pytest.fixture(scope="module")
def gate_files(tmp_path_factory):
    """A folder with the files that the page on gates names, and its recommender."""
    folder, rng = tmp_path_factory.mktemp("gates"), np.random.default_rng(0)
    taste = rng.normal(size=(120, 40))
    log = ipseval.read(pd.DataFrame(np.argwhere(taste > 1), columns=["user", "item"]))
    split = ipseval.split_random(log, rng=0)
    split.train.to_frame().to_csv(folder / "train.csv", index=False)
    split.test.to_frame().to_csv(folder / "test.csv", index=False)
    parts = ipseval.Split.from_frames(split.train.to_frame(), split.test.to_frame())
    scores = taste[parts.user_ids][:, parts.item_ids] + rng.normal(size=(parts.n_users, parts.n_items))
    np.save(folder / "scores.npy", scores)
    write_lists(folder / "lists.csv", scores, parts)
    write_lists(folder / "old-lists.csv", scores + 0.01 * rng.normal(size=scores.shape), parts)
    ipseval.evaluate({"als": scores}, parts).save(folder / "accepted.npz", ranks=False)
    ipseval.evaluate({"als": scores[:, ::-1]}, parts).save(folder / "bad.npz")
    (folder / "gates").mkdir()
    return folder, {"model": scores, "split": parts, "log": log}


@pytest.fixture
def gated(empty_folder, gate_files):
    """A working folder with a copy of these files, and the recommender."""
    shutil.copytree(gate_files[0], empty_folder, dirs_exist_ok=True)
    return gate_files[1]


def page_on_gates(kind: str, page: str = "regression-tests.md") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_gate_in_three_lines_of_shell_passes_and_stops_a_worse_recommender(gated, capsys):
    first_block, block, *_ = page_on_gates("sh")
    _, preflight, history_block = page_on_gates("sh", OPTIONS_OF_GATES)
    incumbent_line, copy_line = first_block.splitlines()
    evaluate_line, accepted_line, first_line = block.splitlines()
    stored_line, history_line = history_block.splitlines()
    assert main(shlex.split(incumbent_line)[1:]) == 0
    shutil.copy(*shlex.split(copy_line)[1:])
    for line in (preflight, evaluate_line, accepted_line, first_line, stored_line):
        assert main(shlex.split(line)[1:]) == 0, line
    last = "identical by recall@10 (aoa): every rank is the same"
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert main(["compare", "accepted.npz", "--model", "popularity=als"]) == 1
    shutil.copy("bad.npz", "new.npz")
    for line in (accepted_line, first_line, stored_line):
        assert main(shlex.split(line)[1:]) == 1, line
    assert main(shlex.split(history_line)[1:]) == 1
    assert Path("history.html").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_new_test_set_needs_both_recommenders_in_one_file(gated, capsys):
    gate_block, block = (page_on_gates("sh")[position] for position in (1, 3))
    evaluate_line, compare_line = block.splitlines()
    assert main(shlex.split(evaluate_line)[1:]) == 0
    assert main(shlex.split(compare_line)[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("not shown to be worse")
    write_lists(Path("lists.csv"), -gated["model"], gated["split"])
    assert main(shlex.split(evaluate_line)[1:]) == 0
    assert main(shlex.split(compare_line)[1:]) == 1

    pd.read_csv("test.csv").iloc[1:].to_csv("test.csv", index=False)
    assert main(shlex.split(gate_block.splitlines()[0])[1:]) == 0
    assert main(["compare", "new.npz", "accepted.npz", "--model", "als"]) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_small_losses_that_pass_one_by_one_fail_in_the_comparison_with_the_first_result(gated):
    first_block, gate_block, *_ = page_on_gates("sh")
    copy_line = first_block.splitlines()[1]
    evaluate_line, accepted_line, first_line = gate_block.splitlines()
    lists = pd.read_csv("lists.csv")
    first_user, _ = np.unique(lists["user"], return_counts=True)
    codes = []
    for n_damaged in range(0, 60, 6):  # in each week, the lists of six more users are reversed
        is_damaged = lists["user"].isin(first_user[:n_damaged])
        length = lists.groupby("user")["rank"].transform("max")
        rank = lists["rank"].where(~is_damaged, length + 1 - lists["rank"])
        lists.assign(rank=rank).to_csv("lists.csv", index=False)
        assert main(shlex.split(evaluate_line)[1:]) == 0
        if n_damaged == 0:
            shutil.copy("new.npz", "accepted.npz")
            shutil.copy(*shlex.split(copy_line)[1:])
        codes.append((main(shlex.split(accepted_line)[1:]), main(shlex.split(first_line)[1:])))
        shutil.copy("new.npz", "accepted.npz")
    assert codes[0] == (0, 0)
    accepted_codes, first_codes = zip(*codes, strict=True)
    assert 1 not in accepted_codes
    assert first_codes[-1] == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_page_on_gates_prints_the_text_below_it(empty_folder, capsys):
    assert main(["demo", "--log", "clicks.csv", "--quiet"]) == 0
    _, _, block, _ = page_on_gates("sh")
    margin_block, *_ = page_on_gates("sh", OPTIONS_OF_GATES)
    loss_text, plan_text = page_on_gates("text", OPTIONS_OF_GATES)
    for line in block.splitlines():
        capsys.readouterr()
        assert main(shlex.split(line)[1:]) == 0, line
    assert capsys.readouterr().out.strip() == page_on_gates("text")[0].strip()

    # The sentences below the example, and the decisions with several margins.
    arguments = shlex.split(line)[1:]
    assert main([*arguments, "--margin", "0.024"]) == 0
    assert main([*arguments, "--margin", "0"]) == 4
    assert "cannot tell by recall@10 (aoa): not shown to be better" in capsys.readouterr().out
    assert main([*arguments, "--metric", "mean_dcg@10"]) == 1
    capsys.readouterr()
    assert main([*arguments, "--margin", "0.01"]) == 4
    assert plan_text in capsys.readouterr().out
    assert main([*arguments, "--comparisons", "250"]) == 0
    assert "Smallest visible loss, with 80% power: 0.013." in capsys.readouterr().out

    # The margin against a loss of 10%.
    evaluate_line, preflight_line = margin_block.splitlines()
    assert main(shlex.split(evaluate_line)[1:]) == 0
    assert main(shlex.split(preflight_line)[1:]) == 4
    assert loss_text in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_workflow_of_github_on_the_page_on_gates_has_steps_that_stop(gated):
    (block,) = page_on_gates("yaml")
    (action,) = page_on_gates("yaml", OPTIONS_OF_GATES)
    steps = re.findall(r"^ +- (\w+: [^#\n]*?)(?:  #.*)?$", block, re.MULTILINE)
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    source = project["urls"]["Source"]
    assert [step.partition("@")[0] for step in steps[:2]] == [
        "uses: actions/checkout",
        "uses: actions/setup-python",
    ]
    (version,) = re.findall(r'python-version: "([\d.]+)"', block)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    commands = [step.removeprefix("run: ") for step in steps[2:]]
    assert commands[0] == f'pip install "ipseval @ git+{source}"'
    assert commands[1] == "python recommend.py"
    (action_line,) = re.findall(r"- uses: (.*)", action)
    assert action_line == f"{source.removeprefix('https://github.com/')}@main"
    arguments = dict(line.strip().split(": ", 1) for line in action.splitlines()[2:])
    assert main(["evaluate", *shlex.split(arguments["evaluate"]), "--out", "new.npz"]) == 0
    assert main(["compare", "new.npz", arguments["accepted"], *shlex.split(arguments["compare"])]) == 0
    shutil.copy("accepted.npz", "first.npz")
    assert [main(shlex.split(command)[1:]) for command in commands[2:]] == [0, 0, 0]
    shutil.copy("bad.npz", "new.npz")
    assert [main(shlex.split(command)[1:]) for command in commands[3:]] == [1, 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning")
def test_the_test_file_of_the_page_on_gates_passes_and_fails(gated, capfd):
    first, *_ = page_on_gates("python")
    Path("test_recommender.py").write_text(first, encoding="utf-8")
    # In a process of its own, where pytest finds the plugin by itself.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ipseval-update"]
    updated = subprocess.run([*command, "test_recommender.py"], capture_output=True, text=True, check=False)
    assert updated.returncode == 0, updated.stdout
    assert Path("baselines/test_als.npz").exists()
    assert run_pytest("test_recommender.py") == 0

    np.save("scores.npy", -gated["model"])
    capfd.readouterr()
    assert run_pytest("test_recommender.py") == 1
    assert "WORSE by recall@10 (aoa)" in capfd.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_rules_of_the_page_on_gates_decide(gated, capsys):
    (table,) = page_on_gates("toml", OPTIONS_OF_GATES)
    Path("gate.toml").write_text(table, encoding="utf-8")
    evaluation = ipseval.evaluate(
        {"als": gated["model"]}, gated["split"], metrics=["recall@10", "mean_dcg@10", "rr"]
    )
    for name in ("accepted.npz", "new.npz"):
        evaluation.save(name, ranks=False)
    assert main(["compare", "new.npz", "accepted.npz", "--rules", "gate.toml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 of 4 requirements met"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_blocks_of_the_page_on_gates_run(gated):
    evaluation = ipseval.evaluate({"als": gated["model"]}, gated["split"])
    evaluation.save("last-week.npz")
    run_page(OPTIONS_OF_GATES, ipseval=ipseval, evaluation=evaluation)
    assert Path("changed.html").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_the_examples_with_dask_and_duckdb_print_the_text_below_them(empty_folder):
    dask = pytest.importorskip("dask", reason="dask is not installed: pip install dask")
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    with dask.config.set(scheduler="synchronous"):
        names = run_and_compare("performance.md", skipping=outputs.starts_spark)
    assert names["evaluation"].models == ["taste", "popular"]


@pytest.mark.slow
@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_the_example_with_spark_prints_the_text_below_it(empty_folder, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    dask = pytest.importorskip("dask", reason="dask is not installed: pip install dask")
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
    with dask.config.set(scheduler="synchronous"):
        names = run_and_compare("performance.md", skipping=outputs.starts_a_cluster)
    names["session"].stop()


def test_a_command_writes_the_outputs_of_the_pages_that_it_names():
    assert outputs.parse_pages(["--write"]) == []
    assert outputs.parse_pages(["--write", "docs/propensity.md", "README.md"]) == [
        "propensity.md",
        "README.md",
    ]
    with pytest.raises(SystemExit, match=r"usage: .* --write \[PAGE …\], of README.md, adapters.md"):
        outputs.parse_pages(["--write", "glossary.md"])


def test_an_output_stays_if_its_block_cannot_run():
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n"
    assert outputs.replace_outputs(page, lambda kind, block: None) == page
    assert "```text\n1\n```" in outputs.replace_outputs(
        page, lambda kind, block: outputs.print_block(block, {})
    )


def test_the_page_on_performance_states_when_numba_is_the_default(monkeypatch):
    text = (DOCS / "performance.md").read_text("utf-8")
    assert f"more than {ranking.SMALL_WORK / 1e6:.0f} million comparisons" in text
    assert f"more than {ranking.SMALL_WORK / 1e6:.0f} million comparisons" in " ".join(
        str(ipseval.ComputeOptions.__doc__).split()
    )
    monkeypatch.setattr(ranking.Work, "comparisons", 0.0)
    few = ranking.select_kernels(None, ranking.SMALL_WORK)
    assert few.__name__.endswith("numpy_kernels")
    pytest.importorskip("numba", reason="numba is not installed: pip install numba")
    assert ranking.select_kernels(None, 1.0).__name__.endswith("numba_kernels")


def test_every_name_on_the_page_of_tasks_exists():
    text = (DOCS / "api" / "index.md").read_text("utf-8")
    names = set(re.findall(r"`(ipseval(?:\.\w+)+)", text))
    assert len(names) > 20
    for name in names:
        value: object = ipseval
        for part in name.split(".")[1:]:
            value = getattr(value, part)


def test_every_page_is_in_the_menu():
    menu = set(re.findall(r"[\w/-]+\.(?:md|ipynb)", (DOCS.parent / "mkdocs.yml").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md")}
    pages |= {f"notebooks/{page.name}" for page in (DOCS.parent / "notebooks").glob("*.ipynb")}
    assert pages - menu == set()
    assert {page for page in menu if not (DOCS / page).exists()} == set()


def test_the_citation_and_the_changelog_have_the_version_and_its_date():
    root = Path(ipseval.__file__).parents[1]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1]
    released = re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert version == ipseval.__version__
    assert f"\n## [{version}] - {released}\n" in changelog
