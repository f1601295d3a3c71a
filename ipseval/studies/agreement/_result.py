"""OrderAgreement: the measures with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from ipseval._base.checks import check_fraction
from ipseval._base.types import FloatArray


@dataclass(frozen=True, eq=False)
class OrderAgreement:
    """How far two orderings of the same recommenders agree.

    Attributes
    ----------
    values : mapping
        Measure → value: ``"or@k"`` in [0, 1] (1: the same k at the top), ``"src"`` and ``"tau_b"`` in [-1, 1]
        (1: the same order), ``"ipc"`` in 0 … n(n-1)/2 (0: no pair is inverted). NaN: see `note`.
    intervals : mapping
        Measure → (low, high), where a bootstrap was run; else empty.
    n_recommenders : int
        Number of recommenders ordered.
    unit : str
        What was resampled: ``"users"``, ``"data sets"``, or empty.
    n_units : int
        Number of users or data sets resampled (0: none).
    confidence_level : float
        Of the intervals.
    note : str
        Why a measure is NaN, where ties were averaged over, and limits of the intervals.
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    n_recommenders: int
    unit: str = ""
    n_units: int = 0
    confidence_level: float = 0.95
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "intervals", MappingProxyType(dict(self.intervals)))

    def __repr__(self) -> str:
        parts = []
        for name, value in self.values.items():
            interval = self.intervals.get(name)
            shown = f" [{interval[0]:.3g}, {interval[1]:.3g}]" if interval else ""
            parts.append(f"{name}={value:.3g}{shown}")
        note = f"; {self.note}" if self.note else ""
        return f"OrderAgreement({', '.join(parts)}; {self.n_recommenders} recommenders{note})"

    @property
    def overlap(self) -> dict[int, float]:
        """OR@k by k: the share of the top k of one ordering that is in the top k of the other."""
        return {int(name[3:]): value for name, value in self.values.items() if name.startswith("or@")}

    @property
    def src(self) -> float:
        """Spearman's rank correlation, average ranks on ties."""
        return self.values["src"]

    @property
    def ipc(self) -> float:
        """Inversion pair count: pairs of recommenders that stand in opposite order."""
        return self.values["ipc"]

    @property
    def tau_b(self) -> float:
        """Kendall's tau-b."""
        return self.values["tau_b"]

    def to_dict(self) -> dict[str, float]:
        """Return one flat row: each measure and, where there are intervals, ``<measure>_low``, ``_high``."""
        row: dict[str, float] = {}
        for name, value in self.values.items():
            row[name] = value
            if name in self.intervals:
                row[f"{name}_low"], row[f"{name}_high"] = self.intervals[name]
        return row


def with_intervals(
    result: OrderAgreement, draws: Mapping[str, FloatArray], *, unit: str, n_units: int, level: float
) -> OrderAgreement:
    """Return `result` with percentile intervals from the values of each measure in the replicates."""
    undefined = np.isnan(draws["src"]).mean()
    note = f"src and tau_b undefined in {undefined:.1%} of the replicates" if undefined else ""
    return replace(
        result,
        intervals={name: percentiles(values, level) for name, values in draws.items()},
        unit=unit,
        n_units=n_units,
        confidence_level=level,
        note="; ".join(filter(None, [result.note, note])),
    )


def percentiles(values: FloatArray, level: float) -> tuple[float, float]:
    tail = (1 - check_fraction("confidence_level", level)) / 2
    known = values[~np.isnan(values)]
    if known.size == 0:
        return (np.nan, np.nan)
    low, high = np.quantile(known, [tail, 1 - tail])
    return (float(low), float(high))
