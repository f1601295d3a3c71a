"""Docstrings of public names are complete by numpydoc's validation, with an ignore list that may only shrink."""

from __future__ import annotations

import pytest

from tests.contracts.docstrings import (
    findings,
    ignored_findings,
    method_names,
    open_findings,
    other_names,
    references,
    resolves,
    top_names,
)

pytest.importorskip("numpydoc")
MOST_IGNORED = 0.1  # of the names below the top


@pytest.mark.parametrize("name", sorted(top_names()))
def test_a_docstring_at_the_top_has_no_finding(name):
    assert not findings(top_names()[name])


def test_findings_below_the_top_are_on_the_ignore_list_which_may_only_shrink():
    assert open_findings() == ignored_findings()


def test_few_names_are_on_the_ignore_list():
    n_names = len(other_names()) + len(method_names())
    assert len(ignored_findings()) <= MOST_IGNORED * n_names


def test_every_reference_of_see_also_leads_somewhere():
    names = {**top_names(), **other_names(), **method_names()}
    lost = {
        f"{name}: {reference}"
        for name, value in names.items()
        for reference in references(value)
        if not resolves(reference, value)
    }
    assert not lost


def sample(value):
    """Returns a value

    See Also
    --------
    nowhere_at_all : It does not exist.
    """
    return value


def test_the_validation_finds_what_it_should_find():
    codes = {finding.partition(" ")[0] for finding in findings(sample)}
    assert codes == {"SS03", "SS05", "PR01", "RT01", "EX01"}
    assert list(references(sample)) == ["nowhere_at_all"]
    assert not resolves("nowhere_at_all", sample)
    assert resolves("findings", sample)
