"""Tables, the figure and the raw rows of the benchmark."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from reproductions.evaluators.comparison import (
    GROUPS,
    ScoresByLog,
    compare_errors,
    compare_tau,
    find_winner,
    measure_agreement,
    rank_evaluators,
)
from reproductions.evaluators.context import METRICS
from reproductions.evaluators.exposure_evaluators import SAMPLES
from reproductions.evaluators.registry import EVALUATORS
from reproductions.evaluators.scores import (
    EvaluatorScores,
    LogResults,
    Z,
    compute_differences,
    compute_tau_ceiling,
)
from reproductions.tables import markdown

FLOAT_FORMAT = "%.5g"
# What pages and figures call the logs; other logs keep their names.
LOG_LABELS = {"coat": "Coat", "cm100k": "CM100K", "kuairand": "KuaiRand"}
Interval = tuple[float, float, float]


def format_percent(interval: Interval) -> str:
    """Return a share and its interval in per cent, such as 23 (12–34); the limits are not below 0."""
    value, low, high = interval
    if np.isnan(value):
        return "–"
    if np.isnan(low):
        return f"{100 * value:.0f}"
    return f"{100 * value:.0f} ({100 * max(low, 0):.0f}–{100 * high:.0f})"


def format_number(interval: Interval) -> str:
    """Return a number and its interval, such as 0.52 (0.31 to 0.73)."""
    value, low, high = interval
    if np.isnan(value):
        return "–"
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def format_tau(interval: Interval) -> str:
    """Return Kendall's τ and its interval within [−1, 1]."""
    value, low, high = interval
    return format_number((value, max(low, -1.0), min(high, 1.0)))


def format_mean_percent(values: np.ndarray) -> str:
    """Return the mean of shares in per cent."""
    if np.isnan(values).all():
        return "–"
    return f"{100 * np.nanmean(values):,.0f}"


def tabulate_log(results: LogResults, scores: Mapping[str, EvaluatorScores]) -> str:
    """Return the table of one log, one row per evaluator that gave something."""
    rows = []
    for name, score in scores.items():
        if name in results.refusals:
            continue
        width = score.half_width / score.mean_truth
        error = score.relative_error
        places = range(len(results.metrics))
        rows.append((
            name,
            score.evaluator.needs,
            format_percent(error.average()),
            " / ".join(format_mean_percent(error.value[[place]]) for place in places),
            " / ".join(format_mean_percent(score.error_of_truth[[place]]) for place in places),
            format_tau(score.tau.average()),
            format_percent(score.sign_errors.average()),
            format_mean_percent(score.coverage),
            format_mean_percent(width),
        ))  # fmt: skip
    header = (
        results.log, "needs", "error, % of AOA's", f"by {' / '.join(results.metrics)}",
        "error, % of the truth", "Kendall τ", "sign errors, %", "coverage, %", "half-width, % of the truth",
    )  # fmt: skip
    return markdown(header, rows)


def tabulate_sizes(all_results: Sequence[LogResults], scores: ScoresByLog) -> str:
    """Return the sizes of the parts of each log, the error of AOA, and the τ that a perfect evaluator has."""
    rows = []
    for results in all_results:
        counts = results.counts
        truth = results.truth["interactions"]
        ceilings = compute_ceilings(results)
        errors = scores[results.log]["AOA"].error.value
        means = truth.value.mean(axis=(0, 1))
        cells = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)]
        rows.append((
            results.log,
            f"{counts['n_training']:,.0f}",
            f"{counts['n_held_out']:,.0f}",
            f"{counts['n_liked_by_seen_users']:,.0f} of {counts['n_seen_users']:,.0f} users",
            f"{counts['n_truth_liked']:,.0f} of {counts['n_truth_users']:,.0f} users",
            " / ".join(cells),
            " / ".join(f"{ceiling:.2f}" for ceiling in ceilings),
        ))  # fmt: skip
    header = (
        "log", "training", "held out, seen", "liked random items, seen", "liked random items, truth",
        f"mean truth ± error of AOA: {' / '.join(all_results[0].metrics)}", "highest τ",
    )  # fmt: skip
    return markdown(header, rows)


