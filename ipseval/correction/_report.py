"""The printed form of a correction: the verdict in sentences, and one table per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ipseval.correction._alpha import AlphaPosterior
from ipseval.correction._names import CORRECTED, PPI, RANDOM_SAMPLE
from ipseval.correction._order import (
    WINNER_LEAD,
    WINNER_PROBABILITY,
    MetricOrder,
    choose_recommender,
    find_leader,
    find_strongest_rival,
    find_tied_first,
    least_probability_better,
)
from ipseval.data.random_exposure import RandomExposure
from ipseval.estimators.labels import AOA_POOLED
from ipseval.reporting import Tables
from ipseval.reporting.formatting import count_decimals, format_fixed, join_names
from ipseval.reporting.tables import Cell, InterfaceText, Remark, Table
from ipseval.utils.checks import format_count

HEADERS = {
    AOA_POOLED: "AOA (pooled)",
    RANDOM_SAMPLE: "random sample",
    PPI: "PPI",
    CORRECTED: "bias-corrected",
}
# Header of bias-corrected intervals without estimates.
RANGE_HEADER = "plausible range"
# Estimators whose intervals are omitted from text where a table would be too wide.
SHORTENED = (AOA_POOLED, PPI)

# Rows of a table in text.
MAX_ROWS = 12

# The report mentions truncated weights from this share of all weight on.
NOTED_TRUNCATION = 0.005

SMALLEST_REGRET = 0.0001
PLAN_STEP = "`ipseval plan` predicts how precise the result becomes if random items are shown to some users."
MORE_STEP = "`ipseval plan` predicts how precise the result becomes with more random exposure."
DESIGNED_STEP = (
    "Show items that are drawn in the same way to further users; `ipseval plan --design` with --previous continues an "
    "allocation."
)
USE_STEP = "Choose {choice}. More random exposure is not needed to compare these recommenders."


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectionReport:
    """The values from which the report of a correction is composed.

    Attributes
    ----------
    frame : DataFrame
        As `Correction.frame`.
    orders : sequence of MetricOrder
    n_users, n_positives : int
        Of the held-out interactions.
    n_random_users, n_random_positives : int
        Of the random exposure; 0 without any.
    random_exposure : RandomExposure or None
    reference_values : DataFrame
        As `Correction.reference_values`.
    alpha : AlphaPosterior
        The correction strength.
    truncated_share : float
    confidence_level : float
    precision_loss : str
        Sentence about metrics of the whole ranking, where the exposure was designed; else "".
    """

    frame: pd.DataFrame
    orders: Sequence[MetricOrder]
    n_users: int
    n_positives: int
    n_random_users: int
    n_random_positives: int
    random_exposure: RandomExposure | None
    reference_values: pd.DataFrame
    alpha: AlphaPosterior
    truncated_share: float
    confidence_level: float
    precision_loss: str = ""

    @property
    def has_sample(self) -> bool:
        """Whether there is a random-exposure positive."""
        return self.n_random_positives > 0

    @property
    def missing_sample(self) -> str:
        """Why there is no random sample."""
        if self.random_exposure is None:
            return "No random items were passed"
        return "No random item outside training was liked"

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators, in the order of the columns."""
        present = set(self.frame["estimator"])
        labels: list[str] = []
        for label in HEADERS:
            if label in present:
                labels.append(label)

        return labels

    @property
    def has_point_estimate(self) -> bool:
        """Whether the bias-corrected estimates have values."""
        rows = self.frame[self.frame["estimator"] == CORRECTED]
        return bool(rows["estimate"].notna().any())

    @property
    def headers(self) -> list[str]:
        """Headers of the columns of estimators."""
        headers = []
        for label in self.estimators:
            is_range = label == CORRECTED and not self.has_point_estimate
            headers.append(RANGE_HEADER if is_range else HEADERS[label])

        return headers


def correction_tables(report: CorrectionReport, *, digits: int, page: bool = False) -> Tables:
    """Return the report: the verdict, one table per metric, assumptions and excluded data."""
    paragraphs = {
        "Verdict": verdict_sentences(report),
        "Assumption": _assumption_sentences(report),
        "Next step": [_next_step(report)],
        "Excluded": _excluded_sentences(report),
        "Data": _data_sentences(report),
    }
    remarks = []
    for name, sentences in paragraphs.items():
        paragraph = " ".join(filter(None, sentences))
        if paragraph:
            remarks.append(Remark(name, (paragraph,)))
    return Tables(
        summary=(_head_line(report),),
        title="Bias-corrected comparison of recommenders" if page else "",
        parts=tuple(_metric_table(report, order, digits) for order in report.orders),
        remarks=tuple(remarks),
    )


