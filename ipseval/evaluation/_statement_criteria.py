"""Criteria of a statement on an offline evaluation, with their sources and the answers of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from ipseval.data.splits.split import GIVEN_AS_FRAMES
from ipseval.estimators.labels import display_name
from ipseval.evaluation._statement_notes import StatementNotes
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.report_content import ReportContent
from ipseval.metrics import Metric
from ipseval.reporting.formatting import LEVEL, format_level, format_p_value, format_percent
from ipseval.utils.checks import format_count
from ipseval.utils.notes import RESULT

MAX_PAIRS = 3  # of recommenders whose p-values a statement lists
SOURCES = {
    "TORS": "Jannach and Chen, editorial and submission policy on offline evaluation, ACM TORS",
    "Schnabel": "Schnabel, Where do we go from here? Guidelines for offline recommender evaluation, arXiv",
    "Wegmeth": "Wegmeth et al., PERSPECTIVES at RecSys 2023, CEUR 3476",
    "Konstan": "Konstan and Adomavicius, RepSys 2013, doi:10.1145/2532508.2532513",
    "Said": "Said and Bellogín, RecSys 2014, doi:10.1145/2645710.2645746",
    "Dacrema": "Ferrari Dacrema et al., ACM TOIS 39(2), 2021, doi:10.1145/3434185",
    "Ji": "Ji et al., ACM TOIS 41(3), 2023, doi:10.1145/3569930",
    "Krichene": "Krichene and Rendle, KDD 2020, doi:10.1145/3394486.3403226",
    "Canamares": "Cañamares, Castells and Moffat, Information Retrieval J. 23, 2020, doi:10.1007/s10791-020-09371-3",
    "Yang": "Yang et al., RecSys 2018, doi:10.1145/3240323.3240355",
    "Ihemelandu": "Ihemelandu and Ekstrand, PERSPECTIVES at RecSys 2021, CEUR 2955",
    "Zangerle": "Zangerle and Bauer, ACM Computing Surveys 55(8), 2022, doi:10.1145/3556536",
}


@dataclass(frozen=True, eq=False)
class Facts:
    """The evaluation and the notes of its authors, from which criteria are answered."""

    evaluation: Evaluation
    content: ReportContent
    notes: StatementNotes
    differences: pd.DataFrame  # paired tests of all pairs of recommenders; empty for a single one


@dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes
    ----------
    code : str
        Short name, such as "ties".
    section : str
        Heading under which it stands.
    question : str
        What a reader needs to know, as a noun phrase.
    sources : tuple of str
        Keys of `SOURCES`.
    answer : callable
        Returns the answer as a sentence; "" if neither the evaluation nor the notes contain it.
    remedy : str
        Where the authors can state it.
    recommender_key : str
        Key of the notes that every recommender needs; "" for other criteria.
    note : tuple of str
        Table and key of the notes that a complete answer needs in addition to the result; empty for other
        criteria.
    """

    code: str
    section: str
    question: str
    sources: tuple[str, ...]
    answer: Callable[[Facts], str]
    remedy: str
    recommender_key: str = ""
    note: tuple[str, str] | tuple[()] = ()


def _state_fact(table: str, key: str) -> Callable[[Facts], str]:
    """Return a function that answers from the notes alone."""
    return lambda facts: facts.notes.get_fact(table, key)


def _state_by_recommender(key: str) -> Callable[[Facts], str]:
    """Return a function that answers for each recommender from the notes."""

    def answer(facts: Facts) -> str:
        texts = facts.notes.get_by_recommender(key)
        return "; ".join(f"{model}: {text}" for model, text in texts.items())

    return answer


def _state_preprocessing(facts: Facts) -> str:
    """Return the preprocessing of the authors, followed by the rows that the evaluation counted."""
    text = facts.notes.get_fact("data", "preprocessing")
    counts = facts.evaluation.data
    is_of_data = ~counts["subject"].isin([*facts.evaluation.models, RESULT])
    rows = [f"{row['what']}: {row['count']:,}" for _, row in counts[is_of_data].iterrows()]
    if rows:
        counted = f"Counted by the evaluation: {'; '.join(rows)}"
        text = f"{text}. {counted}" if text else counted
    return text


def _state_size(facts: Facts) -> str:
    size = facts.content.size
    text = f"{format_count(size.n_positives, 'held-out interaction')} of {size.units}"
    counts = facts.evaluation._training_counts
    if counts is None:
        return text
    users = format_count(counts.activity.size, "user")
    items = format_count(counts.popularity.size, "item")
    training = format_count(int(counts.activity.sum()), "training interaction")
    return f"{users}, {items}, {training}; {text}"


