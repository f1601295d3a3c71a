"""Examination: how likely a place on the page is to be looked at, learnt from impressions and clicks."""

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
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, freeze

METHODS = ("randomised", "harvesting", "em")
N_PARTS = 40  # of the users, for the jackknife
TOLERANCE, MOST_STEPS = 1e-10, 20_000  # of θ between two steps, thousands of times below its standard error


@dataclass(frozen=True, eq=False)
class ExaminationCurve:
    """The chance that each position is examined, relative to the first one.

    Attributes
    ----------
    position : (n_positions,) int array
        Positions of the log, ascending, from 1 on.
    theta : (n_positions,) float array
        θ_p, with θ = 1 at the first of them. NaN: the method has no data on the position.
    std_error : (n_positions,) float array
        Of θ_p, by a jackknife over groups of users; 0 at the first position.
    n_impressions, n_clicks : (n_positions,) int arrays
        What was read at each position.
    method : str

    Examples
    --------
    >>> curve = ExaminationCurve.known([1.0, 0.5])
    >>> curve.at(np.array([2, 1, 1]))
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
    def known(cls, theta: npt.ArrayLike) -> ExaminationCurve:
        """Return the curve of known chances in (0, 1], of positions 1, 2, 3, ….

        Raises
        ------
        InputError
            For values outside (0, 1].
        """
        values = np.array(
            [check_fraction("theta", one, high_open=False) for one in np.atleast_1d(theta).tolist()]
        )
        none = np.zeros(values.size, dtype=np.int64)
        return cls(np.arange(1, values.size + 1), values, np.zeros(values.size), none, none, "known")

    def __repr__(self) -> str:
        shown = ", ".join(f"{one:.3f}" for one in self.theta[:5])
        more = ", …" if self.theta.size > 5 else ""
        return f"ExaminationCurve({self.method}: {shown}{more})"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per position: position, theta, std_error, n_impressions, n_clicks, method."""
        names = ("position", "theta", "std_error", "n_impressions", "n_clicks")
        return pd.DataFrame({name: getattr(self, name) for name in names}).assign(method=self.method)

    def at(self, position: AnyArray) -> FloatArray:
        """Return θ of each position, (n,), divided by the largest θ where one is above 1.

        Raises
        ------
        InputError
            For a position that the curve does not have.
        """
        given = np.atleast_1d(position)
        place = np.searchsorted(self.position, given)
        held = np.minimum(place, self.position.size - 1)
        unknown = (self.position[held] != given) | np.isnan(self.theta[held])
        if unknown.any():
            raise InputError(
                f"{int(unknown.sum())} of {given.size} impressions are at positions without an examination "
                f"chance (first: {given[unknown][0]}). Fit the curve to a log that has them."
            )
        values: FloatArray = self.theta[held] / max(1.0, float(np.nanmax(self.theta)))
        return values

    def plot(self, *, ax: Any = None) -> Any:
        """Return axes with θ by position and 95% intervals; see `ipseval.plots.plot_examination`."""
        from ipseval.reporting import plots

        return plots.plot_examination(self.frame, ax=ax)


