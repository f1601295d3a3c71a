"""Metric cards: the definition of a metric and what is claimed of each estimator, as text."""

from __future__ import annotations

from ipseval.estimators._base import Estimator
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._labels import (
    AOA,
    AOA_POOLED,
    IPS,
    SNIPS,
    SNIPS_GLOBAL,
    SNIPS_POOLED,
    resolve_estimator,
)
from ipseval.metrics import Metric, metric
from ipseval.metrics._ratings import RATING_METRICS, RatingMetric, rating_metric

ESTIMATORS_SHOWN = (AOA, AOA_POOLED, IPS, SNIPS, SNIPS_GLOBAL, SNIPS_POOLED)
TIE_WORDS = {
    "mean": "mean rank, above + tied/2 + 1",
    "expected": "exact expectation over random tie breaking",
}


def claim(
    metric: Metric,
    estimator: str | Estimator,
    *,
    is_probability: bool = False,
    n_relevant: NRelevant = "absent",
) -> Claim:
    """Return what is claimed of an estimator for `metric`.

    Parameters
    ----------
    estimator : label or Estimator
    is_probability : bool
        Whether P is on the scale of probabilities, or known up to a factor only.
    n_relevant : {"known", "estimated", "absent"}
        What is known of s_u.

    Examples
    --------
    >>> str(claim(metric("recall@10"), "snips-pooled"))
    'consistent given relative propensities, for the average over all relevant pairs'
    """
    one = resolve_estimator(estimator)
    # Contributions that are themselves estimated, from sampled ranks, carry their bias into weighted sums.
    if one.weighted and metric.approximate:
        return Claim("no claim", metric.approximate)
    return one.claim(metric, is_probability=is_probability, n_relevant=n_relevant)


def card(label: str | Metric) -> str:
    """Return the card of a metric: formula, denominators, discount, ties, users left out, claims.

    Claims are those with P on the scale of probabilities and s_u known; each result states its own.

    Examples
    --------
    >>> print(card("mae"))  # doctest: +ELLIPSIS
    mae
      formula      Σ_{u,i} |ŷ_ui − y_ui| / (|U|·|I|)
      denominator  |U|·|I|: all user–item pairs, rated or not
      left out     users without ratings; ips counts a user without positives as 0
      with weights per-user weighted mean of the contributions, Σwc/Σw
      claims
        aoa          biased unless all propensities are equal
        aoa-pooled   biased unless all propensities are equal
        ips          exactly unbiased given the propensities
        snips        not consistent in users: a bias of order 1/(positives per user) stays, even with the...
        snips-global nearly consistent given relative propensities and equally exposed users
        snips-pooled consistent given relative propensities, for the average over all relevant pairs
    """
    if isinstance(label, str):
        label = rating_metric(label) if label in RATING_METRICS else metric(label)
    words = label.definition
    lines = [label.label, f"  formula      {words.formula}", f"  denominator  {words.denominator}"]
    if not isinstance(label, RatingMetric):
        lines += [
            f"  discount     {words.discount}",
            f"  cutoff       {'none: the whole ranking' if label.cutoff is None else f'k = {label.cutoff}'}",
            f"  ties         {TIE_WORDS[label.default_ties]} (default)",
        ]
    empty = "the constant of its formula" if label.counts_unobserved else "0"
    lines += [
        f"  left out     {words.undefined}; ips counts a user without positives as {empty}",
        f"  with weights {words.plug_in}",
        "  claims",
    ]
    for name in ESTIMATORS_SHOWN:
        text = claim(label, name, is_probability=True, n_relevant="known")
        lines.append(f"    {name:<13}{text}")
    return "\n".join(lines)
