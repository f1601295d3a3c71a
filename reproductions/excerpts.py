"""Write the short tables of the pages, whose numbers come from the CSV files of the complete tables.

    python -m reproductions.excerpts [--write]

The name of each short table ends with "-excerpt", and the page has a place for it. The commands that make the
complete tables write the CSV files in docs/tables; run this command after them.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from reproductions.tables import ROOT, markdown, write_tables

DOCS = ROOT / "docs"
TABLES = DOCS / "tables"
PART = " / "  # between the numbers of a cell
Key = tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column of a short table: the header, the file and column of its cells, and how a cell is written."""

    header: str
    file: str
    column: str
    part: int | None = None  # position in a cell with several numbers
    write: Callable[[str], str] = str


@dataclass(frozen=True)
class Excerpt:
    """A short table of a page: some rows and columns of complete tables.

    `rows` maps the values of the key columns, which are the first columns of every file, to a label.
    """

    page: str
    name: str
    title: str
    rows: Mapping[Key, str]
    columns: tuple[Column, ...]


def read_cells(file: str, n_keys: int) -> dict[Key, dict[str, str]]:
    """Return the rows of a file by the values of their first columns."""
    cells: dict[Key, dict[str, str]] = {}
    with (TABLES / file).open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        keys = (reader.fieldnames or [])[:n_keys]
        for row in reader:
            cells[tuple(row[key] for key in keys)] = row
    return cells


def read_cell(cells: Mapping[Key, Mapping[str, str]], key: Key, column: Column) -> str:
    """Return one cell, or one of its numbers, as the column writes it."""
    cell = cells[key][column.column]
    if column.part is not None:
        cell = cell.split(PART)[column.part]
    return column.write(cell)


def format_excerpt(excerpt: Excerpt) -> str:
    """Return the short table."""
    n_keys = len(next(iter(excerpt.rows)))
    files = {column.file: read_cells(column.file, n_keys) for column in excerpt.columns}
    rows = []
    for key, label in excerpt.rows.items():
        cells = [read_cell(files[column.file], key, column) for column in excerpt.columns]
        rows.append([label, *cells])
    header = [excerpt.title, *(column.header for column in excerpt.columns)]
    return markdown(header, rows)


# --- Evaluators -------------------------------------------------------------------------------------------

EVALUATOR_SCORES = "evaluators/scores.csv"
EVALUATOR_WARNINGS = "evaluators/evaluators-warnings.csv"
EVALUATOR_LOGS = {"coat": "Coat", "cm100k": "CM100K", "kuairand": "KuaiRand"}
SHOWN_EVALUATORS = {
    "AOA": "AOA",
    "SNIPS pooled, γ = 0": "SNIPS, γ = 0 (assumed)",
    "SNIPS pooled, γ = 1.55 (published)": "SNIPS, γ = 1.55 (published)",
    "SNIPS pooled, γ of lists": "SNIPS, γ fitted to recommendation lists",
    "SNIPS pooled, density ratio (100 users)": "SNIPS, weights fitted to 100 exposed users",
    "random sample (100 users)": "random sample of 100 users",
    "ppi (100 users)": "`ppi` with 100 users",
    "correct (100 users)": "`correct` with 100 users",
}


def format_tau(tau: float) -> str:
    """Return τ with two digits, a minus sign that is not a hyphen, and none before zero."""
    return f"{round(tau, 2) + 0.0:.2f}".replace("-", "−")


def list_always_warned() -> set[tuple[str, str]]:
    """Return the evaluators and logs with a warning on every split that the model does not fit the log."""
    warnings = pd.read_csv(TABLES / EVALUATOR_WARNINGS)
    is_always = warnings["splits with a warning"] == warnings["splits"]
    return set(zip(warnings.loc[is_always, "evaluator"], warnings.loc[is_always, "log"], strict=True))


def format_evaluators() -> str:
    """Return the error relative to AOA and Kendall's τ of a few evaluators, means over metrics."""
    scores = pd.read_csv(TABLES / EVALUATOR_SCORES)
    means = scores.groupby(["log", "evaluator"])[["relative_error", "tau"]].mean()
    always_warned = list_always_warned()
    rows = []
    for evaluator, label in SHOWN_EVALUATORS.items():
        errors = []
        taus = []
        for log in EVALUATOR_LOGS:
            mark = " (warned)" if (evaluator, log) in always_warned else ""
            errors.append(f"{100 * means.loc[(log, evaluator), 'relative_error']:.0f}{mark}")
            taus.append(f"{format_tau(means.loc[(log, evaluator), 'tau'])}{mark}")
        rows.append([label, *errors, *taus])
    header = ["evaluator"]
    header += [f"error, {log}, %" for log in EVALUATOR_LOGS.values()]
    header += [f"τ, {log}" for log in EVALUATOR_LOGS.values()]
    return markdown(header, rows)


