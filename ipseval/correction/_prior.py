"""The prior distribution of the correction strength and of the deviations from the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import check_fraction, check_real
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray

ALPHAS = np.linspace(0, 1.8, 25)
ALPHAS.setflags(write=False)
SCALES = 0.4 * 2.5 ** np.arange(5)
SCALES.setflags(write=False)
SPIKE_WIDTH = 0.03

# Deviations are larger where the path is flat: where the correction at α = 0.45 is below this share of AOA
# above chance. The ratio is limited to MAX_FLATNESS_RATIO.
USUAL_CORRECTION = 0.5
MAX_FLATNESS_RATIO = 5.0

# Sums of correlations below this number, relative to the number of recommenders, are rounding.
SMALLEST_CORRELATION = 1e-12

# Position on the grid at which corrections are measured: α = 0.45.
REFERENCE = 6

# Bases of the odds of a path; see CorrectionPath.
PAIRS = "pairs"
ITEMS = "items"
PROFILES = "profiles"
INTERACTIONS = "interactions"


@public_class
@dataclass(frozen=True)
class CorrectionPrior:
    """The prior of the correction strength α, and of the deviations that no α can express.

    The default makes the true values of two families of simulated logs, and of Coat, likely:
    `python -m reproductions.correction_prior`.

    Parameters
    ----------
    no_bias : float, default 0.08
        Probability, in (0, 1), that the log needs no correction.
    mean, sd : float, default 0.5 and 0.6
        Mean and standard deviation of α otherwise; sd > 0.
    deviation, whole_deviation, flatness : float, default 0.06, 0.11 and 0.8
        Size of the deviations of metrics cut at a rank, size of the deviations of metrics that are linear in
        the rank, and the exponent for flat paths; see the notes.
    log_scale_sd : float, default 0.7
        Standard deviation of the logarithm of a scale, > 0.
    shared : float, default 1.6
        Standard deviation of the shift that all recommenders share, relative to the remaining deviations.
    own_personal : float, default 0.4
        Standard deviation of the share of profiles in selection.
    interactions_mean, interactions_sd : float, default 1.05 and 0.18
        Mean and standard deviation of α for odds of all interactions; sd > 0.
    interactions_weight : float, default 0.75
        Probability, in (0, 1), of the basis of all interactions.
    interactions_deviation : float, default 0.6
        Standard deviation of the deviations for that basis, relative to the odds of positives.
    profiles_weight : float, default 0.05
        Probability, in (0, 1), of the basis of profiles among the bases of positives.

    Raises
    ------
    InputError
        For a parameter out of range, and for a mean and sd without probability on the grid of α.

    See Also
    --------
    correct : Estimates that use the prior.

    Notes
    -----
    α is near 0 with probability `no_bias`, and N(mean, sd²) on [0, 1.8] otherwise.

    The true values deviate from θ(α) as if the weights had errors that are not a power of the odds: normal
    deviations that covary as the contributions of the recommenders do, so that equal recommenders deviate
    equally. Their mean standard deviation in a metric is `deviation` times h (h/2c)^`flatness`. Here h is AOA
    above chance, and c the size of the correction of the metric, |θ(0) − θ(0.45)| averaged over recommenders:
    where the path is flat, a large part of the bias may be missing. Metrics that are linear in the rank
    depend on the whole ranking, of which a power of the odds expresses less, so their factor is
    `whole_deviation`. Metrics cut at a rank have a shift in common.

    Every principal axis of the deviations has an unknown scale, from 0.4 to 16, whose logarithm is normal
    around 0, so that a large deviation along one axis does not imply large deviations along the remaining
    axes. The share of profiles in selection is unknown, too: it moves each kind of metrics along the
    difference of the paths by pairs and by items.

    Odds of positives have three bases: pairs and items, which are equally probable, and profiles, for which
    exposure depends on closeness only. Where the log holds pairs that are not positive, the odds of all
    interactions have probability `interactions_weight`, smaller deviations, and a normal distribution of α
    without a spike at 0: if exposure is uniform, these odds are equal, and no α makes the estimates worse.

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
        for name in (
            "sd",
            "deviation",
            "whole_deviation",
            "log_scale_sd",
            "shared",
            "interactions_sd",
            "flatness",
            "own_personal",
            "interactions_deviation",
        ):
            check_real(name, getattr(self, name), low=0)
        _check_mass(self.mean, self.sd)
        _check_mass(self.interactions_mean, self.interactions_sd)

    @property
    def alpha(self) -> FloatArray:
        """The grid of α, (25,)."""
        return ALPHAS

    @cached_property
    def mass(self) -> FloatArray:
        """Probability of each α of the grid, (25,), for odds of positives."""
        spike = np.exp(-((ALPHAS / SPIKE_WIDTH) ** 2) / 2)
        normal = _normal(self.mean, self.sd)
        return np.asarray(self.no_bias * spike / spike.sum() + (1 - self.no_bias) * normal)

    def grid_mass(self, bases: Sequence[str]) -> FloatArray:
        """Return the probability of each α for each basis in turn, (25 · n_bases,).

        Parameters
        ----------
        bases : sequence of str
            Bases of the odds, as in `CorrectionPath.bases`.

        Returns
        -------
        (25 * n_bases,) float array
            Probabilities of the 25 strengths of each basis; they add up to 1.
        """
        interactions_weight = self.interactions_weight if INTERACTIONS in bases else 0.0
        shares = {}
        for basis in bases:
            if basis == PROFILES:
                # The two bases next to it have share 1 − profiles_weight each.
                shares[basis] = 2 * self.profiles_weight
            elif basis != INTERACTIONS:
                shares[basis] = 1 - self.profiles_weight
        positives_weight = (1 - interactions_weight) / sum(shares.values())

        masses = []
        for basis in bases:
            if basis == INTERACTIONS:
                normal = _normal(self.interactions_mean, self.interactions_sd)
                masses.append(interactions_weight * normal)
            else:
                masses.append(positives_weight * shares[basis] * self.mass)
        return np.concatenate(masses)

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
        """Compute the covariance of the deviations at scale 1.

        Parameters
        ----------
        correction : (n_cells,) array
            θ(0) − θ(0.45) of every recommender and metric.
        spread : (n_cells, n_cells) array
            Covariance of their contributions.
        above : (n_cells,) array
            θ(0) minus the value of a random ranking.
        metric : (n_cells,) int array
            Position of the metric of each cell.
        whole : (n_cells,) bool array
            Whether that metric is linear in the rank.

        Returns
        -------
        (n_cells, n_cells) array
            The covariance.
        """
        height = np.bincount(metric, np.abs(above))
        correction_size = np.bincount(metric, np.abs(correction))
        flatness_ratio = USUAL_CORRECTION * height / np.maximum(correction_size, 1e-12)
        flatness_ratio = flatness_ratio.clip(1 / MAX_FLATNESS_RATIO, MAX_FLATNESS_RATIO)
        size = height * flatness_ratio**self.flatness

        contribution_size = np.sqrt(np.bincount(metric) * np.bincount(metric, np.diag(spread)))
        scale = np.divide(size, contribution_size, out=np.zeros_like(size), where=contribution_size > 0)
        cell_scale = scale[metric] * np.where(whole, self.whole_deviation, self.deviation)
        covariance = spread * np.outer(cell_scale, cell_scale)
        return np.asarray(self._scale_shared_shift(covariance, whole))

    def _scale_shared_shift(self, covariance: FloatArray, whole: BoolArray) -> FloatArray:
        """Return the covariance with a rescaled shift that recommenders share by metrics cut at a rank."""
        sd = np.sqrt(np.diag(covariance)) * ~whole
        varies = sd > 0
        if varies.sum() <= 1:
            return covariance
        contrast = np.divide(1, sd, out=np.zeros_like(sd), where=varies)
        direction = (covariance @ contrast) * varies
        # The sum of the correlations is 0, up to rounding, where contributions cancel, such as for two opposite
        # recommenders: they share no shift.
        variance = float(contrast @ direction)
        if variance < SMALLEST_CORRELATION * varies.sum():
            return covariance
        return covariance + (self.shared**2 - 1) * np.outer(direction, direction) / variance


def _normal_density(mean: float, sd: float) -> FloatArray:
    """Return the density of N(mean, sd²) on the grid, up to a constant."""
    return np.asarray(np.exp(-(((ALPHAS - mean) / sd) ** 2) / 2))


def _normal(mean: float, sd: float) -> FloatArray:
    """Return the probabilities of the grid under N(mean, sd²)."""
    mass = _normal_density(mean, sd)
    return np.asarray(mass / mass.sum())


def _check_mass(mean: float, sd: float) -> None:
    """Raise `InputError` for a normal distribution without probability on the grid."""
    if not _normal_density(mean, sd).any():
        raise InputError(f"mean {mean:g} and sd {sd:g} leave no probability on [0, 1.8].")
