"""Offline differences against A/B results, with the noise of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, norm

from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Notes, Remark, Table
from ipseval.studies.online._noise import Noisy, TrueSpread, naive_pearson, reliability
from ipseval.utils.checks import (
    as_generator,
    check_fraction,
    check_positive_int,
    counted,
    examples,
)
from ipseval.utils.types import FloatArray, IntArray, RngLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("sign", "pearson", "kendall", "naive_pearson", "cv_gain", "n_needed")
VERSIONS = ["model", "reference"]
INDICATOR = ("metric", "estimator", "gamma")
FEWEST = 8
N_RESAMPLES = 1000
# indicator, experiment, offline, offline_error, online, online_error; one row per indicator; notes
Joined = tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]
POWER = norm.ppf(0.975) + norm.ppf(0.8)


@dataclass(frozen=True, eq=False, repr=False)
class OnlineAgreement(Result):
    """How offline differences agree with online ones, one row per indicator: of `online_agreement`.

    Attributes
    ----------
    frame : DataFrame
        The columns that tell indicators apart (metric, estimator, gamma, where given) and

        * sign, sign_low, sign_high : share of the experiments with equal signs (one of two zeros counts ½),
          Wilson's interval; sign_true : the chance that the *true* differences of an experiment have equal
          signs, under the normal model;
        * pearson, pearson_low, pearson_high : correlation of the true differences, both noises taken out;
          an end of ±1: not bounded there;
        * kendall, kendall_low, kendall_high : 2/π · arcsin of it, Kendall's τ of normal differences;
        * naive_pearson, naive_kendall : of the measured differences, too near 0;
        * reliability_offline, reliability_online : share of the measured variance that is true;
        * slope : true online difference per true offline difference;
        * cv_gain, cv_error : log density of held-out online differences gained over a prediction without the
          indicator, in nats per experiment, and its standard error; cv_sign : share of held-out experiments
          whose sign is predicted;
        * behind, behind_error : cv_gain of the best minus this one's, and its standard error;
        * n_needed : experiments like these for an interval of ± `half_width`; n_to_tell : for telling the
          best indicator from this one (power 80%, 95%); NaN where the difference is 0.
    data : DataFrame
        indicator (row number of `frame`), experiment, offline, offline_error, online, online_error.
    best : int
        Row of `frame` with the largest cv_gain.
    chosen_share : float
        How often the same indicator is best when the experiments are drawn again.
    nested_gain : float
        cv_gain of the whole procedure: the indicator is chosen without the experiments it is judged on. That
        of the best is larger on average, as it was chosen for it.
    n_experiments : int
    confidence_level, half_width : float
    notes : tuple of str
    """

    frame: pd.DataFrame
    data: pd.DataFrame
    best: int
    chosen_share: float
    nested_gain: float
    n_experiments: int
    confidence_level: float
    half_width: float
    notes: tuple[str, ...]

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per indicator, what to read from it, what was left out."""
        names = [name for name in INDICATOR if name in self.frame]
        bounds = [f"{name}_{end}" for name in ("sign", "pearson", "kendall") for end in ("low", "high")]
        shown = self.frame[[name for name in self.frame if name in (*names, *SHOWN, *bounds)]]
        shown = shown.sort_values("cv_gain", ascending=False, kind="stable")
        formats = dict.fromkeys(map(str, shown), f".{digits}f") | {
            "n_needed": ".0f",
            "gamma": "g",
            "cv_gain": ".3f",
        }
        best = self.frame.iloc[self.best]
        label = " ".join(str(best[name]) for name in names) or "the indicator"
        best_one = (
            f"Best by cross-validation: {label}, chosen again in {self.chosen_share:.0%} of draws of the "
            "experiments."
        )
        lines = (
            f"Gain of choosing and predicting: {self.nested_gain:.3f} nats per experiment "
            "(nested cross-validation).",
            "pearson and kendall are of the true differences: both noises are taken out, under a normal "
            "model. naive_pearson leaves them in and is too near 0.",
            f"n_needed: experiments like these for an interval of ± {self.half_width:g}.",
            *(f"{note[:1].upper()}{note[1:]}." for note in self.notes),
        )
        summary = (
            f"{self.n_experiments} online experiments, {len(self.frame)} offline indicators; "
            f"{self.confidence_level:.0%} intervals.",
        )
        table = Table.of(shown, formats=formats, n_keys=max(len(names), 1))
        verdict = (Remark("Verdict", (best_one,)),)
        return Tables(summary, (table, Notes(lines)), title="Offline and online", verdict=verdict)

    def plot(self, indicator: int | None = None, *, ax: Axes | None = None) -> Axes:  # type: ignore[override]  # of an indicator
        """Return axes with online against offline differences, their errors, and the line of true ones.

        `indicator`: row of `frame`; default: the best.
        """
        from ipseval.reporting.plots.references import plot_online

        row = self.best if indicator is None else indicator
        if not 0 <= row < len(self.frame):
            raise InputError(f"indicator must be a row of the frame, 0 to {len(self.frame) - 1}; got {row}.")
        one = self.frame.iloc[row]
        names = [str(one[name]) for name in INDICATOR if name in self.frame]
        part = self.data[self.data["indicator"] == row]
        line = (float(one["slope"]), float(one["intercept"]))
        return plot_online(part, line=line, label=" ".join(names) or "offline", ax=ax)


