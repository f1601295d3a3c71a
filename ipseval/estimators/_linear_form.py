"""Estimates as weighted means of the contributions of positives, which AOA, SNIPS and IPS share."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray


@public_class
@dataclass(frozen=True, eq=False)
class Parts:
    """Represent an estimate as a weighted mean over positives: R = (Σ a c / Σ a) · mean V.

    Parameters
    ----------
    weight : (n_pos,) float array
        Weight a of each positive in the estimate.
    value : (n_pos,) float array
        Contribution c of each positive; NaN where the metric is undefined for its user.
    users : (n,) int array or None, default None
        Users with a volume V; None for V = 1.
    volume : (n,) float array or None, default None
        V of these users, such as |S*_u| for a metric that is a sum over positives.

    See Also
    --------
    Estimator.parts : Return the parts of an estimate.

    Examples
    --------
    >>> import numpy as np
    >>> Parts(weight=np.array([1.0, 3.0]), value=np.array([1.0, 0.5])).total()
    0.625
    """

    weight: FloatArray
    value: FloatArray
    users: IntArray | None = None
    volume: FloatArray | None = None

    def total(self) -> float:
        """Compute the estimate R from its parts.

        Returns
        -------
        float
            NaN if the weights of the positives with a defined contribution do not have a positive sum.
        """
        is_defined = ~np.isnan(self.value)
        weight = self.weight[is_defined]
        if not weight.sum() > 0:
            return float("nan")
        mean = float((weight * self.value[is_defined]).sum() / weight.sum())
        if self.volume is None:
            return mean
        return mean * float(self.volume.mean())


@public_class
@dataclass(frozen=True, eq=False)
class LinearForm:
    """Describe how an estimator combines contributions c and weights w, which are 1/P or 1.

    An estimator with other functions of P as weights has no linear form. Two forms with equal parameters are equal.

    Parameters
    ----------
    ranked : RankedPositives
        The ranked positives.
    per_user : bool
        Whether the form is per user or global, see Notes.
    weighted : bool
        Whether w is the inverse propensity; False for w = 1.
    is_sum : bool, default False
        Whether the metric is a sum over positives.
    users_equal : bool, default False
        Whether b is 1/|S*_u| in a global form, so that each user counts by its mean weight.
    own : (n_pos,) float array or None, default None
        Extra weights of the estimator, which multiply b of a global form.

    Raises
    ------
    InputError
        For a per-user form with extra weights.

    See Also
    --------
    Estimator.linear_form : Return the form of an estimator.
    Parts : The weights and contributions of an estimate.

    Notes
    -----
    The estimate is R = ΣN_u/ΣD_u, times the mean of V_u in global forms of sum metrics.

    ==========  =================================
    per user    N_u = f_u Σwc/Σw, D_u = 1
    global      N_u = Σ b w c, D_u = Σ b w
    ==========  =================================

    Examples
    --------
    The form of ``snips-global`` for metrics of mean type, and the coefficients of equal weights:

    >>> import numpy as np
    >>> from ipseval import rank_positives, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> ranked = rank_positives(world.example_models(split, rng=2)["popular"], split)
    >>> form = LinearForm(ranked, per_user=False, weighted=True, users_equal=True)
    >>> coefficients = form.coefficients(np.ones(len(ranked)))
    >>> coefficients.size, round(float(coefficients.sum()), 6)
    (362, 1.0)
    """

    ranked: RankedPositives
    per_user: bool
    weighted: bool
    is_sum: bool = False
    users_equal: bool = False
    own: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.per_user and self.own is not None:
            raise InputError("own weights enter global forms only; got them in a per-user form.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearForm) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        """The values that two equal forms share."""
        extra_weights = b""
        if self.own is not None:
            extra_weights = self.own.tobytes()
        return self.ranked, self.per_user, self.weighted, self.is_sum, self.users_equal, extra_weights

    @cached_property
    def factor(self) -> FloatArray:
        """f_u of per-user forms, (n_users,): |S*_u| for sum metrics, otherwise 1."""
        counts = self.ranked.counts
        if self.is_sum:
            return counts.astype(np.float64)
        return np.ones(counts.size)

    @cached_property
    def base(self) -> FloatArray:
        """Factor b of each positive in global forms, (n_pos,)."""
        base = self._ones
        if self.users_equal:
            base = (1 / self.ranked.counts)[self.ranked.segment]
        if self.own is None:
            return base
        return base * self.own

    @cached_property
    def volume(self) -> FloatArray | None:
        """V_u of global forms of sum metrics, (n_users,); else None."""
        if self.is_sum and not self.per_user:
            return self.factor
        return None

    def coefficients(self, weights: FloatArray, times: FloatArray | None = None) -> FloatArray:
        """Compute the coefficient v of each contribution in the estimate R = Σ v c.

        Parameters
        ----------
        weights : (n_pos,) float array
            Inverse propensities.
        times : (n_users_with_positives,) float array or None, default None
            Number of times that each user counts, as in a bootstrap resample; None for once.

        Returns
        -------
        (n_pos,) float array
            One coefficient per positive, in the order of the positives.
        """
        ranked = self.ranked
        user_times = times
        if user_times is None:
            user_times = np.ones(ranked.users.size)
        w = self._effective_weights(weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.per_user:
                by_user = user_times * self.factor / (ranked.sum_by_user(w) * user_times.sum())
                return np.asarray(w * by_user[ranked.segment])
            v = self.base * w * user_times[ranked.segment]
            mean_volume = 1.0
            if self.volume is not None:
                mean_volume = float((user_times @ self.volume) / user_times.sum())
            return np.asarray(v * (mean_volume / v.sum()))

    def sums(self, weights: FloatArray, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the per-user sums N_u and D_u.

        Parameters
        ----------
        weights : (n_pos,) float array
            Inverse propensities.
        contributions : (n_pos, k) float array
            Contributions c of k metrics or models.

        Returns
        -------
        (n_users_with_positives, k) and (n_users_with_positives,) float arrays
            N_u of each column, and D_u, of the users with positives.
        """
        ranked = self.ranked
        w = self._effective_weights(weights)
        if self.per_user:
            by_user = self.factor / ranked.sum_by_user(w)
            numerator = self.added(w * by_user[ranked.segment], contributions)
            return numerator, np.ones(by_user.size)
        v = self.base * w
        return self.added(v, contributions), ranked.sum_by_user(v)

    def added(self, values: FloatArray, contributions: FloatArray) -> FloatArray:
        """Compute the sums Σ v c over the positives of each user.

        Parameters
        ----------
        values : (n_pos,) float array
            v of each positive.
        contributions : (n_pos, k) float array
            Contributions c of k metrics or models.

        Returns
        -------
        (n_users_with_positives, k) float array
            One sum per user and column.
        """
        matrix = copy(self._user_matrix)  # shares the indices, which are then checked once only
        matrix.data = values
        return np.asarray(matrix @ contributions)

    @cached_property
    def _user_matrix(self) -> sparse.csr_array:
        """The indicator matrix of the positives of each user, (n_users, n_pos)."""
        shape = (self.ranked.users.size, len(self.ranked))
        ends = np.append(self.ranked.starts, shape[1])
        return sparse.csr_array((self._ones, np.arange(shape[1]), ends), shape=shape)

    def _effective_weights(self, weights: FloatArray) -> FloatArray:
        """Return w of each positive, which is 1 in unweighted forms."""
        if self.weighted:
            return weights
        return self._ones

    @cached_property
    def _ones(self) -> FloatArray:
        return np.ones(len(self.ranked))