def _head_line(report: CorrectionReport) -> str:
    counts = [
        format_count(len(report.orders[0].models), "recommender"),
        format_count(report.n_users, "user"),
        format_count(report.n_positives, "held-out interaction"),
    ]
    if report.has_sample:
        random = format_count(report.n_random_positives, "random-exposure positive")
        counts.append(f"{random} of {format_count(report.n_random_users, 'user')}")
    level = f"{100 * report.confidence_level:g}%"
    return f"{', '.join(counts)}. {level} intervals; means over relevant interactions."


# ---------------------------------------------------------------- verdict


def verdict_sentences(report: CorrectionReport) -> list[str]:
    """Return the conclusion by the first metric, its reason and regret, and the remaining metrics.

    Without random items, or with a model that does not fit the log, the probabilities and the regret rest on
    assumptions about exposure, so they are not printed.
    """
    first = report.orders[0]
    lines = [" ".join([*_conclusion(first), *_explain_missing_winner(first, report.missing_sample)])]
    if len(first.models) > 1 and first.has_probabilities:
        choice = choose_recommender(first)
        regret = format_regret(first.get_regret(choice))
        lines.append(f"Expected regret of choosing {choice}: {regret} {first.metric}.")
    agreeing_metrics = []
    disagreements = []
    for order in report.orders[1:]:
        if _is_same_conclusion(order, first):
            agreeing_metrics.append(order.metric)
        else:
            disagreements.append(f"By {order.metric}: {' '.join(_conclusion(order))}")
    if agreeing_metrics and len(first.models) > 1:
        verb = "lead" if len(agreeing_metrics) > 1 else "leads"
        lines.append(f"{join_names(agreeing_metrics)} {verb} to the same conclusion.")
    return lines + disagreements


def _is_same_conclusion(order: MetricOrder, first: MetricOrder) -> bool:
    """Return whether two metrics have the same first recommender, leader, printed choice and tie."""
    return (
        find_leader(order) == find_leader(first)
        and (not first.has_probabilities or choose_recommender(order) == choose_recommender(first))
        and order.models[0] == first.models[0]
        and bool(find_tied_first(order)) == bool(find_tied_first(first))
    )


def _conclusion(order: MetricOrder) -> list[str]:
    """Return the sentences that name the winner by one metric, or state that there is none."""
    aoa_first = order.models[0]
    if len(order.models) == 1:
        return [f"Only {aoa_first} has an estimate, so there is nothing to compare."]
    tied_models = find_tied_first(order)
    if tied_models:
        return [f"{join_names(tied_models)} are tied for first place by AOA (pooled)."]
    leader = find_leader(order)
    if leader is not None:
        probability = format_least_probability(least_probability_better(order, leader))
        winner = f"{leader} ranks first after bias correction"
        sentence = f"{winner}: P({leader} better) {probability} against every other recommender."
        if leader == aoa_first:
            return [sentence]
        return [sentence, f"{aoa_first} ranks first by AOA (pooled)."]
    sentences = [f"No clear winner. {aoa_first} ranks first by AOA (pooled)."]
    if not order.has_probabilities:
        return sentences
    choice = choose_recommender(order)
    if choice == aoa_first:
        return [*sentences, f"{_format_pair(order, aoa_first, order.models[1])}."]
    probability = _format_pair(order, choice, aoa_first)
    return [*sentences, f"{probability}, so {choice} is the better choice."]


