"""One self-contained HTML page: tables, figures, weight diagnostics, metric cards, provenance."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ipseval._checks import counted
from ipseval.errors import InputError
from ipseval.inference import Correction
from ipseval.report._provenance import provenance
from ipseval.report._table import arrow, footnotes, leaderboards

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

# The browser is told to load nothing: no script, no request, pictures only from the page itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

PIXELS_PER_INCH = 80

_STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:72rem;margin:2rem auto;
padding:0 1rem}
h1{margin-bottom:.2rem}h2{margin-top:2.5rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
.summary{color:#444;margin-top:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
tbody th{font-weight:400;white-space:normal;overflow-wrap:anywhere;max-width:24rem}
thead th{border-bottom:2px solid #444;vertical-align:bottom;white-space:normal}
.words{white-space:normal;text-align:left;min-width:12rem;overflow-wrap:anywhere}
.best{font-weight:700}.se{color:#555}.mark{display:inline-block;width:2.6em;padding-left:.2em;text-align:left;color:#555}
.flag{background:#fff3cd}.warning{border-left:4px solid #b35900;padding:.3rem .8rem;background:#fff3cd}
.notes{color:#333;font-size:.9rem;padding-left:1.2rem}
pre{background:#f5f5f5;padding:.8rem;overflow-x:auto;font-size:.85rem;margin:.5rem 0 1rem}
summary{cursor:pointer}
.figures{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;max-width:100%}img{max-width:100%;height:auto}
"""

_TABLES = """
{%- for board in boards %}
<div class="scroll"><table><caption>{{ board.metric }}</caption>
<thead><tr><th scope="col">recommender</th>
{%- for label in board.estimators %}
<th scope="col">{{ label }}<span class="mark"></span></th>{% endfor %}</tr>
</thead><tbody>
{%- for model, cells in board.cells.items() %}
<tr><th scope="row">{{ model }}</th>
{%- for label in board.estimators %}{% set cell = cells[label] %}
<td{% if cell.flag %} class="flag" title="{{ cell.flag }}"{% endif %}>
{%- if isnan(cell.value) %}undefined{% else -%}
<span{% if cell.best %} class="best"{% endif %} title="{{ interval(cell) }}">
{{- "%.4f"|format(cell.value) }}</span>
{%- if not isnan(cell.std_error) %} <span class="se">± {{ "%.4f"|format(cell.std_error) }}</span>{% endif %}
{%- endif %}<span class="mark">{% if cell.below_best %}†{% endif %} {{ arrow(cell.moved) }}</span>
</td>{% endfor %}</tr>{% endfor %}
</tbody></table></div>
{%- endfor %}
<ul class="notes">{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
"""

