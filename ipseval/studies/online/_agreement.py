"""online_agreement(): agreement of offline differences with A/B results, without the noise of the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, norm

from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Notes, Remark, Table
from ipseval.studies.online._noise import (
    NoisyDifferences,
    TrueSpread,
    compute_reliability,
    naive_pearson,
)
from ipseval.utils.checks import (
    as_generator,
    check_fraction,
    check_positive_int,
    format_count,
    format_examples,
)
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, IntArray, RngLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_COLUMNS = ("sign", "pearson", "kendall", "naive_pearson", "cv_gain", "n_needed")
SHOWN_INTERVALS = ("sign", "pearson", "kendall")
VERSION_COLUMNS = ("model", "reference")
INDICATOR_COLUMNS = ("metric", "estimator", "gamma")
MIN_EXPERIMENTS = 8
MAX_INNER_FOLDS = 5
N_RESAMPLES = 1000
Z_SUM = norm.ppf(0.975) + norm.ppf(0.8)  # for a level of 95% and a power of 80%


class MatchedDifferences(NamedTuple):
    """Differences of the experiments in two frames."""

    frame: pd.DataFrame  # indicator, experiment, offline, offline_error, online, online_error
    indicators: pd.DataFrame  # one row per indicator
    notes: tuple[str, ...]


class CrossValidation(NamedTuple):
    """Predictions of held-out experiments, (n_indicators, n_experiments) each."""

    gains: FloatArray  # in log density over a prediction by the mean alone
    predictions: FloatArray


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class OnlineAgreement(Result):
    """Agreement of offline differences with online differences, one row per indicator.

    Parameters
    ----------
    frame : DataFrame
        The columns that identify indicators (metric, estimator, gamma, where given) and

        * sign, sign_low, sign_high : share of the experiments with equal signs (one of two zeros counts ½),
          Wilson's interval; sign_true : the probability that the *true* differences of an experiment have
          equal signs, under the normal model;
        * pearson, pearson_low, pearson_high : correlation of the true differences, without the noises; an end
          of ±1: not bounded there;
        * kendall, kendall_low, kendall_high : 2/π · arcsin of it, Kendall's τ of normal differences;
        * naive_pearson, naive_kendall : correlations of the measured differences, too near 0;
        * reliability_offline, reliability_online : share of the measured variance that is true;
        * slope : true online difference per true offline difference;
        * cv_gain, cv_error : log density of held-out online differences gained over a prediction without the
          indicator, in nats per experiment, and its standard error; cv_sign : share of held-out experiments
          whose sign is predicted;
        * behind, behind_error : difference of the best cv_gain to this one, and its standard error;
        * n_needed : number of similar experiments for an interval of ± `half_width`; n_to_tell : number for
          a significant difference between the best indicator and this one (power 80%, level 95%); NaN where
          the difference is 0.
    data : DataFrame
        indicator (row number of `frame`), experiment, offline, offline_error, online, online_error.
    best : int
        Row of `frame` with the largest cv_gain.
    chosen_share : float
        Share of resamples of the experiments in which the same indicator is best.
    nested_gain : float
        cv_gain of the whole procedure: the indicator is chosen without the experiments that it predicts. The
        cv_gain of the best indicator is larger on average, because the indicator was chosen for it.
    n_experiments : int
        Number of experiments with an offline and an online difference.
    confidence_level : float
        Level of all intervals.
    half_width : float
        Half-width of the interval for which `n_needed` is computed.
    notes : tuple of str
        Experiments that were left out, and limits of the results.

    See Also
    --------
    online_agreement : Compute the agreement from tables of differences.

    Examples
    --------
    Two indicators of 60 experiments, of which the second has more noise:

    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(size=60)
    >>> def measure(noise, **names):
    ...     difference = true + rng.normal(scale=noise, size=60)
    ...     return pd.DataFrame(
    ...         {"experiment": range(60), "difference": difference, "std_error": noise, **names}
    ...     )
    >>> offline = pd.concat([measure(0.3, metric="recall@10"), measure(1.0, metric="ndcg@10")])
    >>> agreement = online_agreement(offline, measure(0.3), rng=1)
    >>> agreement.frame[["metric", "sign", "pearson", "naive_pearson", "cv_gain"]].round(2)
          metric  sign  pearson  naive_pearson  cv_gain
    0  recall@10  0.88     0.98           0.89     0.73
    1    ndcg@10  0.73     1.00           0.64     0.25
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

    @property
    def _indicator_columns(self) -> list[str]:
        """Columns of the frame that identify indicators."""
        column_names: list[str] = []
        for name in INDICATOR_COLUMNS:
            if name in self.frame:
                column_names.append(name)

        return column_names

    def _describe_indicator(self, row: int) -> str:
        """Return the name of an indicator; "" if there is only one, without a name."""
        indicator = self.frame.iloc[row]
        return " ".join(str(indicator[name]) for name in self._indicator_columns)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one row per indicator, explanations, and the experiments left out.

        Parameters
        ----------
        digits : int, default 2
            Number of decimal places; `cv_gain` always has three.
        page : bool, default False
            Not used: pages have the same content.

        Returns
        -------
        Tables
            The best indicator as verdict, the table with the largest `cv_gain` first, and the notes.
        """
        bounds = []
        for name in SHOWN_INTERVALS:
            bounds.extend([f"{name}_low", f"{name}_high"])
        shown_columns = {*self._indicator_columns, *SHOWN_COLUMNS, *bounds}
        columns = [name for name in self.frame if name in shown_columns]
        rows = self.frame[columns].sort_values("cv_gain", ascending=False, kind="stable")
        formats = dict.fromkeys(map(str, columns), f".{digits}f")
        formats.update({"n_needed": ".0f", "gamma": "g", "cv_gain": ".3f"})
        table = Table.from_frame(rows, formats=formats, n_keys=max(len(self._indicator_columns), 1))
        best_indicator = self._describe_indicator(self.best) or "the indicator"
        conclusion = (
            f"Best by cross-validation: {best_indicator}, chosen again in {self.chosen_share:.0%} of draws "
            "of the experiments."
        )
        notes = [
            f"Gain of choosing and predicting: {self.nested_gain:.3f} nats per experiment "
            "(nested cross-validation).",
            "pearson and kendall are correlations of the true differences, without the noise of the "
            "measurements, under a normal model. naive_pearson includes the noise and is too near 0.",
            f"n_needed: number of similar experiments for an interval of ± {self.half_width:g}.",
        ]
        notes.extend(f"{note[:1].upper()}{note[1:]}." for note in self.notes)
        summary = (
            f"{self.n_experiments} online experiments, {len(self.frame)} offline indicators; "
            f"{self.confidence_level:.0%} intervals.",
        )
        return Tables(
            summary,
            (table, Notes(tuple(notes))),
            title="Offline and online",
            remarks=(Remark("Verdict", (conclusion,)),),
        )

    def plot(self, indicator: int | None = None, *, ax: Axes | None = None) -> Axes:  # type: ignore[override]  # of an indicator
        """Plot online against offline differences, their errors, and the line of true differences.

        Parameters
        ----------
        indicator : int, optional
            Row of `frame`. Default: the best.
        ax : matplotlib axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots.references import plot_online

        row = self.best if indicator is None else indicator
        if not 0 <= row < len(self.frame):
            raise InputError(f"indicator must be a row of the frame, 0 to {len(self.frame) - 1}; got {row}.")
        fit = self.frame.iloc[row]
        differences = self.data[self.data["indicator"] == row]
        line = (float(fit["slope"]), float(fit["intercept"]))
        return plot_online(differences, line=line, label=self._describe_indicator(row) or "offline", ax=ax)


