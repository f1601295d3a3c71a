"""Readers of impressions, and of runs with relevance judgements, as tidy frames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_models, format_count, format_examples, warn_user
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray

PathText: TypeAlias = str | PathLike[str]
MIND_COLUMNS = ("query", "user", "time", "history", "shown")
# Number of columns of a run -> their names.
RUN_COLUMNS = {6: ("query", "q0", "item", "rank", "score", "tag"), 3: ("query", "item", "rank")}


@public_function
def read_mind(path: PathText) -> pd.DataFrame:
    r"""Read the impressions of a file in the layout of MIND's behaviors.tsv, one row for each listed item.

    Lines hold impression id, user, time, history and the items shown, as in "N1-1 N2-0", with tabs between
    and no header. The files of the test part have no labels, and are refused.

    Parameters
    ----------
    path : path
        The file; .gz and .zip are decompressed.

    Returns
    -------
    DataFrame
        Columns query, user, item, label, position, time, history. Positions are 1, 2, … in the order of the
        file. In MIND they are not the order of display, because the items were shuffled.

    Raises
    ------
    InputError
        For a file of another layout, and items without a label, with the line of the first.

    See Also
    --------
    Slates.from_frame : Make slates of the frame.

    References
    ----------
    Wu et al., "MIND: A large-scale dataset for news recommendation", ACL 2020,
    doi:10.18653/v1/2020.acl-main.331

    Examples
    --------
    A file with one impression of two items, of which the first was clicked:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "behaviors.tsv"
    ...     _ = path.write_text("1\tU87\t11/15/2019 8:55:22 AM\tN3 N4\tN1-1 N2-0\n")
    ...     frame = read_mind(path)
    >>> frame[["query", "user", "item", "label", "position"]]
      query user item  label  position
    0     1  U87   N1      1         1
    1     1  U87   N2      0         2
    """
    table = _read_table(
        path, "\t", (len(MIND_COLUMNS),), "impression id, user, time, history and items, with tabs between"
    )
    table.columns = pd.Index(MIND_COLUMNS)
    entries_by_line = [text.split() for text in table["shown"].tolist()]
    n_entries = np.array([len(entries) for entries in entries_by_line], dtype=np.int64)
    lines = np.repeat(np.arange(n_entries.size), n_entries)
    items, labels = _split_entries(entries_by_line, lines, path)
    first_entries = np.cumsum(n_entries) - n_entries
    return pd.DataFrame(
        {
            "query": table["query"].to_numpy()[lines],
            "user": table["user"].to_numpy()[lines],
            "item": items,
            "label": labels,
            "position": np.arange(lines.size) - first_entries[lines] + 1,
            "time": table["time"].to_numpy()[lines],
            "history": table["history"].to_numpy()[lines],
        }
    )


def _split_entries(
    entries_by_line: list[list[str]], lines: IntArray, path: PathText
) -> tuple[list[str], list[int]]:
    """Return the items and labels of entries such as "N1-1"; `lines` is the line of each entry, from 0."""
    items: list[str] = []
    labels: list[str] = []
    invalid_entries: list[int] = []
    for entries in entries_by_line:
        for entry in entries:
            item, _, label = entry.rpartition("-")
            if not item or label not in ("0", "1"):
                invalid_entries.append(len(items))
            items.append(item)
            labels.append(label)
    if invalid_entries or not items:
        first_line = 1
        if invalid_entries:
            first_line += int(lines[invalid_entries[0]])
        raise InputError(
            f"{path}, line {first_line}: {len(invalid_entries):,} of {len(items):,} items have no label; "
            "expected item-1 or item-0, as in 'N1-1 N2-0'. Impressions of a test part without labels cannot "
            "be evaluated."
        )
    return items, [int(label) for label in labels]


@public_function
def read_trec(qrels: PathText, runs: Mapping[str, PathText]) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    r"""Read the pool of judged and retrieved items with labels, and the scores of every run.

    The candidates of a query are all items that are judged or that any run retrieved. Evaluate with
    `evaluate_slates(scores, pool, unscored="miss")`: items that a run did not retrieve follow its list.

    Parameters
    ----------
    qrels : path
        Judgements: query, iteration, item, relevance, with spaces or tabs between.
    runs : mapping
        Name -> path of a run: query, Q0, item, rank, score, tag; or query, item, rank, as in MS MARCO. Runs
        are ranked by their scores, where they have scores; equal scores are ties.

    Returns
    -------
    pool : DataFrame
        Columns query, item, label; ids are text. Items that are not judged, or judged below 0, have label 0.
    scores : dict
        Name -> DataFrame with columns query, item, score.

    Raises
    ------
    InputError
        For files of another layout, relevance that is not a number, and runs without a judged query.

    Warns
    -----
    DataWarning
        With the number of queries that no run has, or that are not judged, which are left out.

    See Also
    --------
    evaluate_slates : Evaluate the pool and the scores.

    Examples
    --------
    One query with a relevant item, and a run that ranks an item without judgement first:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     qrels = Path(folder) / "qrels.txt"
    ...     run = Path(folder) / "bm25.txt"
    ...     _ = qrels.write_text("1 0 d7 1\n")
    ...     _ = run.write_text("1 Q0 d9 1 3.2 bm25\n1 Q0 d7 2 2.5 bm25\n")
    ...     pool, scores = read_trec(qrels, {"bm25": run})
    >>> pool
      query item  label
    0     1   d7    1.0
    1     1   d9    0.0
    >>> scores["bm25"]
      query item  score
    0     1   d9    3.2
    1     1   d7    2.5
    """
    check_models(runs, "runs", "path")
    judgements = _read_table(qrels, r"\s+", (4,), "query, iteration, item, relevance")
    judgements.columns = pd.Index(["query", "iteration", "item", "label"])
    _check_unique_items(judgements, qrels)
    judgements["label"] = _to_numbers(judgements["label"], qrels, "relevance").clip(lower=0)
    scores = {}
    for name, path in runs.items():
        scores[name] = _read_run(path)

    judged_queries = set(judgements["query"])
    retrieved_queries: set[str] = set()
    for run in scores.values():
        retrieved_queries |= set(run["query"])
    if not judged_queries & retrieved_queries:
        raise InputError(
            f"no query of the runs is judged ({format_examples(sorted(retrieved_queries))}); see {qrels}."
        )
    _warn_about_queries(judged_queries - retrieved_queries, "no run has")
    _warn_about_queries(retrieved_queries - judged_queries, "nobody judged")

    for name, run in scores.items():
        scores[name] = run[run["query"].isin(judged_queries)].reset_index(drop=True)
    return _build_pool(judgements, scores, retrieved_queries), scores


def _warn_about_queries(queries: set[str], reason: str) -> None:
    """Warn with the number of queries that are left out."""
    if queries:
        description = (
            f"{format_count(len(queries), 'query')} that {reason} ({format_examples(sorted(queries))})"
        )
        warn_user(f"left out: {description}.", DataWarning)


def _build_pool(
    judgements: pd.DataFrame, scores: Mapping[str, pd.DataFrame], queries: set[str]
) -> pd.DataFrame:
    """Return the judged and retrieved items of these queries with their labels, each item once."""
    pair_columns = ["query", "item"]
    frames = [judgements[[*pair_columns, "label"]]]
    frames += [run[pair_columns] for run in scores.values()]
    pool = pd.concat(frames)
    pool = pool[pool["query"].isin(queries)].fillna({"label": 0.0})
    pool = pool.drop_duplicates(pair_columns)  # judgements come first, so their labels remain
    return pool.sort_values(pair_columns, ignore_index=True)


def _read_run(path: PathText) -> pd.DataFrame:
    """Return query, item and score of one run."""
    expected = "query, Q0, item, rank, score, tag, or query, item, rank"
    table = _read_table(path, r"\s+", tuple(RUN_COLUMNS), expected)
    table.columns = pd.Index(RUN_COLUMNS[table.shape[1]])
    if "score" in table:
        table["score"] = _to_numbers(table["score"], path, "score")
    else:
        table["score"] = -_to_numbers(table["rank"], path, "rank")
    _check_unique_items(table, path)
    return table[["query", "item", "score"]]


def _check_unique_items(table: pd.DataFrame, path: PathText) -> None:
    """Raise `InputError` when an item occurs again in its query."""
    repeats = np.flatnonzero(table.duplicated(["query", "item"]))
    if repeats.size:
        n_lines = format_count(repeats.size, "line")
        raise InputError(f"{path}: {n_lines} with an item of its query again (first: line {1 + repeats[0]}).")


def _read_table(path: PathText, separator: str, n_columns: tuple[int, ...], expected: str) -> pd.DataFrame:
    """Return the columns of a text file without header as text, numbered; .gz and .zip are decompressed."""
    if not Path(path).is_file():
        raise InputError(f"{path} must be an existing file. Check the path.")
    try:
        table = pd.read_csv(path, sep=separator, header=None, dtype=str, quoting=3, keep_default_na=False)
    except (ValueError, re.error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}.") from None
    if table.shape[1] not in n_columns:
        raise InputError(f"{path} has {format_count(table.shape[1], 'column')}; expected {expected}.")
    return table


def _to_numbers(values: pd.Series[Any], path: PathText, noun: str) -> pd.Series[Any]:
    """Return text as finite numbers, or raise `InputError` with the first line that has none."""
    numbers = pd.to_numeric(values, errors="coerce").astype(np.float64)
    is_invalid = ~np.isfinite(numbers.to_numpy())
    if is_invalid.any():
        line = 1 + int(np.flatnonzero(is_invalid)[0])
        raise InputError(
            f"{path}, line {line}: {values.iloc[line - 1]!r:.40} is not a valid {noun}; "
            f"{int(is_invalid.sum()):,} of {len(values):,} lines have none."
        )
    return numbers
