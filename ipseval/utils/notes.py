"""Remarks that travel with results as values: notes on estimates, with their wordings, and counts of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_class

# "note": how the estimate was made. "caution": weights that may be unsuitable. "flag": the estimate is
# unreliable. "suppression": it is not shown, because of its flags.
Severity = Literal["note", "caution", "flag", "suppression"]


@public_class
@dataclass(frozen=True)
class Note:
    """A note on an estimate: a code and parameters; `str` words it.

    Parameters
    ----------
    code : str
        What the note states, such as "undefined_users".
    parameters : tuple of (name, value) pairs, default ()
        The numbers and names in its text.

    See Also
    --------
    ipseval.estimators.Estimate : Its fields `notes` and `flags` hold notes.

    Examples
    --------
    >>> note = Note.create("undefined_users", n=2, unit="user")
    >>> note.code, note.severity, str(note)
    ('undefined_users', 'note', '2 users left out: the metric is undefined for them')
    """

    code: str
    parameters: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.code not in WORDINGS:
            raise InputError(f"a note must have a known code; got {self.code!r}. Use the code 'text'.")

    @classmethod
    def create(cls, code: str, **parameters: object) -> Note:
        """Create a note.

        Parameters
        ----------
        code : str
            What the note states.
        **parameters
            The numbers and names in its text.
        """
        return cls(code, tuple(parameters.items()))

    def __str__(self) -> str:
        return WORDINGS[self.code].word(**dict(self.parameters))

    @property
    def severity(self) -> Severity:
        """How serious the note is: "note", "caution", "flag" or "suppression"."""
        return WORDINGS[self.code].severity

    def generalize(self) -> Note:
        """Return the note without the numbers of one recommender or group; the note itself if it has none.

        Returns
        -------
        Note
            The general note.
        """
        if self.code == "suppressed":
            reasons = dict(self.parameters)["reasons"]
            return create_suppression([reason.generalize() for reason in reasons])
        general_code = WORDINGS[self.code].general_code
        if not general_code:
            return self
        kept = WORDINGS[general_code].parameters
        return Note(general_code, tuple(pair for pair in self.parameters if pair[0] in kept))


def create_suppression(reasons: Iterable[Note]) -> Note:
    """Return that a value is not shown, for these reasons."""
    return Note.create("suppressed", reasons=tuple(reasons))


def join_notes(*notes: Note | str) -> str:
    """Return the texts of notes that are not empty, without repetitions, as "a; b"."""
    return "; ".join(dict.fromkeys(filter(None, map(str, notes))))


def as_notes(notes: Iterable[Note | str]) -> tuple[Note, ...]:
    """Return notes, where an estimator of a user may return texts."""
    values = []
    for note in notes:
        if not isinstance(note, Note):
            note = Note.create("text", text=note)
        values.append(note)
    return tuple(values)


class Wording(NamedTuple):
    """The severity of the notes with one code, and the function that words them."""

    severity: Severity
    word: Callable[..., str]
    general_code: str = ""  # code of the same note without numbers of one recommender or group
    parameters: tuple[str, ...] = ()  # of a general note: the parameters that it keeps


def word_sample_size(ess: float, equal_ess: float, n: int) -> str:
    """Return an effective sample size as text, with the size without weights where it differs."""
    text = f"effective sample size {ess:,.0f} of {n:,}"
    if round(equal_ess) != n:
        text += f" ({equal_ess:,.0f} unweighted)"
    return text


def _word_low_sample_size(ess: float, equal_ess: float, n: int, limit: float) -> str:
    return f"{word_sample_size(ess, equal_ess, n)}, less than the {limit:,.0f} needed"


def _word_suppressed(reasons: Sequence[Note]) -> str:
    return f"suppressed: {join_notes(*reasons)}"


def _word_short_lists(n: int, n_all: int, cutoff: int) -> str:
    verb = "is" if n == 1 else "are"
    return f"{n:,} of {n_all:,} lists {verb} shorter than {cutoff}, padded with misses"


def _word_users_without_list(n: int, left_out: bool) -> str:
    text = f"{format_count(n, 'user')} without a list"
    if left_out:
        return f"{text} left out"
    return text


def _word_smoothed_propensities(n: int, share: float) -> str:
    item = "an item" if n == 1 else "items"
    interactions = format_count(n, "interaction")
    verbs = ("gets", "carries") if n == 1 else ("get", "carry")
    return (
        f"{interactions} of {item} that no user has in training {verbs[0]} a smoothed propensity and {verbs[1]} "
        f"{share:.0%} of the weight"
    )


def _word_few_resamples(n: int, n_needed: int, level: float) -> str:
    requirement = f"a {level * 100:.4g}% interval, which needs at least {n_needed:,}"
    return f"{format_count(n, 'resample')}: too few for {requirement}"


def _as_is(text: str) -> str:
    return text


def _fixed(text: str) -> Callable[..., str]:
    """Return a function that words a note without parameters."""
    return lambda: text


WORDINGS = {
    "text": Wording("note", _as_is),
    # Estimators
    "identical_to_aoa": Wording(
        "note", lambda estimator: f"{estimator} is identical to aoa here: every user has one positive"
    ),
    "estimated_n_relevant": Wording(
        "note", _fixed("the numbers of relevant items are estimated by Σ1/P of each user")
    ),
    "fitted_weights": Wording("note", _fixed("the error holds that of the fitted weights")),
    # Data that did not enter
    "undefined_users": Wording(
        "note", lambda n, unit: f"{format_count(n, unit)} left out: the metric is undefined for them"
    ),
    "no_propensity": Wording(
        "note",
        lambda n: f"{format_count(n, 'positive')} without a propensity left out of all averages, aoa too",
    ),
    "map_at_cutoff": Wording(
        "note",
        lambda cutoff: (
            f"the requested map@{cutoff} is ap@{cutoff}, which divides by min(s, {cutoff}) for s relevant items; "
            f"ranx, trec_eval and RecTools divide by s, as ap(denominator=s)@{cutoff} does"
        ),
    ),
    "ratio_of_sums": Wording("note", _fixed("a ratio of sums over users, and not a mean of values of users")),
    "undefined": Wording("note", _fixed("undefined, as no user has a defined value")),
    "one_user": Wording("note", _fixed("one user: no standard error")),
    # Lists
    "no_list": Wording(
        "note", lambda n, n_all, units: f"{n:,} of {n_all:,} {units} have no list and count as misses"
    ),
    "short_lists": Wording(
        "note",
        _word_short_lists,
    ),
    "no_list_of_some_model": Wording(
        "note", lambda n, units: f"{n:,} {units} without a list by some model are left out of all"
    ),
    "users_without_list": Wording("note", _word_users_without_list),
    "undefined_lists": Wording("note", lambda n: f"{format_count(n, 'user')} left out: undefined for them"),
    "lists_below_cutoff": Wording(
        "note", lambda n, cutoff: f"{format_count(n, 'list')} shorter than {cutoff}"
    ),
    # Intervals
    "propensity_refitted": Wording("note", _fixed("propensity refitted")),
    "undefined_resamples": Wording(
        "note", lambda n, n_all: f"undefined in {n:,} of {n_all:,} resamples, left out"
    ),
    "few_resamples": Wording("note", _word_few_resamples),
    "one_sided_resamples": Wording(
        "note", lambda method: f"no {method} interval: resamples lie on one side of the estimate"
    ),
    "few_users_above_zero": Wording(
        "flag", lambda n, limit: f"{format_count(n, 'user')} with a value above 0, fewer than {limit}"
    ),
    "few_users_below_one": Wording(
        "flag", lambda n, limit: f"{format_count(n, 'user')} with a value below 1, fewer than {limit}"
    ),
    # Weights
    "few_positives": Wording("caution", _fixed("few positives, with equal weights too")),
    "weight_on_rare_items": Wording(
        "caution",
        lambda share, limit: f"{share:.0%} of the weight is on items with at most {limit} interactions",
    ),
    "smoothed_propensities": Wording("caution", _word_smoothed_propensities),
    "heavy_tail": Wording("caution", lambda k: f"heavy-tailed weights of items (Pareto k = {k:.2f})"),
    "clipped_weight": Wording("caution", lambda share: f"clipping cut {share:.0%} of the weight"),
    "low_sample_size": Wording("flag", _word_low_sample_size),
    "dominant_weight": Wording("flag", lambda unit, share: f"one {unit} carries {share:.0%} of the weight"),
    "products_of_weights": Wording("flag", lambda reason: f"products of weights: {reason}"),
    "wide_error": Wording(
        "flag",
        lambda error, metric, low, high: (
            f"standard error {error:,.3g} beyond the range of {metric}, {low:g} to {high:g}"
        ),
        general_code="wide_errors",
    ),
    "wide_errors": Wording("flag", _fixed("standard error beyond the range of the metric")),
    "value_beyond_range": Wording(
        "flag",
        lambda value, metric, low, high: (
            f"estimate {value:,.3g} beyond the range of {metric}, {low:g} to {high:g}"
        ),
        general_code="values_beyond_range",
    ),
    "values_beyond_range": Wording("flag", _fixed("estimate beyond the range of the metric")),
    "suppressed": Wording("suppression", _word_suppressed),
    # Groups of users or items
    "few_effective_users": Wording(
        "flag",
        lambda n, limit: f"{n:.3g} effective users, fewer than {limit:g}",
        general_code="few_effective_users_in_groups",
    ),
    "few_effective_users_in_groups": Wording(
        "flag", lambda limit: f"fewer than {limit:g} effective users", parameters=("limit",)
    ),
    "no_weight": Wording("note", _fixed("undefined: no user has weight in the group")),
    "no_variation": Wording("note", _fixed("no interval: the values of its users do not vary")),
    "no_form_of_group": Wording("note", _fixed("no form for the positives of one group")),
    "group_alone": Wording("note", _fixed("over the positives of the group alone: groups do not add up")),
    "group_computed_anew": Wording(
        "note", _fixed("computed anew from the users of the group: groups do not add up")
    ),
    "weights_taken_as_known": Wording("note", _fixed("errors of groups take the fitted weights as known")),
}


COLUMNS = ("subject", "what", "count", "of")
RESULT = "evaluation"  # the subject of counts that are of all recommenders together


# "exclusion": rows that were left out, merged or removed. "stated_exclusion": the same, where a note on the
# estimates or the caller states it already. "no_threshold": low values count as positives. "test_part": rows of
# the test part of a split. "no_hit": entries of lists that keep their positions and cannot be hits. "number": anything
# else.
CountCode = Literal["number", "exclusion", "stated_exclusion", "no_threshold", "test_part", "no_hit"]


@dataclass(frozen=True)
class Count:
    """A count made while data were read, split or ranked.

    Attributes
    ----------
    label : str
        Noun phrase that names the counted rows, such as "repeated interactions".
    count : int
    total : int, optional
        Total that the count is a part of.
    subject : str
        Recommender, or part of the data, that the count belongs to.
    code : str, default "number"
        What happened to the counted rows, by which a report chooses the counts that it states.
    """

    label: str
    count: int
    total: int | None = None
    subject: str = ""
    code: CountCode = "number"

    def with_subject(self, subject: str) -> Count:
        """Return a copy of the count that belongs to `subject`."""
        return replace(self, subject=subject)


@dataclass(frozen=True)
class SourceCount(Count):
    """The number of rows that were read from a source.

    Attributes
    ----------
    source : str
        Name of the file, or a description of data in memory.
    columns : str
        Column of each role.
    unit : str
        Plural noun for the rows: "rows" of a log, or "entries" of lists.
    is_file : bool
        Whether the source is a file.
    """

    source: str = ""
    columns: str = ""
    unit: str = "rows"
    is_file: bool = False

    @classmethod
    def from_source(cls, count: int, *, source: str, columns: str, unit: str, is_file: bool) -> SourceCount:
        """Return the count with its label."""
        label = f"{unit} read from {source}: {columns}"
        return cls(label, count, source=source, columns=columns, unit=unit, is_file=is_file)


def drop_zero_counts(*counts: Count) -> tuple[Count, ...]:
    """Return the counts without those that are 0."""
    non_zero_counts = []
    for count in counts:
        if count.count:
            non_zero_counts.append(count)

    return tuple(non_zero_counts)


def merge_counts(first: Iterable[Count], second: Iterable[Count]) -> tuple[Count, ...]:
    """Return the sums of the counts of two disjoint parts, in the order of their first occurrence."""
    sums: dict[tuple[str, str], Count] = {}
    for count in (*first, *second):
        key = (count.subject, count.label)
        if key not in sums:
            sums[key] = count
            continue
        known = sums[key]
        total = None
        if known.total is not None and count.total is not None:
            total = known.total + count.total
        sums[key] = replace(known, count=known.count + count.count, total=total)
    return tuple(sums.values())


def counts_frame(counts: Iterable[Count]) -> pd.DataFrame:
    """Return one row per count with subject, what, count and of, which is NA where there is no total."""
    rows = list(counts)
    records = []
    for row in rows:
        records.append((row.subject, row.label))

    frame = pd.DataFrame(records, columns=["subject", "what"])
    frame["count"] = np.array([row.count for row in rows], dtype=np.int64)
    frame["of"] = pd.array([row.total for row in rows], dtype="Int64")
    return frame