def _state_hash(facts: Facts) -> str:
    data_hash = facts.evaluation._hash
    if data_hash is None:
        return ""
    return f"SHA-256 of the held-out pairs with their numbers of candidates: {data_hash}"


def _state_split(facts: Facts) -> str:
    """Return how the split was made: by ipseval, or as the authors state."""
    text = facts.notes.get_fact("split", "method")
    split = facts.content.split
    if split is not None and split.description and split.description != GIVEN_AS_FRAMES:
        text = f"{split.description}. {text}" if text else split.description
    return text


def _state_leakage(facts: Facts) -> str:
    text = facts.notes.get_fact("split", "leakage")
    split = facts.content.split
    if split is None or not split.n_test:
        return text
    share = format_percent(split.n_leaking / split.n_test, 1)
    measured = f"{split.n_leaking:,} of {split.n_test:,} test interactions ({share}) have later training interactions"
    return f"{measured}. {text}" if text else measured


def _state_seed(facts: Facts) -> str:
    text = facts.notes.get_fact("split", "seed")
    if text.isdecimal():
        return f"seed {text}"
    if text:
        return text
    split = facts.content.split
    is_known = split is not None and split.description and split.description != GIVEN_AS_FRAMES
    if is_known and split is not None and not split.is_random:
        return "the split is not random"
    return ""


def _state_cold(facts: Facts) -> str:
    """Return the evaluated users and items without training interactions."""
    cold_start = facts.evaluation._measure_cold_start()
    if cold_start is None:
        return ""
    share = format_percent(cold_start.n_positives_of_users / cold_start.n_all_positives, 1)
    users = f"{cold_start.n_users:,} of {format_count(cold_start.n_all_users, 'evaluated user')}"
    items = f"{cold_start.n_items:,} of {format_count(cold_start.n_all_items, 'evaluated item')}"
    text = f"{users} ({share} of the held-out interactions) and {items} have no training interaction"
    n_excluded = facts.content.size.n_without_propensity
    if n_excluded:
        text += f"; {format_count(n_excluded, 'held-out interaction')} without a propensity left out of all estimates"
    return text


def _state_candidates(facts: Facts) -> str:
    return facts.content.candidates


def _state_ties(facts: Facts) -> str:
    """Return the tie rule of the request, or of each metric."""
    rule = facts.evaluation.provenance.get("ties")
    if rule is None:
        return ""
    if rule != "default":
        return f"{rule} rank of tied items"
    rules: dict[str, list[str]] = {}
    for metric in facts.evaluation.definitions[0]:
        rules.setdefault(metric.default_ties, []).append(metric.label)
    words = {"expected": "expectation over random orders of tied items", "mean": "mean rank of tied items"}
    parts = [f"{words.get(name, name)} ({', '.join(labels)})" for name, labels in rules.items()]
    return "; ".join(parts)


def _state_missing_lists(facts: Facts) -> str:
    """Return the treatment of users without a list, and the counts of lists."""
    option = facts.evaluation.provenance.get("missing_lists")
    if option is None:
        return ""
    words = {
        "zero": "users without a list, and positions beyond a list, count as misses",
        "drop": "users without a list of some recommender are left out of all",
        "raise": "every user has a list of every recommender",
    }
    text = words[str(option)]
    counts = facts.evaluation.data
    rows = counts[counts["subject"].isin(facts.evaluation.models)]
    parts = [f"{row['subject']}: {row['what']}: {row['count']:,}" for _, row in rows.iterrows()]
    if parts:
        text += f" ({'; '.join(parts)})"
    return text


def _state_metrics(facts: Facts) -> str:
    definitions = [_write_definition(metric) for metric in facts.evaluation.definitions[0]]
    return "; ".join(definitions)


def _write_definition(metric: Metric) -> str:
    return f"{metric.label} = {metric.definition.formula} (left out: {metric.definition.undefined})"


def _state_estimators(facts: Facts) -> str:
    """Return each estimator with its average and its guarantee."""
    groups = facts.evaluation.frame.groupby(["estimator", "estimand", "claim"], sort=False)["metric"]
    parts = []
    for (estimator, estimand, claim), metrics in groups:
        parts.append(
            f"{display_name(str(estimator))}, {estimand}: {claim} ({', '.join(dict.fromkeys(metrics))})"
        )
    return "; ".join(parts)