def _match_differences(offline: object, online: object) -> MatchedDifferences:
    """Return the differences of experiments in both frames, the indicators by number, and notes."""
    offline = _check_differences("offline", offline)
    online = _check_differences("online", online)
    has_experiments = "experiment" in online and "experiment" in offline
    keys = ["experiment"] if has_experiments else list(VERSION_COLUMNS)
    for name, frame in (("offline", offline), ("online", online)):
        if any(key not in frame for key in keys):
            raise InputError(
                f"{name} needs a column 'experiment', or 'model' and 'reference' (the two versions); it has "
                f"{format_examples(frame.columns, 12)}."
            )
    offline = _add_experiment_keys(offline, keys)
    online = _add_experiment_keys(online, keys)
    repeated = online["key"][online["key"].duplicated()].unique()
    if repeated.size:
        raise InputError(f"online has several rows for {format_examples(repeated)}; pool them into one each.")
    indicators = _number_indicators(offline)
    is_repeated = offline.duplicated(["indicator", "key"])
    if is_repeated.any():
        raise InputError(
            f"offline has several rows for {format_examples(offline['key'][is_repeated].unique())} and one "
            f"indicator; an indicator is identified by the columns {', '.join(INDICATOR_COLUMNS)}."
        )
    return _merge_differences(offline, online, indicators)


