"""The figure of the page on concepts shows the numbers of the example on that page."""

from __future__ import annotations

from reproductions import concept_figure
from tests.conftest import ROOT


def test_the_panels_have_the_values_of_the_example():
    truth, observed, weighted = concept_figure.simulate_panels()
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    assert f"truth {truth.recall:.2f}, AOA {observed.recall:.2f}, IPS" in page
    assert f", SNIPS {weighted.recall:.2f}\n" in page
    assert observed.likes[:10].min() > 5 * observed.likes[10:].max()


def test_the_figure_is_drawn_again_as_it_is(tmp_path, monkeypatch):
    drawn = concept_figure.FIGURE.read_text("utf-8")
    monkeypatch.setattr(concept_figure, "FIGURE", tmp_path / "concept.svg")
    concept_figure.draw()
    again = (tmp_path / "concept.svg").read_text("utf-8")
    for text in ("AOA", "SNIPS", "recall@10 = 0.78"):
        assert text in drawn
        assert text in again
