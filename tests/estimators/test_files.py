"""A reader finds an estimator in the file that has its name, with its formula."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import ipseval.estimators
from ipseval.estimators import ESTIMATORS, Aoa, Ips, ShrunkSnips, Snips
from tests.estimators.labels import OF_REWARDS

DIRECTORY = Path(ipseval.estimators.__file__).parent
FORMULAS = {
    "aoa": (Aoa, "1/|U| Σ_u (1/|S*_u|) Σ_{i∈S*_u} c_ui"),
    "aoa-pooled": (Aoa, "Σ_u Σ_{i∈S*_u} c_ui / Σ_u |S*_u|"),
    "ips": (Ips, "1/|U| Σ_u (1/s_u) Σ_{i∈S*_u} c_ui/P_ui"),
    "snips": (Snips, "1/|U| Σ_u (Σ_{i∈S*_u} c_ui/P_ui) / (Σ_{i∈S*_u} 1/P_ui), equation 9"),
    "snips-global": (Snips, "Σ_u (1/|S*_u|) Σ_{i∈S*_u} c_ui/P_ui / Σ_u (1/|S*_u|) Σ_{i∈S*_u} 1/P_ui"),
    "snips-pooled": (Snips, "Σ_u Σ_{i∈S*_u} c_ui/P_ui / Σ_u Σ_{i∈S*_u} 1/P_ui"),
    "snips-shrunk": (ShrunkSnips, "(Σ_{i∈S*_u} w c) / (λ Σ_{i∈S*_u} w + (1 − λ) |S*_u| w̄)"),
}
FILES = {Aoa: "aoa.py", Ips: "ips.py", Snips: "snips.py", ShrunkSnips: "snips.py"}


def test_every_estimator_has_its_formula_and_its_file_here():
    labels = set(ESTIMATORS) - set(OF_REWARDS)
    assert set(FORMULAS) == labels, "add a row to FORMULAS in tests/estimators/test_files.py"
    classes = {type(ESTIMATORS[label]) for label in labels}
    assert set(FILES) == classes, "add a row to FILES in tests/estimators/test_files.py"


@pytest.mark.parametrize("label", FORMULAS)
def test_each_label_is_an_instance_of_the_class_whose_docstring_has_its_formula(label):
    kind, formula = FORMULAS[label]
    assert type(ESTIMATORS[label]) is kind
    assert formula in inspect.getdoc(kind)


@pytest.mark.parametrize("kind", FILES)
def test_each_class_is_defined_in_the_file_that_has_its_name_and_inherits_from_the_base_alone(kind):
    file_names = []
    for path in DIRECTORY.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.ClassDef) and node.name == kind.__name__ for node in tree.body):
            file_names.append(path.name)
    assert file_names == [FILES[kind]]
    assert [base.__name__ for base in kind.__bases__] == ["Estimator"]


def test_the_formulas_of_snips_are_lines_of_its_method_sums():
    source = inspect.getsource(Snips.sums)
    ratios = ("numerator=wc / w", "numerator=wc / n, denominator=w / n", "numerator=wc, denominator=w")
    for ratio in ratios:
        assert f"UserSums.from_values(users, {ratio}, root=metric.root)" in source
