"""From ranked positives and a propensity to the weighted sample that estimators read."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ipseval._checks import as_float_vector, check_choice
from ipseval._ids import by_label
from ipseval._types import FloatArray, TieChoice
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._base import Sample
from ipseval.metrics._claims import NRelevant
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives

NRelevantLike = int | npt.ArrayLike | Literal["estimated"] | None


def weighted_sample(
    ranked: RankedPositives, propensity: Propensity | None, n_relevant: NRelevantLike, ties: TieChoice
) -> Sample:
    """Return the positives that have a propensity, with it; the others are counted.

    Raises
    ------
    PropensityError
        When the propensity belongs to another catalogue, or no positive has one.
    InputError
        When `n_relevant` is negative, of another size, or smaller than the observed positives.
    """
    kind, relevant = _relevant(ranked, n_relevant)
    if propensity is None:
        return Sample(ranked, n_relevant=relevant, n_relevant_kind=kind, ties=ties)
    propensity.check_ids(ranked)
    values = propensity.at(ranked.user, ranked.item)
    known = ~np.isnan(values)
    if not known.any():
        raise PropensityError(
            "no test positive has a propensity: none of the test items occurs in training. "
            "Use unseen='smooth', or another split."
        )
    return Sample(
        ranked.select(known),
        values[known],
        propensity.is_probability,
        relevant,
        kind,
        ties,
        n_without_propensity=int((~known).sum()),
    )


def _relevant(ranked: RankedPositives, n_relevant: NRelevantLike) -> tuple[NRelevant, FloatArray | None]:
    if n_relevant is None:
        return "absent", None
    if isinstance(n_relevant, str):
        check_choice("n_relevant", n_relevant, ("estimated",))
        return "estimated", None
    if np.ndim(n_relevant) == 0:
        n_relevant = np.full(ranked.n_population, n_relevant)
    n_relevant = by_label(n_relevant, ranked.user_ids, "n_relevant")
    relevant = as_float_vector("n_relevant", n_relevant, size=ranked.n_population)
    n_bad = int((~(relevant >= 0) | np.isinf(relevant)).sum())
    if n_bad:
        raise InputError(f"n_relevant must be finite and >= 0; {n_bad} of {relevant.size} entries are not.")
    n_short = int((relevant[ranked.users] < ranked.counts).sum())
    if n_short:
        raise InputError(
            f"n_relevant is smaller than the number of observed positives for {n_short} users; the observed "
            "positives are relevant items too."
        )
    return "known", relevant