def _number_indicators(offline: pd.DataFrame) -> pd.DataFrame:
    """Add the number of the indicator to each row of `offline`, and return one row per indicator."""
    columns = []
    for name in INDICATOR_COLUMNS:
        if name in offline:
            columns.append(name)

    if not columns:
        offline["indicator"] = 0
        return pd.DataFrame(index=[0])
    indicators = offline[columns].drop_duplicates().reset_index(drop=True)
    number_of_row = {}
    for number, row in enumerate(_rows_as_keys(indicators)):
        number_of_row[row] = number

    offline["indicator"] = [number_of_row[row] for row in _rows_as_keys(offline[columns])]
    return indicators


def _rows_as_keys(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """Return the rows as tuples in which missing values are equal to each other."""
    filled = frame.astype(object).where(frame.notna(), "")
    return list(filled.itertuples(index=False, name=None))


def _merge_differences(
    offline: pd.DataFrame, online: pd.DataFrame, indicators: pd.DataFrame
) -> MatchedDifferences:
    """Return the differences of the experiments that are defined for every indicator."""
    merged = offline.merge(online, on="key", suffixes=("_offline", "_online"))
    notes = []
    for name, frame, counterpart in (("offline", offline, online), ("online", online, offline)):
        experiments = frame.drop_duplicates("key")["key"]
        n_unmatched = int((~experiments.isin(counterpart["key"])).sum())
        if n_unmatched:
            notes.append(f"{format_count(n_unmatched, 'experiment')} of {name} has no match and is left out")
    sign = np.where(merged["first_offline"] == merged["first_online"], 1.0, -1.0)
    differences = pd.DataFrame(
        {
            "indicator": merged["indicator"],
            "experiment": merged["key"],
            "offline": sign * merged["difference_offline"],
            "offline_error": merged["std_error_offline"],
            "online": merged["difference_online"],
            "online_error": merged["std_error_online"],
        }
    )
    is_defined = differences[["offline", "offline_error", "online", "online_error"]].notna().all(axis=1)
    n_defined_indicators = differences[is_defined].groupby("experiment")["indicator"].nunique()
    complete_experiments = n_defined_indicators.index[n_defined_indicators == len(indicators)]
    is_complete = differences["experiment"].isin(complete_experiments)
    n_incomplete = differences["experiment"][~is_complete].nunique()
    if n_incomplete:
        notes.append(
            f"{format_count(n_incomplete, 'experiment')} without a defined difference for every indicator left "
            "out of all"
        )
    return MatchedDifferences(differences[is_complete].reset_index(drop=True), indicators, tuple(notes))


def _check_differences(argument: str, frame: object) -> pd.DataFrame:
    """Return a copy of a frame with valid differences and standard errors."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{argument} must be a DataFrame; got {type(frame).__name__}.")
    if "difference" not in frame or "std_error" not in frame:
        raise InputError(
            f"{argument} needs columns difference and std_error; it has {format_examples(frame.columns, 12)}."
        )
    try:
        checked = frame.reset_index(drop=True).astype({"difference": np.float64, "std_error": np.float64})
    except (TypeError, ValueError):
        raise InputError(f"columns difference and std_error of {argument} must contain numbers.") from None
    is_infinite = np.isinf(checked[["difference", "std_error"]].to_numpy()).any(axis=1)
    is_invalid = is_infinite | (checked["std_error"].to_numpy() < 0)
    if is_invalid.any():
        raise InputError(
            f"{int(is_invalid.sum())} rows of {argument} are infinite or have a std_error below 0."
        )
    return checked


def _add_experiment_keys(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Add the key of the experiment, and the first of its two versions."""
    names = list(frame[columns].astype(str).itertuples(index=False))
    frame["first"] = [versions[0] for versions in names]
    keys = []
    for versions in names:
        keys.append(" / ".join(sorted(versions)))

    frame["key"] = keys
    return frame


@public_function
def online_agreement(
    offline: Any,
    online: Any,
    *,
    half_width: float = 0.1,
    confidence_level: float = 0.95,
    n_folds: int = 10,
    rng: RngLike = None,
) -> OnlineAgreement:
    """Estimate how far offline differences between versions agree with the results of online experiments.

    Measured differences are true differences plus noise of known size, x_i = ξ_i + e_i and y_i = η_i + f_i.
    The noises attenuate every measured correlation. Here (ξ, η) is normal over experiments with covariance Σ,
    fitted by restricted maximum likelihood; the interval of the correlation is from its profile likelihood,
    widened where the tails are heavy. It is assumed that the offline and online noises are independent of
    each other (other users or other times), that their standard errors are right, and that the experiments
    are like a random sample of future experiments.

    Parameters
    ----------
    offline : DataFrame
        difference, std_error, and the columns that identify experiments: `experiment`, or `model` and
        `reference` (the two versions; `Evaluation.compare()` has them, and the sign is adjusted to their
        order). One indicator for each combination of metric, estimator and gamma, where these columns are
        given.
    online : DataFrame
        difference, std_error of the A/B tests, and the same columns for experiments; one row each.
    half_width : float, default 0.1
        Half-width of the interval for which `n_needed` is computed.
    confidence_level : float, default 0.95
        Level of the intervals.
    n_folds : int, default 10
        Number of folds of the cross-validation over experiments.
    rng : int, Generator or None, default None
        Source of folds and resamples.

    Returns
    -------
    OnlineAgreement
        One row per indicator in `.frame`, and the best indicator.

    Raises
    ------
    InputError
        For fewer than 8 experiments with an offline and an online difference, missing columns, negative
        standard errors, repeated experiments, and differences that are all equal.

    See Also
    --------
    ipseval.plots.plot_agreement : Plot the result.
    ipseval.order_agreement : Compare two rankings of recommenders.

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
    >>> agreement = online_agreement(offline.assign(std_error=1.0), online.assign(std_error=1.0))
    >>> row = agreement.frame.loc[0]
    >>> bool(row["naive_pearson"] < 0.6 < row["pearson_high"])
    True
    """
    level = check_fraction("confidence_level", confidence_level)
    check_fraction("half_width", half_width)
    check_positive_int("n_folds", n_folds, minimum=2)
    differences, indicators, notes = _match_differences(offline, online)
    experiments = sorted(differences["experiment"].unique())
    n_experiments = len(experiments)
    if n_experiments < MIN_EXPERIMENTS:
        raise InputError(
            f"at least {MIN_EXPERIMENTS} experiments need an offline and an online difference; got "
            f"{n_experiments}."
        )
    data = []
    for number in range(len(indicators)):
        rows = differences[differences["indicator"] == number].set_index("experiment")
        data.append(_build_noisy_differences(rows.loc[experiments]))
    generator = as_generator(rng)
    validation = _cross_validate(data, generator, n_folds)
    best = int(np.argmax(validation.gains.mean(axis=1)))
    statistics = []
    for number, indicator_data in enumerate(data):
        statistics.append(
            {
                **_summarize_indicator(indicator_data, level, half_width),
                **_summarize_validation(validation, indicator_data, number, best),
            }
        )
    chosen_share = _resample_choice(validation.gains, best, generator)
    nested_gain = _nested_gain(data, validation.gains, generator, n_folds)
    return OnlineAgreement(
        frame=pd.concat([indicators, pd.DataFrame(statistics)], axis=1),
        data=differences,
        best=best,
        chosen_share=chosen_share,
        nested_gain=nested_gain,
        n_experiments=n_experiments,
        confidence_level=level,
        half_width=half_width,
        notes=notes,
    )


def _build_noisy_differences(rows: pd.DataFrame) -> NoisyDifferences:
    """Return the differences of one indicator; raise `InputError` where they are all equal."""
    data = NoisyDifferences(
        x=rows["offline"].to_numpy(),
        y=rows["online"].to_numpy(),
        var_x=rows["offline_error"].to_numpy() ** 2,
        var_y=rows["online_error"].to_numpy() ** 2,
    )
    if not (np.ptp(data.x) > 0 and np.ptp(data.y) > 0):
        raise InputError("all offline, or all online, differences are equal; there is nothing to agree.")
    return data


def _resample_choice(gains: FloatArray, best: int, generator: np.random.Generator) -> float:
    """Return the share of resamples of the experiments in which the same indicator is best."""
    n_experiments = gains.shape[1]
    draws = generator.integers(0, n_experiments, (N_RESAMPLES, n_experiments))
    means = np.stack([gains[:, draw].mean(axis=1) for draw in draws])
    return float((means.argmax(axis=1) == best).mean())


def _summarize_indicator(data: NoisyDifferences, level: float, half_width: float) -> dict[str, float]:
    """Return the statistics of one indicator over all experiments."""
    fit = TrueSpread.fit(data)
    n_experiments = len(data)
    rho_low, rho_high = fit.interval(level)
    sign_product = np.sign(data.x) * np.sign(data.y)
    sign_share = float((sign_product > 0).mean() + 0.5 * (sign_product == 0).mean())
    sign_low, sign_high = _wilson_interval(sign_share, n_experiments, level)
    (xx, xy), _ = fit.sigma
    slope = xy / xx if xx else np.nan
    return {
        "sign": sign_share,
        "sign_low": sign_low,
        "sign_high": sign_high,
        "sign_true": fit.probability_of_same_sign(),
        "pearson": fit.rho,
        "pearson_low": rho_low,
        "pearson_high": rho_high,
        "kendall": _kendall_from_pearson(fit.rho),
        "kendall_low": _kendall_from_pearson(rho_low),
        "kendall_high": _kendall_from_pearson(rho_high),
        "naive_pearson": naive_pearson(data),
        "naive_kendall": float(kendalltau(data.x, data.y).statistic),
        "reliability_offline": compute_reliability(float(fit.spread[0]), data.var_x),
        "reliability_online": compute_reliability(float(fit.spread[1]), data.var_y),
        "slope": slope,
        "intercept": float(fit.mean[1] - slope * fit.mean[0]),
        "n_needed": float(np.ceil(n_experiments * ((rho_high - rho_low) / (2 * half_width)) ** 2)),
    }


def _kendall_from_pearson(rho: float) -> float:
    """Return Kendall's τ of two normal variables with correlation ρ."""
    return float(2 / np.pi * np.arcsin(rho))


def _wilson_interval(share: float, n_experiments: int, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share."""
    z = float(norm.ppf((1 + level) / 2))
    n = n_experiments
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return float(centre - half_width), float(centre + half_width)


def _summarize_validation(
    validation: CrossValidation, data: NoisyDifferences, number: int, best: int
) -> dict[str, float]:
    """Return the statistics of the cross-validation of one indicator."""
    gains = validation.gains[number]
    n_experiments = gains.size
    differences_to_best = validation.gains[best] - gains
    mean_difference = float(differences_to_best.mean())
    difference_error = float(differences_to_best.std(ddof=1) / np.sqrt(n_experiments))
    has_same_sign = np.sign(validation.predictions[number]) == np.sign(data.y)
    n_to_tell = np.nan
    if mean_difference > 0:
        n_to_tell = float(np.ceil(n_experiments * (Z_SUM * difference_error / mean_difference) ** 2))
    return {
        "cv_gain": float(gains.mean()),
        "cv_error": float(gains.std(ddof=1) / np.sqrt(n_experiments)),
        "cv_sign": float(has_same_sign.mean()),
        "behind": mean_difference,
        "behind_error": difference_error,
        "n_to_tell": n_to_tell,
    }


def _draw_folds(n_experiments: int, n_folds: int, generator: np.random.Generator) -> list[IntArray]:
    """Return the experiments of random folds, ascending in each."""
    parts = np.array_split(generator.permutation(n_experiments), min(n_folds, n_experiments))
    return [np.sort(part) for part in parts]


def _cross_validate(
    data: list[NoisyDifferences], generator: np.random.Generator, n_folds: int
) -> CrossValidation:
    """Return the gains and predictions of each held-out experiment by every indicator."""
    n_experiments = len(data[0])
    gains = np.empty((len(data), n_experiments))
    predictions = np.empty((len(data), n_experiments))
    for fold in _draw_folds(n_experiments, n_folds, generator):
        training = np.setdiff1d(np.arange(n_experiments), fold)
        for number, indicator_data in enumerate(data):
            fold_gains, fold_predictions = _compute_gain(
                indicator_data.select(training), indicator_data.select(fold)
            )
            gains[number, fold] = fold_gains
            predictions[number, fold] = fold_predictions
    return CrossValidation(gains, predictions)


def _compute_gain(training: NoisyDifferences, held_out: NoisyDifferences) -> tuple[FloatArray, FloatArray]:
    """Return the log density gained over a prediction by the mean alone, and the predictions."""
    fit = TrueSpread.fit(training)
    mean, variance = fit.predict(held_out)
    variance_without_indicator = fit.sigma[1, 1] + held_out.var_y
    log_density = norm.logpdf(held_out.y, mean, np.sqrt(variance))
    log_density_of_mean = norm.logpdf(held_out.y, fit.mean[1], np.sqrt(variance_without_indicator))
    return log_density - log_density_of_mean, mean


def _nested_gain(
    data: list[NoisyDifferences], gains: FloatArray, generator: np.random.Generator, n_folds: int
) -> float:
    """Return the mean gain when the indicator is chosen without the experiments that it predicts."""
    if len(data) == 1:
        return float(gains.mean())
    n_experiments = len(data[0])
    n_inner_folds = min(n_folds, MAX_INNER_FOLDS)
    total = 0.0
    for fold in _draw_folds(n_experiments, n_inner_folds, generator):
        training = np.setdiff1d(np.arange(n_experiments), fold)
        training_data = [indicator_data.select(training) for indicator_data in data]
        inner = _cross_validate(training_data, generator, n_inner_folds)
        best = int(np.argmax(inner.gains.mean(axis=1)))
        fold_gains, _ = _compute_gain(training_data[best], data[best].select(fold))
        total += float(fold_gains.sum())
    return total / n_experiments
