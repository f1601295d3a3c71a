"""What is believed of the correction strength before any random exposure is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import check_fraction, check_real
from ipseval.utils.types import BoolArray, FloatArray, IntArray

ALPHAS = np.linspace(0, 1.8, 25)
ALPHAS.setflags(write=False)
SCALES = 0.4 * 2.5 ** np.arange(5)
SCALES.setflags(write=False)
SPIKE_WIDTH = 0.03
# Deviations grow where the path is flat: where α = .45 takes less than this of what AOA is above chance.
USUAL_REACH, MOST = 0.5, 5.0
# Where on the grid corrections are measured: α = .45.
REFERENCE = 6
# What the odds of a path are made of; see CorrectionPath.
PAIRS, ITEMS, PROFILES, INTERACTIONS = "pairs", "items", "profiles", "interactions"


@dataclass(frozen=True)
class CorrectionPrior:
    """The prior of the correction strength α, and of what no α can express.

    α is near 0 with probability `no_bias`, and N(mean, sd²) on [0, 1.8] otherwise. The truth deviates from
    θ(α) as if the weights erred by more than a power: normal deviations that covary as the contributions of
    the recommenders do, so that equal recommenders deviate alike. Their mean standard deviation in a metric
    is `deviation` times h (h/2c)^`flatness`, where h is how far AOA is above chance, and c the size of the
    metric's correction: where the path is flat, much may be missing. Metrics that are linear in the rank read
    the whole ranking, of which a power of the odds expresses less: their deviation is `whole_deviation`.
    Those cut at a rank have a shift in common. Every principal axis of the deviations of a kind has an
    unknown scale of its own, from .4 to 16, whose logarithm is normal around 0: one that errs much says
    nothing of the others. The share of profiles in selection is unknown, too: it moves each kind along the
    difference of the paths by pairs and by items.

    Odds of positives come from three bases: pairs and items, each as likely as the other, and profiles, which
    says that exposure follows closeness alone. Where odds of all interactions are given, liked or not, they
    have probability `interactions_weight`, smaller deviations, and a normal distribution of α alone: if
    exposure is uniform, these odds are equal, and no α harms.

    The default makes the truth of simulated worlds of two styles, and of Coat, likely:
    `python -m reproductions.correction_prior`.

    Parameters
    ----------
    no_bias : float
        Probability, in (0, 1), that the log needs no correction.
    mean, sd : float
        Of α otherwise; sd > 0.
    deviation, whole_deviation, flatness : float
        The size of a correction is |θ(0) − θ(.45)|, averaged over recommenders.
    log_scale_sd : float
        Standard deviation of the logarithm of a scale, > 0.
    shared : float
        Standard deviation of the shift that recommenders have in common, in those of the other deviations.
    own_personal : float
        Standard deviation of the share of profiles.
    interactions_mean, interactions_sd : float
        Of α where the odds are those of all interactions; sd > 0.
    interactions_weight : float
        In (0, 1).
    interactions_deviation : float
        Standard deviation of the deviations there, in those of positives.
    profiles_weight : float
        Probability, in (0, 1), of the basis of profiles among those of positives.

    Examples
    --------
    >>> prior = CorrectionPrior(no_bias=0.2, mean=0.4, sd=0.2)
    >>> round(float(prior.mass.sum()), 6), prior.alpha[[0, -1]]
    (1.0, array([0. , 1.8]))
    """

    no_bias: float = 0.08
    mean: float = 0.5
    sd: float = 0.6
    deviation: float = 0.06
    whole_deviation: float = 0.11
    flatness: float = 0.8
    log_scale_sd: float = 0.7
    shared: float = 1.6
    own_personal: float = 0.4
    interactions_mean: float = 1.05
    interactions_sd: float = 0.18
    interactions_weight: float = 0.75
    interactions_deviation: float = 0.6
    profiles_weight: float = 0.05

    def __post_init__(self) -> None:
        check_fraction("no_bias", self.no_bias)
        check_fraction("interactions_weight", self.interactions_weight)
        check_fraction("profiles_weight", self.profiles_weight)
        check_real("mean", self.mean)
        check_real("interactions_mean", self.interactions_mean)
        positive = ("sd", "deviation", "whole_deviation", "log_scale_sd", "shared", "interactions_sd")
        for name in (*positive, "flatness", "own_personal", "interactions_deviation"):
            check_real(name, getattr(self, name), low=0)
        for mean, sd in ((self.mean, self.sd), (self.interactions_mean, self.interactions_sd)):
            if not np.any(np.exp(-(((ALPHAS - mean) / sd) ** 2) / 2)):
                raise InputError(f"mean {mean:g} and sd {sd:g} leave no probability on [0, 1.8].")

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
        of = {PROFILES: 2 * self.profiles_weight}  # beside two others
        share = {one: of.get(one, 1 - self.profiles_weight) for one in bases if one != INTERACTIONS}
        scale = (1 - weight) / sum(share.values())
        interactions = weight * _normal(self.interactions_mean, self.interactions_sd)
        return np.concatenate(
            [scale * share[one] * self.mass if one in share else interactions for one in bases]
        )

    @cached_property
    def scale_mass(self) -> FloatArray:
        """Probability of each scale of the deviations, (5,)."""
        mass = np.exp(-((np.log(SCALES) / self.log_scale_sd) ** 2) / 2)
        return np.asarray(mass / mass.sum())

    def deviations(
        self,
        correction: FloatArray,
        spread: FloatArray,
        above: FloatArray,
        metric: IntArray,
        whole: BoolArray,
    ) -> FloatArray:
        """Return the covariance of the deviations at scale 1, (n_cells, n_cells).

        Parameters
        ----------
        correction : (n_cells,) array
            θ(0) − θ(.45) of every recommender and metric.
        spread : (n_cells, n_cells) array
            Covariance of their contributions.
        above : (n_cells,) array
            θ(0) less the value of a random order.
        metric : (n_cells,) int array
            Which metric each cell is of.
        whole : (n_cells,) bool array
            Whether that metric is linear in the rank.
        """
        height, step = (np.bincount(metric, np.abs(one)) for one in (above, correction))
        flat = USUAL_REACH * height / np.maximum(step, 1e-12)
        size = height * flat.clip(1 / MOST, MOST) ** self.flatness
        scale = np.sqrt(np.bincount(metric) * np.bincount(metric, np.diag(spread)))
        unit = np.divide(size, scale, out=np.zeros_like(size), where=scale > 0)[metric]
        unit = unit * np.where(whole, self.whole_deviation, self.deviation)
        found = spread * np.outer(unit, unit)
        # Metrics cut at a rank: a shift that recommenders share, beside what covaries as contributions do.
        sd = np.sqrt(np.diag(found)) * ~whole
        if (sd > 0).sum() > 1:
            toward = np.divide(1, sd, out=np.zeros_like(sd), where=sd > 0)
            along = (found @ toward) * (sd > 0)
            # Contributions that cancel, such as those of two opposite recommenders, share no shift.
            length = max(float(toward @ along), float(np.finfo(np.float64).tiny))
            found = found + (self.shared**2 - 1) * np.outer(along, along) / length
        return np.asarray(found)


def _normal(mean: float, sd: float) -> FloatArray:
    """Return probabilities of the grid, N(mean, sd²)."""
    mass = np.exp(-(((ALPHAS - mean) / sd) ** 2) / 2)
    return np.asarray(mass / mass.sum())
