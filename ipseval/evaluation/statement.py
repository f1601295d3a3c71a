"""Statement on an offline evaluation for reviewers: 25 criteria, each answered from files or named as omitted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ipseval.evaluation._statement_criteria import (
    CRITERIA,
    SOURCES,
    Criterion,
    Facts,
    collect_differences,
)
from ipseval.evaluation._statement_notes import NotesLike, StatementNotes
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.verdict_text import POWER_OF_POPULARITY
from ipseval.reporting import Tables
from ipseval.reporting.formatting import format_csv, write_or_return
from ipseval.reporting.results import Reported
from ipseval.reporting.tables import Heading, Notes, Part
from ipseval.utils.checks import check_type
from ipseval.utils.public import public_class, public_function

NOT_STATED = "not stated"
COLUMNS = ["code", "section", "criterion", "answer", "is_stated", "sources"]


@dataclass(frozen=True)
class StatementEntry:
    """The answer to one criterion.

    Attributes
    ----------
    criterion : Criterion
    answer : str
        The answer; "" if it is not stated.
    models_without_note : tuple of str
        Recommenders for which it is not stated.
    lacks_note : bool
        Whether a complete answer needs a note that the authors have not written.
    """

    criterion: Criterion
    answer: str
    models_without_note: tuple[str, ...] = ()
    lacks_note: bool = False

    @property
    def is_stated(self) -> bool:
        """Whether the criterion is answered completely, for every recommender."""
        return bool(self.answer) and not self.models_without_note and not self.lacks_note

    @property
    def text(self) -> str:
        """The answer, or the omission."""
        if not self.answer:
            return NOT_STATED
        if self.lacks_note:
            return f"{self.answer}; further steps {NOT_STATED}"
        if not self.models_without_note:
            return self.answer
        return f"{self.answer}; {NOT_STATED} for {', '.join(self.models_without_note)}"


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Statement(Reported):
    """Statement on the methods of an offline evaluation, as `write_statement` returns it.

    Parameters
    ----------
    models : tuple of str
        Names of the recommenders.
    entries : tuple of StatementEntry
        The answer to each criterion.
    formulas : tuple of str, default ()
        Formulas in the answers, which LaTeX writes in mathematics.

    See Also
    --------
    write_statement : Write the statement of an evaluation.

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"])
    >>> statement = write_statement(evaluation, {"data": {"source": "simulated, seed 0"}})
    >>> statement.frame[["code", "is_stated"]].head(3)
                code  is_stated
    0    data-source       True
    1    data-access      False
    2  preprocessing      False
    >>> len(statement.omissions), len(statement.entries)
    (11, 25)
    """

    models: tuple[str, ...]
    entries: tuple[StatementEntry, ...]
    formulas: tuple[str, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each criterion: code, section, criterion, answer, is_stated and sources."""
        rows = []
        for entry in self.entries:
            criterion = entry.criterion
            sources = "; ".join(SOURCES[source] for source in criterion.sources)
            row = (
                criterion.code,
                criterion.section,
                criterion.question,
                entry.text,
                entry.is_stated,
                sources,
            )
            rows.append(row)
        return pd.DataFrame(rows, columns=COLUMNS)

    @property
    def omissions(self) -> tuple[str, ...]:
        """Codes of the criteria that are not answered."""
        return tuple(entry.criterion.code for entry in self.entries if not entry.is_stated)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the statement: a section for each group of criteria, and the omissions.

        Parameters
        ----------
        digits : int, default 2
            Accepted as in other reports; the statement is the same.
        page : bool, default False
            Accepted as in other reports; the statement is the same.

        Returns
        -------
        Tables
            Parts of the statement, as every format prints them.
        """
        parts: list[Part] = []
        sections = dict.fromkeys(entry.criterion.section for entry in self.entries)
        for section in sections:
            lines = []
            for entry in self.entries:
                if entry.criterion.section == section:
                    lines.append(f"{_begin_with_capital(entry.criterion.question)}: {entry.text}.")
            parts += [Heading(section), Notes(tuple(lines))]
        parts += [Heading("Omissions"), Notes(self._list_omissions())]
        n_stated = sum(entry.is_stated for entry in self.entries)
        return Tables(
            title="Statement on the offline evaluation",
            summary=(f"{', '.join(self.models)}. {n_stated} of {len(self.entries)} criteria are answered.",),
            parts=tuple(parts),
            formulas=self.formulas,
        )

    def _list_omissions(self) -> tuple[str, ...]:
        """Return a line for each omission, with the place where it can be stated."""
        lines = []
        for entry in self.entries:
            if not entry.is_stated:
                lines.append(
                    f"{_begin_with_capital(entry.criterion.question)}. To state it: {entry.criterion.remedy}."
                )
        if not lines:
            lines.append("None.")
        return tuple(lines)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the frame as CSV, or write it to a file.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.

        Returns
        -------
        str
            The CSV text, or the path if one is given.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        return write_or_return(format_csv(self.frame), path)


def _begin_with_capital(text: str) -> str:
    """Return a text with an upper-case first letter."""
    return text[:1].upper() + text[1:]


@public_function
def write_statement(evaluation: Evaluation, notes: NotesLike | None = None) -> Statement:
    """Write a statement on the methods of an evaluation for reviewers, from files alone.

    Journals ask how an offline evaluation was made: on which data and split, among which candidates, how each
    recommender was tuned, and what the tests can find [1]_. The statement answers 25 such criteria from the
    evaluation, and from notes of the authors on facts that an evaluation does not contain. A criterion without an
    answer is "not stated", and is listed as an omission.

    Parameters
    ----------
    evaluation : Evaluation
        An evaluation, also one that was read from a file.
    notes : mapping or path, optional
        Notes as {table: {key: text}}, or a TOML or JSON file with the tables data (source, access, preprocessing),
        split (method, seed, leakage, validation), recommenders.NAME (implementation, tuning, hyperparameters,
        seeds) for each recommender, and environment (code). Every key is optional.

    Returns
    -------
    Statement
        Printing shows the statement; `to_markdown` and `to_html` write it; `omissions` names what is missing.

    Raises
    ------
    InputError
        For notes that cannot be read.
    UnknownNameError
        For tables and keys that do not exist, and recommenders that the evaluation does not contain.

    See Also
    --------
    ipseval.Evaluation.explain : All comparisons, guarantees and definitions of an evaluation.

    References
    ----------
    .. [1] Jannach and Chen, "Improving methodological standards in recommender systems offline evaluation", ACM
       Transactions on Recommender Systems; Beel, "A call for evidence-based best-practices for recommender systems
       evaluations", Dagstuhl Seminar 24211, 2024

    Examples
    --------
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = world.example_models(split, rng=2)
    >>> compared = {name: models[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(compared, split, metrics=["recall@10"])
    >>> notes = {"data": {"source": "simulated, seed 0"}, "recommenders": {"taste": {"tuning": "none"}}}
    >>> statement = write_statement(evaluation, notes)
    >>> frame = statement.frame.set_index("code")
    >>> frame.loc["data-source", "answer"], frame.loc["tuning", "answer"]
    ('simulated, seed 0', 'taste: none; not stated for popular')
    >>> statement.omissions[:3]
    ('data-access', 'preprocessing', 'leakage')
    """
    check_type("evaluation", evaluation, Evaluation)
    facts = Facts(
        evaluation=evaluation,
        content=evaluation._content(),
        notes=StatementNotes.read(notes, evaluation.models),
        differences=collect_differences(evaluation),
    )
    entries = []
    for criterion in CRITERIA:
        models_without_note: tuple[str, ...] = ()
        if criterion.recommender_key:
            texts = facts.notes.get_by_recommender(criterion.recommender_key)
            models_without_note = tuple(model for model in evaluation.models if model not in texts)
        entry = StatementEntry(
            criterion=criterion,
            answer=criterion.answer(facts).rstrip("."),
            models_without_note=models_without_note,
            lacks_note=bool(criterion.note) and not facts.notes.get_fact(*criterion.note),
        )
        entries.append(entry)
    definitions = [metric.definition.formula for metric in evaluation.definitions[0]]
    return Statement(
        models=tuple(evaluation.models),
        entries=tuple(entries),
        formulas=(*definitions, POWER_OF_POPULARITY),
    )
