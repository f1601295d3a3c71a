"""Examination: the probability that a position of a page is looked at, from impressions and clicks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import coo_array
from scipy.special import xlog1py, xlogy

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import check_codes
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_choice, check_fraction, check_type, warn_user
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, freeze

METHODS = ("randomised", "harvesting", "em")
N_USER_GROUPS = 40  # for the jackknife
TOLERANCE = 1e-10  # of θ between two steps, thousands of times below its standard error
MAX_STEPS = 20_000


@public_class
@dataclass(frozen=True, eq=False)
class ExaminationCurve:
    """The probability that each position is examined, relative to the first one.

    Parameters
    ----------
    position : (n_positions,) int array
        Positions of the log, ascending, from 1 on.
    theta : (n_positions,) float array
        θ_p, with θ = 1 at the first of them. NaN: the method has no data on the position.
    std_error : (n_positions,) float array
        Standard errors of θ_p, by a jackknife over groups of users; 0 at the first position.
    n_impressions, n_clicks : (n_positions,) int arrays
        Number of impressions and of clicks at each position.
    method : str
        How the curve was fitted, or "known".

    See Also
    --------
    ExaminationModel : Fit a curve to a log.

    Examples
    --------
    >>> curve = ExaminationCurve.from_theta([1.0, 0.5])
    >>> curve.for_positions(np.array([2, 1, 1]))
    array([0.5, 1. , 1. ])
    """

    position: IntArray
    theta: FloatArray
    std_error: FloatArray
    n_impressions: IntArray
    n_clicks: IntArray
    method: str

    def __post_init__(self) -> None:
        freeze(self, "position", "theta", "std_error", "n_impressions", "n_clicks")

    @classmethod
    def from_theta(cls, theta: npt.ArrayLike) -> ExaminationCurve:
        """Return the curve of known probabilities at positions 1, 2, 3, ….

        Parameters
        ----------
        theta : (n_positions,) array-like
            Examination probabilities in (0, 1].

        Returns
        -------
        ExaminationCurve
            The curve, with standard errors of 0.

        Raises
        ------
        InputError
            For values outside (0, 1].
        """
        probabilities = np.atleast_1d(theta).tolist()
        values = np.array([check_fraction("theta", value, high_open=False) for value in probabilities])
        no_counts = np.zeros(values.size, dtype=np.int64)
        return cls(
            position=np.arange(1, values.size + 1),
            theta=values,
            std_error=np.zeros(values.size),
            n_impressions=no_counts,
            n_clicks=no_counts,
            method="known",
        )

    def __repr__(self) -> str:
        values = ", ".join(f"{value:.3f}" for value in self.theta[:5])
        if self.theta.size > 5:
            values += ", …"
        return f"ExaminationCurve({self.method}: {values})"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per position: position, theta, std_error, n_impressions, n_clicks, method."""
        return pd.DataFrame(
            {
                "position": self.position,
                "theta": self.theta,
                "std_error": self.std_error,
                "n_impressions": self.n_impressions,
                "n_clicks": self.n_clicks,
            }
        ).assign(method=self.method)

    def for_positions(self, position: AnyArray) -> FloatArray:
        """Return θ of each position, divided by the largest θ where one is above 1.

        Parameters
        ----------
        position : (n,) int array
            Positions of impressions.

        Returns
        -------
        (n,) float array
            Examination probabilities in (0, 1].

        Raises
        ------
        InputError
            For a position that the curve does not have.
        """
        positions = np.atleast_1d(position)
        rows = np.minimum(np.searchsorted(self.position, positions), self.position.size - 1)
        is_unknown = (self.position[rows] != positions) | np.isnan(self.theta[rows])
        if is_unknown.any():
            raise InputError(
                f"{int(is_unknown.sum())} of {positions.size} impressions are at positions without an "
                f"examination chance (first: {positions[is_unknown][0]}). Fit the curve to a log that has "
                "them."
            )
        values: FloatArray = self.theta[rows] / max(1.0, float(np.nanmax(self.theta)))
        return values

    def plot(self, *, ax: Any = None) -> Any:
        """Plot θ by position with 95% intervals.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.

        See Also
        --------
        ipseval.plots.plot_examination : Plot the curves of several methods.
        """
        from ipseval.reporting import plots

        return plots.plot_examination(self.frame, ax=ax)