@dataclass(frozen=True)
class ExaminationModel:
    """The position-based click model: P(click) = θ_p γ, fitted to a log in one of three ways.

    γ is the relevance of what stands there, constant within a group: an item, or a user–item pair.

    * "randomised": for logs, or parts of logs, whose positions were drawn at random or swapped. θ_p/θ_1 is
      the ratio of the click rates. Consistent if positions do not depend on relevance.
    * "harvesting": groups that were shown at several positions, as different policies leave them. Given the
      clicks of a group, they fall on positions with chances ∝ n_gp θ_p; the likelihood of that is maximised,
      so that γ needs no model. Consistent if the position does not depend on relevance within a group.
    * "em": θ_p and the γ of every group by expectation and maximisation, from clicks and non-clicks.
      Consistent under the same condition, where groups have many impressions.

    Parameters
    ----------
    method : {"randomised", "harvesting", "em"}
    group : {"item", "pair"} or (n,) int array
        What has one relevance. An array gives the group of each row of the log, such as the decile of a
        relevance model's score.

    References
    ----------
    Agarwal et al., Estimating position bias without intrusive interventions, WSDM 2019,
    doi 10.1145/3289600.3291017. Wang et al., Position bias estimation for unbiased learning to rank in
    personal search, WSDM 2018, doi 10.1145/3159652.3159732.

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
        """Return the examination curve of the positions in a log.

        Raises
        ------
        InputError
            For a log without positions, without clicks at the first one, or with one position only; for
            "harvesting" and "em", where no group was shown at several positions.
        """
        cells = _Cells.of(log, self._groups(log))
        whole, state = self._theta(cells)
        parts = np.array([self._theta(one, state)[0] for one in cells.leaving_out()])
        spread = np.sqrt((len(parts) - 1) / len(parts) * ((parts - parts.mean(axis=0)) ** 2).sum(axis=0))
        if np.nanmax(whole) > 1:
            warn_user(
                f"{int((whole > 1).sum())} positions came out as more examined than the first (at most "
                f"{np.nanmax(whole):.3g}). Chances are divided by the largest where they are used.",
                DataWarning,
            )
        shown, clicks = (one.astype(np.int64) for one in cells.totals)
        return ExaminationCurve(cells.position, whole, spread, shown, clicks, self.method)

    def _groups(self, log: ImpressionLog) -> IntArray:
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

    def _theta(self, cells: _Cells, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return θ (1 at the first position, NaN where nothing links to it) and the state to start from."""
        shown, clicks = cells.totals
        if not clicks[0]:
            raise InputError(
                f"position {cells.position[0]} has no clicks in {shown[0]:,.0f} impressions, and the other "
                "positions are compared with it. A longer log is needed."
            )
        if self.method == "randomised":
            with np.errstate(invalid="ignore"):
                rate = clicks / shown
            return np.asarray(rate / rate[0]), rate
        linked = cells.linked()
        if not linked[1:].any():
            raise InputError(
                "no group was shown at the first position and at another one, which is what the curve is "
                "learnt from. Use a coarser group, or randomise positions."
            )
        used = cells.choose(linked[cells.place])
        maximise = _harvest if self.method == "harvesting" else _expect
        state = maximise(used, start)
        theta = np.where(linked, state[: linked.size], np.nan)
        return theta / theta[0], state


@dataclass(frozen=True)
class _Cells:
    """Impressions and clicks by part of the users, group and position: one entry where there are any."""

    position: IntArray
    part: IntArray
    group: IntArray
    place: IntArray
    shown: FloatArray
    clicks: FloatArray

    @classmethod
    def of(cls, log: ImpressionLog, group: IntArray) -> _Cells:
        assert log.position is not None
        position, place = np.unique(log.position, return_inverse=True)
        if position.size < 2:
            raise InputError("all impressions are at one position; a curve needs at least two.")
        present, number = np.unique(log.user, return_inverse=True)
        if present.size < 2:
            raise InputError("standard errors need at least two users; the log has one.")
        _, group = np.unique(group, return_inverse=True)  # codes of pairs may be as large as users × items
        keys = {"part": number % min(N_PARTS, present.size), "group": group, "place": place}
        counts = pd.DataFrame(keys).assign(shown=1.0, clicks=log.clicked.astype(float))
        table = counts.groupby(list(keys), sort=True).sum().reset_index()
        return cls(position, *(table[name].to_numpy() for name in (*keys, "shown", "clicks")))

    @property
    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Impressions and clicks of each position, (n_positions,) each."""
        return self.by_place(self.shown), self.by_place(self.clicks)

    def by_place(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.place, weights=values, minlength=self.position.size).astype(np.float64)

    def choose(self, keep: BoolArray) -> _Cells:
        names = ("part", "group", "place", "shown", "clicks")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})

    def leaving_out(self) -> Iterator[_Cells]:
        """Yield the cells without each part of the users."""
        for part in range(int(self.part.max()) + 1):
            yield self.choose(self.part != part)

    def linked(self) -> BoolArray:
        """Return which positions share a clicked group with the first one, directly or through others."""
        from scipy.sparse.csgraph import connected_components  # slow to import

        clicked = np.bincount(self.group, self.clicks)[self.group] > 0
        _, group = np.unique(self.group[clicked], return_inverse=True)
        n_places = self.position.size
        size = n_places + int(group.max()) + 1
        links = coo_array((np.ones(group.size), (self.place[clicked], n_places + group)), shape=(size, size))
        _, component = connected_components(links, directed=False)
        return np.asarray(component[:n_places] == component[0])


def _harvest(cells: _Cells, start: FloatArray | None) -> FloatArray:
    """Return the θ, (n_positions,), that make the places of each group's clicks most likely."""
    clicks_of_group = np.bincount(cells.group, cells.clicks)
    clicks = cells.by_place(cells.clicks)

    def step(theta: FloatArray) -> FloatArray:
        weight = np.bincount(cells.group, cells.shown * theta[cells.place])
        expected = cells.by_place(cells.shown * clicks_of_group[cells.group] / weight[cells.group])
        new = np.divide(clicks, expected, out=np.ones(clicks.size), where=expected > 0)
        return np.asarray(new / new[0])

    return _settled(step, np.ones(clicks.size) if start is None else start, clicks.size)