def _joined(offline: Any, online: Any) -> Joined:
    """Return the differences of experiments in both frames, the indicators by number, and notes."""
    offline, online = _checked("offline", offline), _checked("online", online)
    keys = ["experiment"] if "experiment" in online and "experiment" in offline else VERSIONS
    for name, frame in (("offline", offline), ("online", online)):
        missing = [key for key in keys if key not in frame]
        if missing:
            raise InputError(
                f"{name} needs a column 'experiment', or 'model' and 'reference' (the two versions); it has "
                f"{examples(frame.columns, 12)}."
            )
    offline, online = _keyed(offline, keys), _keyed(online, keys)
    repeated = online["key"][online["key"].duplicated()].unique()
    if repeated.size:
        raise InputError(f"online has several rows for {examples(repeated)}; pool them into one each.")
    named = [name for name in INDICATOR if name in offline]
    indicators = offline[named].drop_duplicates().reset_index(drop=True) if named else pd.DataFrame(index=[0])
    # A frame without columns has rows in some versions of pandas only, so one indicator is no look-up.
    numbers = {row: number for number, row in enumerate(_rows(indicators))}
    offline["indicator"] = [numbers[row] for row in _rows(offline[named])] if named else 0
    twice = offline.duplicated(["indicator", "key"])
    if twice.any():
        raise InputError(
            f"offline has several rows for {examples(offline['key'][twice].unique())} and one indicator; "
            f"an indicator is told by the columns {', '.join(INDICATOR)}."
        )
    return _matched(offline, online, indicators)


def _rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows as keys; what is missing is equal to itself."""
    return [tuple("" if pd.isna(one) else one for one in row) for row in frame.itertuples(index=False)]


def _matched(offline: pd.DataFrame, online: pd.DataFrame, indicators: pd.DataFrame) -> Joined:
    both = offline.merge(online, on="key", suffixes=("_offline", "_online"))
    notes = []
    for name, frame, other in (("offline", offline, online), ("online", online, offline)):
        n_alone = (~frame.drop_duplicates("key")["key"].isin(other["key"])).sum()
        if n_alone:
            notes.append(f"{counted(int(n_alone), 'experiment')} of {name} has no match and is left out")
    flip = np.where(both["first_offline"] == both["first_online"], 1.0, -1.0)
    frame = pd.DataFrame(
        {
            "indicator": both["indicator"],
            "experiment": both["key"],
            "offline": flip * both["difference_offline"],
            "offline_error": both["std_error_offline"],
            "online": both["difference_online"],
            "online_error": both["std_error_online"],
        }
    )
    known = frame[["offline", "offline_error", "online", "online_error"]].notna().all(axis=1)
    whole = frame[known].groupby("experiment")["indicator"].nunique() == len(indicators)
    kept = frame["experiment"].isin(whole.index[whole])
    n_partial = frame["experiment"][~kept].nunique()
    if n_partial:
        text = counted(n_partial, "experiment")
        notes.append(f"{text} without a defined difference for every indicator left out of all")
    return frame[kept].reset_index(drop=True), indicators, tuple(notes)


def _checked(name: str, given: Any) -> pd.DataFrame:
    if not isinstance(given, pd.DataFrame):
        raise InputError(f"{name} must be a DataFrame; got {type(given).__name__}.")
    missing = [column for column in ("difference", "std_error") if column not in given]
    if missing:
        raise InputError(
            f"{name} needs columns difference and std_error; it has {examples(given.columns, 12)}."
        )
    try:
        frame = given.reset_index(drop=True).astype({"difference": np.float64, "std_error": np.float64})
    except (TypeError, ValueError):
        raise InputError(f"columns difference and std_error of {name} must hold numbers.") from None
    numbers = frame[["difference", "std_error"]].to_numpy()
    bad = (numbers[:, 1] < 0) | np.isinf(numbers).any(axis=1)
    if bad.any():
        raise InputError(f"{int(bad.sum())} rows of {name} are infinite or have a std_error below 0.")
    return frame


def _keyed(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add the key of the experiment, and which of its two versions stands first."""
    names = list(frame[keys].astype(str).itertuples(index=False))
    frame["first"] = [first for first, *_ in names]
    frame["key"] = [" / ".join(sorted(one)) for one in names]
    return frame


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
    both, indicators, notes = _joined(offline, online)
    names = sorted(both["experiment"].unique())
    if len(names) < FEWEST:
        raise InputError(
            f"at least {FEWEST} experiments need an offline and an online difference; got {len(names)}."
        )
    data = []
    for number in range(len(indicators)):
        part = both[both["indicator"] == number].set_index("experiment").loc[names]
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
    frame = pd.concat([indicators, pd.DataFrame(rows)], axis=1)
    draws = generator.integers(0, len(names), (N_RESAMPLES, len(names)))
    again = np.stack([gains[:, draw].mean(axis=1) for draw in draws])
    share = float((again.argmax(axis=1) == best).mean())
    nested = _nested(data, gains, generator, n_folds)
    many = (len(names), level, half_width)
    return OnlineAgreement(frame, both, best, share, nested, *many, notes)


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
