"""Propensity model of extreme classification (Jain et al., KDD 2016): a logistic function of log popularity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions
from ipseval.data.training_log import as_training_log
from ipseval.errors import InputError
from ipseval.propensity._base import Propensity
from ipseval.utils.checks import check_counts, check_positive_int, check_real
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray

MIN_USERS = 3  # ln N − 1 is not positive below


@public_class
@dataclass(frozen=True)
class JainPropensity:
    """Compute propensities from popularity as in extreme classification, 1/P_i = 1 + C (N_i + b)^(−a).

    The model is an assumption about the log: a and b are constants that were fitted to other data sets, where
    the missing labels were known. Items without training interactions have a propensity, too.

    Parameters
    ----------
    a : float, default 0.55
        Exponent, > 0.
    b : float, default 1.5
        Number added to the popularity, > 0.

    See Also
    --------
    PowerLawPropensity : Compute propensities as a power of popularity.

    Notes
    -----
    With N the number of users who have training interactions and N_i the number of those who interacted with
    item i [1]_:

        P_i = 1 / (1 + C (N_i + b)^(−a)), C = (ln N − 1) (b + 1)^a

    An item with one user has 1/P = ln N, and 1/P approaches 1 as N_i grows. The paper takes a = 0.5 and b = 0.4
    for Wikipedia, a = 0.6 and b = 2.6 for Amazon, and a = 0.55 and b = 1.5 for other data. With these weights,
    ``psp@k`` and ``psndcg@k`` are the propensity-scored metrics of extreme classification.

    References
    ----------
    .. [1] Jain, Prabhu and Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking &
       other missing label applications", KDD 2016, doi:10.1145/2939672.2939756

    Examples
    --------
    Items of none, one and 98 among 100 users; ln 100 = 4.605:

    >>> propensity = JainPropensity().fit(popularity=[0, 1, 98], n_users=100)
    >>> (1 / propensity.item).round(3)
    array([5.775, 4.605, 1.475])
    """

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        check_real("a", self.a, low=0.0)
        check_real("b", self.b, low=0.0)

    def fit(
        self,
        train: Interactions | None = None,
        *,
        popularity: npt.ArrayLike | None = None,
        n_users: int | None = None,
    ) -> Propensity:
        """Compute the propensity of every item from training interactions or from counts.

        Parameters
        ----------
        train : Interactions, optional
            Training log. Repeated interactions of a user with an item count once.
        popularity : (n_items,) array-like, optional
            N_i, in place of the training log; with `n_users`.
        n_users : int, optional
            N, the number of users behind `popularity`; at least 3.

        Returns
        -------
        Propensity
            One probability per item.

        Raises
        ------
        InputError
            With fewer than three users, and for more than N users of an item.
        """
        if (train is None) == (popularity is None) or (popularity is None) != (n_users is None):
            raise InputError("fit takes either training interactions or popularity= with n_users=.")
        item_ids = None
        if train is not None:
            train = as_training_log(train)
            counts, n_users = _count_users(train)
            item_ids = train.item_ids
        else:
            assert popularity is not None
            counts = check_counts("popularity", popularity)
        assert n_users is not None
        n_users = check_positive_int("n_users", n_users, minimum=MIN_USERS)
        if counts.max(initial=0) > n_users:
            raise InputError(
                f"must be at most the number of users, {n_users:,}; got {counts.max():,.0f}.",
                argument="popularity",
            )
        constant = (np.log(n_users) - 1) * (self.b + 1) ** self.a
        return Propensity(
            item=1 / (1 + constant * (counts + self.b) ** -self.a),
            is_probability=True,
            model=f"Jain et al., a = {self.a:.4g}, b = {self.b:.4g}",
            n_items=counts.size,
            popularity=counts,
            item_ids=item_ids,
            basis="assumed",
        )


def _count_users(train: Interactions) -> tuple[FloatArray, int]:
    """Return the number of users of each item, and the number of users with interactions."""
    n_users = int(np.unique(train.user).size)
    if n_users < MIN_USERS:
        raise InputError(
            f"the propensity model of Jain et al. needs at least {MIN_USERS} users with training interactions; "
            f"got {n_users}. Use another propensity model, such as power-law."
        )
    pairs = np.unique(train.user * np.int64(train.item_ids.size) + train.item)
    counts = np.bincount(pairs % train.item_ids.size, minlength=train.item_ids.size)
    return counts.astype(np.float64), n_users
