"""OnlineAgreement: which offline indicator agrees with online experiments, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from ipseval._base.checks import check_choice
from ipseval.errors import InputError
from ipseval.report import Tables
from ipseval.report._reported import Reported
from ipseval.report._tables import Notes, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("sign", "pearson", "kendall", "naive_pearson", "cv_gain", "n_needed")


@dataclass(frozen=True, eq=False, repr=False)
class OnlineAgreement(Reported):
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
          best indicator from this one (power 80 %, 95 %); NaN where the difference is 0.
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
        names = [name for name in self.frame if name in ("metric", "estimator", "gamma")]
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
        lines = (
            f"Best by cross-validation: {label}, chosen again in {self.chosen_share:.0%} of draws of the "
            "experiments.",
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
        return Tables(summary, (table, Notes(lines)), title="Offline and online")

    def plot(self, indicator: int | None = None, *, ax: Axes | None = None) -> Axes:
        """Return axes with online against offline differences, their errors, and the line of true ones.

        `indicator`: row of `frame`; default: the best.
        """
        from ipseval.report.plots import plot_online

        row = self.best if indicator is None else indicator
        if not 0 <= row < len(self.frame):
            raise InputError(f"indicator must be a row of the frame, 0 to {len(self.frame) - 1}; got {row}.")
        one = self.frame.iloc[row]
        names = [str(one[name]) for name in self.frame if name in ("metric", "estimator", "gamma")]
        part = self.data[self.data["indicator"] == row]
        line = (float(one["slope"]), float(one["intercept"]))
        return plot_online(part, line=line, label=" ".join(names) or "offline", ax=ax)

    def select(self, **where: Any) -> pd.DataFrame:
        """Return the rows of some metric, estimator or gamma."""
        found = self.frame
        for name, value in where.items():
            check_choice("column", name, list(map(str, self.frame)))
            found = found[found[name] == value]
        return found