def compute_ceilings(results: LogResults) -> list[float]:
    """Return the expected τ of a perfect evaluator of the mean over interactions, one per metric."""
    tau_of_halves = results.truth["interactions"].tau_of_halves.mean(axis=0)
    return [compute_tau_ceiling(tau) for tau in tau_of_halves]


def tabulate_warnings(all_results: Sequence[LogResults]) -> str:
    """Return on how many splits each evaluator warned that its model does not fit the log.

    The text is empty if no evaluator can warn.
    """
    rows = []
    for results in all_results:
        for name, (n_warned, n_splits) in results.warnings.items():
            rows.append((results.log, name, f"{n_warned}", f"{n_splits}"))
    if not rows:
        return ""
    return markdown(("log", "evaluator", "splits with a warning", "splits"), rows)


def tabulate_winners(all_results: Sequence[LogResults], scores: ScoresByLog) -> str:
    """Return, by log and metric, the evaluator with the smallest error for each kind of data at hand."""
    rows = []
    for results in all_results:
        for position, label in enumerate(results.metrics):
            cells = []
            for needs in GROUPS.values():
                winner = find_winner(scores[results.log], needs, position)
                others = f"{len(winner.ties)} of {winner.n_compared - 1} tie"
                cells.append(f"{winner.name}: {format_percent(winner.relative_error)}; {others}")
            rows.append((f"{results.log}, {label}", *cells))
    return markdown(("log, metric", *GROUPS), rows)


def tabulate_ties(all_results: Sequence[LogResults], scores: ScoresByLog) -> str:
    """Return the names of the evaluators that are not significantly worse than the winner."""
    rows = []
    for results in all_results:
        for position, label in enumerate(results.metrics):
            for group, needs in GROUPS.items():
                winner = find_winner(scores[results.log], needs, position)
                rows.append((results.log, label, group, winner.name, "; ".join(winner.ties)))
    return markdown(("log", "metric", "data at hand", "smallest error", "not significantly worse"), rows)


def tabulate_order(all_results: Sequence[LogResults], scores: ScoresByLog) -> str:
    """Return how many evaluators order recommenders better or worse than AOA, and the best of them."""
    rows = []
    for results in all_results:
        by_name = scores[results.log]
        differences = {}
        for name in by_name:
            difference = compare_tau(by_name, name)
            if not np.isnan(difference[0]) and not name.startswith("AOA"):
                differences[name] = difference
        better = [name for name, (_, low, _) in differences.items() if low > 0]
        worse = [name for name, (_, _, high) in differences.items() if high < 0]
        best = max(differences, key=lambda name: differences[name][0])
        lowest = min(differences, key=lambda name: differences[name][0])
        rows.append((
            results.log,
            format_tau(by_name["AOA"].tau.average()),
            f"{np.mean(compute_ceilings(results)):.2f}",
            f"{len(better)} of {len(differences)}",
            f"{best}: {format_number(differences[best])}",
            f"{len(worse)} of {len(differences)}",
            f"{lowest}: {format_number(differences[lowest])}",
        ))  # fmt: skip
    header = (
        "log", "τ of AOA", "highest τ", "significantly better", "largest gain of τ", "significantly worse",
        "largest loss of τ",
    )  # fmt: skip
    return markdown(header, rows)