def _state_bias(facts: Facts) -> str:
    """Return the conclusion with its assumption on exposure, and the propensity."""
    text = facts.evaluation.verdict
    propensity = facts.evaluation.propensity
    if propensity is None:
        return f"No propensity is used. {text}".strip()
    kind = "probabilities" if propensity.is_probability else "known up to a constant factor"
    return f"Propensity: {propensity.model}, {kind}. {text}".strip()


def _state_intervals(facts: Facts) -> str:
    method = facts.evaluation.provenance.get("interval")
    if method is None:
        return ""
    words = {
        "normal": "from the standard error over users",
        "percentile": "percentile bootstrap over users",
        "bca": "bias-corrected and accelerated bootstrap over users",
    }
    text = f"{format_level(facts.evaluation.confidence_level)} confidence intervals, {words[str(method)]}"
    if facts.evaluation.provenance.get("refit"):
        text += ", with the propensity refitted in each resample"
    return text


def _state_significance(facts: Facts) -> str:
    """Return the number of significant differences of each metric, or the p-values of few pairs."""
    differences = facts.differences
    if differences.empty:
        return ""
    parts = []
    for (metric, estimator), rows in differences.groupby(["metric", "estimator"], sort=False):
        name = f"{metric}, {display_name(str(estimator))}"
        if len(rows) <= MAX_PAIRS:
            pairs = [
                f"{row['model']} against {row['reference']} {format_p_value(row['p_adjusted'])}"
                for row in rows.to_dict("records")
            ]
            parts.append(f"{name}: {', '.join(pairs)}")
            continue
        n_significant = int((rows["p_adjusted"] < LEVEL).sum())
        parts.append(f"{name}: {n_significant} of {len(rows)} pairs differ")
    n_pairs = len(differences.drop_duplicates(["model", "reference"]))
    return (
        f"paired t-tests over users, level {LEVEL:g}, Holm correction over {format_count(n_pairs, 'pair')} of "
        f"recommenders within each metric and estimator. {'; '.join(parts)}"
    )


def _state_power(facts: Facts) -> str:
    """Return the differences that the tests find with 80% power."""
    differences = facts.differences
    if differences.empty:
        return ""
    parts = []
    for (metric, estimator), rows in differences.groupby(["metric", "estimator"], sort=False):
        detectable = rows["minimum_detectable_difference"].dropna()
        if detectable.empty:
            continue
        text = f"{detectable.min():.2g}"
        if len(detectable) > 1:
            text += f" to {detectable.max():.2g}"
        parts.append(f"{metric}, {display_name(str(estimator))}: {text}")
    if not parts:
        return ""
    n_users = int(differences["n_users"].max())
    return f"smallest differences found with 80% power by tests over {n_users:,} users: {'; '.join(parts)}"


def _state_versions(facts: Facts) -> str:
    record = facts.evaluation._record
    return ", ".join(
        f"{name} {record[name]}" for name in ("ipseval", "python", "numpy", "pandas") if record.get(name)
    )


def collect_differences(evaluation: Evaluation) -> pd.DataFrame:
    """Return the paired tests of all pairs; an empty frame for a single recommender."""
    if len(evaluation.models) < 2:
        return pd.DataFrame()
    return evaluation.compare()


def _by_recommender(key: str) -> str:
    """Return where a fact on each recommender can be stated."""
    return f"{key} in [recommenders.NAME] of the notes, for every recommender"


DATA = "Data"
SPLIT = "Split"
RANKING = "Ranking and metrics"
RECOMMENDERS = "Recommenders"
INFERENCE = "Inference"
REPRODUCTION = "Reproduction"
SPLIT_BY_IPSEVAL = "or split the log by ipseval"
WITH_SPLIT = "evaluate with a split"

