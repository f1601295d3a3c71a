"""evaluate_windows(): recommenders trained and evaluated in every window; mean and trend over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ipseval._base.checks import check_choice, check_models, counted
from ipseval._base.types import FloatArray
from ipseval.data._interactions import Interactions
from ipseval.data.splits import SlidingSplits
from ipseval.data.splits._time import said
from ipseval.errors import InputError
from ipseval.evaluation._evaluate import Evaluation, evaluate
from ipseval.evaluation._sentences import verdict_lines
from ipseval.evaluation._verdict import Known, Verdict, verdicts
from ipseval.inference._comparisons import PairTests, adjust
from ipseval.report import Tables
from ipseval.report._reported import Result
from ipseval.report._tables import Notes, Remark, Table
from ipseval.report._words import decimals, fixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY = ["model", "metric", "estimator"]
CELLS = ("estimate", "std_error", "ci_low", "ci_high", "n_users", "n_positives", "note")
COUNTS = ("window", "start", "end", "n_train", "n_test", "n_cold_users", "n_cold_items")


@dataclass(frozen=True, eq=False, repr=False)
class WindowEvaluation(Result):
    """The evaluation of recommenders in every window; the result of `evaluate_windows`.

    Attributes
    ----------
    evaluations : tuple of Evaluation
        One per window.
    windows : DataFrame
        One row per window: window, start, end, n_train, n_test, n_cold_users, n_cold_items.
    n_skipped : int
        Windows without training or test rows.
    confidence_level : float
    """

    evaluations: tuple[Evaluation, ...]
    windows: pd.DataFrame
    n_skipped: int = 0
    confidence_level: float = 0.95

    @property
    def frame(self) -> pd.DataFrame:
        """One row per window, model, metric and estimator: estimate, its error over the window's users."""
        parts = []
        for one, window in zip(self.evaluations, self.windows.to_dict("records"), strict=True):
            part = one.frame[[*KEY, *CELLS]].assign(**{str(name): value for name, value in window.items()})
            parts.append(part[[*COUNTS, *KEY, *CELLS]])
        return pd.concat(parts, ignore_index=True)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per model, metric and estimator: mean and trend over the windows, with errors over users.

        mean, std_error, ci_low, ci_high : plain mean over the windows where the estimate is defined;
        trend, trend_error, trend_low, trend_high, trend_p : least-squares slope per window;
        std_windows : standard deviation between windows; design_effect : the variance of the mean over that
        of windows with different users: above 1, users who come back are alike; n_windows, n_users (distinct)
        and n_returning, those in several windows.
        """
        keys = list(self.evaluations[0].estimates)
        return pd.DataFrame([dict(zip(KEY, key, strict=True)) | self._summary(key) for key in keys])

    def compare(self, reference: str) -> pd.DataFrame:
        """Return mean difference and trend of every recommender against one, over the same users and windows.

        Columns as `summary`, of the differences, and p_value of the mean (normal, not adjusted).
        """
        models = list(dict.fromkeys(key[0] for key in self.evaluations[0].estimates))
        check_choice("reference", reference, models)
        rows = []
        for key in self.evaluations[0].estimates:
            if key[0] != reference:
                found = self._summary(key, (reference, *key[1:]))
                where = dict(zip(KEY, key, strict=True)) | {"reference": reference}
                rows.append(where | found | {"p_value": _p_value(found["mean"], found["std_error"])})
        return pd.DataFrame(rows)

    def _summary(self, key: tuple[str, ...], minus: tuple[str, ...] | None = None) -> dict[str, float]:
        """Return mean and trend of an estimate, or of the difference of two.

        Both are Σ_w a_w θ_w. The influence of user u is Σ_w a_w ψ_wu/n_w, over all windows it is in: a user
        is one cluster. The variance is U/(U − 1) Σ_u of its square, U the users of any window.
        """
        n_users = max(len(one.user_ids) for one in self.evaluations)
        values = np.full(len(self.evaluations), np.nan)
        parts, entered = np.zeros((2, values.size, n_users))
        for row, one in enumerate(self.evaluations):
            signed = {1.0: one.estimates[key]} | ({} if minus is None else {-1.0: one.estimates[minus]})  # type: ignore[index]
            values[row] = sum(sign * each.value for sign, each in signed.items())
            if np.isfinite(values[row]):
                for sign, each in signed.items():
                    users, effects = each.user_sums.effects()
                    parts[row, users] += sign * effects
                entered[row, signed[1.0].user_sums.users] = 1.0
        known, places = np.isfinite(values), self.windows["window"].to_numpy(dtype=np.float64)
        level = self.confidence_level
        return _over_windows(values[known], parts[known], entered[known], places[known], level)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: mean and trend, then every window."""
        frame = self.summary
        shown = frame[KEY].copy()
        for name, low, high in (("mean", "ci_low", "ci_high"), ("trend", "trend_low", "trend_high")):
            places = decimals((frame[high] - frame[low]) / 2, digits)
            ends = zip(frame[name], frame[low], frame[high], strict=True)
            shown[name] = [
                "undefined"
                if np.isnan(value)
                else f"{value:.{places}f} [{fixed(down, places)}, {fixed(up, places)}]"
                for value, down, up in ends
            ]
        shown["std_windows"] = frame["std_windows"]
        first, last = (said(self.windows["start"].iloc[row]) for row in (0, -1))
        left_out = counted(self.n_skipped, "window")
        skipped = f"; {left_out} without training or test rows" if self.n_skipped else ""
        row = frame.iloc[0]
        summary = (
            f"{counted(len(self.evaluations), 'window')}, tests from {first} to {last}{skipped}.",
            f"{int(row['n_users']):,} users, {int(row['n_returning']):,} of them in several windows.",
        )
        lines = (
            "mean: plain mean over windows. trend: slope per window. Intervals are over users; a user of "
            "several windows is one cluster.",
            "std_windows: spread between windows. The intervals are for these windows: what other windows "
            "would have given is not in them.",
        )
        places = decimals(frame["std_windows"], digits)
        parts = (Table.of(shown, formats={"std_windows": f".{places}f"}, n_keys=3), Notes(lines))
        verdict = (Remark("Verdict", verdict_lines(self.verdicts)),)
        return Tables(summary, parts, title="Evaluation over windows", verdict=verdict)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Who is first in the mean over windows, by metric, with the weights of all windows together."""
        rows, first = self.summary.assign(estimate=lambda frame: frame["mean"]), self.evaluations[0]
        cells = dict.fromkeys(key[1:] for key in first.estimates)
        tests = {cell: self._tests(first.models, cell) for cell in cells}
        each = [one.weights for one in self.evaluations]
        weights = {
            label: replace(
                own,
                ess_own=sum(one[label].ess_own for one in each),
                ess_equal=sum(one[label].ess_equal for one in each),
            )
            for label, own in first.weights.items()
        }
        known = Known(
            first.definitions[1],
            weights=weights,
            propensity=first.propensity,
            unknown="the correction is of one window at a time",
            averages=frozenset(one.metric for one in first.verdicts if one.claimed),
            beside=first.beside,
        )
        return verdicts(rows, {cell: one for cell, one in tests.items() if one is not None}, known)

    def _tests(self, models: list[str], cell: tuple[str, str]) -> PairTests | None:
        """Return the paired tests of the means of all recommenders, Holm-adjusted; None for a single one."""
        n = len(models)
        gap, p_value = np.full((n, n), np.nan), np.full((n, n), np.nan)
        pairs = np.triu_indices(n, 1)
        for one, two in zip(*pairs, strict=True):
            difference = self._summary((models[one], *cell), (models[two], *cell))
            gap[one, two] = difference["mean"]
            p_value[one, two] = _p_value(difference["mean"], difference["std_error"])
        p_value[pairs] = adjust(pd.DataFrame({"p_value": p_value[pairs]}), "holm", [])
        gap[pairs[::-1]], p_value[pairs[::-1]] = -gap[pairs], p_value[pairs]
        return PairTests({name: place for place, name in enumerate(models)}, gap, p_value) if n > 1 else None

    def plot(
        self, metric: str | None = None, estimator: str | None = None, *, ax: Axes | None = None
    ) -> Axes:
        """Return axes with the estimates of one metric and estimator (default: the first) over time."""
        from ipseval.report.plots._curves import plot_windows

        first = self.evaluations[0]
        chosen = {"metric": metric or first.metrics[0], "estimator": estimator or first.estimators[0]}
        return plot_windows(self.frame, **chosen, ax=ax)


def evaluate_windows(
    models: Mapping[str, Callable[[Interactions], Any]],
    windows: SlidingSplits,
    **options: Any,
) -> WindowEvaluation:
    """Return the evaluation of recommenders that are trained anew in every window of `split_sliding`.

    Parameters
    ----------
    models : mapping
        Name → fit function: takes the training `Interactions` of a window, returns a scorer.
    windows : SlidingSplits
        What `split_sliding` returns.
    **options
        Of `evaluate`: propensity (a model or its label: it is fitted to the training part of each window),
        metrics, estimators, …

    Raises
    ------
    InputError
        For what is no mapping of functions, or no windows. An error of a fit function passes through.

    Examples
    --------
    >>> from ipseval.ranking.baselines import popularity
    >>> from ipseval.data.splits import split_sliding
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"user": np.repeat(range(40), 5), "item": np.tile(range(5), 40)})
    >>> log = Interactions.from_frame(frame.assign(time=rng.permutation(200)), timestamp="time")
    >>> found = evaluate_windows({"popular": popularity}, split_sliding(log, start=100, test=50))
    >>> len(found.evaluations), found.summary["n_windows"].tolist()
    (2, [2, 2])
    """
    check_models(models, "models", "fit function")
    wrong = [name for name, fit in models.items() if not callable(fit)]
    if wrong:
        raise InputError(f"models must be fit functions; {', '.join(map(repr, wrong))} cannot be called.")
    if not isinstance(windows, SlidingSplits):
        raise InputError(f"windows must be made by split_sliding(log, …); got {type(windows).__name__}.")
    found = []
    for split in windows:
        trained = {name: fit(split.train) for name, fit in models.items()}
        found.append(evaluate(trained, split, **options))
    frame = windows.frame
    used = frame[frame["used"]].reset_index(drop=True)
    return WindowEvaluation(
        tuple(found), used[list(COUNTS)], int((~frame["used"]).sum()), found[0].confidence_level
    )


def _p_value(value: float, error: float) -> float:
    """Return the two-sided normal p-value of a difference; 1 where it is 0."""
    if value == 0 or not np.isfinite(value):
        return 1.0 if value == 0 else np.nan
    return float(2 * ndtr(-abs(value) / error)) if error else 0.0


def _over_windows(
    values: FloatArray, parts: FloatArray, entered: FloatArray, places: FloatArray, level: float
) -> dict[str, float]:
    """Return mean and slope over windows with errors over users, each user one cluster."""
    n, times = values.size, entered.sum(axis=0)
    users = int((times > 0).sum())
    reach = float(ndtri((1 + level) / 2))

    def over(weight: FloatArray) -> tuple[float, ...]:
        """Return a weighted sum of the windows, with its error and interval."""
        if users < 2:
            return (np.nan,) * 4
        value = float(weight @ values)
        error = float(np.sqrt(users / (users - 1) * (np.einsum("w,wu->u", weight, parts) ** 2).sum()))
        return value, error, value - reach * error, value + reach * error

    found: dict[str, float] = {"n_windows": n}
    found |= zip(("mean", "std_error", "ci_low", "ci_high"), over(np.full(n, 1 / max(n, 1))), strict=True)
    slope: tuple[float, ...] = (np.nan,) * 4
    if n > 1:
        centred = places - places.mean()
        slope = over(centred / (centred**2).sum())
    found |= zip(("trend", "trend_error", "trend_low", "trend_high"), slope, strict=True)
    found["trend_p"] = np.nan
    if found["trend_error"] > 0:
        found["trend_p"] = _p_value(found["trend"], found["trend_error"])
    found["std_windows"] = float(values.std(ddof=1)) if n > 1 else np.nan
    alone, together = (parts**2).sum(), (parts.sum(axis=0) ** 2).sum()
    found["design_effect"] = float(together / alone) if alone > 0 else np.nan
    return found | {"n_users": users, "n_returning": int((times > 1).sum())}
