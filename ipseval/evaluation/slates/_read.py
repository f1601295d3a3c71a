"""Readers of impressions, and of runs with judgements, as tidy frames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_models, counted, examples, warn_user

PathText: TypeAlias = str | PathLike[str]
MIND = ("query", "user", "time", "history", "shown")
RUNS = {6: ("query", "q0", "item", "rank", "score", "tag"), 3: ("query", "item", "rank")}


def read_mind(path: PathText) -> pd.DataFrame:
    """Return the impressions of a file in the layout of MIND's behaviors.tsv, one row for each listed item.

    Lines hold impression id, user, time, history and the items shown, as in "N1-1 N2-0", with tabs between
    and no header. The files of the test part have no labels, and are refused.

    Returns
    -------
    DataFrame
        Columns query, user, item, label, position (1, 2, … in the order of the file, which is no order of
        showing where the items were shuffled, as in MIND), time, history.

    Raises
    ------
    InputError
        For a file of another layout, and items without a label, with the line of the first.

    References
    ----------
    Wu et al., MIND: A Large-scale Dataset for News Recommendation, ACL 2020,
    doi 10.18653/v1/2020.acl-main.331.
    """
    table = _table(
        path, "\t", (len(MIND),), "impression id, user, time, history and items, with tabs between"
    )
    table.columns = pd.Index(MIND)
    shown = [text.split() for text in table["shown"].tolist()]
    length = np.array([len(one) for one in shown], dtype=np.int64)
    line = np.repeat(np.arange(length.size), length)
    parts = [entry.rpartition("-") for one in shown for entry in one]
    bad = [number for number, (item, _, label) in enumerate(parts) if not item or label not in ("0", "1")]
    if bad or not parts:
        at = 1 + int(line[bad[0]]) if bad else 1
        raise InputError(
            f"{path}, line {at}: {len(bad):,} of {len(parts):,} items have no label; expected item-1 or "
            "item-0, as in 'N1-1 N2-0'. Impressions of a test part without labels cannot be evaluated."
        )
    first = np.cumsum(length) - length
    return pd.DataFrame(
        {
            **{name: table[name].to_numpy()[line] for name in ("query", "user")},
            "item": [item for item, _, _ in parts],
            "label": [int(label) for _, _, label in parts],
            "position": np.arange(line.size) - first[line] + 1,
            **{name: table[name].to_numpy()[line] for name in ("time", "history")},
        }
    )


def read_trec(qrels: PathText, runs: Mapping[str, PathText]) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the pool of judged and retrieved items with labels, and the scores of every run.

    The candidates of a query are what was judged or retrieved by any of the runs. Evaluate with
    `evaluate_slates(scores, pool, unscored="miss")`: what a run did not retrieve follows its list.

    Parameters
    ----------
    qrels : path
        Judgements: query, iteration, item, relevance, with spaces or tabs between.
    runs : mapping
        Name -> path of a run: query, Q0, item, rank, score, tag; or query, item, rank, as MS MARCO has it.
        Where scores are given they rank; their ties are ties.

    Returns
    -------
    pool : DataFrame
        Columns query, item, label; ids are text. What is not judged, and what is judged below 0, has label 0.
    scores : dict
        Name -> DataFrame with columns query, item, score.

    Raises
    ------
    InputError
        For files of another layout, relevance that is no number, and runs without a judged query.

    Warns
    -----
    DataWarning
        With the number of queries that no run has, or that nobody judged, which are left out.
    """
    check_models(runs, "runs", "path")
    judged = _table(qrels, r"\s+", (4,), "query, iteration, item, relevance")
    judged.columns = pd.Index(["query", "iteration", "item", "label"])
    _check_once(judged, qrels)
    judged["label"] = _numbers(judged["label"], qrels, "relevance").clip(lower=0)
    scores = {name: _run(path) for name, path in runs.items()}
    known = set(judged["query"])
    retrieved = set().union(*(set(one["query"]) for one in scores.values()))
    if not known & retrieved:
        raise InputError(f"no query of the runs is judged ({examples(sorted(retrieved))}); see {qrels}.")
    lost = {"no run has": known - retrieved, "nobody judged": retrieved - known}
    for why, queries in lost.items():
        if queries:
            named = f"{counted(len(queries), 'query')} that {why} ({examples(sorted(queries))})"
            warn_user(f"left out: {named}.", DataWarning)
    scores = {name: one[one["query"].isin(known)].reset_index(drop=True) for name, one in scores.items()}
    pairs = ["query", "item"]
    pool = pd.concat([judged[[*pairs, "label"]], *(one[pairs] for one in scores.values())])
    pool = pool[pool["query"].isin(retrieved)].fillna({"label": 0.0})
    pool = pool.drop_duplicates(pairs)  # judgements stand first
    return pool.sort_values(pairs, ignore_index=True), scores


def _run(path: PathText) -> pd.DataFrame:
    """Return query, item and score of one run."""
    table = _table(path, r"\s+", tuple(RUNS), "query, Q0, item, rank, score, tag, or query, item, rank")
    table.columns = pd.Index(RUNS[table.shape[1]])
    if "score" in table:
        table["score"] = _numbers(table["score"], path, "score")
    else:
        table["score"] = -_numbers(table["rank"], path, "rank")
    _check_once(table, path)
    return table[["query", "item", "score"]]


def _check_once(table: pd.DataFrame, path: PathText) -> None:
    """Raise `InputError` when an item occurs again in its query."""
    again = np.flatnonzero(table.duplicated(["query", "item"]))
    if again.size:
        n_lines = counted(again.size, "line")
        raise InputError(f"{path}: {n_lines} with an item of its query again (first: line {1 + again[0]}).")


def _table(path: PathText, sep: str, sizes: tuple[int, ...], expected: str) -> pd.DataFrame:
    """Return the columns of a text file without header as text, numbered; .gz and .zip are unpacked."""
    if not Path(path).is_file():
        raise InputError(f"{path} is no file.")
    try:
        table = pd.read_csv(path, sep=sep, header=None, dtype=str, quoting=3, keep_default_na=False)
    except (ValueError, re.error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}.") from None
    if table.shape[1] not in sizes:
        raise InputError(f"{path} has {counted(table.shape[1], 'column')}; expected {expected}.")
    return table


def _numbers(values: pd.Series[Any], path: PathText, what: str) -> pd.Series[Any]:
    numbers = pd.to_numeric(values, errors="coerce").astype(np.float64)
    bad = ~np.isfinite(numbers.to_numpy())
    if bad.any():
        line = 1 + int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{path}, line {line}: {values.iloc[line - 1]!r:.40} is no {what}; {int(bad.sum()):,} of "
            f"{len(values):,} lines have none."
        )
    return numbers
