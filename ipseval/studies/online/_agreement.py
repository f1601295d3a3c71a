"""online_agreement(): offline differences against A/B results, with the noise of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, norm

from ipseval._base.checks import as_generator, check_fraction, check_positive_int
from ipseval._base.types import FloatArray, IntArray, RngLike
from ipseval.errors import InputError
from ipseval.studies.online._join import joined
from ipseval.studies.online._noise import Noisy, TrueSpread, naive_pearson, reliability
from ipseval.studies.online._result import OnlineAgreement

FEWEST = 8
N_RESAMPLES = 1000
POWER = norm.ppf(0.975) + norm.ppf(0.8)


def online_agreement(
    offline: Any,
    online: Any,
    *,
    half_width: float = 0.1,
    confidence_level: float = 0.95,
    n_folds: int = 10,
    rng: RngLike = None,
) -> OnlineAgreement:
    """Return how far offline differences between versions agree with what online experiments measured.

    Measured differences are true ones plus noise of known size, x_i = ξ_i + e_i and y_i = η_i + f_i. The
    noises pull every measured correlation towards 0. Here (ξ, η) is normal over experiments with covariance
    Σ, fitted by restricted maximum likelihood; the interval of the correlation is that of its profile
    likelihood, widened where the tails are heavy. This needs that the noises of both sides are independent of
    each other (other users or other times), that their standard errors are right, and experiments like a
    random draw of those to come.

    Parameters
    ----------
    offline : DataFrame
        difference, std_error, and what tells experiments apart: `experiment`, or `model` and `reference` (the
        two versions; `Evaluation.compare()` has them, and their order is set right). One indicator for each
        combination of metric, estimator and gamma, where these columns are given.
    online : DataFrame
        difference, std_error of the A/B tests, and the same columns for experiments; one row each.
    half_width : float
        Of the interval that `n_needed` is for.
    confidence_level : float
    n_folds : int
        Of the cross-validation over experiments.
    rng : int, Generator or None
        Of folds and draws.

    Raises
    ------
    InputError
        For fewer than 8 experiments with both differences, missing columns, negative standard errors,
        repeated experiments, and differences that are all equal.

    References
    ----------
    Fuller, Measurement Error Models, Wiley 1987, doi 10.1002/9780470316665; Jeunen, Potapov and Ustimenko,
    On (normalised) discounted cumulative gain as an off-policy evaluation metric, KDD 2024,
    doi 10.1145/3637528.3671687

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(size=60)
    >>> offline = pd.DataFrame({"experiment": range(60), "difference": true + rng.normal(size=60)})
    >>> online = pd.DataFrame({"experiment": range(60), "difference": true + rng.normal(size=60)})
    >>> found = online_agreement(offline.assign(std_error=1.0), online.assign(std_error=1.0)).frame
    >>> bool(found.loc[0, "naive_pearson"] < 0.6 < found.loc[0, "pearson_high"])
    True
    """
    level = check_fraction("confidence_level", confidence_level)
    check_fraction("half_width", half_width)
    check_positive_int("n_folds", n_folds, minimum=2)
    both = joined(offline, online)
    names = sorted(both.frame["experiment"].unique())
    if len(names) < FEWEST:
        raise InputError(
            f"at least {FEWEST} experiments need an offline and an online difference; got {len(names)}."
        )
    data = []
    for number in range(len(both.indicators)):
        part = both.frame[both.frame["indicator"] == number].set_index("experiment").loc[names]
        columns = (part[name].to_numpy() for name in ("offline", "online", "offline_error", "online_error"))
        x, y, error_x, error_y = columns
        if not (np.ptp(x) > 0 and np.ptp(y) > 0):
            raise InputError("all offline, or all online, differences are equal; there is nothing to agree.")
        data.append(Noisy(x, y, error_x**2, error_y**2))
    generator = as_generator(rng)
    gains, predictions = _cross_validated(data, generator, n_folds)
    means = gains.mean(axis=1)
    best = int(np.argmax(means))
    rows = [
        _row(one, level, half_width) | _validated(gains, predictions, one, place, best)
        for place, one in enumerate(data)
    ]
    frame = pd.concat([both.indicators, pd.DataFrame(rows)], axis=1)
    draws = generator.integers(0, len(names), (N_RESAMPLES, len(names)))
    again = np.stack([gains[:, draw].mean(axis=1) for draw in draws])
    share = float((again.argmax(axis=1) == best).mean())
    nested = _nested(data, gains, generator, n_folds)
    many = (len(names), level, half_width)
    return OnlineAgreement(frame, both.frame, best, share, nested, *many, both.notes)


def _row(data: Noisy, level: float, half_width: float) -> dict[str, float]:
    """Return what is said of one indicator over all experiments."""
    fit, n = TrueSpread.of(data), len(data)
    low, high = fit.interval(level)
    product = np.sign(data.x) * np.sign(data.y)
    share = float((product > 0).mean() + 0.5 * (product == 0).mean())
    (xx, xy), _ = fit.sigma
    slope = xy / xx if xx else np.nan
    sign_low, sign_high = _wilson(share, n, level)
    return {
        "sign": share, "sign_low": sign_low, "sign_high": sign_high, "sign_true": fit.same_sign(),
        "pearson": fit.rho, "pearson_low": low, "pearson_high": high,
        "kendall": _tau(fit.rho), "kendall_low": _tau(low), "kendall_high": _tau(high),
        "naive_pearson": naive_pearson(data), "naive_kendall": float(kendalltau(data.x, data.y).statistic),
        "reliability_offline": reliability(float(fit.spread[0]), data.var_x),
        "reliability_online": reliability(float(fit.spread[1]), data.var_y),
        "slope": slope, "intercept": float(fit.mean[1] - slope * fit.mean[0]),
        "n_needed": float(np.ceil(n * ((high - low) / (2 * half_width)) ** 2)),
    }  # fmt: skip


def _tau(rho: float) -> float:
    return float(2 / np.pi * np.arcsin(rho))


def _wilson(share: float, n: int, level: float) -> tuple[float, float]:
    z = float(norm.ppf((1 + level) / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return float(centre - reach), float(centre + reach)


def _validated(
    gains: FloatArray, predictions: FloatArray, data: Noisy, place: int, best: int
) -> dict[str, float]:
    """Return the figures of cross-validation of one indicator."""
    n = gains.shape[1]
    behind = gains[best] - gains[place]
    error = float(behind.std(ddof=1) / np.sqrt(n))
    mean = float(behind.mean())
    hits = np.sign(predictions[place]) == np.sign(data.y)
    return {
        "cv_gain": float(gains[place].mean()),
        "cv_error": float(gains[place].std(ddof=1) / np.sqrt(n)),
        "cv_sign": float(hits.mean()),
        "behind": mean,
        "behind_error": error,
        "n_to_tell": float(np.ceil(n * (POWER * error / mean) ** 2)) if mean > 0 else np.nan,
    }


def _folds(n: int, n_folds: int, generator: np.random.Generator) -> list[IntArray]:
    return [np.sort(part) for part in np.array_split(generator.permutation(n), min(n_folds, n))]


def _cross_validated(
    data: list[Noisy], generator: np.random.Generator, n_folds: int
) -> tuple[FloatArray, FloatArray]:
    """Return the gain in log density of each held-out experiment, and the predictions, (indicators, n)."""
    n = len(data[0])
    gains, predictions = np.empty((len(data), n)), np.empty((len(data), n))
    for fold in _folds(n, n_folds, generator):
        rest = np.setdiff1d(np.arange(n), fold)
        for place, one in enumerate(data):
            gains[place, fold], predictions[place, fold] = _gain(one.at(rest), one.at(fold))
    return gains, predictions


def _gain(train: Noisy, held_out: Noisy) -> tuple[FloatArray, FloatArray]:
    """Return the log density gained over a prediction by the mean alone, and the predictions."""
    fit = TrueSpread.of(train)
    mean, variance = fit.predicted(held_out)
    alone = fit.sigma[1, 1] + held_out.var_y
    gain = norm.logpdf(held_out.y, mean, np.sqrt(variance)) - norm.logpdf(
        held_out.y, fit.mean[1], np.sqrt(alone)
    )
    return gain, mean


def _nested(data: list[Noisy], gains: FloatArray, generator: np.random.Generator, n_folds: int) -> float:
    """Return the mean gain where the indicator is chosen, too, without the experiments it is judged on."""
    if len(data) == 1:
        return float(gains.mean())
    n, total = len(data[0]), 0.0
    for fold in _folds(n, min(n_folds, 5), generator):
        rest = np.setdiff1d(np.arange(n), fold)
        inner, _ = _cross_validated([one.at(rest) for one in data], generator, min(n_folds, 5))
        chosen = data[int(np.argmax(inner.mean(axis=1)))]
        total += float(_gain(chosen.at(rest), chosen.at(fold))[0].sum())
    return total / n