@public_class
@dataclass(frozen=True)
class ExaminationModel:
    """Fit the position-based click model, P(click) = θ_p γ, to an impression log.

    γ is the relevance of the item at the position, constant within a group: an item, or a user–item pair.

    Parameters
    ----------
    method : {"randomised", "harvesting", "em"}, default "harvesting"
        See Notes.
    group : {"item", "pair"} or (n,) int array, default "item"
        The unit that has one relevance. An array holds the group of each row of the log, such as the decile
        of a relevance model's score.

    See Also
    --------
    ExaminationCurve.from_theta : Use probabilities that are known from elsewhere.
    ImpressionPropensity, LoggedPropensity : Propensities that take the curve.

    Notes
    -----
    * "randomised": for logs, or parts of logs, whose positions were drawn at random or swapped. θ_p/θ_1 is
      the ratio of the click rates. Consistent if positions do not depend on relevance.
    * "harvesting" [1]_: groups that were shown at several positions, for example by different policies. Given
      the clicks of a group, they fall on positions with probabilities ∝ n_gp θ_p; the likelihood of that is
      maximised, so that γ needs no model. Consistent if the position does not depend on relevance within a
      group.
    * "em" [2]_: θ_p and the γ of every group by expectation and maximisation, from clicks and non-clicks.
      Consistent under the same condition, where groups have many impressions.

    References
    ----------
    .. [1] Agarwal et al., Estimating position bias without intrusive interventions, WSDM 2019,
       doi:10.1145/3289600.3291017
    .. [2] Wang et al., Position bias estimation for unbiased learning to rank in personal search, WSDM 2018,
       doi:10.1145/3159652.3159732

    Examples
    --------
    >>> frame = pd.DataFrame({"user": range(8), "item": [0] * 8, "position": [1, 1, 1, 1, 2, 2, 2, 2],
    ...                       "clicked": [1, 1, 0, 0, 1, 0, 0, 0]})
    >>> ExaminationModel("randomised").fit(ImpressionLog.from_frame(frame, position="position")).theta
    array([1. , 0.5])
    """

    method: Literal["randomised", "harvesting", "em"] = "harvesting"
    group: Any = "item"

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if isinstance(self.group, str):
            check_choice("group", self.group, ("item", "pair"))

    def fit(self, log: ImpressionLog) -> ExaminationCurve:
        """Fit the examination curve of the positions in a log.

        Parameters
        ----------
        log : ImpressionLog
            Impressions with positions and clicks.

        Returns
        -------
        ExaminationCurve
            θ of each position with its standard error.

        Raises
        ------
        InputError
            For a log without positions, without clicks at the first one, or with one position only; for
            "harvesting" and "em", where no group was shown at several positions.

        Warns
        -----
        DataWarning
            Where a position seems more examined than the first.
        """
        cells = _ClickCells.from_log(log, self._select_groups(log))
        theta, state = self._fit_theta(cells)
        replicates = []
        for partial_cells in cells.iterate_jackknife():
            replicates.append(self._fit_theta(partial_cells, state)[0])

        jackknife_thetas = np.array(replicates)
        n_groups = len(jackknife_thetas)
        squared_deviations = (jackknife_thetas - jackknife_thetas.mean(axis=0)) ** 2
        std_error = np.sqrt((n_groups - 1) / n_groups * squared_deviations.sum(axis=0))

        if np.nanmax(theta) > 1:
            warn_user(
                f"{int((theta > 1).sum())} positions came out as more examined than the first (at most "
                f"{np.nanmax(theta):.3g}). Chances are divided by the largest where they are used.",
                DataWarning,
            )
        return ExaminationCurve(
            position=cells.position,
            theta=theta,
            std_error=std_error,
            n_impressions=cells.sum_by_position(cells.n_impressions).astype(np.int64),
            n_clicks=cells.sum_by_position(cells.n_clicks).astype(np.int64),
            method=self.method,
        )

    def _select_groups(self, log: ImpressionLog) -> IntArray:
        """Return the group of each impression, which has one relevance."""
        check_type("log", log, ImpressionLog, " Read one with ImpressionLog.from_frame(frame).")
        if log.position is None:
            raise InputError("the log has no positions; name their column with position=.")
        if self.method == "randomised":
            return np.zeros(len(log), dtype=np.int64)
        if isinstance(self.group, str):
            return log.item if self.group == "item" else log.pair_key
        group = np.asarray(self.group)
        if group.shape != (len(log),):
            raise InputError(
                f"group must have one entry for each of {len(log):,} impressions; got {group.shape}."
            )
        return check_codes("group", group, int(group.max(initial=0)) + 1)

    def _fit_theta(
        self, cells: _ClickCells, start: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return θ (1 at the first position, NaN where nothing links to it) and the state to start from."""
        impressions = cells.sum_by_position(cells.n_impressions)
        clicks = cells.sum_by_position(cells.n_clicks)
        if not clicks[0]:
            raise InputError(
                f"position {cells.position[0]} has no clicks in {impressions[0]:,.0f} impressions, and the "
                "other positions are compared with it. A longer log is needed."
            )
        if self.method == "randomised":
            with np.errstate(invalid="ignore"):
                click_rate = clicks / impressions
            return np.asarray(click_rate / click_rate[0]), click_rate

        is_linked = cells.find_linked_positions()
        if not is_linked[1:].any():
            raise InputError(
                "no group was shown at the first position and at another one, which is what the curve is "
                "learnt from. Use a coarser group, or randomise positions."
            )
        linked_cells = cells.select(is_linked[cells.position_code])
        if self.method == "harvesting":
            state = _fit_by_harvesting(linked_cells, start)
        else:
            state = _fit_by_em(linked_cells, start)
        theta = np.where(is_linked, state[: is_linked.size], np.nan)
        return theta / theta[0], state


@dataclass(frozen=True)
class _ClickCells:
    """Impressions and clicks by group of users, relevance group and position; only cells with impressions."""

    position: IntArray  # (n_positions,)
    user_group: IntArray  # (n_cells,), as the fields below
    group: IntArray
    position_code: IntArray
    n_impressions: FloatArray
    n_clicks: FloatArray

    @classmethod
    def from_log(cls, log: ImpressionLog, group: IntArray) -> _ClickCells:
        """Count the impressions and clicks of a log."""
        assert log.position is not None
        position, position_codes = np.unique(log.position, return_inverse=True)
        if position.size < 2:
            raise InputError("all impressions are at one position; a curve needs at least two.")
        users, user_codes = np.unique(log.user, return_inverse=True)
        if users.size < 2:
            raise InputError("standard errors need at least two users; the log has one.")
        # Codes of pairs may be as large as users × items.
        group_codes = np.unique(group, return_inverse=True)[1]
        keys = {
            "user_group": user_codes % min(N_USER_GROUPS, users.size),
            "group": group_codes,
            "position_code": position_codes,
        }
        impressions = pd.DataFrame(keys).assign(n_impressions=1.0, n_clicks=log.clicked.astype(float))
        cells = impressions.groupby(list(keys), sort=True).sum().reset_index()
        return cls(
            position=position,
            user_group=cells["user_group"].to_numpy(),
            group=cells["group"].to_numpy(),
            position_code=cells["position_code"].to_numpy(),
            n_impressions=cells["n_impressions"].to_numpy(),
            n_clicks=cells["n_clicks"].to_numpy(),
        )

    def sum_by_position(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values of cells at each position, (n_positions,)."""
        n_positions = self.position.size
        return np.bincount(self.position_code, weights=values, minlength=n_positions).astype(np.float64)

    def select(self, keep: BoolArray) -> _ClickCells:
        """Return some of the cells."""
        return replace(
            self,
            user_group=self.user_group[keep],
            group=self.group[keep],
            position_code=self.position_code[keep],
            n_impressions=self.n_impressions[keep],
            n_clicks=self.n_clicks[keep],
        )

    def iterate_jackknife(self) -> Iterator[_ClickCells]:
        """Yield the cells without each group of users."""
        for user_group in range(int(self.user_group.max()) + 1):
            yield self.select(self.user_group != user_group)

    def find_linked_positions(self) -> BoolArray:
        """Return a mask of positions that share a clicked group with the first one, directly or in steps."""
        from scipy.sparse.csgraph import connected_components  # slow to import

        has_clicks = np.bincount(self.group, self.n_clicks)[self.group] > 0
        group_codes = np.unique(self.group[has_clicks], return_inverse=True)[1]
        n_positions = self.position.size
        n_nodes = n_positions + int(group_codes.max()) + 1
        edges = (self.position_code[has_clicks], n_positions + group_codes)
        graph = coo_array((np.ones(group_codes.size), edges), shape=(n_nodes, n_nodes))
        component = connected_components(graph, directed=False)[1]
        return np.asarray(component[:n_positions] == component[0])


def _fit_by_harvesting(cells: _ClickCells, start: FloatArray | None) -> FloatArray:
    """Return the θ, (n_positions,), that make the positions of each group's clicks most likely."""
    group_clicks = np.bincount(cells.group, cells.n_clicks)
    clicks = cells.sum_by_position(cells.n_clicks)

    def take_step(theta: FloatArray) -> FloatArray:
        group_weight = np.bincount(cells.group, cells.n_impressions * theta[cells.position_code])
        cell_rates = cells.n_impressions * group_clicks[cells.group] / group_weight[cells.group]
        expected = cells.sum_by_position(cell_rates)
        new_theta = np.divide(clicks, expected, out=np.ones(clicks.size), where=expected > 0)
        return np.asarray(new_theta / new_theta[0])

    if start is None:
        start = np.ones(clicks.size)
    return _iterate_to_convergence(take_step, start, clicks.size)


def _fit_by_em(cells: _ClickCells, start: FloatArray | None) -> FloatArray:
    """Return the likeliest θ of positions and γ of groups, (n_positions + n_groups,), by accelerated EM."""
    # Two steps r that change by v are extrapolated by 2ar + a²v, a = |r|/|v|, where that does not lower the
    # likelihood (S3 of Varadhan & Roland 2008, doi:10.1111/j.1467-9469.2007.00585.x). Only ratios of θ are
    # identified: the factor that θ and γ share stays where the steps leave it.
    n_positions = cells.position.size
    n_skips = cells.n_impressions - cells.n_clicks
    # At least 1, because a position that is not linked has no impressions.
    position_impressions = np.maximum(cells.sum_by_position(cells.n_impressions), 1)
    if start is None:
        group_clicks = np.bincount(cells.group, cells.n_clicks)
        group_rates = (group_clicks + 0.5) / (np.bincount(cells.group, cells.n_impressions) + 1)
        start = np.concatenate([np.full(n_positions, 0.9), group_rates])
    n_groups = start.size - n_positions
    group_impressions = np.maximum(np.bincount(cells.group, cells.n_impressions, minlength=n_groups), 1)

    def take_step(state: FloatArray) -> FloatArray:
        theta = state[cells.position_code]
        gamma = state[n_positions + cells.group]
        skip_weight = n_skips / np.maximum(1 - theta * gamma, 1e-300)
        examinations = cells.sum_by_position(cells.n_clicks + skip_weight * theta * (1 - gamma))
        relevant_cells = cells.n_clicks + skip_weight * gamma * (1 - theta)
        relevant = np.bincount(cells.group, relevant_cells, minlength=n_groups)
        return np.concatenate([examinations / position_impressions, relevant / group_impressions])

    def log_likelihood(state: FloatArray) -> float:
        click_probability = state[cells.position_code] * state[n_positions + cells.group]
        return float(np.sum(xlogy(cells.n_clicks, click_probability) + xlog1py(n_skips, -click_probability)))

    def take_long_step(state: FloatArray) -> FloatArray:
        first_state = take_step(state)
        second_state = take_step(first_state)
        difference = first_state - state
        curvature = second_state - 2 * first_state + state
        length = float(np.linalg.norm(curvature))
        a = 1.0
        if length > 0:
            a = max(float(np.linalg.norm(difference)) / length, 1.0)
        extrapolation = state + 2 * a * difference + a**2 * curvature
        is_valid = (extrapolation > 0) & (extrapolation < 1)
        extrapolation = np.where(is_valid, extrapolation, second_state)
        if log_likelihood(extrapolation) >= log_likelihood(second_state):
            return take_step(extrapolation)
        return take_step(second_state)

    return _iterate_to_convergence(take_long_step, start, n_positions)


def _iterate_to_convergence(
    step: Callable[[FloatArray], FloatArray], state: FloatArray, n_positions: int
) -> FloatArray:
    """Return the state at which no ratio θ_p/θ_1 changes any more."""
    for _ in range(MAX_STEPS):
        next_state = step(state)
        changes = next_state[:n_positions] / next_state[0] - state[:n_positions] / state[0]
        state = next_state
        if np.abs(changes).max() < TOLERANCE:
            return state
    raise InputError(f"the examination curve did not converge in {MAX_STEPS} steps; use another method.")
