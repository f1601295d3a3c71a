"""Parts: what each positive adds to an estimate, so that groups of positives add up to the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimate as a weighted mean over positives: R = (Σ a c / Σ a) · mean V.

    Attributes
    ----------
    weight : (n_pos,) float array
        a, what each positive weighs in the estimate.
    value : (n_pos,) float array
        c, what it contributes; NaN where the metric is undefined for its user.
    users : (n,) int array or None
        Users whose V enters; None: V = 1.
    volume : (n,) float array or None
        V of these users, such as |S*_u| for a metric that sums over positives.
    """

    weight: FloatArray
    value: FloatArray
    users: IntArray | None = None
    volume: FloatArray | None = None

    def total(self) -> float:
        """Return R; NaN without weight."""
        defined = ~np.isnan(self.value)
        weight = self.weight[defined]
        if not weight.sum() > 0:
            return float("nan")
        mean = float((weight * self.value[defined]).sum() / weight.sum())
        return mean if self.volume is None else mean * float(self.volume.mean())
