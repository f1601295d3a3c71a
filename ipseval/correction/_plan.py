"""`plan_exposure`: expected precision by size of the random-exposure experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction._posterior import POOLING_SIZE, compute_posterior
from ipseval.correction._result import Correction
from ipseval.errors import DataWarning
from ipseval.utils.checks import check_fraction, check_positive_int, warn_user
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray

DEFAULT_SHARE = 0.05  # of randomly shown pairs that are positive, where there is no pilot
REGRET_LEVEL = 0.9
N_DRAWS = 20_000
PLAN_COLUMNS = (
    "metric",
    "n_users",
    "n_items",
    "n_positives",
    "half_width",
    "half_width_random",
    "smallest_difference",
    "regret_90",
)


@public_function
def plan_exposure(
    correction: Correction,
    *,
    n_users: Sequence[int] = (25, 100, 400),
    n_items: Sequence[int] = (10, 20, 50),
    positive_share: float | None = None,
    power: float = 0.8,
) -> pd.DataFrame:
    """Compute the expected precision of `correct` by size of the random-exposure experiment.

    Parameters
    ----------
    correction : Correction
        A correction from the log alone, or with random exposure as a pilot, whose variance is used then.
    n_users, n_items : sequences of int, default (25, 100, 400) and (10, 20, 50)
        Numbers of users, and of items shown at random to every user; each combination is a row.
    positive_share : float, optional
        Share of randomly shown pairs that are positive, in (0, 1]. Default: the share in the pilot, or 0.05
        with a `DataWarning` where there is none.
    power : float, default 0.8
        Probability to detect the smallest difference.

    Returns
    -------
    DataFrame
        One row per metric, n_users and n_items, with

        * n_positives: expected number of random-exposure positives;
        * half_width: half the width of the interval of the bias-corrected estimate, mean over recommenders;
        * half_width_random: half the width of the interval of the random sample alone;
        * smallest_difference: difference of two recommenders that is detected with probability `power`,
          median over pairs;
        * regret_90: 90th percentile of the regret of choosing the recommender with the highest estimate.

    Raises
    ------
    InputError
        When a number or a share is out of range.

    See Also
    --------
    correct : Bias-corrected estimates, with or without random exposure.

    Notes
    -----
    The experiment has h = users × items × share positives, whose mean has covariance Σ(h). V is the
    covariance of the values of the recommenders before the experiment, given the prior, the log and the
    reference values. The best linear estimate has covariance V − V(V + Σ)⁺V.

    Examples
    --------
    The precision of two experiments, planned from a correction that reads the log alone:

    >>> from ipseval import correct, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> correction = correct(world.example_models(split, rng=2), split, metrics=["recall@10"], rng=3)
    >>> plan = plan_exposure(correction, n_users=[25, 400], n_items=[20], positive_share=0.05)
    >>> plan[["n_users", "n_items", "n_positives", "half_width", "smallest_difference"]].round(2)
       n_users  n_items  n_positives  half_width  smallest_difference
    0       25       20         25.0        0.13                 0.21
    1      400       20        400.0        0.04                 0.07
    """
    if positive_share is None:
        positive_share = _estimate_positive_share(correction)
    check_fraction("positive_share", positive_share, high_open=False)
    check_fraction("power", power)
    sizes = []
    for n_exposed, n_shown in product(n_users, n_items):
        sizes.append((check_positive_int("n_users", n_exposed), check_positive_int("n_items", n_shown)))
    experiments = _plan_experiments(correction, sizes, positive_share)

    n_models = len(correction.models)
    mean = correction.posterior.total_mean
    covariance = correction.posterior.total_covariance
    draws = np.random.default_rng(0).standard_normal((2, N_DRAWS, n_models))
    z_interval = float(ndtri((1 + correction.confidence_level) / 2))
    z_detection = z_interval + float(ndtri(power))
    rows = []
    for number, metric in enumerate(correction.path.metrics):
        cells = slice(number * n_models, (number + 1) * n_models)
        for experiment in experiments:
            metric_covariance = experiment.covariance[cells, cells]
            half_width = np.sqrt(np.diag(metric_covariance)).mean()
            half_width_random = np.sqrt(np.diag(experiment.noise)[cells]).mean()
            regret = _regret_percentile(mean[cells], covariance[cells, cells], metric_covariance, draws)
            rows.append(
                {
                    "metric": metric.label,
                    "n_users": experiment.n_users,
                    "n_items": experiment.n_items,
                    "n_positives": experiment.n_positives,
                    "half_width": z_interval * float(half_width),
                    "half_width_random": z_interval * float(half_width_random),
                    "smallest_difference": z_detection * _median_error_of_differences(metric_covariance),
                    "regret_90": regret,
                }
            )
    return pd.DataFrame(rows, columns=list(PLAN_COLUMNS))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Experiment:
    """A planned experiment, with its expected precision.

    Attributes
    ----------
    n_users, n_items : int
    n_positives : float
        Expected number of random-exposure positives.
    noise : (n_cells, n_cells) array
        Covariance of the mean over these positives, Σ.
    covariance : (n_cells, n_cells) array
        Covariance of the bias-corrected estimates, V − V(V + Σ)⁺V.
    """

    n_users: int
    n_items: int
    n_positives: float
    noise: FloatArray
    covariance: FloatArray


def _plan_experiments(
    correction: Correction, sizes: Sequence[tuple[int, int]], positive_share: float
) -> list[_Experiment]:
    """Return the expected precision of experiments with (users, items) of these sizes."""
    # The pilot is part of the planned exposure, so V is conditioned on prior, log and reference values only.
    without_sample = compute_posterior(correction.path, correction.prior, None, correction.observations)
    covariance = without_sample.total_covariance
    experiments = []
    for n_users, n_items in sizes:
        n_positives = n_users * n_items * positive_share
        noise = _expected_noise(correction, n_positives, n_items * positive_share)
        experiments.append(
            _Experiment(
                n_users=n_users,
                n_items=n_items,
                n_positives=n_positives,
                noise=noise,
                covariance=_condition_covariance(covariance, noise),
            )
        )
    return experiments


def _condition_covariance(covariance: FloatArray, noise: FloatArray) -> FloatArray:
    """Return V − V(V + Σ)⁺V."""
    # Recommenders with equal ranks make V + Σ singular.
    inverse = np.linalg.pinv(covariance + noise, hermitian=True)
    return np.asarray(covariance - covariance @ inverse @ covariance)


def _median_error_of_differences(covariance: FloatArray) -> float:
    """Return the median standard error of the differences of two recommenders; NaN for a single one."""
    variance = np.diag(covariance)
    first, second = np.triu_indices(len(variance), 1)
    if not first.size:
        return float("nan")
    differences = variance[first] + variance[second] - 2 * covariance[first, second]
    return float(np.median(np.sqrt(np.maximum(differences, 0))))


def _regret_percentile(
    mean: FloatArray, covariance: FloatArray, planned_covariance: FloatArray, draws: FloatArray
) -> float:
    """Return the 90th percentile of the regret of choosing the recommender with the highest estimate.

    The estimate E[θ | exposure] has the covariance `covariance − planned_covariance`.
    """
    estimate = mean + draws[0] @ _symmetric_root(covariance - planned_covariance)
    truth = estimate + draws[1] @ _symmetric_root(planned_covariance)
    choice = estimate.argmax(axis=1)[:, None]
    choice_value = np.take_along_axis(truth, choice, axis=1)[:, 0]
    return float(np.quantile(truth.max(axis=1) - choice_value, REGRET_LEVEL))


def _symmetric_root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric root of a covariance, with negative eigenvalues set to 0.

    Rounding, or a pilot that is larger than the planned exposure, makes them negative.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    return np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0)) @ eigenvectors.T)


def _estimate_positive_share(correction: Correction) -> float:
    """Return the share of the pilot's pairs that are positive, or the default with a warning."""
    exposure = correction.random_exposure
    if exposure is None or not exposure.positive.any():
        warn_user(
            "positive_share was not given, and there is no pilot with a positive, so "
            f"{DEFAULT_SHARE:.0%} of the randomly shown pairs are assumed to be positive. The plan depends "
            "on this share. Pass positive_share.",
            DataWarning,
        )
        return DEFAULT_SHARE
    return float(exposure.positive.mean())


def _expected_noise(correction: Correction, n_positives: float, user_positives: float) -> FloatArray:
    """Return the covariance of the mean of random positives, `user_positives` per user on average."""
    path = correction.path
    sample = correction.sample
    root = np.sqrt(1 + path.within * user_positives)
    spread = np.tensordot(correction.posterior.grid_mass, path.spread, 1)
    noise = spread * np.outer(root, root) / n_positives
    if sample is not None:
        sample_share = sample.size / (sample.size + POOLING_SIZE)
        noise = (1 - sample_share) * noise + sample_share * sample.sample_covariance * (
            sample.size / n_positives
        )
    return np.asarray(noise + path.half_hit(n_positives))
