"""What was taken out stays out: of the public names, the options, the labels, the pages and the notebooks."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import ipseval
from ipseval.cli import build_parser
from ipseval.estimators import ESTIMATORS
from tests.contracts import api

ROOT = Path(__file__).resolve().parents[2]
# What is gone, as a name or an option, and what the decision record on it calls it.
NAMES = {
    "series of sweeps over γ": ["ArrangedGroup", "arranged_groups", "over_grid", "is_smooth"],
    "early stopping": ["Until", "until", "rank_until", "boundary", "confidence_sequence"],
    "labels of other libraries": ["CompatMetric", "CONVENTIONS", "COMPAT", "compat"],
    "recapture": ["RecapturePropensity", "RecaptureFit"],
    "studies of samples": ["sampling_study", "sampling_curve", "adaptive_sampled", "OnlineWorld"],
    "cut weights and strata": ["Stratified", "clipped", "switched"],
    "traits": ["regress_on_traits", "log_traits", "trait_effects"],
    "loaders of papers": ["load_amazon_reviews", "load_tradesy", "load_citeulike_a"],
    "F tests and a second simultaneous method": ["equality_test", "simultaneous", "Simultaneous"],
    "checks of weights": ["Balance", "SplitBalance", "Gammas", "ConditionalScore", "conditional_score"],
    "doors in one": ["beyond", "item_vectors", "exposure", "rewards", "by", "progress", "allowed_items"],
}  # fmt: skip
LABELS = ["stratified(5)", "dr(shrunk)", "dr(clipped)", "switch", "dr(switch)"]
OF_EVALUATE = set(NAMES.pop("doors in one"))
WORDS = re.compile(
    r"engine=.torch|\bUntil\(|until=|confidence_sequence|\[(?:lenskit|rectools|ranx|recbole)\]|RecapturePropensity"
    r"|adaptive_sampled|sampling_study|regress_on_traits|dr\((?:shrunk|clipped)\)|load_(?:amazon|tradesy|citeulike)"
    r"|evaluate\([^)]*(?:by|beyond|item_vectors|rewards|allowed_items|progress)="
)


def defined() -> set[str]:
    """Return every name that the library defines, takes or assigns."""
    found: set[str] = set()
    for path in (ROOT / "ipseval").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Assign):
                found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return found


@pytest.mark.parametrize("what", NAMES)
def test_nothing_of_it_is_left_in_the_code(what: str):
    assert not defined() & set(NAMES[what])


def test_evaluate_has_fifteen_parameters_and_no_other_capability_among_them():
    parameters = inspect.signature(ipseval.evaluate).parameters
    assert len(parameters) <= 15
    assert not set(parameters) & OF_EVALUATE
    assert not set(inspect.signature(ipseval.evaluate_ranks).parameters) & OF_EVALUATE


@pytest.mark.parametrize("label", LABELS)
def test_estimators_that_went_are_unknown(label: str):
    assert label.partition("(")[0] not in ESTIMATORS or label.startswith("dr")
    with pytest.raises(ipseval.InputError):
        ipseval.estimators.card(label)


def test_no_option_of_the_command_line_is_left():
    parser = build_parser()._subparsers._group_actions[0].choices
    options = {
        one for command in parser.values() for action in command._actions for one in action.option_strings
    }
    assert not options & {"--until", "--simultaneous", "--rewards", "--compat"}
    engines = [one.choices for one in parser["evaluate"]._actions if one.dest == "engine"]
    assert engines == [("numpy", "numba")]


def test_no_page_and_no_notebook_names_it():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb")]
    pages += (ROOT / "paper").glob("*.md")
    found = {
        path.name: sorted(set(WORDS.findall(path.read_text("utf-8"))))
        for path in pages
        if path.name != "why-numbers-differ.md" and WORDS.search(path.read_text("utf-8"))
    }
    assert len(pages) > 30
    assert found == {}


def test_no_public_module_is_of_what_went():
    assert not [one for one in api.public_modules() if re.search(r"until|recapture|torch$|compat", one)]