# --- Protocols --------------------------------------------------------------------------------------------

N_MODEL_PAIRS = 21  # pairs of the seven recommenders of the study on twenty logs
NOT_COMPUTED = "–"
COUNT_SEPARATOR = " in "  # between the number of pairs and the number of comparisons


def write_pair_count(cell: str) -> str:
    """Return a number of pairs with the number of all pairs, of a cell with the number of comparisons."""
    if cell == NOT_COMPUTED:
        return "not computed"
    n_opposite, n_comparisons = cell.split(COUNT_SEPARATOR)
    n_pairs = N_MODEL_PAIRS * int(n_comparisons)
    return f"{n_opposite} of {n_pairs:,}"


def write_percentage(cell: str) -> str:
    """Return a share as a percentage."""
    return f"{100 * float(cell):.0f}%"


# --- Logs of what was shown -------------------------------------------------------------------------------

DETERMINISTIC = "exposure-logs/deterministic.csv"
RANDOM_POSITIONS = "exposure-logs/random-positions.csv"
ANSWERS_PAGE = "random-positions.md"
ACCURACY_PAGE = "exposure-logs-accuracy.md"
DETERMINISTIC_PARTS = {"error": "error, %", "coverage": "coverage, %", "tau": "Kendall τ"}  # in this order
LOG_KINDS = ("hidden", "rounds", "taste", "trust", "positions")
CLICK_SHARES = ("3", "10")  # random positions, %
SHOWN_METHODS = {
    ("AOA",): "AOA",
    ("power law, γ = 0",): "SNIPS, power law with γ = 0",
    ("ImpressionPropensity",): "SNIPS, `ImpressionPropensity`",
    ("correct",): "`correct`, all shown pairs",
    ("correct, incumbent known",): "`correct`, all shown pairs and a reference value",
    ("correct, random slots",): "`correct`, all shown pairs and 3% random positions",
    ("correct, random slots only",): "`correct`, 3% random positions only",
}
DESCRIBED_KINDS = {
    "hidden": "one version (`hidden`)",
    "rounds": "three versions (`rounds`)",
    "taste": "one version that knows which categories a user likes (`taste`)",
    "trust": "users also click what they do not like (`trust`)",
}
COMPARED_METHODS = {
    "AOA": "AOA",
    "SNIPS, `LoggedPropensity`": "weights by design",
    "`correct` with the random positions": "`correct`",
}


def make_impression_log_excerpt(name: str, part: int) -> Excerpt:
    """Return the short table of one of the numbers of each cell, for all kinds of logs."""
    columns = tuple(Column(f"`{kind}`", DETERMINISTIC, kind, part) for kind in LOG_KINDS)
    title = DETERMINISTIC_PARTS[name]
    return Excerpt(ACCURACY_PAGE, f"deterministic-{name}-excerpt", title, SHOWN_METHODS, columns)


def read_random_positions() -> dict[Key, dict[str, str]]:
    """Return the comparison of methods by kind, share of random positions and method."""
    return read_cells(RANDOM_POSITIONS, 3)


def format_answers_or_clicks() -> str:
    """Return τ of `correct` and of AOA if users answer, and if their clicks are recorded."""
    answers = read_cells(DETERMINISTIC, 1)
    clicks = read_random_positions()
    aoa, _, correct = COMPARED_METHODS
    rows = []
    for kind, label in DESCRIBED_KINDS.items():
        taus = [answers[method,][kind].split(PART)[2] for method in ("correct, random slots only", "AOA")]
        cells = [f"{taus[0]} ({taus[1]})"]
        for share in CLICK_SHARES:
            if (kind, share, correct) in clicks:
                taus = [clicks[kind, share, method]["Kendall τ"] for method in (correct, aoa)]
                cells.append(f"{taus[0]} ({taus[1]})")
            else:
                cells.append(NOT_COMPUTED)
        rows.append([label, *cells])
    header = ["simulated log", "answers, 3% random positions"]
    header += [f"clicks, {share}% random positions" for share in CLICK_SHARES]
    return markdown(header, rows)