def tabulate_gain_of_correct(scores: ScoresByLog) -> str:
    """Return the error and τ of `correct` less those of the random sample, with paired intervals, by log.

    The text is empty if no log has these evaluators.
    """
    rows = []
    for log, by_name in scores.items():
        for sample in SAMPLES.values():
            name = f"correct ({sample})"
            baseline = f"random sample ({sample})"
            if name not in by_name or baseline not in by_name:
                continue
            difference = compare_errors(by_name, name, baseline)
            cells = [format_points(difference.take(place)) for place in range(difference.value.size)]
            rows.append((
                f"{LOG_LABELS.get(log, log)}, {sample}",
                format_points(difference.average()),
                *cells,
                format_number(compare_tau(by_name, name, baseline)),
            ))  # fmt: skip
    if not rows:
        return ""
    header = ("log, exposed users", "mean of metrics", *METRICS, "change of Kendall τ")
    return typeset_minus(markdown(header, rows))


def typeset_minus(text: str) -> str:
    """Return the text with 0.00 in place of -0.00, and with − in place of the hyphen of other numbers."""
    return re.sub(r"-(?=\d)", "−", re.sub(r"-(0\.0+)(?!\d)", r"\1", text))


def format_points(interval: Interval) -> str:
    """Return a difference of shares in percentage points with its interval, such as -8.11 (-12.05 to -4.20)."""
    value, low, high = (100 * number for number in interval)
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def tabulate_agreement(scores: ScoresByLog) -> str:
    """Return Kendall's W over all logs and without each of them."""
    rows = [(name, f"{value:.2f}") for name, value in measure_agreement(scores).items()]
    return markdown(("logs", "Kendall's W"), rows)


def tabulate_ranks(scores: ScoresByLog) -> str:
    """Return the ranks of evaluators on each log, and the range of their position when a log is left out."""
    frame = rank_evaluators(scores)
    # With one log its ranks are the positions, and no log can be left out of two.
    n_columns = {1: 2, 2: 4}.get(len(scores), len(scores) + 3)
    rows = []
    for name, row in frame.iterrows():
        ranks = [f"{row[log]:g}" for log in scores]
        row_range = f"{row['lowest']:g}–{row['highest']:g}"
        rows.append((str(name), *ranks, f"{row['position']:g}", row_range)[:n_columns])
    header = ("evaluator", *scores, "position", "position without one log, range")
    return markdown(header[:n_columns], rows)


def tabulate_citations(names: Sequence[str]) -> str:
    """Return the estimand, the data and the citation of each evaluator."""
    rows = []
    for name in names:
        evaluator = EVALUATORS[name]
        rows.append((name, evaluator.estimand, evaluator.needs, evaluator.citation))
    return markdown(("evaluator", "mean over", "needs", "stated in"), rows)


def list_rows(all_results: Sequence[LogResults]) -> pd.DataFrame:
    """Return the raw estimates: one row per log, split, evaluator, model and metric, with the truth as rows."""
    parts = []
    for results in all_results:
        for estimand, truth in results.truth.items():
            values = np.stack([truth.value, truth.value - Z * truth.error, truth.value + Z * truth.error])
            parts.append(unfold(results, values, "truth", estimand))
        for name, values in results.estimates.items():
            if name not in results.refusals:
                parts.append(unfold(results, values, name, EVALUATORS[name].estimand))
    return pd.concat(parts, ignore_index=True)


def unfold(results: LogResults, values: np.ndarray, name: str, estimand: str) -> pd.DataFrame:
    """Return one row per split, model and metric from an array (3, n_splits, n_models, n_metrics)."""
    index = pd.MultiIndex.from_product(
        [results.splits, results.models, results.metrics], names=["split", "model", "metric"]
    )
    columns = {column: part.ravel() for column, part in zip(("estimate", "low", "high"), values, strict=True)}
    frame = pd.DataFrame(columns, index=index).reset_index()
    frame.insert(0, "log", results.log)
    frame.insert(2, "evaluator", name)
    frame.insert(3, "estimand", estimand)
    return frame


