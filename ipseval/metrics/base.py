"""The base class of all metrics, with the checks and conversions that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice, check_positive_int
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule, as_readonly

Kind = Literal["mean", "sum", "pairwise", "list"]
MAX_CUTOFF = 10_000_000  # short lists are counted by length up to the largest cutoff
TIE_RULES = ("mean", "min", "max", "expected")

# Number of positives of one user up to which unbiased forms run that take quadratic time and memory.
MAX_QUADRATIC_SIZE = 4_000


@public_class
@dataclass(frozen=True)
class Definition:
    """The formula and conventions of a metric, for a known relevant set S with ranks r.

    `ipseval.estimators.card` prints them.

    Parameters
    ----------
    formula : str
        The value of one user.
    denominator : str
        What the value is divided by, or "none".
    discount : str, default "none"
        The weight of a relevant item at rank r, or "none".
    undefined : str, default "users without positives"
        Users for whom the value is not defined.
    plug_in : str, default ""
        The value of one user from weighted positives; "" where it follows from the kind of the metric, which is
        so for "mean" and "sum".

    See Also
    --------
    ipseval.metrics.Metric : The class that has a definition.
    ipseval.estimators.card : Print the definition of a metric with its guarantees.

    Examples
    --------
    >>> Definition("Σ_{i∈S} 1{r_i ≤ k} / s", "s").discount
    'none'
    """

    formula: str
    denominator: str
    discount: str = "none"
    undefined: str = "users without positives"
    plug_in: str = ""


# The value of one user from weighted positives, for the kinds from which it follows.
PLUG_INS = MappingProxyType(
    {
        "mean": "per-user weighted mean of the contributions, Σwc/Σw",
        "sum": "|S*_u| Σwc/Σw per user; one normaliser for all users in the global and pooled forms",
    }
)


@public_class
@dataclass(frozen=True)
class Parameter:
    """A parameter of a metric label, such as p in "rbp(p=0.8)".

    Parameters
    ----------
    default : object
        Value of the parameter where the label does not set it.
    parse : callable
        Converts the text of the label to a value, and raises `InputError` for text that it cannot convert.
    description : str
        Meaning of the parameter.
    is_always_printed : bool, default False
        Whether labels print the parameter also where it has its default.

    See Also
    --------
    Metric : Its attribute `parameters` holds the parameters by name.
    ipseval.metric : Create a metric from a label with parameters.

    Examples
    --------
    >>> from ipseval import metric
    >>> parameter = metric("rbp").parameters["p"]
    >>> parameter.default, parameter.parse("0.5")
    (0.8, 0.5)
    """

    default: Any
    parse: Callable[[str], Any]
    description: str
    is_always_printed: bool = False


@public_class
@dataclass(frozen=True, repr=False)
class Metric(ABC):
    """Compute one number per user from the ranks of the user's positives (base class of all metrics).

    A subclass sets the class attributes `name`, `kind` and `definition` and defines `_user_values`. It
    overrides the other attributes and methods where their defaults do not apply. Subclasses of
    `AdditiveMetric` define the value of one rank only. A metric in `METRICS` can be requested by its label.

    Parameters
    ----------
    cutoff : int or None, default None
        The k of ``@k``; None for the whole ranking.
    label : str, default ""
        Label in reports; "" for name, parameters and cutoff, as `ipseval.metric` parses them.

    Attributes
    ----------
    kind : {"mean", "sum", "pairwise", "list"}
        "mean": (1/s) Σ c(r). "sum": Σ c(r). "pairwise": a sum over pairs of positives. "list": any other
        function of the ranks.
    takes_cutoff : {"required", "optional", "none"}
        Whether the label has a cutoff.
    default_ties : {"mean", "expected"}
        The tie rule that ``ties="default"`` stands for.
    needs_n_relevant : bool
        Whether the unbiased form divides by the number of relevant items s_u = |S_u|.
    needs_independence : bool
        Whether the unbiased form multiplies observations of different items, which is unbiased only if
        they are independent given S_u.
    value_range : (float, float)
        Range of the values of a user, with and without weights.
    has_pairs : bool
        Whether `pair_sums` returns the two sums of a ratio of pairs.
    is_ratio_of_sums : bool
        Whether the metric of several users is a ratio of sums over users, which `ratio_sums` returns, and not
        an average of the values of users.
    counts_unobserved : bool
        Whether `unobserved` returns values other than 0.
    linear_in_rank : bool
        Whether `value_at_rank` is linear in the rank, so that uniformly sampled ranks keep its mean.
    corrects_sampling : bool
        Whether the metric estimates its value in the full ranking from sampled ranks.
    is_fitted_to_ranks : bool
        Whether the metric is fitted to the ranks that it evaluates. Estimators hold it fixed, so their standard
        errors are too small.
    approximate : str
        Reason why estimators of the metric have no statistical guarantee; "" if they have one.
    is_weighted_within_users : bool
        Whether weights change the value of a user. If not, they only change how much each user counts, so that
        the estimates hardly depend on the propensities.
    root : bool
        Whether an estimate is the square root of the average over users.

    See Also
    --------
    AdditiveMetric : Base of metrics that are sums or means over positives.
    ipseval.metric : Create a metric from its label.

    Examples
    --------
    The recall of two users in a simulation, of whom the metric reads the ranks of the test positives:

    >>> from ipseval import metric, rank_positives, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> ranked = rank_positives(world.example_models(split, rng=2)["popular"], split)
    >>> recall = metric("recall@10")
    >>> recall, recall.kind, recall.value_range
    (recall@10, 'mean', (0.0, 1.0))
    >>> ranked.counts[:2], recall.user_values(ranked)[:2]
    (array([2, 1]), array([0.5, 0. ]))
    """

    cutoff: int | None = None
    label: str = field(default="", kw_only=True)

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    kind: ClassVar[Kind]
    definition: ClassVar[Definition]
    takes_cutoff: ClassVar[Literal["required", "optional", "none"]] = "optional"
    parameters: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})
    aliases: ClassVar[tuple[str, ...]] = ()
    default_ties: ClassVar[TieRule] = "expected"
    needs_n_relevant: ClassVar[bool] = False
    needs_independence: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    has_pairs: ClassVar[bool] = False
    is_ratio_of_sums: ClassVar[bool] = False
    counts_unobserved: ClassVar[bool] = False
    linear_in_rank: ClassVar[bool] = False
    corrects_sampling: ClassVar[bool] = False
    is_fitted_to_ranks: ClassVar[bool] = False
    approximate: ClassVar[str] = ""
    is_weighted_within_users: ClassVar[bool] = True
    root: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check_cutoff()
        for name, parameter in self.parameters.items():
            parameter.parse(str(getattr(self, name)))
        if not self.label:
            object.__setattr__(self, "label", self._format_label())

    def _check_cutoff(self) -> None:
        """Raise `InputError` for a cutoff that is missing, not allowed, or not an integer in its range."""
        k = self.cutoff
        if k is None:
            if self.takes_cutoff == "required":
                raise InputError(f"metric {self.name!r} needs a cutoff, e.g. {self.name}@10.")
            return
        if self.takes_cutoff == "none":
            raise InputError(f"metric {self.name!r} takes no cutoff; it reads the whole ranking.")
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise InputError(f"metric {self.name!r}: the cutoff must be an integer >= 1; got {k!r}.")
        if k > MAX_CUTOFF:
            raise InputError(f"metric {self.name!r}: the cutoff must be at most {MAX_CUTOFF:,}; got {k:,}.")

    def __repr__(self) -> str:
        return self.label

    def user_values(
        self, positives: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Compute the metric of each user that has positives.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives. With sampled candidates, a metric of a list needs `positives.in_one_list`,
            which `evaluate` passes; otherwise its values can leave `value_range`.
        weights : (n_pos,) float array or None, default None
            Positive weights of the positives. Only their proportions within a user matter.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        (n_users_with_positives,) float array
            Without weights, the textbook value with the observed positives S*_u in place of S_u. With
            weights, the weighted form, which stays in `value_range`; constant weights give the value without
            weights. NaN where the metric is undefined for the user.

        Raises
        ------
        InputError
            For lists that are shorter than the cutoff, and for an unknown tie rule.
        """
        return self._user_values(positives, weights, self._resolve_tie_rule(positives, ties))

    def contributions(self, positives: RankedPositives, *, ties: TieChoice = "default") -> FloatArray | None:
        """Return the contribution c of each positive, which does not depend on the weights.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        (n_pos,) float array or None
            c such that the weighted value of a user is Σwc/Σw, times |S*_u| for metrics of kind "sum"; None
            for a metric that is not linear in such contributions.
        """
        return None

    def weighted_contributions(
        self, positives: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return the contribution c of each positive under the given weights.

        Unlike the result of `contributions`, c may depend on the weights, as the ideal list of ndcg does.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives.
        weights : (n_pos,) float array or None, default None
            Positive weights of the positives; None for equal weights.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        (n_pos,) float array or None
            c such that `user_values` is Σwc/Σw, times |S*_u| for metrics of kind "sum"; None for a metric
            that is not a sum over positives.
        """
        return self.contributions(positives, ties=ties)

    @property
    def has_unbiased(self) -> bool:
        """Whether the class defines the unbiased form that `ips` needs, as `_unbiased` or `unbiased`."""
        metric_class = type(self)
        return metric_class._unbiased is not Metric._unbiased or metric_class.unbiased is not Metric.unbiased

    @property
    def reads_one_rank(self) -> bool:
        """Whether the value of a positive depends on its own rank, and not on the other positives."""
        return self.kind == "mean" or self.linear_in_rank or self.corrects_sampling

    @property
    def adds_up(self) -> bool:
        """Whether the value for a known S is a mean or sum over S of a function of the rank of one item."""
        return self.kind in ("mean", "sum")

    def rank_contributions(
        self, positives: RankedPositives, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return the contribution c(r) of each row, whether it is relevant or not.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of any items.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        (n_rows,) float array or None
            None for a metric that does not add up (see `adds_up`).
        """
        if not self.adds_up:
            return None
        return self.contributions(positives, ties=ties)

    def unbiased(
        self,
        positives: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Compute the unbiased estimate of each user's value from inverse propensities.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the observed positives.
        inverse : (n_pos,) float array
            ŷ = 1/P of each positive.
        n_relevant : (n_users_with_positives,) float array or None
            s_u of these users; may be None for a metric that does not need it (see `needs_n_relevant`).
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule. "min" and "max" need rankings without tied positives.

        Returns
        -------
        (n_users_with_positives,) float array
            Estimates in the order of the users with positives.

        Raises
        ------
        InputError
            For a metric without an unbiased form; for a missing s_u; for "min" and "max" with tied
            positives; and for products of 1/P beyond the range of floating-point numbers.
        """
        rule = self._resolve_unbiased_tie_rule(positives, ties)
        if self.needs_n_relevant and n_relevant is None:
            raise InputError(
                f"the unbiased {self.label} divides by the number of relevant items; pass n_relevant."
            )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = self._unbiased(positives, inverse, n_relevant, rule)
        if not self.needs_independence:
            return values

        n_bad = int((~np.isfinite(values)).sum())
        if n_bad:
            raise InputError(
                f"the unbiased {self.label} multiplies 1/P over the positives of a user. For {n_bad} of "
                f"{values.size} users the product is beyond the range of floating-point numbers. Its "
                "variance is of that size too: use recall@k, mean_dcg or dcg, or snips."
            )
        return values

    def unobserved(self, n_candidates: FloatArray, n_relevant: FloatArray) -> FloatArray:
        """Return the unbiased value of users without observed positives.

        It is 0 for all metrics but those with `counts_unobserved`.

        Parameters
        ----------
        n_candidates : float array
            Number of candidates of each user.
        n_relevant : float array
            Number of relevant items of each user, s_u.

        Returns
        -------
        float array
            Values in the common shape of the arguments; NaN where the metric is undefined.
        """
        return np.zeros(np.broadcast(n_candidates, n_relevant).shape)

    def mass(self, positives: RankedPositives) -> FloatArray | None:
        """Return the weight of each user of the population in the unbiased mean.

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives.

        Returns
        -------
        (n_population,) float array or None
            None for equal weights.
        """
        return None

    def pair_sums(
        self, positives: RankedPositives, inverse: FloatArray, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return unbiased estimates of the won pairs and of all pairs of each user.

        None for a metric that is not a ratio of pairs (see `has_pairs`).

        Parameters
        ----------
        positives : RankedPositives
            Ranks of the positives.
        inverse : (n_pos,) float array
            ŷ = 1/P of each positive.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        won_pairs, pairs : (n_users_with_positives,) float arrays, or None
            Pairs of a relevant item and another candidate: those in which the relevant item ranks higher, and
            all of them.
        """
        return None

    def ratio_sums(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the numerator and the denominator of each user.

        None for a metric that is averaged over users (see `is_ratio_of_sums`).

        Parameters
        ----------
        ranked : RankedPositives
            Ranks of the positives.
        weights : (n_pos,) float array or None, default None
            Positive weights of the positives; None for equal weights.
        ties : {"default", "mean", "expected", "min", "max"}, default "default"
            The tie rule; "default" stands for `default_ties`.

        Returns
        -------
        numerator, denominator : (n_users_with_positives,) float arrays, or None
            Sums whose totals over users have the metric as their ratio.
        """
        return None

    def value_at_rank(self, rank: FloatArray, n_candidates: FloatArray | IntArray | float) -> FloatArray:
        """Compute the value for a user with one relevant item at a given rank.

        Parameters
        ----------
        rank : float array
            Ranks r >= 1, which may lie between integers.
        n_candidates : float or array
            Number of candidates, n.

        Returns
        -------
        float array
            In the common shape of the arguments.

        Raises
        ------
        InputError
            For a metric that is not a function of the rank of one relevant item.
        """
        n = np.asarray(n_candidates, dtype=np.float64)
        if self.cutoff is None:
            return self._value_at_rank(rank, n)
        # Most ranks are beyond the cutoff, and their value is not computed.
        ranks, sizes = np.broadcast_arrays(rank, n)
        is_inside = ranks <= self.cutoff
        inside_n = n
        if n.ndim:
            inside_n = sizes[is_inside]
        value = np.zeros(is_inside.shape)
        value[is_inside] = self._value_at_rank(ranks[is_inside], inside_n)
        return value

    def curve(self, n_candidates: int) -> FloatArray:
        """Compute the value for a user with one relevant item, for every rank 1 … n.

        Parameters
        ----------
        n_candidates : int
            Number of candidates, n >= 2.

        Returns
        -------
        (n_candidates,) float array
            Value at rank r in position r − 1.

        Raises
        ------
        InputError
            For n < 2, and for a metric that is not a function of the rank of one relevant item.

        See Also
        --------
        ipseval.metrics.sampled.rank_curves : Compare the curve with its expectation among sampled candidates.

        Examples
        --------
        >>> from ipseval.metrics import metric
        >>> metric("rr@3").curve(5)
        array([1.        , 0.5       , 0.33333333, 0.        , 0.        ])
        """
        n = check_positive_int("n_candidates", n_candidates, minimum=2)
        return self.value_at_rank(np.arange(1.0, n + 1), float(n))

    @abstractmethod
    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        """Return the values of `user_values`, for a list that reaches the cutoff and a resolved tie rule."""

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        """Return the values of `unbiased`, for a checked `n_relevant` and a resolved tie rule."""
        raise InputError(f"{self.label} has no unbiased form; use aoa or a self-normalised estimator.")

    def _value_at_rank(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        """Return the value for one relevant item as a smooth function of its rank, without the cutoff."""
        raise InputError(f"{self.label} is not a function of the rank of one relevant item.")

    def _resolve_tie_rule(self, positives: RankedPositives, ties: TieChoice) -> TieRule:
        """Return the tie rule of a request; raise for lists that end before the cutoff."""
        self._check_list_length(positives)
        if ties == "default":
            return self.default_ties
        check_choice("ties", ties, ("default", *TIE_RULES))
        return ties

    def _check_list_length(self, positives: RankedPositives) -> None:
        """Raise `InputError` for top-K lists that are shorter than the cutoff."""
        depth = positives.max_rank
        if depth is None or (self.cutoff is not None and self.cutoff <= depth):
            return
        requirement = "the whole ranking"
        padding_advice = ""
        example = f", as in {self.name}@{depth}"
        if self.cutoff is not None:
            example = ""
            requirement = f"the first {self.cutoff} ranks"
            padding_advice = f", or pad the lists with misses: ranked.pad_lists({self.cutoff})"
        if self.takes_cutoff == "none":
            raise InputError(
                f"{self.label} reads {requirement}, but the lists end at rank {depth}; pass the scores of all items."
            )
        raise InputError(
            f"{self.label} reads {requirement}, but the lists end at rank {depth}; use a cutoff of at most "
            f"{depth}{example}, or pass the scores of all items{padding_advice}."
        )

    def _resolve_unbiased_tie_rule(self, positives: RankedPositives, ties: TieChoice) -> TieRule:
        """Return the tie rule of an unbiased form; raise for a rule that needs the unobserved positives."""
        rule = self._resolve_tie_rule(positives, ties)
        if rule in ("min", "max") and positives.has_ties:
            raise InputError(
                f"the unbiased {self.label} is defined for ties='mean' or 'expected' only: {rule!r} would "
                f"need to know which of the tied items are relevant; {int((positives.n_tied > 0).sum()):,} of "
                f"{len(positives):,} positives are tied."
            )
        return rule

    def _format_label(self) -> str:
        """Return the label that `ipseval.metric` parses to this metric."""
        arguments = []
        for name, parameter in self.parameters.items():
            value = getattr(self, name)
            if value == parameter.default and not parameter.is_always_printed:
                continue
            if isinstance(value, float):
                # repr of a float has as many digits as are needed to read the same number back.
                arguments.append(repr(value))
            else:
                arguments.append(f"{name}={value}")
        label = self.name
        if arguments:
            label += f"({','.join(arguments)})"
        if self.cutoff is not None:
            label += f"@{self.cutoff}"
        return label


def build_choice_parser(*choices: str) -> Callable[[str], str]:
    """Return a parser for a `Parameter` that accepts one of the given words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise InputError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def cache_last(
    positives: RankedPositives, key: tuple[Metric, TieRule], compute: Callable[[], FloatArray]
) -> FloatArray:
    """Return `compute()`, or the value of the previous call if that had the same key.

    Values with and without weights are requested in turn, and share their contributions.
    """
    if positives.cache.get("cached", (None,))[0] != key:
        positives.cache["cached"] = (key, as_readonly(compute()))
    value: FloatArray = positives.cache["cached"][1]
    return value


def describe_plug_in(metric: Metric) -> str:
    """Return the description of a user's value from weighted positives, which the definition or the kind states."""
    if metric.definition.plug_in:
        return metric.definition.plug_in
    return PLUG_INS.get(metric.kind, "not stated in the definition of the metric")
