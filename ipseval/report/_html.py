"""One self-contained HTML page: tables, figures, weight diagnostics, metric cards, provenance."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ipseval.errors import InputError
from ipseval.inference import Correction
from ipseval.report._provenance import provenance
from ipseval.report._table import arrow, footnotes, leaderboards

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

# The browser is told to load nothing: no script, no request, pictures only from the page itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}
thead th{border-bottom:2px solid #444}
.best{font-weight:700}.se{color:#555}.move{color:#555;font-size:.85em}
.flag{background:#fff3cd}.warning{border-left:4px solid #b35900;padding:.3rem .8rem;background:#fff3cd}
pre{background:#f5f5f5;padding:.8rem;overflow-x:auto;font-size:.85rem}figure{margin:1rem 0}img{max-width:100%}
"""

_TABLES = """
{%- for board in boards %}
<table><caption>{{ board.metric }}</caption>
<thead><tr><th scope="col">recommender</th>
{%- for label in board.estimators %}<th scope="col">{{ label }}</th>{% endfor %}</tr></thead><tbody>
{%- for model, cells in board.cells.items() %}
<tr><th scope="row">{{ model }}</th>
{%- for label in board.estimators %}{% set cell = cells[label] %}
<td{% if cell.flag %} class="flag" title="{{ cell.flag }}"{% endif %}>
{%- if isnan(cell.value) %}undefined{% else -%}
<span{% if cell.best %} class="best"{% endif %} title="{{ interval(cell) }}">
{{- "%.4f"|format(cell.value) }}</span>
{%- if not isnan(cell.std_error) %} <span class="se">± {{ "%.4f"|format(cell.std_error) }}</span>{% endif %}
{%- if cell.below_best %}†{% endif %}
{%- if cell.moved %} <span class="move">{{ arrow(cell.moved) }}</span>{% endif %}
{%- endif %}</td>{% endfor %}</tr>{% endfor %}
</tbody></table>
{%- endfor %}
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
"""

_PAGE = (
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><style>{{ style|safe }}</style></head><body>
<h1>{{ title }}</h1>
<p>{{ summary }}</p>
{%- for warning in warnings %}<p class="warning">{{ warning }}</p>{% endfor %}
<h2>Estimates</h2>"""
    + _TABLES
    + """
{%- if figures %}<h2>Figures</h2>
{%- for alt, data in figures %}
<figure><img alt="{{ alt }}" src="data:image/png;base64,{{ data }}"></figure>{% endfor %}{% endif %}
<h2>Weights</h2>
<table><thead><tr>{% for name in weights[0] %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead><tbody>
{%- for row in weights[1:] %}<tr>{% for value in row %}<td>{{ value }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table>
<h2>Definitions and claims</h2>
{%- for card in cards %}<pre>{{ card }}</pre>{% endfor %}
<h2>Provenance</h2>
<table><tbody>{% for name, value in provenance.items() %}
<tr><th scope="row">{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</tbody></table>
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
    weights: list[list[Any]] = [["estimator", "positives", "ess", "ess of items", "largest share", "remark"]]
    for label, one in evaluation.weights.items():
        numbers = [f"{one.n_positives:,}", f"{one.ess:,.1f}", f"{one.ess_items:,.1f}"]
        weights.append([label, *numbers, f"{one.max_weight_share:.2%}", one.flag])
    sample = next(iter(evaluation.samples.values()))
    ranked = sample.ranked
    return _render(
        _PAGE,
        evaluation,
        correction,
        title=title,
        policy=_POLICY,
        style=_STYLE,
        summary=(
            f"{len(evaluation.models)} recommenders on {len(ranked):,} held-out positives of "
            f"{ranked.users.size:,} users. Candidates: {ranked.candidates}."
        ),
        warnings=[f"{label}: {one.flag}." for label, one in evaluation.weights.items() if one.flag],
        figures=_figures(evaluation),
        weights=weights,
        cards=[card.card() for card in evaluation.definitions[0]],
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


def _figures(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return (alternative text, base64 PNG) of each figure."""
    try:
        from ipseval.plots import plot_estimates
    except ImportError:
        return []
    import base64

    figures = []
    for metric in evaluation.metrics:
        buffer = io.BytesIO()
        axes = plot_estimates(evaluation.frame, metric=metric)
        figure: Any = axes.figure
        figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        figures.append((f"{metric} of every recommender by every estimator, with intervals", data))
    return figures
