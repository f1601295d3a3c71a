"""What can be asked of an evaluation: comparisons, sensitivity to the weights, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._base.checks import as_float_vector
from ipseval._base.registry import matching
from ipseval._base.types import AnyArray
from ipseval.errors import InputError
from ipseval.estimators import Estimate, Estimator, Sample
from ipseval.estimators._labels import resolve_estimator
from ipseval.inference import Sensitivity, bounds, compare, tipping_factors
from ipseval.inference._comparisons import Correction, Family
from ipseval.inference._frame import with_trust
from ipseval.inference._intervals import Key
from ipseval.inference._sensitivity import sensitivity
from ipseval.metrics import Metric, metric
from ipseval.propensity import Propensity
from ipseval.report._reported import Reported


def metric_label(label: str, held: Iterable[Key]) -> str:
    """Return the label of the metric among keys that `label` stands for, in any case; else `label`."""
    found = matching(label, dict.fromkeys(key[1] for key in held))
    if found is not None:
        return found
    try:
        return metric(label).label  # another name of it
    except InputError:
        return label


def estimator_label(label: str, held: Iterable[Key]) -> str:
    """Return the label of the estimator among keys that `label` stands for, in any case; else `label`."""
    found = matching(label, dict.fromkeys(key[2] for key in held))
    if found is not None:
        return found
    try:
        return resolve_estimator(label).label
    except InputError:
        return label


class Questions(Reported):
    """What is asked of estimates and of the ranked positives behind them; `Evaluation` holds these."""

    estimates: dict[Key, Estimate]
    samples: dict[str, Sample]
    user_ids: AnyArray
    confidence_level: float
    propensity: Propensity | None
    definitions: tuple[Sequence[Metric], Sequence[Estimator]]

    def estimate(self, model: str, metric: str, estimator: str) -> Estimate:
        """Return one estimate.

        Raises
        ------
        InputError
            When the evaluation does not hold it.
        """
        key = model, metric_label(metric, self.estimates), estimator_label(estimator, self.estimates)
        try:
            return self.estimates[key]
        except KeyError:
            raise InputError(
                f"no estimate ({model!r}, {metric!r}, {estimator!r}); models: {_named(self.estimates, 0)}; "
                f"metrics: {_named(self.estimates, 1)}; estimators: {_named(self.estimates, 2)}."
            ) from None

    def _whole(self) -> dict[str, Sample]:
        if not self.samples:
            raise InputError(
                "this needs the ranked positives, which stayed on the cluster, or out of the file. Rank them "
                "here, with ipseval.evaluate or evaluate_ranks."
            )
        return self.samples

    def compare(
        self,
        reference: str | None = None,
        *,
        correction: Correction = "holm",
        family: Family = "cell",
        power: float = 0.8,
        difference: float | None = None,
    ) -> pd.DataFrame:
        """Return paired differences of recommenders on the same users; see `inference.compare`.

        `reference` None: all pairs. `correction` "holm", "bh", "bonferroni" or None, over a `family`: "cell"
        (the pairs within a metric and estimator), "estimator" or "all" (the whole table). `difference`: what
        `n_users_needed` is for; None: the observed one.
        """
        return compare(
            self.estimates,
            reference=reference,
            correction=correction,
            family=family,
            confidence_level=self.confidence_level,
            power=power,
            difference=difference,
        )

    def sensitivity(self, gamma: npt.ArrayLike | None = None, *, standard_errors: bool = True) -> Sensitivity:
        """Return R(γ) over a grid (default −1, −0.9, …, 3); its `.frame`, and its `.tipping_points()`."""
        return sensitivity(
            self._whole(),
            *self.definitions,
            self.propensity,
            gamma=np.linspace(-1, 3, 41) if gamma is None else gamma,
            confidence_level=self.confidence_level,
            standard_errors=standard_errors,
        )

    def tipping_points(
        self, gamma: npt.ArrayLike | None = None, *, reference: str | None = None
    ) -> pd.DataFrame:
        """Return where pairs of recommenders swap as γ varies (default grid −1 … 3 in steps of .02).

        `reference`: only the pairs with this recommender.
        """
        grid = np.linspace(-1, 3, 201) if gamma is None else gamma
        found = self.sensitivity(grid, standard_errors=False).tipping_points(reference)
        return with_trust(found, self.estimates)

    def bounds(self, factor: float | Sequence[float] = 2.0) -> pd.DataFrame:
        """Return bounds of every estimate when each 1/P may be wrong by a factor; see `inference.bounds`."""
        factors = as_float_vector("factor", np.atleast_1d(np.asarray(factor))).tolist()
        return with_trust(bounds(self._whole(), *self.definitions, factors=factors), self.estimates)

    def tipping_factors(self) -> pd.DataFrame:
        """Return by what factor Λ weights must be wrong for two to swap; see `inference.tipping_factors`."""
        return with_trust(tipping_factors(self._whole(), *self.definitions), self.estimates)


def _named(estimates: Mapping[Key, Estimate], place: int) -> str:
    return ", ".join(dict.fromkeys(key[place] for key in estimates))