def _explain_missing_winner(order: MetricOrder, missing_sample: str) -> list[str]:
    """Return the reason why there is no winner; empty with a winner, a tie, or a single recommender."""
    if len(order.models) == 1 or find_tied_first(order) or find_leader(order) is not None:
        return []
    if not order.is_explained:
        advice = "; report the random sample instead" if order.sample_lead is not None else ""
        return [f"The model of exposure does not fit this log, so no winner is named{advice}."]
    if order.sample_lead is None:
        return [f"{missing_sample}, so no winner is named."]
    choice = choose_recommender(order)
    if least_probability_better(order, choice) >= WINNER_PROBABILITY:
        return [
            f"The random sample itself does not have {choice} ahead of every other recommender by "
            f"{WINNER_LEAD:g} standard errors, so no winner is named."
        ]
    if len(order.models) == 2:
        return [f"A winner must reach {WINNER_PROBABILITY:g}."]
    rival = find_strongest_rival(order, choice)
    # The verdict has compared the choice with the first by AOA, or this one with the second.
    compared = order.models[1] if choice == order.models[0] else order.models[0]
    if rival == compared:
        return [f"A winner must reach {WINNER_PROBABILITY:g} against every other recommender."]
    least_probability = format_probability(least_probability_better(order, choice))
    return [
        f"The smallest, P({choice} better than {rival}), is {least_probability}, and a winner must reach "
        f"{WINNER_PROBABILITY:g} against every other recommender."
    ]


def _format_pair(order: MetricOrder, model: str, reference: str) -> str:
    """Return P(model better than reference) as text."""
    probability = format_probability(order.probability_better(model, reference))
    sign = "" if probability[0] in "<>" else "= "
    return f"P({model} better than {reference}) {sign}{probability}"


def format_probability(value: float) -> str:
    """Return a probability as text, with two decimals.

    Examples
    --------
    >>> format_probability(0.734), format_probability(0.998), format_probability(0.002)
    ('0.73', '> 0.99', '< 0.01')
    """
    if value >= 0.995:
        return "> 0.99"
    if value <= 0.005:
        return "< 0.01"
    return f"{value:.2f}"


def format_least_probability(value: float) -> str:
    """Return the smallest of several probabilities with its sign, never rounded up.

    Examples
    --------
    >>> format_least_probability(0.9791), format_least_probability(0.9999)
    ('≥ 0.97', '> 0.99')
    """
    return "> 0.99" if value > 0.99 else f"≥ {math.floor(100 * value + 1e-9) / 100:.2f}"


def format_regret(value: float) -> str:
    """Return an expected regret with one significant digit.

    Examples
    --------
    >>> format_regret(0.00432), format_regret(0.00000012), format_regret(0.0)
    ('0.004', 'below 0.0001', '0')
    """
    if value == 0:
        return "0"
    if value < SMALLEST_REGRET:
        return f"below {SMALLEST_REGRET:g}"
    return f"{value:.{count_decimals([value], 1)}f}"


def _next_step(report: CorrectionReport) -> str:
    first = report.orders[0]
    if len(first.models) == 1 or find_tied_first(first):
        return ""
    if find_leader(first) is not None:
        return USE_STEP.format(choice=choose_recommender(first))
    if report.random_exposure is not None and report.random_exposure.is_designed:
        return DESIGNED_STEP  # the numbers of users of a plan are for uniformly drawn items
    if report.has_sample:
        return MORE_STEP
    return PLAN_STEP


# ---------------------------------------------------------------- assumptions and data


def _assumption_sentences(report: CorrectionReport) -> list[str]:
    lines = ["AOA (pooled) is unbiased only if exposure was uniform."]
    if report.has_sample:
        names = "The random sample and PPI are" if PPI in report.estimators else "The random sample is"
        drawn = "users and items were drawn uniformly at random"
        if report.random_exposure is not None and report.random_exposure.is_designed:
            drawn = "users were drawn at random and all allocated items were shown to them"
        lines.append(f"{names} consistent if {drawn}.")
    if not report.has_point_estimate:
        lines.append(
            f"{report.missing_sample}, and the log alone does not show how high the values are: the plausible "
            f"range depends on the prior of the correction strength, {report.alpha.interval}."
        )
    else:
        lines.append(
            "The bias-corrected estimate is a posterior mean that depends on the prior of the correction "
            f"strength; the posterior of the strength is {report.alpha.interval}."
        )
    if report.has_point_estimate and not report.has_sample:
        basis = "the prior" if report.reference_values.empty else "the reference values and the prior"
        lines.append(f"{report.missing_sample}, so the level of the estimate depends on {basis}.")
    if not report.orders[0].is_explained:
        column = "bias-corrected estimate" if report.has_point_estimate else "plausible range"
        lines.append(f"The model of exposure does not fit this log, so the {column} is not reliable.")
    if report.truncated_share >= NOTED_TRUNCATION:
        share = f"{report.truncated_share:.0%}"
        lines.append(f"Large weights are truncated; the truncated part is {share} of all weight.")
    return lines


