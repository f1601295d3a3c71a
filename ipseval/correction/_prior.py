"""What is believed of the correction strength before any random exposure is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval._base.checks import check_fraction, check_real
from ipseval._base.types import BoolArray, FloatArray, IntArray
from ipseval.errors import InputError

ALPHAS = np.linspace(0, 1.2, 25)
ALPHAS.setflags(write=False)
SCALES = np.array([0.25, 0.5, 1, 2, 4, 8])
SCALES.setflags(write=False)
SPIKE_WIDTH = 0.03
# Where on the grid corrections are measured: α = .45.
REFERENCE = 9
# What the odds of a path are made of; see CorrectionPath.
PAIRS, ITEMS, INTERACTIONS = "pairs", "items", "interactions"


@dataclass(frozen=True)
class CorrectionPrior:
    """The prior of the correction strength α, and of what no α can express.

    α is near 0 with probability `no_bias`, and N(mean, sd²) on [0, 1.2] otherwise. The truth deviates from
    θ(α) as if the weights erred by more than a power: normal deviations that covary as the contributions of
    the recommenders do, so that equal recommenders deviate alike. Their mean standard deviation in a metric
    is `deviation` times the size of its correction, times one unknown scale from 1/4 to 8 whose logarithm is
    normal around 0. Metrics that are linear in the rank read the whole ranking, of which a power of the odds
    expresses less: their deviation is `whole_deviation`.

    Odds of positives come from two bases, each as likely as the other. Where odds of all interactions are
    given, liked or not, they have probability `interactions_weight`, and a normal distribution of α alone:
    if exposure is uniform, these odds are equal, and no α harms.

    The default comes from simulated worlds with exposure that is uniform, by popularity, by taste, by
    self-selection, by activity, and mixed: `python -m reproductions.correction_prior`. `sd` and `deviation`
    stand between the likeliest of these worlds and those whose intervals held on further ones. No real log
    was used.

    Parameters
    ----------
    no_bias : float
        Probability, in (0, 1), that the log needs no correction.
    mean, sd : float
        Of α otherwise; sd > 0.
    deviation, whole_deviation : float
        > 0; the size of a correction is |θ(0) − θ(.45)|, averaged over recommenders.
    log_scale_sd : float
        Standard deviation of the logarithm of the scale, > 0.
    interactions_mean, interactions_sd : float
        Of α where the odds are those of all interactions; sd > 0.
    interactions_weight : float
        In (0, 1).

    Examples
    --------
    >>> prior = CorrectionPrior(no_bias=0.2, mean=0.4, sd=0.2)
    >>> round(float(prior.mass.sum()), 6), prior.alpha[[0, -1]]
    (1.0, array([0. , 1.2]))
    """

    no_bias: float = 0.21
    mean: float = 0.42
    sd: float = 0.24
    deviation: float = 0.10
    whole_deviation: float = 0.18
    log_scale_sd: float = 1.0
    interactions_mean: float = 0.9
    interactions_sd: float = 0.25
    interactions_weight: float = 0.8

    def __post_init__(self) -> None:
        check_fraction("no_bias", self.no_bias)
        check_fraction("interactions_weight", self.interactions_weight)
        check_real("mean", self.mean)
        check_real("interactions_mean", self.interactions_mean)
        for name in ("sd", "deviation", "whole_deviation", "log_scale_sd", "interactions_sd"):
            check_real(name, getattr(self, name), low=0)
        for mean, sd in ((self.mean, self.sd), (self.interactions_mean, self.interactions_sd)):
            if not np.any(np.exp(-(((ALPHAS - mean) / sd) ** 2) / 2)):
                raise InputError(f"mean {mean:g} and sd {sd:g} leave no probability on [0, 1.2].")

    @property
    def alpha(self) -> FloatArray:
        """The grid of α, (25,)."""
        return ALPHAS

    @cached_property
    def mass(self) -> FloatArray:
        """Probability of each α of the grid, (25,), where odds are those of positives."""
        spike = np.exp(-((ALPHAS / SPIKE_WIDTH) ** 2) / 2)
        wide = _normal(self.mean, self.sd)
        return np.asarray(self.no_bias * spike / spike.sum() + (1 - self.no_bias) * wide)

    def grid_mass(self, bases: Sequence[str]) -> FloatArray:
        """Probability of each α for each basis in turn, (25 · n_bases,)."""
        weight = self.interactions_weight if INTERACTIONS in bases else 0.0
        share = (1 - weight) / sum(one != INTERACTIONS for one in bases)
        interactions = weight * _normal(self.interactions_mean, self.interactions_sd)
        return np.concatenate([interactions if one == INTERACTIONS else share * self.mass for one in bases])

    @cached_property
    def scale_mass(self) -> FloatArray:
        """Probability of each scale of the deviations, (6,)."""
        mass = np.exp(-((np.log(SCALES) / self.log_scale_sd) ** 2) / 2)
        return np.asarray(mass / mass.sum())

    def deviations(
        self, value: FloatArray, spread: FloatArray, metric: IntArray, whole: BoolArray
    ) -> FloatArray:
        """Return the covariance of the deviations at scale 1, (n_cells, n_cells).

        Parameters
        ----------
        value : (25, n_cells) array
            θ(α) of every recommender and metric.
        spread : (n_cells, n_cells) array
            Covariance of their contributions.
        metric : (n_cells,) int array
            Which metric each cell is of.
        whole : (n_cells,) bool array
            Whether that metric is linear in the rank.
        """
        step = np.abs(value[0] - value[REFERENCE])
        variance = np.bincount(metric, np.diag(spread))
        with np.errstate(invalid="ignore"):
            unit = np.bincount(metric, step) / np.sqrt(np.bincount(metric) * variance)
        unit = np.where(variance > 0, unit, 0.0)[metric] * np.where(
            whole, self.whole_deviation, self.deviation
        )
        return np.asarray(spread * np.outer(unit, unit))


def _normal(mean: float, sd: float) -> FloatArray:
    """Return probabilities of the grid, N(mean, sd²)."""
    mass = np.exp(-(((ALPHAS - mean) / sd) ** 2) / 2)
    return np.asarray(mass / mass.sum())
