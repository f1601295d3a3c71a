"""R(γ) of metrics that divide by the best arrangement of a user's weights: its order stays as γ changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.inference._bootstrap import Key
from ipseval.inference._influences import alike
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives

Other = tuple[str, Metric, Estimator]


@dataclass(frozen=True, eq=False)
class ArrangedGroup:
    """Estimates of one metric whose users' values are x = Σwa/Σwd, d the discounts of places by weight.

    Weights of a power law fall with the popularity where γ ≥ −1 and rise with it below, also after its
    further steps, so that the places follow from the levels of popularity.

    Attributes
    ----------
    models : tuple of str
    metric : str
    forms : dict of str to LinearForm
        Estimator -> R = Σmx/Σm, with m = 1 per user and Σbw in a global form; all weighted, or none.
    worth : (n_pos, n_models) float array
        a.
    discount : (largest number of positives,) float array
        d of the first place, the second, …
    """

    models: tuple[str, ...]
    metric: str
    forms: dict[str, LinearForm]
    worth: FloatArray
    discount: FloatArray

    @property
    def weighted(self) -> bool:
        """Whether w is the inverse propensity."""
        return next(iter(self.forms.values())).weighted

    @property
    def keys(self) -> list[Key]:
        """Of the columns of what `curves` gives."""
        return [(model, self.metric, label) for label, model in product(self.forms, self.models)]

    def only(self, keys: Sequence[Key]) -> ArrangedGroup | None:
        """Return a group that has those of the keys that are here; None: none of them is."""
        models = [place for place, one in enumerate(self.models) if any(key[0] == one for key in keys)]
        labels = [one for one in self.forms if any(key[2] == one for key in keys)]
        if not models or not labels or all(key[1] != self.metric for key in keys):
            return None
        names, forms = tuple(self.models[one] for one in models), {one: self.forms[one] for one in labels}
        return replace(self, models=names, forms=forms, worth=self.worth[:, models])

    def curves(
        self, level: IntArray, weights: FloatArray, *, falls: bool, errors: bool, share: int = 1
    ) -> tuple[FloatArray, ...]:
        """Return R and, if asked for, its squared errors, (n_gamma, n_keys) each.

        Parameters
        ----------
        level : (n_pos,) int array
        weights : (n_levels, n_gamma) float array
        falls : bool
            Whether weights fall with the level.
        share : int
            One of so many users is taken.
        """
        n, n_gamma = self.worth.shape[1], weights.shape[1]
        ranked = next(iter(self.forms.values())).ranked
        sums = [_Sums.empty(n, n_gamma) for _ in self.forms]
        centre = np.zeros(0)
        for users, rows in alike(ranked, n_gamma, n + 2, share):
            count = rows.shape[1]
            rows = np.take_along_axis(rows, np.argsort(level[rows], axis=1), axis=1)
            parts = np.ones((users.size, n + 2, count))
            parts[:, :n] = self.worth[rows].transpose(0, 2, 1)
            parts[:, n] = self.discount[:count] if falls else self.discount[count - 1 :: -1]
            added = parts @ weights[level[rows]]  # (n_users, n + 2, n_gamma)
            x = added[:, :n]
            x /= added[:, n, None]
            # Squares are of differences from a value near all of them, so that equal users have no error.
            centre = centre if centre.size else x.mean(axis=(0, 2))
            x -= centre[:, None]
            for one, form in zip(sums, self.forms.values(), strict=True):
                mass = added[:, n + 1] / count if form.users_equal else added[:, n + 1]
                one.add(x, np.ones_like(mass) if form.per_user else mass, errors=errors)
        made = [one.ratio(centre[:, None]) for one in sums], [one.squared_error(ranked) for one in sums]
        return tuple(np.concatenate(one).T for one in made[: 1 + errors])


@dataclass(frozen=True, eq=False)
class _Sums:
    """Σmx, Σm²x, Σm²x², (n_columns, n_gamma), and Σm, Σm², (n_gamma,), over users."""

    mx: FloatArray
    mmx: FloatArray
    mmxx: FloatArray
    m: FloatArray
    mm: FloatArray

    @classmethod
    def empty(cls, n_columns: int, n_gamma: int) -> _Sums:
        return cls(*np.zeros((3, n_columns, n_gamma)), *np.zeros((2, n_gamma)))

    def add(self, x: FloatArray, mass: FloatArray, *, errors: bool) -> None:
        """Add users, x (n_users, n_columns, n_gamma) and m (n_users, n_gamma)."""
        mx = x * mass[:, None]
        np.add(self.mx, mx.sum(axis=0), out=self.mx)
        np.add(self.m, mass.sum(axis=0), out=self.m)
        if errors:
            np.add(self.mmx, np.einsum("ucg,ug->cg", mx, mass), out=self.mmx)
            np.add(self.mmxx, np.einsum("ucg,ucg->cg", mx, mx), out=self.mmxx)
            np.add(self.mm, np.einsum("ug,ug->g", mass, mass), out=self.mm)

    def ratio(self, centre: FloatArray) -> FloatArray:
        return centre + self.mx / self.m

    def squared_error(self, ranked: RankedPositives) -> FloatArray:
        """Return Σm²(x − R)²/m̄²/(n(n − 1)) over n users; NaN for one."""
        n, ratio = ranked.users.size, self.mx / self.m
        squares = self.mmxx - 2 * ratio * self.mmx + ratio**2 * self.mm
        return np.maximum(squares, 0) / self.m**2 * (n / (n - 1)) if n > 1 else np.full(ratio.shape, np.nan)


def arranged_groups(
    samples: Mapping[str, Sample], others: Sequence[Other]
) -> tuple[list[ArrangedGroup], list[Other]]:
    """Return those of the estimates that are of this kind, in groups, and the rest."""
    sample = next(iter(samples.values()))
    ranked, rest = sample.ranked, []
    forms: dict[tuple[Metric, bool], dict[str, LinearForm]] = {}
    parts: dict[Metric, dict[str, tuple[FloatArray, FloatArray] | None]] = {}
    for model, metric, estimator in others:
        known = parts.setdefault(metric, {})
        if model not in known:
            known[model] = metric.arranged(samples[model].ranked, ties=sample.ties)
        form = estimator.linear_form(metric, ranked, is_probability=sample.is_probability)
        if form is None or form.own is not None or ranked.cluster is not None or known[model] is None:
            rest.append((model, metric, estimator))
        else:
            forms.setdefault((metric, form.weighted), {})[estimator.label] = form
    made = []
    for (metric, _), of_metric in forms.items():
        found = {model: one for model, one in parts[metric].items() if one is not None}
        worth = np.column_stack([one for one, _ in found.values()])
        discount = next(iter(found.values()))[1]
        made.append(ArrangedGroup(tuple(found), metric.label, of_metric, worth, discount))
    return made, rest