def list_pairs(all_results: Sequence[LogResults]) -> pd.DataFrame:
    """Return the true differences of pairs of models with their standard errors."""
    parts = []
    for results in all_results:
        pairs = [f"{results.models[first]} − {results.models[second]}" for first, second in results.pairs]
        index = pd.MultiIndex.from_product(
            [results.splits, pairs, results.metrics], names=["split", "pair", "metric"]
        )
        for estimand, truth in results.truth.items():
            frame = pd.DataFrame(
                {
                    "difference": compute_differences(truth.value).ravel(),
                    "std_error": truth.difference_error.ravel(),
                },
                index=index,
            ).reset_index()
            frame.insert(0, "log", results.log)
            frame.insert(1, "estimand", estimand)
            parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as CSV, compressed without a time stamp, so that equal frames give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = frame.to_csv(index=False, float_format=FLOAT_FORMAT, lineterminator="\n")
    content = text.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    path.write_bytes(content)


def draw_errors(scores: ScoresByLog, path: Path) -> None:
    """Draw the error of the level and the change of τ of each evaluator, with 95% intervals, by log."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    names = list_drawn_evaluators(scores)
    with pyplot.rc_context({"svg.hashsalt": "evaluators", "font.size": 9}):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(9, 0.8 + 0.3 * len(names)), layout="constrained", sharey=True
        )
        for number, (log, by_name) in enumerate(scores.items()):
            shift = 0.22 * (number - (len(scores) - 1) / 2)
            height = np.arange(len(names)) + shift
            errors = 100 * np.array([by_name[name].relative_error.average() for name in names])
            changes = np.array([compare_tau(by_name, name) for name in names])
            label = LOG_LABELS.get(log, log)
            draw_intervals(left, errors, height, f"C{number}", label)
            draw_intervals(right, changes, height, f"C{number}", label)
        left.set_yticks(np.arange(len(names)), names)
        left.invert_yaxis()
        left.set_xlim(0, 130)
        left.axvline(100, color="gray", linewidth=0.8, linestyle=":")
        right.axvline(0, color="gray", linewidth=0.8, linestyle=":")
        left.set_xlabel("error, % of AOA's (mean over metrics)")
        right.set_xlabel("change of Kendall τ against AOA")
        right.legend(loc="upper right", frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def draw_intervals(axes: object, intervals: np.ndarray, height: np.ndarray, color: str, label: str) -> None:
    """Draw values with their intervals, (n, 3), at some heights."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    value, low, high = intervals.T
    axes.errorbar(
        value,
        height,
        xerr=[value - low, high - value],
        fmt="o",
        markersize=3,
        linewidth=1,
        color=color,
        label=label,
    )


def list_drawn_evaluators(scores: ScoresByLog) -> list[str]:
    """Return the evaluators of the mean over interactions that have point estimates on some log."""
    names = []
    for name in next(iter(scores.values())):
        if EVALUATORS[name].estimand != "interactions" or name == "AOA":
            continue
        if any(not np.isnan(by_name[name].relative_error.value).all() for by_name in scores.values()):
            names.append(name)
    return names


def make_tables(all_results: Sequence[LogResults], scores: ScoresByLog) -> dict[str, str]:
    """Return all tables of the page by name."""
    tables = {
        "evaluators-logs": tabulate_sizes(all_results, scores),
        "evaluators-winners": tabulate_winners(all_results, scores),
        "evaluators-ties": tabulate_ties(all_results, scores),
        "evaluators-order": tabulate_order(all_results, scores),
        "evaluators-citations": tabulate_citations(list(next(iter(scores.values())))),
    }
    gain_of_correct = tabulate_gain_of_correct(scores)
    if gain_of_correct:
        tables["evaluators-gain"] = gain_of_correct
    warned = tabulate_warnings(all_results)
    if warned:
        tables["evaluators-warnings"] = warned
    if len(all_results) > 1:
        tables["evaluators-all-ranks"] = tabulate_ranks(scores)
        tables["evaluators-agreement"] = tabulate_agreement(scores)
    for results in all_results:
        tables[f"evaluators-{results.log}"] = tabulate_log(results, scores[results.log])
    return tables