def format_random_positions(columns: Mapping[str, str]) -> str:
    """Return columns of the comparison on logs with random positions, one row for each kind and share."""
    cells = read_random_positions()
    pairs = dict.fromkeys((kind, share) for kind, share, _ in cells)
    header = ["kind", "random positions"]
    header += [f"{label}, {method}" for label in columns.values() for method in COMPARED_METHODS.values()]
    rows = []
    for kind, share in pairs:
        numbers = [cells[kind, share, method][column] for column in columns for method in COMPARED_METHODS]
        rows.append([f"`{kind}`", f"{share}%", *numbers])
    return markdown(header, rows)


# --- Other pages ------------------------------------------------------------------------------------------

ORDER_KUAIRAND = "validation/order-kuairand.csv"
COAT = "validation/coat-snips-global.csv"
COAT_ORDER = "validation/coat-order-snips-global.csv"
DESIGNED_RECALL = "designed-exposure/designed-recall.csv"
DESIGNED_ATOP = "designed-exposure/designed-atop.csv"
LEADERBOARD = "reproductions/leaderboard.csv"
YANG = "reproductions/yang-summary.csv"
COAT_SNIPS = "reproductions/coat-snips.csv"
FIELD_SPLITS = "reproductions/field-splits.csv"
FIELD_POOLS = "reproductions/field-pools.csv"
FIELD_FINDINGS = "reproductions/field-findings.csv"
FIELD_FACTORS = "reproductions/field-factors.csv"
SEQUENTIAL = "reproductions/sequential.csv"

# On two pages: the publication that is repeated, and what its results mean for the choice of a protocol.
SPLITS_EXCERPT = Excerpt(
    page="reproductions.md",
    name="field-splits-excerpt",
    title="two splits that are compared",
    rows={
        ("RO_RS′ / RO_RS",): "nothing but the seed: a random tenth, drawn twice",
        ("RO_RS′ / RO_LS",): "how many: a random tenth or one random interaction, different seeds",
        ("RO_RS / RO_LS",): "how many: a random tenth or one random interaction, same seed",
        ("TO_RS / TO_LS",): "how many: the last tenth or the last interaction",
        ("RO_RS / TO_RS",): "which: a random tenth or the last tenth",
        ("RO_LS / TO_LS",): "which: one random interaction or the last interaction",
    },
    columns=(
        Column("Spearman correlation, 95%", FIELD_SPLITS, "SRC, 95% over logs"),
        Column("same first recommender", FIELD_SPLITS, "OR@1", write=write_percentage),
        Column("pairs in opposite order, of 21", FIELD_SPLITS, "inverted of 21"),
        Column("significantly opposite pairs", FIELD_SPLITS, "beyond", write=write_pair_count),
    ),
)

