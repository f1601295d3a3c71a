"""Results of one recommender, and the difference of two: evaluation["als"] - evaluation["ease"]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ipseval._base.types import AnyArray
from ipseval.errors import InputError
from ipseval.estimators import Estimate
from ipseval.inference import compare

COLUMNS = ("metric", "estimator", "estimate", "std_error", "ci_low", "ci_high", "p_value", "n_users", "note")


@dataclass(frozen=True, eq=False)
class ModelResult:
    """The estimates of one recommender; two of them subtract.

    Attributes
    ----------
    model : str
    frame : DataFrame
        Its rows of `Evaluation.frame`.
    estimates : mapping
        (metric, estimator) -> Estimate.
    user_ids : (n_users,) array
        Ids of the population.
    confidence_level : float
    """

    model: str
    frame: pd.DataFrame
    estimates: Mapping[tuple[str, str], Estimate] = field(repr=False)
    user_ids: AnyArray = field(repr=False)
    confidence_level: float = 0.95

    def __repr__(self) -> str:
        return f"{self.model}\n{self.frame.drop(columns='model').to_string(index=False)}"

    def __sub__(self, other: ModelResult) -> Difference:
        """Return the paired difference on the same users, for every metric and estimator of both.

        Raises
        ------
        InputError
            For results over other users, or without a common metric and estimator.
        """
        if not isinstance(other, ModelResult):
            return NotImplemented
        if not np.array_equal(self.user_ids, other.user_ids):
            raise InputError(
                f"{self.model!r} is evaluated over {self.user_ids.size:,} users that are not the "
                f"{other.user_ids.size:,} of {other.model!r}; a paired difference needs the same users."
            )
        cells = [cell for cell in self.estimates if cell in other.estimates]
        if not cells:
            raise InputError(f"{self.model!r} and {other.model!r} have no metric and estimator in common.")
        pair = {("+", *cell): self.estimates[cell] for cell in cells}
        pair |= {("-", *cell): other.estimates[cell] for cell in cells}
        level = self.confidence_level
        rows = compare(pair, reference="-", correction=None, confidence_level=level)
        frame = rows.rename(columns={"difference": "estimate"})[list(COLUMNS)]
        return Difference(f"{self.model} - {other.model}", frame)


@dataclass(frozen=True, eq=False)
class Difference:
    """Paired differences of two recommenders, one row per metric and estimator.

    Attributes
    ----------
    name : str
    frame : DataFrame
        Columns metric, estimator, estimate (first − second), std_error, ci_low, ci_high, p_value (of this
        difference alone, not corrected for others), n_users, note.
    """

    name: str
    frame: pd.DataFrame

    def __repr__(self) -> str:
        return f"{self.name}\n{self.frame.to_string(index=False)}"
