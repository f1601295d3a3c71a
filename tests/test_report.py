"""Reports show the numbers of the frame, mark them as they should be marked, and escape what users wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import ipseval

ATTACK = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((60, 30)) < 0.4), columns=["user", "item"])
    pairs["item"] = [f"it\"em'{i}" for i in pairs["item"]]
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
    good = rng.normal(size=(60, 30))
    good[split.test.user, split.test.item] += 2
    bad = rng.normal(size=(60, 30))
    return ipseval.evaluate(
        {ATTACK: good, "a|b_c & 5 %": bad},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@5", "auc"],
        on_low_ess="ignore",
    )


class Reader(HTMLParser):
    """Collects tags, attributes and text, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def test_html_holds_every_number_loads_nothing_and_runs_nothing(evaluation, tmp_path):
    evaluation.to_html(tmp_path / "report.html", title=ATTACK)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = read(html)
    names = {tag for tag, _ in page.tags}
    assert "script" not in names
    assert not [a for _, attrs in page.tags for a in attrs if a.startswith("on")]
    links = [value for _, attrs in page.tags for key, value in attrs.items() if key in ("src", "href")]
    assert links
    assert all(link.startswith("data:") for link in links)
    assert ATTACK in page.text
    for value in evaluation.frame["estimate"]:
        assert f"{value:.4f}" in html
    assert evaluation.data_hash in html
    assert "Definitions and claims" in html


def test_the_notebook_form_is_the_tables_alone(evaluation):
    html = evaluation._repr_html_()
    assert html.count("<table>") == 2
    assert "<html" not in html
    assert ATTACK not in html


def test_markdown_has_a_row_per_recommender_and_escapes_pipes(evaluation):
    lines = evaluation.to_markdown().splitlines()
    rows = [line for line in lines if line.startswith("| ") and "---" not in line]
    assert len(rows) == 2 * 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
    best = evaluation.frame.query("metric == 'recall@5' and estimator == 'aoa'")["estimate"].max()
    assert f"**{best:.4f}**" in rows[1]
    assert "&lt;script&gt;" in rows[1]


def test_the_mark_of_a_difference_is_that_of_the_paired_test_with_its_correction(evaluation):
    tests = evaluation.compare(correction="holm").set_index(["metric", "estimator"])
    assert (tests["p_adjusted"] < 0.05).all()
    rows = [line for line in evaluation.to_markdown().splitlines() if line.startswith("| a\\|b")]
    assert all(row.count("†") == 3 for row in rows)
    assert "Holm correction" in evaluation.to_markdown()


def test_latex_has_balanced_environments_booktabs_and_no_raw_special_character(evaluation):
    latex = evaluation.to_latex()
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", latex):
        assert kind == "begin" or opened.pop() == name
        opened += [name] if kind == "begin" else []
    assert opened == []
    assert latex.count(r"\midrule") == 2
    assert r"a|b\_c \& 5 \%" in latex
    assert latex.count(r"\textbf{") == 2 * 3
    assert not re.search(r"(?<!\\)%", latex)


def test_text_puts_estimators_side_by_side_with_claims_below(evaluation):
    text = repr(evaluation)
    header = next(line for line in text.splitlines() if line.startswith("recall@5"))
    assert header.split()[1:] == ["aoa", "snips", "snips-global"]
    assert re.search(r"^aoa.*: biased", text, flags=re.MULTILINE)


def test_a_single_recommender_is_not_called_the_best(evaluation):
    only = ipseval.evaluate_ranks(
        {"mine": evaluation.samples[ATTACK].ranked}, metrics=["recall@5"], estimators=["aoa"]
    )
    assert repr(only).startswith("1 recommender, ")
    assert "*" not in repr(only).split("±")[0]
    assert "best" not in repr(only)
    assert "**" not in only.to_markdown()
    assert "best" not in only.to_markdown()


def test_letters_of_the_claims_and_cautions_stand_below_every_form(evaluation):
    for text in (repr(evaluation), evaluation.to_markdown().replace("\\", ""), evaluation._repr_html_()):
        assert "P: propensity, the chance that a relevant item is observed; S*_u: held-out positives" in text


def test_plot_draws_the_chosen_metric(evaluation):
    assert evaluation.plot("auc").get_xlabel().startswith("auc")