_PAGE = (
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><style>{{ style|safe }}</style></head><body>
<h1>{{ title }}</h1>
<p class="summary">{{ summary }}</p>
{%- for warning in warnings %}<p class="warning">{{ warning }}</p>{% endfor %}
<h2>Estimates</h2>"""
    + _TABLES
    + """
{%- if figures %}<h2>Figures</h2><div class="figures">
{%- for alt, data, width in figures %}
<figure><img alt="{{ alt }}" width="{{ width }}" src="data:image/png;base64,{{ data }}"></figure>
{%- endfor %}</div>{% endif %}
<h2>Weights</h2>
<p>Weighted estimates rest on fewer positives than there are: on the effective sample size, (Σw)²/Σw².</p>
<div class="scroll"><table>
<thead><tr>{% for name in weights[0] %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead><tbody>
{%- for row in weights[1:] %}<tr>{% for value in row %}<td{% if loop.last %} class="words"{% endif %}>
{{- value }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table></div>
<h2>Definitions and claims</h2>
{%- for name, card in cards %}<details open><summary>{{ name }}</summary><pre>{{ card }}</pre></details>
{%- endfor %}
<h2>Provenance</h2>
<div class="scroll"><table><tbody>{% for name, value in provenance.items() %}
<tr><th scope="row">{{ name }}</th><td class="words">{{ value }}</td></tr>{% endfor %}</tbody></table></div>
</body></html>
"""
)


def to_html(
    evaluation: Evaluation, *, title: str = "Evaluation of recommenders", correction: Correction = "holm"
) -> str:
    """Return the whole report as one HTML page that loads nothing from elsewhere; all text is escaped.

    Figures are included where matplotlib is installed.

    Raises
    ------
    InputError
        When jinja2 is not installed.
    """
    sample = next(iter(evaluation.samples.values()))
    ranked, left_out, propensity = sample.ranked, sample.n_without_propensity, evaluation.propensity
    return _render(
        _PAGE,
        evaluation,
        correction,
        title=title,
        policy=_POLICY,
        style=_STYLE,
        summary=(
            f"{counted(len(evaluation.models), 'recommender')} on "
            f"{counted(len(ranked), 'held-out positive')} of "
            f"{counted(ranked.users.size, 'user')} ({np.median(ranked.counts):g} each in the median). "
            f"Candidates: {ranked.candidates}."
            + ("" if propensity is None else f" Propensity: {propensity.model}.")
            + (f" Left out: {counted(left_out, 'positive')} without a propensity." if left_out else "")
        ),
        warnings=[f"{label}: {one.flag}." for label, one in evaluation.weights.items() if one.flag],
        figures=_figures(evaluation),
        weights=_weights(evaluation),
        cards=[(one.label, one.card()) for one in evaluation.definitions[0]],
        provenance=provenance(evaluation),
    )


def to_html_tables(evaluation: Evaluation, *, correction: Correction = "holm") -> str | None:
    """Return the tables and notes alone, for a notebook; None (the text form is shown) without jinja2."""
    try:
        return _render(_TABLES, evaluation, correction)
    except InputError:
        return None


def _render(template: str, evaluation: Evaluation, correction: Correction, **values: Any) -> str:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise InputError("HTML needs jinja2; install it with pip install 'ipseval[report]'.") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    level = f"{evaluation.confidence_level:.0%} interval"
    return environment.from_string(template).render(
        boards=leaderboards(evaluation, correction=correction),
        notes=footnotes(evaluation, correction=correction),
        isnan=np.isnan,
        arrow=arrow,
        interval=lambda cell: f"{level}: {cell.ci_low:.4f} to {cell.ci_high:.4f}",
        **values,
    )


def _weights(evaluation: Evaluation) -> list[list[str]]:
    """Return the table of weight diagnostics, its header first."""
    header = ["estimator", "positives", "effective sample size", "the same over items"]
    rows = [[*header, "as the estimator weighs", "largest share", "share of rare items", "remark"]]
    for label, one in evaluation.weights.items():
        own = f"{one.ess_own:,.1f}" if one.weighted else "–"
        counts = [f"{one.n_positives:,}", f"{one.ess:,.1f}", f"{one.ess_items:,.1f}", own]
        rare = "–" if np.isnan(one.rare_share) else f"{one.rare_share:.1%}"
        remark = "; ".join(filter(None, (one.flag, *one.cautions)))
        rows.append([label, *counts, f"{one.max_weight_share:.2%}", rare, remark])
    return rows


def _figures(evaluation: Evaluation) -> list[tuple[str, str, int]]:
    """Return (alternative text, base64 PNG, width in pixels) of each figure."""
    try:
        from ipseval.plots import plot_estimates
    except ImportError:
        return []
    import base64

    figures = []
    for board in leaderboards(evaluation):
        place = {model: number for number, model in enumerate(board.cells)}
        frame = evaluation.frame.sort_values("model", key=lambda names: names.map(place), kind="stable")
        figure: Any = plot_estimates(frame, metric=board.metric).figure
        buffer = io.BytesIO()
        # Twice the pixels that are shown, for sharp screens.
        figure.savefig(buffer, format="png", dpi=2 * PIXELS_PER_INCH, metadata={"Software": None})
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        alt = f"{board.metric} of every recommender by every estimator, with intervals"
        figures.append((alt, data, round(PIXELS_PER_INCH * figure.get_size_inches()[0])))
    return figures
