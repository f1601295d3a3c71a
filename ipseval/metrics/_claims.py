"""What is claimed of each estimator of each metric: the one source of the words that users see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ipseval.metrics._base import Metric

Level = Literal["exactly unbiased", "consistent", "nearly consistent", "not consistent", "biased", "no claim"]
NRelevant = Literal["known", "estimated", "absent"]


@dataclass(frozen=True)
class Claim:
    """A statistical property with its condition.

    Attributes
    ----------
    level : str
        "exactly unbiased": the expectation equals the truth. "consistent": bias and error vanish as users
        grow. "nearly consistent": a small bias from the random |S*_u| stays. "not consistent": a bias of
        order 1/|S*_u| stays however many users there are. "biased": biased unless P is constant.
        "no claim": a plug-in.
    condition : str
        What it rests on.
    """

    level: Level
    condition: str

    def __str__(self) -> str:
        if self.level == "no claim":
            return f"plug-in: no claim ({self.condition})" if self.condition else "plug-in: no claim"
        return f"{self.level} {self.condition}".strip()


def claim(
    metric: Metric, estimator: str, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
) -> Claim:
    """Return what is claimed of `estimator` for `metric`.

    Parameters
    ----------
    estimator : str
        Label of a built-in estimator; for any other, nothing is claimed.
    is_probability : bool
        Whether P is on the scale of probabilities, or known up to a factor only.
    n_relevant : {"known", "estimated", "absent"}
        What is known of s_u.

    Examples
    --------
    >>> from ipseval.metrics import metric
    >>> str(claim(metric("recall@10"), "snips-pooled"))
    'consistent given P up to a factor, for the average over all relevant pairs'
    """
    if getattr(metric, "library", None):
        return Claim("no claim", "the number another library prints")
    if estimator in ("aoa", "aoa-pooled"):
        if metric.kind == "mean":
            return Claim("biased", "unless P is constant (MNAR)")
        return Claim("biased", "unless every relevant item is observed")
    # Contributions that are themselves estimated, from sampled ranks, carry their bias into every estimator.
    approximate = str(getattr(metric, "approximate", ""))
    if approximate:
        return Claim("no claim", approximate)
    if estimator == "ips":
        return _ips(metric, n_relevant)
    if estimator == "snips-pooled" and metric.label == "auc" and is_probability:
        return Claim("consistent", "given P and independent observations, for the share of pairs won")
    if metric.kind == "mean":
        return _self_normalised_mean(estimator)
    if metric.kind == "sum" and estimator in ("snips-global", "snips-pooled"):
        return Claim("consistent", "up to the observation rate, given P up to a factor")
    return Claim("no claim", "|S*_u| stands in for s_u" if estimator.startswith("snips") else "")


def _ips(metric: Metric, n_relevant: NRelevant) -> Claim:
    if metric.needs_n_relevant and n_relevant != "known":
        return Claim("no claim", "s_u estimated by Σ1/P")
    given = ["P"] + (["s_u"] if metric.needs_n_relevant else [])
    given += ["independent observations"] if metric.needs_independence else []
    words = given[0] if len(given) == 1 else ", ".join(given[:-1]) + " and " + given[-1]
    return Claim("exactly unbiased", f"given {words}")


def _self_normalised_mean(estimator: str) -> Claim:
    if estimator == "snips":
        return Claim("not consistent", "in users: a bias of order 1/|S*_u| stays, also with the true P")
    if estimator == "snips-global":
        return Claim("nearly consistent", "given P up to a factor")
    if estimator == "snips-pooled":
        return Claim("consistent", "given P up to a factor, for the average over all relevant pairs")
    return Claim("no claim", "")