def _excluded_sentences(report: CorrectionReport) -> list[str]:
    exposure = report.random_exposure
    if exposure is None:
        return []
    sentences = []
    if exposure.n_dropped:
        pairs = format_count(exposure.n_dropped, "pair")
        sentences.append(f"{pairs} of the training log, from the random exposure.")
    if exposure.n_uncovered:
        users = format_count(exposure.n_uncovered, "user")
        sentences.append(f"{users} without a row in the log, from the random sample.")
    if exposure.n_unanswered:
        users = format_count(exposure.n_unanswered, "user")
        sentences.append(f"{users} without some answer, from the random exposure.")
    return sentences


def _data_sentences(report: CorrectionReport) -> list[str]:
    lines = []
    exposure = report.random_exposure
    if exposure is not None and exposure.slope is not None:
        slope, error = exposure.slope
        lines.append(
            f"Items in randomised slots follow popularity with exponent {slope:.2f}; the exponent of random "
            f"slots is 0 ± {error:.2f}."
        )
    lines.append(report.precision_loss)
    for row in report.reference_values.to_dict("records"):
        lines.append(_reference_sentence(row))
    return lines


def _reference_sentence(row: Mapping[object, object]) -> str:
    """Return a sentence that compares a reference value with its expectation from all other data."""
    model = row["model"]
    if row["reference"]:
        model = f"{model} / {row['reference']}"
    value = f"{row['value']:.3f} (standard error {row['std_error']:.3f})"
    expected = f"{row['expected']:.3f} (standard error {row['expected_error']:.3f})"
    verb = "differs significantly from" if row["disagrees"] else "does not differ significantly from"
    return (
        f"Reference value of {row['metric']} for {model}: {value}. All other data predict {expected}, and the value "
        f"{verb} this. An error of {row['detectable_error']:.3f} would be detected with 80% power."
    )


# ---------------------------------------------------------------- tables


def _describe_hidden(n_hidden: int) -> str:
    """Return the line below a table without its last recommenders."""
    if n_hidden <= 0:
        return ""
    count = f"and {n_hidden} more in"
    return InterfaceText(f"{count} .frame", shell=f"{count} --out all.csv")


def _metric_table(report: CorrectionReport, order: MetricOrder, digits: int) -> Table:
    """Return the table of one metric, sorted by AOA: estimates with intervals, and perhaps probabilities."""
    rows = report.frame[report.frame["metric"] == order.metric]
    half_widths = (rows["ci_high"] - rows["ci_low"]) / 2
    places = max(digits + 1, count_decimals(half_widths.tolist(), 1))
    columns = []
    for label in report.estimators:
        columns.append(
            _estimate_cells(rows[rows["estimator"] == label].set_index("model"), order, label, places)
        )

    header = ["recommender", *report.headers]
    if len(order.models) > 1 and order.has_probabilities:
        columns.append(_probability_cells(order))
        header.append("P(better than next)")
    model_cells = [Cell(model) for model in order.models]
    body = tuple(zip(model_cells, *columns, strict=True))
    n_hidden = len(body) - MAX_ROWS
    return Table(
        tuple(header),
        body,
        order.metric,
        words=frozenset(range(len(header))),
        n_rows=MAX_ROWS if n_hidden > 0 else None,
        rest=_describe_hidden(n_hidden),
        metric=order.metric,
    )


def _estimate_cells(rows: pd.DataFrame, order: MetricOrder, label: str, places: int) -> list[Cell]:
    cells = []
    ranked = rows.loc[list(order.models)]
    values = ranked["estimate"].tolist()
    lows = ranked["ci_low"].tolist()
    highs = ranked["ci_high"].tolist()
    for value, low, high in zip(values, lows, highs, strict=True):
        interval = f"[{format_fixed(low, places)}, {format_fixed(high, places)}]"
        if math.isnan(value):
            cells.append(Cell(interval, at=(low, value, high)))
            continue
        cells.append(
            Cell(
                format_fixed(value, places),
                interval,
                at=(low, value, high),
                short="" if label in SHORTENED else None,
            )
        )
    return cells


def _probability_cells(order: MetricOrder) -> list[Cell]:
    cells = []
    for row in range(len(order.models) - 1):
        value = float(order.p_better[row, row + 1])
        cells.append(Cell(format_probability(value)))
    return [*cells, Cell("")]  # nothing follows the last recommender