EXCERPTS = (
    SPLITS_EXCERPT,
    replace(SPLITS_EXCERPT, page="protocol-results.md"),
    *(make_impression_log_excerpt(name, part) for part, name in enumerate(DETERMINISTIC_PARTS)),
    Excerpt(
        page="validation.md",
        name="order-kuairand-excerpt",
        title="recommender",
        rows={
            (name,): name
            for name in (
                "EASE 500",
                "item-kNN 100",
                "EASE 10",
                "item-kNN 10",
                "SVD 4",
                "SVD 32",
                "popularity",
            )
        },
        columns=(
            Column("AOA in the log", ORDER_KUAIRAND, "recall@10: plain"),
            Column("SNIPS in the log, γ = 0", ORDER_KUAIRAND, "recall@10: γ = 0"),
            Column("randomly shown items", ORDER_KUAIRAND, "recall@10: random exposure"),
        ),
    ),
    Excerpt(
        page="validation.md",
        name="coat-excerpt",
        title="weights",
        rows={
            ("gamma = 0",): "γ = 0 (assumed)",
            ("gamma = 1",): "γ = 1 (assumed)",
            ("gamma = 3",): "γ = 3 (assumed)",
            ("gamma from lists",): "γ fitted to recommendation lists",
            ("published",): "published with the data",
            ("density ratio",): "density ratio, fitted to random exposure",
            ("random-sample",): "no weights: the random sample itself",
        },
        columns=(
            Column("error reduction, recall@5, %", COAT, "recall@5"),
            Column("error reduction, atop, %", COAT, "atop"),
            Column("change of τ, recall@5", COAT_ORDER, "recall@5"),
            Column("change of τ, atop", COAT_ORDER, "atop"),
        ),
    ),
    Excerpt(
        page="designed-exposure.md",
        name="designed-excerpt",
        title="log",
        rows={
            ("first simulator", "100", "random-sample"): "first simulator, random sample",
            ("first simulator", "100", "corrected"): "first simulator, bias-corrected",
            ("second simulator", "100", "random-sample"): "second simulator, random sample",
            ("second simulator", "100", "corrected"): "second simulator, bias-corrected",
            ("semi-synthetic KuaiRand", "100", "random-sample"): "KuaiRand, random sample",
            ("semi-synthetic KuaiRand", "100", "corrected"): "KuaiRand, bias-corrected",
        },
        columns=(
            Column("recall@10: error, uniform", DESIGNED_RECALL, "error, uniform"),
            Column("recall@10: error, lists", DESIGNED_RECALL, "error, lists"),
            Column("recall@10: reduction, %", DESIGNED_RECALL, "reduction, %"),
            Column("atop: reduction, %", DESIGNED_ATOP, "reduction, %"),
        ),
    ),
    Excerpt(
        page="reproductions.md",
        name="leaderboard-excerpt",
        title="log",
        rows={(log, "recall@20"): log for log in ("Gowalla", "Beauty", "Toys and Games", "Video Games")},
        columns=(
            Column("pairs", LEADERBOARD, "pairs"),
            Column("significant by AOA", LEADERBOARD, "significantly different by AOA"),
            Column(
                "same order with weights; opposite order",
                LEADERBOARD,
                "of these by weights: same; the other way",
            ),
            Column("P ≥ 0.95 by `correct`", LEADERBOARD, "same with P ≥ 0.95"),
        ),
    ),
    Excerpt(
        page="reproductions.md",
        name="yang-excerpt",
        title="recall@5, AOA → SNIPS",
        rows={(f"recall@5, {name}",): name for name in ("BPR", "PMF", "U-CML", "A-CML")},
        columns=(
            Column("published", YANG, "paper"),
            Column("change", YANG, "column 3"),
            Column("ours", YANG, "ours"),
            Column("change, ours", YANG, "column 5"),
        ),
    ),
    Excerpt(
        page="reproductions.md",
        name="coat-snips-excerpt",
        title="weights",
        rows={
            ("γ of the lists (the paper)",): "γ of the lists (as in the paper)",
            ("γ = 3",): "γ = 3",
            ("published",): "published with the data",
            ("density ratio",): "density ratio, fitted to random exposure",
            ("random-sample",): "no weights: the random sample itself",
            ("if unbiased",): "an unbiased estimator would reach",
        },
        columns=(
            Column("atop", COAT_SNIPS, "atop"),
            Column("recall@5", COAT_SNIPS, "recall@5"),
            Column("mean_dcg@5", COAT_SNIPS, "mean_dcg@5"),
        ),
    ),
    Excerpt(
        page="protocol-results.md",
        name="field-pools-excerpt",
        title="candidates, compared with all items",
        rows={
            ("full / uniform-10",): "10 items, sampled uniformly",
            ("full / uniform-50",): "50 items, sampled uniformly",
            ("full / uniform-100",): "100 items, sampled uniformly",
            ("full / popularity-10",): "10 items, sampled by popularity",
            ("full / popularity-50",): "50 items, sampled by popularity",
            ("full / popularity-100",): "100 items, sampled by popularity",
        },
        columns=(
            Column("Spearman correlation, 95%", FIELD_POOLS, "SRC, 95% over logs"),
            Column("same first recommender", FIELD_POOLS, "OR@1", write=write_percentage),
            Column("pairs in opposite order, of 21", FIELD_POOLS, "inverted of 21"),
            Column("significantly opposite pairs", FIELD_POOLS, "beyond", write=write_pair_count),
        ),
    ),
    Excerpt(
        page="protocol-results.md",
        name="field-findings-excerpt",
        title="statement",
        rows={
            (
                "Order matters more than hold-out: (RO_RS′, RO_LS) − (RO_RS, TO_RS)",
            ): "*which* (compared with a tenth held out) changes the ranking more than *how many*",
            (
                "… (RO_RS′, RO_LS) − (RO_LS, TO_LS)",
            ): "*which* (compared with one held out) changes the ranking more than *how many*",
            (
                "Hold-out matters, beyond another draw: (RO_RS′, RO_RS) − (RO_RS′, RO_LS)",
            ): "*how many* changes the ranking more than another random draw does",
            (
                "Sampling matters more than hold-out: (RO_RS′, RO_LS) − uniform-100",
            ): "100 uniformly sampled candidates change the ranking more than *how many*",
            (
                "Sampling matters more than hold-out: (RO_RS′, RO_LS) − popularity-100",
            ): "100 candidates sampled by popularity change the ranking more than *how many*",
            (
                "Sampling matters more than order: (RO_RS, TO_RS) − uniform-10",
            ): "10 uniformly sampled candidates change the ranking more than *which*",
            (
                "Sampling matters more than order: (RO_RS, TO_RS) − uniform-100",
            ): "100 uniformly sampled candidates change the ranking more than *which*",
            (
                "Sampling matters more than order: (RO_RS, TO_RS) − popularity-100",
            ): "100 candidates sampled by popularity change the ranking more than *which*",
            (
                "More candidates help: uniform-100 − uniform-50",
            ): "100 uniformly sampled candidates agree better with all items than 50",
            (
                "More candidates help: popularity-100 − popularity-50",
            ): "100 candidates sampled by popularity agree better with all items than 50",
            (
                "Uniform is better: uniform-100 − popularity-100",
            ): "100 uniformly sampled candidates agree better with all items than 100 sampled by popularity",
        },
        columns=(
            Column("difference of the correlations, 95%", FIELD_FINDINGS, "mean, 95% over logs"),
            Column("logs on which it is above 0", FIELD_FINDINGS, "logs above 0"),
        ),
    ),
    Excerpt(
        page="protocol-results.md",
        name="field-factors-excerpt",
        title="two rankings that are compared",
        rows={
            (
                "training: as it is / 5-core",
            ): "training with all interactions of the training part, or with its 5-core",
            (
                "target: first / last",
            ): "of the last 30% of each user's interactions, only the first or only the last one is evaluated",
        },
        columns=(
            Column("Spearman correlation, 95%", FIELD_FACTORS, "SRC, 95% over logs"),
            Column("same first recommender", FIELD_FACTORS, "OR@1", write=write_percentage),
            Column("pairs in opposite order, of 21", FIELD_FACTORS, "inverted of 21"),
            Column("logs", FIELD_FACTORS, "logs"),
        ),
    ),
    Excerpt(
        page="reproductions.md",
        name="sequential-excerpt",
        title="log, recommender",
        rows={
            ("MovieLens 100K", "Item-kNN"): "MovieLens 100K, item-kNN",
            ("MovieLens 100K", "EASE"): "MovieLens 100K, EASE",
            ("Amazon Instant Video", "EASE"): "Amazon Instant Video, EASE",
            ("Amazon Instant Video", "Markov chain"): "Amazon Instant Video, Markov chain",
            ("Office Products", "EASE"): "Office Products, EASE",
            ("Office Products", "Markov chain"): "Office Products, Markov chain",
        },
        columns=(
            Column("every step", SEQUENTIAL, "every step"),
            Column("leave-last-out", SEQUENTIAL, "leave-last-out"),
            Column("difference", SEQUENTIAL, "difference"),
        ),
    ),
)


def make_tables() -> dict[Path, dict[str, str]]:
    """Return the short tables by page and name."""
    tables: dict[Path, dict[str, str]] = {}
    tables[DOCS / "evaluators.md"] = {"evaluators-excerpt": format_evaluators()}
    tables[DOCS / ANSWERS_PAGE] = {"answers-or-clicks-excerpt": format_answers_or_clicks()}
    tables[DOCS / ACCURACY_PAGE] = {
        "random-positions-tau-excerpt": format_random_positions({"Kendall τ": "τ"}),
        "random-positions-values-excerpt": format_random_positions(
            {"error, %": "error, %", "coverage, %": "coverage, %"}
        ),
    }
    for excerpt in EXCERPTS:
        page = DOCS / excerpt.page
        tables.setdefault(page, {})[excerpt.name] = format_excerpt(excerpt)
    return tables


def main(arguments: list[str] | None = None) -> None:
    """Print the short tables, or write them into their pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    options = parser.parse_args(arguments)
    for page, tables in make_tables().items():
        if options.write:
            write_tables(tables, page)
        else:
            print("\n\n".join(tables.values()), end="\n\n")


if __name__ == "__main__":
    main()
