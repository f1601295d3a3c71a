"""Correction: estimates with the strength of the correction, and what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int
from ipseval._base.types import FloatArray
from ipseval.correction._anchors import KNOWN, Anchors
from ipseval.correction._difference import Difference
from ipseval.correction._path import CorrectionPath
from ipseval.correction._posterior import Posterior, RandomSample, posterior
from ipseval.correction._prior import ALPHAS, INTERACTIONS, CorrectionPrior
from ipseval.data._evidence import RandomExposure
from ipseval.estimators import Claim
from ipseval.estimators._labels import AOA_POOLED, resolve_estimator
from ipseval.inference._comparisons import pairs_of
from ipseval.inference._frame import FRAME_COLUMNS
from ipseval.inference._intervals import normal_interval
from ipseval.report import Tables
from ipseval.report._reported import Result
from ipseval.report._tables import Notes, Remark, Table

CORRECTED: Final = "corrected"
RANDOM_SAMPLE: Final = "random-sample"
DIFFERENCE: Final = "ppi"
CLAIMS = {
    RANDOM_SAMPLE: str(Claim("consistent", "given users and items drawn at random; pooled over pairs")),
    DIFFERENCE: str(Claim("consistent", "as random-sample, whatever the log's odds; often less noise")),
    CORRECTED: (
        "posterior of the pooled mean, given the prior of the correction strength; tends to random-sample"
    ),
}
UNEXPLAINED = "the log's odds do not explain exposure"
# Of what AOA is above chance, a strength of .45 takes away less: the odds are flat where AOA is high.
FLAT_PATH = 0.25
COMPARED = (
    *("metric", "estimator", "model", "reference", "difference", "std_error", "ci_low", "ci_high"),
    "probability_higher",
)


@dataclass(frozen=True)
class AlphaPosterior:
    """The correction strength: 0 corrects nothing, 1 takes all concentration of the log for exposure.

    Attributes
    ----------
    mean, low, high : float
        Posterior mean, and the central interval of the confidence level.
    density : DataFrame
        alpha, prior, posterior: probabilities on the grid.
    """

    mean: float
    low: float
    high: float
    density: pd.DataFrame

    def __repr__(self) -> str:
        return f"correction strength {self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, eq=False)
class OrderPosterior:
    """What the posterior says of the order of recommenders by one metric: of the average over relevant pairs.

    Attributes
    ----------
    models : tuple of str
    plain, mean, low, high : (n_models,) arrays
        The plain average over held-out pairs, and the corrected one with the interval of the correction, from
        0 to 1 at most: there an average of a metric lies.
    loss : (n_models,) array
        What choosing each loses on average to the best of all: E[max θ] − E[θ].
    ahead : (n_models, n_models) array
        P(θ_row > θ_column).
    evidence : {"log", "interactions", "exposure"}
        What it knows of the order beside the positives. From the log alone the strength is not identified,
        and probabilities are those of simulated worlds. Known values say of levels, not of the order.
    explained : bool
        Whether the log's odds explain exposure; where not, nothing is certain of the order.
    """

    models: tuple[str, ...]
    plain: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    loss: FloatArray
    ahead: FloatArray
    evidence: str = "log"
    explained: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Correction(Result):
    """Estimates of the pooled mean by AOA, by the random sample, and by both joined through α.

    Attributes
    ----------
    path : CorrectionPath
    prior : CorrectionPrior
    sample : RandomSample or None
        None: no random-exposure positive, and the prior stands alone.
    posterior : Posterior
    exposure : RandomExposure or None
    confidence_level : float
    difference : Difference or None
        The random sample less what the odds predict of its noise; None where only positives were ranked.
    anchors : Anchors or None
        Values that are known from outside the log.
    """

    path: CorrectionPath
    prior: CorrectionPrior
    sample: RandomSample | None
    posterior: Posterior
    exposure: RandomExposure | None = None
    confidence_level: float = 0.95
    difference: Difference | None = None
    anchors: Anchors | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator, with the columns of `Evaluation.frame`; a new copy."""
        return self._frame.copy()

    @property
    def joined_rows(self) -> pd.DataFrame:
        """The rows of `frame` that need the prior or random exposure."""
        return self._frame[self._frame["estimator"].isin((RANDOM_SAMPLE, DIFFERENCE, CORRECTED))]

    @cached_property
    def _frame(self) -> pd.DataFrame:
        path, sample, own = self.path, self.sample, self.difference
        strong = int(np.argmin(np.abs(path.alpha[: ALPHAS.size] - self.alpha.mean)))
        cut = path.clipped[strong]
        clip = f"at strength {self.alpha.mean:.2f} large weights are clipped, by {cut:.0%} of all weight"
        log = (path.n_users, path.n_positives)
        rows = self._rows(AOA_POOLED, path.value[0], path.covariance[0], (*log, path.ess[0]))
        if sample is not None:
            half = path.half_hit(sample.size)
            slots = "" if sample.ess is None else "if exploration slots were random; users are weighted"
            counts = (sample.n_users, sample.n_positives, float(sample.size))
            rows += self._rows(RANDOM_SAMPLE, sample.value, sample.own + half, counts, slots)
            if own is not None:
                rows += self._rows(DIFFERENCE, own.value, own.covariance + half, counts)
        alone = "" if sample is not None else "no random exposure: the level rests on the prior"
        if self.anchors is not None and alone:
            alone = "no random exposure: the level rests on the known values and the prior"
        note = "; ".join(filter(None, (alone, self._unexplained, clip if cut >= 0.005 else "")))
        found = self.posterior.total_mean, self.posterior.total_covariance
        rows += self._rows(CORRECTED, *found, (*log, path.ess[strong]), note)
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    def _rows(
        self,
        estimator: str,
        value: FloatArray,
        covariance: FloatArray,
        counts: tuple[int, int, float],
        note: str = "",
    ) -> list[tuple[Any, ...]]:
        plain, error = resolve_estimator(AOA_POOLED), np.sqrt(np.diagonal(covariance))
        claims = [str(plain.claim(metric)) for metric in self.path.metrics for _ in self.path.models]
        if estimator == CORRECTED:
            low, high = self._interval(np.eye(value.size))
        else:
            low, high = normal_interval(value, error, confidence_level=self.confidence_level)
        numbers = zip(value, error, low, high, strict=True)
        return [
            (*cell, estimator, *four, *counts, float("nan"), CLAIMS.get(estimator, claim), note)
            for cell, four, claim in zip(self.path.cells, numbers, claims, strict=True)
        ]

    def orders(self) -> dict[str, OrderPosterior]:
        """Return metric -> what the posterior says of the order of the recommenders."""
        path, found, n = self.path, {}, len(self.path.models)
        low, high = self._interval(np.eye(path.metric_of.size))
        for number, metric in enumerate(path.metrics):
            cells = slice(number * n, (number + 1) * n)
            found[metric.label] = OrderPosterior(
                path.models,
                path.value[0, cells],
                self.posterior.total_mean[cells],
                np.clip(low[cells], 0, 1),
                np.clip(high[cells], 0, 1),
                self.posterior.expected_loss(cells),
                self.posterior.ahead(cells),
                self._evidence,
                self.explained,
            )
        return found

    @property
    def _evidence(self) -> str:
        """What is known of the order beside the positives; known values say of levels alone."""
        if self.sample is not None:
            return "exposure"
        return "interactions" if INTERACTIONS in self.path.bases else "log"

    @property
    def _unexplained(self) -> str:
        """That the log's odds do not explain exposure, and what to read instead where it is there."""
        read = "; read random-sample" if self.sample else "; only random exposure would tell"
        return "" if self.explained else f"{UNEXPLAINED}{read}"

    def _interval(self, contrast: FloatArray) -> tuple[FloatArray, FloatArray]:
        tail = (1 - self.confidence_level) / 2
        return self.posterior.quantile(contrast, tail), self.posterior.quantile(contrast, 1 - tail)

    @cached_property
    def alpha(self) -> AlphaPosterior:
        """The posterior of the correction strength."""
        grid, mass = self.path.alpha[: ALPHAS.size], self.posterior.alpha_mass
        tail, below = (1 - self.confidence_level) / 2, np.cumsum(mass)
        ends = np.searchsorted(below, [tail, 1 - tail]).clip(max=grid.size - 1)
        low, high = grid[ends].tolist()
        before = self.prior.grid_mass(self.path.bases).reshape(-1, grid.size).sum(axis=0)
        density = pd.DataFrame({"alpha": grid, "prior": before, "posterior": mass})
        return AlphaPosterior(float(mass @ grid), low, high, density)

    @cached_property
    def explained(self) -> bool:
        """Whether the log's odds explain exposure: not where the path is flat, or the sample strains it."""
        if self.path.reach < FLAT_PATH:
            return False
        return self.sample is None or self.posterior.strained <= 0.5

    @cached_property
    def known(self) -> pd.DataFrame:
        """One row per known value, beside what all other evidence lets expect.

        model, reference ("" but for ratios), metric, known, std_error, expected, expected_error; z: their
        distance in standard errors of both; disagrees: whether it is told from 0, at .05 over all
        recommenders; smallest_error: by how much a value must be wrong to be seen with a chance of .8.
        Values of the same recommender are left out together.
        """
        if self.anchors is None:
            return pd.DataFrame(columns=list(KNOWN))
        return self.anchors.checked(lambda some: posterior(self.path, self.prior, self.sample, some))

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Return differences of recommenders from the joint posterior.

        Parameters
        ----------
        reference : str, optional
            Compare the others with this one. Default: every pair.

        Returns
        -------
        DataFrame
            metric, estimator, model, reference, difference = R(model) − R(reference), std_error, ci_low,
            ci_high, probability_higher: the posterior probability that the difference is above 0.
        """
        pairs = pairs_of(self.path.models, reference)
        names = [(metric.label, CORRECTED, *pair) for metric in self.path.metrics for pair in pairs]
        if not names:
            return pd.DataFrame(columns=list(COMPARED))
        place = {cell: number for number, cell in enumerate(self.path.cells)}
        unit = np.eye(len(place))
        contrast = np.array([unit[place[a, metric]] - unit[place[b, metric]] for metric, _, a, b in names])
        variance = np.einsum("ik,kl,il->i", contrast, self.posterior.total_covariance, contrast)
        error = np.sqrt(np.maximum(variance, 0))  # equal recommenders: rounding may leave less than 0
        columns = (contrast @ self.posterior.total_mean, error, *self._interval(contrast))
        numbers = zip(*columns, self.posterior.above_zero(contrast), strict=True)
        return pd.DataFrame(
            [(*name, *five) for name, five in zip(names, numbers, strict=True)], columns=list(COMPARED)
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: estimates by metric, best first, who leads, and the strength."""
        del page
        said = self._frame.drop_duplicates("estimator")[["estimator", "claim", "note"]]
        lines = [
            f"{name}: {claim}." + (f" Note: {note}." if note else "")
            for name, claim, note in said.itertuples(index=False)
        ]
        lines += [_of_known(row) for row in self.known.to_dict("records")] + self._of_slots()
        lines.append(f"[ ] are {self.confidence_level:.0%} intervals. Target: the mean over relevant pairs.")
        return Tables(
            summary=tuple(self._summary()),
            parts=(*self.leaderboards(digits), Notes(tuple(lines))),
            verdict=(Remark("Verdict", self._verdict),),
        )

    def _of_slots(self) -> list[str]:
        """Return what exploration slots are and whom they leave out, in sentences."""
        shown, lines = self.exposure, []
        if shown is not None and shown.n_uncovered:
            lines.append(f"{shown.n_uncovered:,} users without a row in the log do not count.")
        if shown is not None and shown.slope is not None:
            slope, error = shown.slope
            said = f"Exploration slots follow popularity by a power of {slope:.2f}"
            lines.append(f"{said}; random ones have 0 ± {error:.2f}.")
        return lines

    def leaderboards(self, digits: int = 2) -> list[Table]:
        """Return one table per metric, by the estimates of the correction strength, best first."""
        check_positive_int("digits", digits)
        found = []
        for metric, part in self._frame.groupby("metric", sort=False):
            wide = pd.DataFrame({"model": list(self.path.models)})
            for estimator, rows in part.groupby("estimator", sort=False):
                wide[estimator] = rows["estimate"].to_numpy()
                wide[f"{estimator}_low"] = rows["ci_low"].to_numpy()
                wide[f"{estimator}_high"] = rows["ci_high"].to_numpy()
            wide = wide.sort_values(CORRECTED, ascending=False, kind="stable", ignore_index=True)
            found.append(Table.of(wide, str(metric), formats=f".{digits + 1}f"))
        return found

    @cached_property
    def _verdict(self) -> tuple[str, ...]:
        """Who leads by each metric, from the joint posterior."""
        lines, models = [], self.path.models
        for number, metric in enumerate(self.path.metrics):
            if len(models) == 1:
                break
            cells = slice(number * len(models), (number + 1) * len(models))
            order = np.argsort(-self.posterior.total_mean[cells], kind="stable")
            best, others = models[order[0]], order[1:]
            unit = np.eye(self.posterior.total_mean.size)[cells]
            higher = self.posterior.above_zero(unit[order[0]] - unit[others])
            level = (1 + self.confidence_level) / 2
            beside = [models[one] for one, p in zip(others, higher, strict=True) if p < level]
            start = f"By {metric.label} with random exposure, " if self.sample else f"By {metric.label}, "
            if beside:
                names = f"{beside[0]} and {len(beside) - 1} more" if len(beside) > 1 else beside[0]
                lines.append(
                    f"{start}{best} is first. It is not told apart from {names} (probability "
                    f"{float(higher[0]):.2f} to be better than {models[others[0]]})."
                )
            elif self._evidence == "log" or not self.explained:
                why = "its probabilities are those of simulated worlds" if self.explained else UNEXPLAINED
                lines.append(f"{start}{best} is first. No leader is named, as {why}.")
            else:
                sure = float(higher.min())
                chance = "above .99" if sure > 0.99 else f"{sure:.2f}"
                lines.append(f"{start}{best} leads: it is better than every other with probability {chance}.")
        return tuple(lines)

    def _summary(self) -> list[str]:
        path, sample = self.path, self.sample
        log = f"{path.n_positives:,} held-out positives of {path.n_users:,} users"
        if sample is None:
            random = "no random-exposure positive"
        else:
            random = f"{sample.n_positives:,} random-exposure positives of {sample.n_users:,} users"
        lines = [f"{len(path.models)} recommenders, {log}, {random}", f"{self.alpha!r}"]
        if not self.explained:
            lines.append(f"{self._unexplained[0].upper()}{self._unexplained[1:]}")
        if self.exposure is not None and self.exposure.n_dropped:
            lines.append(f"{self.exposure.n_dropped:,} exposures left out: pairs of the training log")
        return lines


def _of_known(row: dict[Any, Any]) -> str:
    """Return a known value, what was expected of it, and whether they disagree, in sentences."""
    of = f"{row['model']} : {row['reference']}" if row["reference"] else row["model"]
    known = f"{row['metric']} of {of} is known as {row['known']:.3f} ± {row['std_error']:.3f}"
    verb = "which disagrees with" if row["disagrees"] else "beside"
    return (
        f"{known}, {verb} {row['expected']:.3f} ± {row['expected_error']:.3f} without it. An error of "
        f"{row['smallest_error']:.3f} would be seen."
    )
