"""The pictures of a page: marks where the values are, names that are text, the same bytes each time."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from ipseval.reporting import Tables
from tests.inside.reporting import (
    Picture,
    Table,
    build_bias_picture,
    build_sensitivity_picture,
    choose_class,
    render_picture,
    to_html,
    to_html_tables,
    to_markdown,
    views,
    write_bias_file,
)

mpl = pytest.importorskip("matplotlib")

NAN = float("nan")
HOSTILE = (
    "</text><script>alert(1)</script>",
    "$x$ & <b>",
    "_a",
    "als\x1b[31m\ufffe",
    "日本語",
    '" onload="x',
)


def curves(values: dict[str, list[float]], gammas: tuple[float, ...] = (-1.0, 0.0, 1.0)) -> pd.DataFrame:
    """Return the estimates of recommenders over γ as rows."""
    frames = [
        pd.DataFrame({"model": name, "gamma": gammas, "estimate": line}) for name, line in values.items()
    ]
    rows = pd.concat(frames, ignore_index=True)
    return rows.assign(metric="recall@10", estimator="SNIPS", ci_low=NAN, ci_high=NAN)


def estimates() -> pd.DataFrame:
    """Return three recommenders by two estimators, with intervals and the truth."""
    return pd.DataFrame(
        {
            "metric": "recall@10",
            "estimator": ["aoa", "snips-global"] * 3,
            "estimate": [0.3, 0.2, 0.25, 0.22, 0.4, 0.1],
            "ci_low": [0.28, 0.15, 0.2, 0.18, 0.35, 0.05],
            "ci_high": [0.32, 0.25, 0.3, 0.26, 0.45, 0.15],
            "truth": [0.2, 0.2, 0.21, 0.21, 0.12, 0.12],
        }
    )


def sensitivity(frame: pd.DataFrame) -> Picture:
    return build_sensitivity_picture(frame, gamma=0.5, alt="alt", caption="caption", metric="recall@10")


def element(picture: Picture, prefix: str = "p0-") -> ElementTree.Element:
    return ElementTree.fromstring(render_picture(picture, id_prefix=prefix))


def number(text: str | None) -> float | None:
    """Return the number of a label, or None."""
    try:
        return float((text or "").replace("−", "-"))
    except ValueError:
        return None


def read_axes(root: ElementTree.Element) -> tuple[np.poly1d, np.poly1d]:
    """Return the functions from positions to values that the labels of the axes and the grid show."""
    labels = {"middle": [], "end": []}
    for text in root.iter("text"):
        if number(text.text) is not None:
            labels[text.get("text-anchor")].append(
                (float(text.get("x")), number(text.text), float(text.get("y")))
            )
    x = np.array([(position, value) for position, value, _ in labels["middle"]])
    lines = sorted(points(path)[0][1] for path in root.iter("path") if path.get("class") == "rule")
    values = [value for _, value, _ in sorted(labels["end"], key=lambda label: label[2])]
    assert len(lines) == len(values) > 2
    return np.poly1d(np.polyfit(*x.T, 1)), np.poly1d(np.polyfit(lines, values, 1))


def points(path: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path.get("d"))]


def test_curves_go_through_their_points_and_stop_where_a_value_is_not_known():
    gammas = (-1.0, 0.0, 1.0, 2.0)
    values = {"a": [0.4, 0.1, 0.0, 0.2], "b": [0.2, NAN, 0.3, 0.1]}
    root = element(sensitivity(curves(values, gammas)))
    x_axis, y_axis = read_axes(root)
    lines = [path for path in root.iter("path") if path.get("class") in ("c0", "c1")]
    drawn = {path.get("class"): points(path) for path in lines if "clip-path" in path.attrib}
    for (x, y), gamma, value in zip(drawn["c0"], gammas, values["a"], strict=True):
        assert x_axis(x) == pytest.approx(gamma, abs=0.005)
        assert y_axis(y) == pytest.approx(value, abs=0.0005)
    last = drawn["c1"][-2:]
    assert [x_axis(x) for x, _ in last] == pytest.approx([1, 2], abs=0.005)
    assert [y_axis(y) for _, y in last] == pytest.approx([0.3, 0.1], abs=0.0005)
    assert not [x for x, _ in drawn["c1"] if x_axis(x) == pytest.approx(0, abs=0.1)]
    (here,) = [path for path in root.iter("path") if path.get("class") == "soft"]
    assert [x_axis(x) for x, _ in points(here)] == pytest.approx([0.5, 0.5], abs=0.005)


def test_the_bands_of_curves_name_the_values_the_highest_first():
    values = {"<a>": [0.1, 0.2, NAN], "b": [0.3, 0.2, 0.1]}
    root = element(sensitivity(curves(values, (0.0, 1.0, 3.0))))
    x_axis, _ = read_axes(root)
    bands = [path for path in root.iter("path") if path.get("class") == "h"]
    assert [band.find("title").text for band in bands] == [
        "γ = 0\nb  0.3\n<a>  0.1",
        "γ = 1\n<a>  0.2\nb  0.2",
        "γ = 3\nb  0.1\n<a>  nan",
    ]
    ends = [sorted({round(x_axis(x), 2) for x, _ in points(band)}) for band in bands]
    assert np.ravel(ends) == pytest.approx([0, 0.5, 0.5, 2, 2, 3], abs=0.011)


def test_estimates_stand_at_their_true_value_with_their_interval_and_the_diagonal_is_where_they_agree():
    frame = estimates()
    root = element(build_bias_picture(frame, metric="recall@10", estimators=["aoa", "snips-global"]))
    x_axis, y_axis = read_axes(root)
    for colour, label in (("c0", "aoa"), ("c1", "snips-global")):
        rows = frame[frame["estimator"] == label]
        marks = [use for use in root.iter("use") if use.get("class") == colour]
        places = {
            (round(x_axis(float(use.get("x"))), 3), round(y_axis(float(use.get("y"))), 3)) for use in marks
        }
        # The ends of the intervals are marks of their own.
        for column in ("estimate", "ci_low", "ci_high"):
            for truth, value in zip(rows["truth"], rows[column], strict=True):
                assert any(np.allclose(place, (truth, value), atol=0.002) for place in places)
    (diagonal,) = [
        path for path in root.iter("path") if path.get("class") == "soft" and "clip-path" in path.attrib
    ]
    for x, y in points(diagonal):
        assert x_axis(x) == pytest.approx(y_axis(y), abs=0.002)


def test_an_element_has_no_style_no_colour_of_its_own_and_ids_that_no_other_picture_has():
    pictures = [sensitivity(curves({"a": [1, 2, 3], "b": [2, 2, 2]})) for _ in range(2)]
    pictures.append(build_bias_picture(estimates(), metric="recall@10", estimators=["aoa"]))
    page = to_html(Tables((), tuple(pictures), title="Title"))
    drawn = re.findall(r'<svg class="p".*?</svg>', page, re.S)
    assert len(drawn) == 3
    for svg in drawn:
        assert not re.search(
            r"style=|#[0-9a-f]{6}|xmlns|ns\d:|<style|<metadata|\d\.\d\d", re.sub(">[^<]*<", "", svg)
        )
        root = ElementTree.fromstring(svg)
        assert (root.get("role"), bool(root.get("aria-label"))) == ("img", True)
    ids = re.findall(r'\bid="(p\d[^"]*)"', page)
    assert len(ids) == len(set(ids)) == 5
    assert set(re.findall(r'(?:href="|url\()#(p\d[^")]*)', page)) == set(ids)


def test_names_in_a_picture_are_text_that_nothing_reads_as_markup_formula_or_command():
    values = {name: [0.1 * place, 0.2, 0.3] for place, name in enumerate(HOSTILE)}
    picture = sensitivity(curves(values))
    svg = render_picture(picture, id_prefix="p0-")
    assert "<script" not in svg
    words = {(text.text or "").strip() for text in ElementTree.fromstring(svg).iter("text")}
    assert {*HOSTILE[:3], "als\\x1b[31m\\ufffe", *HOSTILE[4:]} <= words
    frame = estimates().assign(metric="</title><script>", estimator="<script>")
    (title,) = set(frame["metric"])
    bias = build_bias_picture(frame, metric=title, estimators=["<script>"])
    assert "<script" not in to_html(Tables((), (bias,))).partition("</head>")[2].rpartition("<script>")[0]


def test_the_same_picture_gives_the_same_bytes_whatever_style_the_user_has_chosen():
    picture = sensitivity(curves({"a": [1, 2, 3]}))
    first = render_picture(picture, id_prefix="p0-")
    file = write_bias_file(estimates(), estimators=["aoa"])
    with mpl.rc_context(
        {"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path", "text.usetex": False}
    ):
        assert render_picture(picture, id_prefix="p0-") == first
        assert write_bias_file(estimates(), estimators=["aoa"]) == file
        assert mpl.rcParams["font.size"] == 30
    assert "<dc:date>" not in file
    assert "recall@10" in [
        text.text for text in ElementTree.fromstring(file).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize("n_models", [1, 5, 8])
def test_a_legend_has_every_recommender_and_long_names_make_the_picture_higher_not_wider(n_models):
    names = [f"{number}: a recommender with a long name" for number in range(n_models)]
    root = element(sensitivity(curves({name: [0.1, 0.2, 0.3] for name in names})))
    assert [text.text for text in root.iter("text")][-n_models:] == names
    _, _, width, height = map(float, root.get("viewBox").split())
    assert width == pytest.approx(403.2)
    assert height == pytest.approx(259.2 + 14.4 * n_models)
    assert {path.get("class") for path in root.iter("path") if path.get("class", "").startswith("c")} == {
        f"c{number}"
        for number in range(n_models)
        if number != 6  # black is the colour of the text
    }


def test_without_matplotlib_a_page_says_that_it_has_no_pictures_and_keeps_the_rest(monkeypatch):
    table = Table.from_frame(pd.DataFrame({"model": ["als"], "auc": [0.5]}))
    tables = Tables((), (table, sensitivity(curves({"a": [1, 2, 3]}))), title="Title")
    said = "This page has no pictures, because matplotlib is not installed: pip install matplotlib."
    assert said not in to_html(tables)
    monkeypatch.setattr(views, "find_spec", lambda name: None)
    page = to_html(tables)
    assert page.count(said.replace("&#39;", "'")) == 1
    assert '<svg class="p"' not in page
    assert "<figcaption>caption</figcaption>" in page
    assert "<td>0.5</td>" in page
    assert said not in to_html(Tables((), (table,)))


def test_a_notebook_has_the_caption_of_a_picture_and_markdown_nothing():
    tables = Tables(("summary",), (sensitivity(curves({"a": [1, 2, 3]})),))
    assert (
        to_html_tables(tables).strip()
        == '<figure data-g="recall@10"><figcaption>caption</figcaption></figure>'
    )
    assert to_markdown(tables) == "summary\n"


def test_a_grey_is_a_line_of_the_grid_from_193_on_and_text_below():
    # 0xC0 is 192. No other grey of a picture is as near to the limit.
    assert [choose_class(colour) for colour in ("#000000", "#bfbfbf", "#c0c0c0")] == ["", "soft", "soft"]
    assert [choose_class(colour) for colour in ("#c1c1c1", "#cccccc", "#ffffff")] == ["rule"] * 3
    assert choose_class("#c1c1c0") is None
