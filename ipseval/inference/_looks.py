"""Precision that is reached early: looks at a growing share of the users, each at a level of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from ipseval._checks import check_choice, check_fraction, check_positive_int, check_real
from ipseval._types import FloatArray, readonly

# Share of 1 − confidence that is spent after the first and the second look; every later look spends 60 % of
# the rest. The first look is there to learn the variance, the second is planned to be the last.
SPENT = (0.02, 0.8)
LATER = 0.6
# A look is planned a little beyond the users that the variance asks for, as it is an estimate.
MARGIN = 1.08
# Looks closer than this would tell nothing new, and the users of one more are not worth a look before it.
STEP = 1.1
NODES = 128


@dataclass(frozen=True)
class Until:
    """When enough users are ranked: no half-width of an interval is above `half_width`.

    Attributes
    ----------
    half_width : float
        In the unit of the metrics, > 0. It holds for every metric and estimator that is asked for.
    of : {"levels", "differences"}
        Intervals of the estimates, or of the paired differences between recommenders, which are narrower.
    reference : str or None
        Only differences to this recommender; None: of every pair.
    first : int
        Users of the first look, from which the variance is learnt, at least 30.

    Raises
    ------
    InputError
        For values out of range.
    """

    half_width: float
    of: Literal["levels", "differences"] = "levels"
    reference: str | None = None
    first: int = 1_000

    def __post_init__(self) -> None:
        check_real("until", self.half_width, low=0, low_open=True)
        check_choice("of", self.of, ("levels", "differences"))
        check_positive_int("first", self.first, minimum=30)


def spent(n_looks: int, *, final: bool = False) -> FloatArray:
    """Return the share of 1 − confidence that is spent after each look, ascending, (n_looks,).

    `final`: no look can follow the last one, so that it spends all.

    Examples
    --------
    >>> spent(4).round(3).tolist()
    [0.02, 0.8, 0.92, 0.968]
    """
    later = 1 - (1 - SPENT[1]) * (1 - LATER) ** np.arange(1, max(n_looks - 1, 1))
    shares = np.concatenate([SPENT, later])[:n_looks]
    shares[-1] = 1.0 if final else shares[-1]
    return shares


def boundary(n: FloatArray, *, confidence_level: float, final: bool = False) -> FloatArray:
    """Return z of each look, (n_looks,): at all of them together |Z| ≤ z with `confidence_level`.

    Z is the standardised mean of n_1 < n_2 < … users, normal with correlations √(n_j/n_k). Look k spends what
    `spent` says: P(|Z_j| ≤ z_j for j < k, |Z_k| > z_k) is the share that it adds. As users are ranked in
    random order, and the sizes of the looks follow from variances, the intervals R̂ ∓ z_k SE hold the truth
    together with at least this probability, in large samples, whatever the look at which one stops.

    Parameters
    ----------
    n : (n_looks,) array
        Users at each look, ascending.
    confidence_level : float
        In (0, 1).
    final : bool
        Whether no look can follow the last one.

    References
    ----------
    Lan & DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983, doi
    10.1093/biomet/70.3.659. The recursion: Armitage, McPherson & Rowe, JRSS A 132, 1969, doi 10.2307/2343787.

    Examples
    --------
    >>> boundary(np.array([1000.0, 4000.0]), confidence_level=0.95).round(3).tolist()
    [3.291, 2.06]
    """
    check_fraction("confidence_level", confidence_level)
    added = np.diff(spent(n.size, final=final), prepend=0.0) * (1 - confidence_level)
    found = [float(-ndtri(added[0] / 2))]
    # Brownian motion at times n: nodes inside the bounds so far, and the mass of the paths that are there.
    place, mass = _nodes(found[0] * np.sqrt(n[0]))
    mass = mass * _density(place, n[0])
    for (before, now), share in zip(pairwise(n), added[1:], strict=True):
        found.append(_crossed(place, mass, float(before), float(now), float(share)))
        inside, weight = _nodes(found[-1] * np.sqrt(now))
        mass = weight * (_density(inside[:, None] - place, now - before) @ mass)
        place = inside
    return np.array(found)


def planned(n: int, n_all: int, worst: float, looks: list[int], *, confidence_level: float) -> int:
    """Return the users of the next look, more than n.

    Parameters
    ----------
    n : int
        Users so far.
    n_all : int
        Users there are.
    worst : float
        Largest standard error, as a multiple of the half-width that is wanted; NaN: not known.
    looks : list of int
        Sizes of the looks so far, n the last.
    """
    wanted = STEP * n
    if np.isfinite(worst):
        for _ in range(3):  # z depends, a little, on how large the look is
            sizes = np.array([*looks, max(wanted, STEP * n)], dtype=float)
            z = boundary(sizes, confidence_level=confidence_level)[-1]
            wanted = MARGIN * n * (z * worst) ** 2
    else:
        wanted = 2.0 * n
    wanted = max(wanted, STEP * n)
    return n_all if wanted * STEP >= n_all else int(np.ceil(wanted))


def _nodes(reach: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the Gauss rule on [−reach, reach], (NODES,) each."""
    node, weight = _unit_nodes()
    return reach * node, reach * weight


@cache
def _unit_nodes() -> tuple[FloatArray, FloatArray]:
    node, weight = np.polynomial.legendre.leggauss(NODES)
    return readonly(node), readonly(weight)


def _density(x: FloatArray, variance: float) -> FloatArray:
    return np.asarray(np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))


def _crossed(place: FloatArray, mass: FloatArray, before: float, now: float, share: float) -> float:
    """Return z for which a path that was inside is beyond ± z √n at this look with probability `share`."""
    from scipy.optimize import brentq

    step = np.sqrt(now - before)

    def surplus(z: float) -> float:
        reach = z * np.sqrt(now)
        beyond = ndtr((place - reach) / step) + ndtr(-(place + reach) / step)
        return float(mass @ beyond) - share

    return float(brentq(surplus, 0.0, 40.0, xtol=1e-10))
