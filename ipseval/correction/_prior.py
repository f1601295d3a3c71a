"""What is believed of the correction strength before any random exposure is seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval._checks import check_fraction, check_real
from ipseval._types import FloatArray, IntArray
from ipseval.errors import InputError

ALPHAS = np.linspace(0, 1.2, 25)
ALPHAS.setflags(write=False)
SCALES = np.array([0.25, 0.5, 1, 2, 4, 8])
SCALES.setflags(write=False)
SPIKE_WIDTH = 0.03
# Where on the grid corrections are measured: α = .45.
REFERENCE = 9


@dataclass(frozen=True)
class CorrectionPrior:
    """The prior of the correction strength α, and of what no α can express.

    α is near 0 with probability `no_bias`, and N(mean, sd²) on [0, 1.2] otherwise. The truth deviates from
    θ(α) as if the weights erred by more than a power: normal deviations that covary as the contributions of
    the recommenders do, so that equal recommenders deviate alike. Their mean standard deviation in a metric
    is `deviation` times the size of its correction, times one unknown scale from 1/4 to 8 whose logarithm is
    normal around 0.

    The default comes from simulated worlds with exposure that is uniform, by popularity, by taste, by
    self-selection, by activity, and mixed: `python -m reproductions.correction_prior`. No real log was used.

    Parameters
    ----------
    no_bias : float
        Probability, in (0, 1), that the log needs no correction.
    mean, sd : float
        Of α otherwise; sd > 0.
    deviation : float
        > 0; the size of a correction is |θ(0) − θ(.45)|, averaged over recommenders.
    log_scale_sd : float
        Standard deviation of the logarithm of the scale, > 0.

    Examples
    --------
    >>> prior = CorrectionPrior(no_bias=0.2, mean=0.4, sd=0.2)
    >>> round(float(prior.mass.sum()), 6), prior.alpha[[0, -1]]
    (1.0, array([0. , 1.2]))
    """

    no_bias: float = 0.25
    mean: float = 0.43
    sd: float = 0.2
    deviation: float = 0.135
    log_scale_sd: float = 1.0

    def __post_init__(self) -> None:
        check_fraction("no_bias", self.no_bias)
        check_real("mean", self.mean)
        for name in ("sd", "deviation", "log_scale_sd"):
            check_real(name, getattr(self, name), low=0)
        if not np.any(np.exp(-(((ALPHAS - self.mean) / self.sd) ** 2) / 2)):
            raise InputError(f"mean {self.mean:g} and sd {self.sd:g} leave no probability on [0, 1.2].")

    @property
    def alpha(self) -> FloatArray:
        """The grid of α, (25,)."""
        return ALPHAS

    @cached_property
    def mass(self) -> FloatArray:
        """Probability of each α of the grid, (25,)."""
        spike = np.exp(-((ALPHAS / SPIKE_WIDTH) ** 2) / 2)
        wide = np.exp(-(((ALPHAS - self.mean) / self.sd) ** 2) / 2)
        return np.asarray(self.no_bias * spike / spike.sum() + (1 - self.no_bias) * wide / wide.sum())

    @cached_property
    def scale_mass(self) -> FloatArray:
        """Probability of each scale of the deviations, (6,)."""
        mass = np.exp(-((np.log(SCALES) / self.log_scale_sd) ** 2) / 2)
        return np.asarray(mass / mass.sum())

    def deviations(self, value: FloatArray, spread: FloatArray, metric: IntArray) -> FloatArray:
        """Return the covariance of the deviations at scale 1, (n_cells, n_cells).

        Parameters
        ----------
        value : (25, n_cells) array
            θ(α) of every recommender and metric.
        spread : (n_cells, n_cells) array
            Covariance of their contributions.
        metric : (n_cells,) int array
            Which metric each cell is of.
        """
        step = np.abs(value[0] - value[REFERENCE])
        variance = np.bincount(metric, np.diag(spread))
        with np.errstate(invalid="ignore"):
            unit = np.bincount(metric, step) / np.sqrt(np.bincount(metric) * variance)
        unit = np.where(variance > 0, self.deviation * unit, 0.0)[metric]
        return np.asarray(spread * np.outer(unit, unit))