def _expect(cells: _Cells, start: FloatArray | None) -> FloatArray:
    """Return the likeliest θ of positions and γ of groups, (n_positions + n_groups,), by accelerated EM."""
    # Two steps r apart that change by v are carried on by 2ar + a²v, a = |r|/|v|, where that does not lower
    # the likelihood (S3 of Varadhan & Roland 2008, doi 10.1111/j.1467-9469.2007.00585.x). Only ratios of θ
    # are known: the level that it shares with γ stays where the steps leave it.
    n_places, missed = cells.position.size, cells.shown - cells.clicks
    shown = np.maximum(cells.totals[0], 1)  # nothing is shown where a position is not linked
    if start is None:
        clicks_of_group, shown_of_group = (
            np.bincount(cells.group, one) for one in (cells.clicks, cells.shown)
        )
        start = np.concatenate([np.full(n_places, 0.9), (clicks_of_group + 0.5) / (shown_of_group + 1)])
    n_groups = start.size - n_places
    of_group = np.maximum(np.bincount(cells.group, cells.shown, minlength=n_groups), 1)

    def step(state: FloatArray) -> FloatArray:
        theta, gamma = state[cells.place], state[n_places + cells.group]
        neither = missed / np.maximum(1 - theta * gamma, 1e-300)
        examined = cells.by_place(cells.clicks + neither * theta * (1 - gamma))
        relevant = np.bincount(cells.group, cells.clicks + neither * gamma * (1 - theta), minlength=n_groups)
        return np.concatenate([examined / shown, relevant / of_group])

    def likelihood(state: FloatArray) -> float:
        chance = state[cells.place] * state[n_places + cells.group]
        return float(np.sum(xlogy(cells.clicks, chance) + xlog1py(missed, -chance)))

    def leap(state: FloatArray) -> FloatArray:
        one = step(state)
        two = step(one)
        first, change = one - state, two - 2 * one + state
        length = float(np.linalg.norm(change))
        a = max(float(np.linalg.norm(first)) / length, 1.0) if length > 0 else 1.0
        far = state + 2 * a * first + a**2 * change
        far = np.where((far > 0) & (far < 1), far, two)
        return step(far if likelihood(far) >= likelihood(two) else two)

    return _settled(leap, start, n_places)


def _settled(step: Callable[[FloatArray], FloatArray], state: FloatArray, n_places: int) -> FloatArray:
    """Return the state at which no ratio θ_p/θ_1 moves any more."""
    for _ in range(MOST_STEPS):
        last, state = state, step(state)
        if np.abs(state[:n_places] / state[0] - last[:n_places] / last[0]).max() < TOLERANCE:
            return state
    raise InputError(f"the examination curve did not settle in {MOST_STEPS} steps; use another method.")