CRITERIA: tuple[Criterion, ...] = (
    Criterion(
        code="data-source",
        section=DATA,
        question="source and version of the data",
        sources=("TORS", "Konstan"),
        answer=_state_fact("data", "source"),
        remedy="source in [data] of the notes",
    ),
    Criterion(
        code="data-access",
        section=DATA,
        question="place and licence of the data",
        sources=("TORS",),
        answer=_state_fact("data", "access"),
        remedy="access in [data] of the notes",
    ),
    Criterion(
        code="preprocessing",
        section=DATA,
        question="filters, thresholds and their effect",
        sources=("TORS", "Schnabel"),
        answer=_state_preprocessing,
        remedy="preprocessing in [data] of the notes",
        note=("data", "preprocessing"),
    ),
    Criterion(
        code="size",
        section=DATA,
        question="numbers of users, items and interactions",
        sources=("Zangerle",),
        answer=_state_size,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="data-hash",
        section=DATA,
        question="identity of the evaluated data",
        sources=("TORS",),
        answer=_state_hash,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="split",
        section=SPLIT,
        question="how the data were split",
        sources=("TORS", "Said"),
        answer=_state_split,
        remedy=f"method in [split] of the notes, {SPLIT_BY_IPSEVAL}",
    ),
    Criterion(
        code="leakage",
        section=SPLIT,
        question="temporal leakage",
        sources=("Ji",),
        answer=_state_leakage,
        remedy="leakage in [split] of the notes, or evaluate a split with timestamps",
    ),
    Criterion(
        code="validation",
        section=SPLIT,
        question="data on which recommenders were tuned",
        sources=("Dacrema", "TORS"),
        answer=_state_fact("split", "validation"),
        remedy="validation in [split] of the notes",
    ),
    Criterion(
        code="split-seed",
        section=SPLIT,
        question="seed of the split",
        sources=("TORS", "Wegmeth"),
        answer=_state_seed,
        remedy="seed in [split] of the notes",
    ),
    Criterion(
        code="cold",
        section=SPLIT,
        question="evaluated users and items without training data",
        sources=("Said",),
        answer=_state_cold,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="candidates",
        section=RANKING,
        question="items that compete",
        sources=("Krichene", "Canamares"),
        answer=_state_candidates,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="ties",
        section=RANKING,
        question="treatment of equal scores",
        sources=("Canamares",),
        answer=_state_ties,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="missing-lists",
        section=RANKING,
        question="users without a list and short lists",
        sources=("Canamares", "Said"),
        answer=_state_missing_lists,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="metrics",
        section=RANKING,
        question="definitions of the metrics",
        sources=("Said", "TORS"),
        answer=_state_metrics,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="estimators",
        section=RANKING,
        question="averages and their guarantees",
        sources=("Zangerle", "Yang"),
        answer=_state_estimators,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="exposure-bias",
        section=RANKING,
        question="bias from what users were shown",
        sources=("Yang",),
        answer=_state_bias,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="implementations",
        section=RECOMMENDERS,
        question="implementation of each recommender",
        sources=("Said", "TORS"),
        answer=_state_by_recommender("implementation"),
        remedy=_by_recommender("implementation"),
        recommender_key="implementation",
    ),
    Criterion(
        code="tuning",
        section=RECOMMENDERS,
        question="how each recommender was tuned",
        sources=("TORS", "Dacrema", "Schnabel"),
        answer=_state_by_recommender("tuning"),
        remedy=_by_recommender("tuning"),
        recommender_key="tuning",
    ),
    Criterion(
        code="hyperparameters",
        section=RECOMMENDERS,
        question="hyperparameters of each recommender",
        sources=("Dacrema", "TORS"),
        answer=_state_by_recommender("hyperparameters"),
        remedy=_by_recommender("hyperparameters"),
        recommender_key="hyperparameters",
    ),
    Criterion(
        code="training-seeds",
        section=RECOMMENDERS,
        question="randomness of training",
        sources=("TORS",),
        answer=_state_by_recommender("seeds"),
        remedy=_by_recommender("seeds"),
        recommender_key="seeds",
    ),
    Criterion(
        code="intervals",
        section=INFERENCE,
        question="uncertainty of the values",
        sources=("Schnabel", "Ihemelandu"),
        answer=_state_intervals,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="significance",
        section=INFERENCE,
        question="tests of differences with their correction",
        sources=("Ihemelandu",),
        answer=_state_significance,
        remedy="evaluate at least two recommenders",
    ),
    Criterion(
        code="power",
        section=INFERENCE,
        question="differences that the tests can find",
        sources=("Ihemelandu", "Schnabel"),
        answer=_state_power,
        remedy="evaluate at least two recommenders",
    ),
    Criterion(
        code="versions",
        section=REPRODUCTION,
        question="versions of the evaluation software",
        sources=("TORS",),
        answer=_state_versions,
        remedy=WITH_SPLIT,
    ),
    Criterion(
        code="code",
        section=REPRODUCTION,
        question="code of the experiments",
        sources=("TORS", "Konstan"),
        answer=_state_fact("environment", "code"),
        remedy="code in [environment] of the notes",
    ),
)
