"""What is computed for the contract of numbers: over 500 results of small worlds of hashed integers.

Cases that say "drawn" let the library draw with a seed; their numbers also hold NumPy to its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd

import ipseval
from ipseval.correction import correct
from ipseval.evaluation.slates import evaluate_slates
from ipseval.metrics import METRICS
from ipseval.metrics.sampled import correct_sampled, expected_sampled, std_sampled
from ipseval.policies import evaluate_policies, evaluate_rewards
from ipseval.propensity import ExaminationCurve
from ipseval.ranking import baselines
from tests.contracts.number_worlds import (
    FITTED_PROPENSITIES,
    N_ITEMS,
    N_USERS,
    exposure,
    log,
    models,
    parts,
    shown,
    split,
    wholes,
)
from tests.estimators.labels import OF_POSITIVES

Numbers = Mapping[str, float]

LABELS = [
    name + {"required": "@5", "optional": "", "none": ""}[one.takes_cutoff] for name, one in METRICS.items()
]
LABELS += ["ndcg@5", "ap@5", "rr@5", "ndcg(gain=linear)@5", "precision(denominator=min)@5", "rbp(0.5)"]
LABELS += ["ap(denominator=s)@5"]
FEW = ("recall@5", "auc")


def asked(options: dict[str, object]) -> dict[str, object]:
    return {"propensity": FITTED_PROPENSITIES["power law"](), "metrics": FEW, "low_ess": "ignore"} | options


def evaluated(**options: object) -> ipseval.Evaluation:
    """Return an evaluation of the models under a power law."""
    return ipseval.evaluate(models(), split(), **asked(options))


def of_ranks(**options: object) -> ipseval.Evaluation:
    """Return the same from ranks: it corrects no orders, which takes half the time."""
    ranks = {name: ipseval.rank_positives(scores, split(), name=name) for name, scores in models().items()}
    return ipseval.evaluate_ranks(ranks, **asked(options))


def of_frame(frame: pd.DataFrame, keys: Iterable[str], values: Iterable[str]) -> Numbers:
    """Return the values of a frame, each under its keys."""
    frame, keys = frame.reset_index(), list(keys)
    return {
        " · ".join([*(str(row[key]) for key in keys), value]): float(row[value])
        for _, row in frame.iterrows()
        for value in values
    }


ROW = ("model", "metric", "estimator")


def of_evaluation(one: ipseval.Evaluation, values: Iterable[str] = ("estimate", "std_error")) -> Numbers:
    return of_frame(one.frame, ROW, values)


def every_metric() -> Numbers:
    frame = evaluated(metrics=LABELS, estimators=["aoa", "snips-global"]).frame
    return of_frame(frame[frame["model"] != "popular"], ROW, ["estimate"])


def every_estimator() -> Numbers:
    evaluation = evaluated(estimators=OF_POSITIVES, metrics=["recall@5"], n_relevant=12)
    return of_evaluation(evaluation)


def weighted_ties() -> Numbers:
    """IPS and weights within tied groups, of metrics that do not add up over positives, too."""
    numbers: dict[str, float] = {}
    options = {"estimators": ["ips", "snips-global"], "n_relevant": 15}
    for ties in ("mean", "expected"):
        frame = of_ranks(ties=ties, metrics=["rr", "hit@5", "ap", "dcg@5"], **options).frame
        rows = frame[frame["model"] == "levels"]
        numbers |= of_frame(rows.assign(ties=ties), ["ties", "metric", "estimator"], ["estimate"])
    return numbers


def every_propensity() -> Numbers:
    numbers: dict[str, float] = {}
    for name, fit in FITTED_PROPENSITIES.items():
        one = of_ranks(propensity=fit(), metrics=["recall@5"], estimators=["snips-global"])
        row = one.frame.iloc[0]
        numbers |= {
            f"{name} · {column}": float(row[column]) for column in ("estimate", "ess", "max_weight_share")
        }
    return numbers


def every_choice_of_ties() -> Numbers:
    numbers: dict[str, float] = {}
    for ties in ("mean", "min", "max", "expected"):
        frame = of_ranks(ties=ties, metrics=["recall@5", "ndcg@5", "ap", "rr"], estimators=["aoa"]).frame
        rows = frame[frame["model"] == "levels"]
        numbers |= of_frame(rows.assign(ties=ties), ["ties", "metric"], ["estimate"])
    return numbers


def intervals() -> Numbers:
    return of_evaluation(of_ranks(estimators=["aoa", "snips-global"]), ["ci_low", "ci_high"])


def drawn_intervals() -> Numbers:
    options = {"estimators": ["snips-global"], "metrics": ["recall@5"]}
    numbers = {
        kind: of_ranks(**options).with_intervals(kind, n_resamples=200, rng=7)
        for kind in ("percentile", "bca")
    }
    frames = [one.frame.assign(kind=kind) for kind, one in numbers.items()]
    return of_frame(pd.concat(frames), ["kind", "model"], ["ci_low", "ci_high"])


def differences() -> Numbers:
    one = of_ranks(estimators=["aoa", "snips", "snips-global"])
    columns = ["difference", "ci_low", "ci_high", "p_value", "p_adjusted"]
    return of_frame(one.compare("popular"), ROW, columns)


def sensitivity() -> Numbers:
    one = of_ranks(metrics=["recall@5"], estimators=["snips", "snips-global"])
    curves = one.sensitivity([-1.0, 0.0, 2.0]).frame
    return {
        **of_frame(curves, ["gamma", "model", "estimator"], ["estimate", "derivative"]),
        **of_frame(one.bounds([1.5]), ["model", "estimator"], ["lower", "upper"]),
    }


def segments() -> Numbers:
    one = evaluated(metrics=["recall@5"], estimators=["aoa", "snips-global"])
    rows = one.by("popularity").frame
    shares = one.decomposition("recall@5", by="popularity").frame
    return {
        **of_frame(rows[rows["model"] == "free"], ["group", "estimator"], ["estimate", "std_error"]),
        **of_frame(shares[shares["model"] == "free"], ["group"], ["share_weighted", "moved", "within"]),
    }


def beyond() -> Numbers:
    measures = ["coverage@5", "gini@5", "arp@5", "novelty@5", "entropy@5"]
    found = ipseval.beyond_accuracy(models(), split(), measures=measures)
    return of_frame(found.frame, ["model", "measure"], ["estimate"])


def splits() -> Numbers:
    whole = log()
    cuts = {
        "temporal": ipseval.split_temporal(whole, test_fraction=0.25, validation_fraction=0.1),
        "global time": ipseval.split_global_time(whole, test_fraction=0.25),
        "last one out": ipseval.split_leave_one_out(whole, order="temporal"),
        "sliding": ipseval.data.splits.split_sliding(whole, start=200, test=60)[1],
    }
    numbers = {}
    for name, one in cuts.items():
        place = np.arange(1, len(one.test) + 1)
        numbers |= {f"{name} · {part}": float(len(getattr(one, part))) for part in ("train", "test")}
        numbers[f"{name} · codes of the test"] = float((np.sort(one.test.pair_key) * place).sum())
    core = ipseval.data.splits.k_core(whole, 7)
    return numbers | {
        "7-core · users": core.n_users,
        "7-core · items": core.n_items,
        "7-core · pairs": len(core),
    }


def drawn_splits() -> Numbers:
    numbers = {}
    for name, one in {
        "random": ipseval.split_random(log(), test_fraction=0.2, rng=5),
        "one out": ipseval.split_leave_one_out(log(), rng=5),
    }.items():
        place = np.arange(1, len(one.test) + 1)
        numbers[f"{name} · codes of the test"] = float((np.sort(one.test.pair_key) * place).sum())
    return numbers


def ranks() -> Numbers:
    numbers = {}
    for name, scores in models().items():
        rank_table = ipseval.rank_positives(scores, split())
        numbers |= {
            f"{name} · {key}": float((getattr(rank_table, key) * (1 + np.arange(len(rank_table)))).sum())
            for key in ("n_above", "n_tied")
        }
    few = ipseval.rank_positives(models()["free"], split(), candidates=range(25))
    return numbers | {"25 items · n_above": few.n_above.sum(), "25 items · positives": len(few)}


def drawn_candidates() -> Numbers:
    numbers = {}
    for distribution, name in (("uniform", ""), ("popularity", "popularity · ")):
        for per in ("user", "positive"):
            candidates = ipseval.SampledCandidates(10, distribution=distribution, per=per, rng=3)
            rank_table = ipseval.rank_positives(models()["free"], split(), candidates=candidates)
            numbers[f"{name}{per} · n_above"] = float(
                (rank_table.n_above * (1 + np.arange(len(rank_table)))).sum()
            )
    return numbers


def sampled() -> Numbers:
    ranks_of = np.array([1, 3, 10, 40, 200])
    numbers: Numbers = {}
    for label in ("recall@10", "ndcg@10", "ap", "auc"):
        for name, function in (("expected", expected_sampled), ("std", std_sampled)):
            values = function(ranks_of, 1000, 99, label)
            numbers |= {f"{name} {label} · rank {r}": float(v) for r, v in zip(ranks_of, values, strict=True)}
    return numbers


def sampled_corrections() -> Numbers:
    seen = 1 + wholes(31, (300,), 14) * wholes(31, (300,), 15) // 31
    numbers = {}
    for label in ("recall@10", "ndcg@10"):
        for method, prior in (("none", None), ("rank", None), ("bv", "uniform"), ("cls", None)):
            sampled_estimate = correct_sampled(seen, 500, 30, label, method, prior=prior)
            numbers |= {
                f"{label} · {method} · {key}": float(getattr(sampled_estimate, key))
                for key in ("estimate", "standard_error")
            }
    return numbers  # fmt: skip


def gammas() -> Numbers:
    popularity = np.floor(200 / (1 + np.arange(120.0))) + 1 + wholes(4, (120,), 16)
    recommended = np.minimum(100, np.floor(popularity**0.8 * (1 + wholes(8, (120,), 17)) / 8))
    numbers: dict[str, float] = {}
    for method in ("negative-binomial", "poisson", "cloglog", "level-ols"):
        fit = ipseval.fit_gamma(popularity, recommended, 100, method, source="logging-policy")
        numbers |= {f"{method} · gamma": fit.gamma, f"{method} · standard_error": fit.standard_error}
    n_exposed = 40 + wholes(20, (120,), 18)
    n_positive = np.minimum(n_exposed, np.floor(popularity**0.5 * (1 + wholes(4, (120,), 19)) / 4))
    fit = ipseval.fit_gamma_from_exposure(popularity, n_exposed, n_positive)
    tail = ipseval.propensity.fit_popularity_exponent(popularity, xmin=3)
    numbers |= {"exposure · gamma": fit.gamma, "exposure · standard_error": fit.standard_error}
    return numbers | {"exponent": tail.exponent, "exponent · distance": tail.ks_distance}


def lists_shown() -> Numbers:
    table = {
        "free": pd.DataFrame({"query": QUERY, "item": ITEM, "score": wholes(1000, QUERY.shape, 20)}),
        "levels": pd.DataFrame({"query": QUERY, "item": ITEM, "score": wholes(3, QUERY.shape, 21)}),
    }
    pool = pd.DataFrame({"query": QUERY, "item": ITEM, "label": wholes(3, QUERY.shape, 22) // 2 * 1.0})
    return of_evaluation(evaluate_slates(table, pool, metrics=["auc", "ndcg@3", "rr"], estimators=["aoa"]))


QUERY = np.repeat(np.arange(50), 6)
ITEM = (np.repeat(wholes(N_ITEMS, (50,), 23), 6) + np.tile([0, 3, 5, 11, 17, 29], 50)) % N_ITEMS


def policies() -> Numbers:
    chances = {name: 0.05 + parts((N_ITEMS, 4), seed) for name, seed in (("one", 24), ("two", 25))}
    chances = {name: one / one.sum(axis=0) for name, one in chances.items()}
    evaluation = evaluate_policies(shown(), chances, estimators=["ips", "snips", "dm", "dr"], rng=0)
    return of_frame(evaluation.frame, ["policy", "estimator"], ["estimate", "std_error"])


def rewards() -> Numbers:
    curve = ExaminationCurve.from_theta([1.0, 0.8, 0.6, 0.5])
    fitted = ipseval.policies.rewards.Rewards(
        shown(), model=ipseval.policies.rewards.ItemReward(), examination=curve, rng=1
    )
    clicks = pd.DataFrame({"user": shown().positives.user, "item": shown().positives.item})
    evaluation = evaluate_rewards(
        {"free": models()["free"]},
        ipseval.Split.from_frames(None, clicks, users=range(N_USERS), items=range(N_ITEMS)),
        fitted,
        metrics=["recall@5", "mean_dcg@5"],
        estimators=["dm", "dr", "snips-impressions"],
        propensity=ipseval.KnownPropensity(item=np.full(N_ITEMS, 0.2)),
        low_ess="ignore",
    )
    return of_evaluation(evaluation)


def ratings() -> Numbers:
    predicted = {"m": 1 + 4 * parts((N_USERS, N_ITEMS), 26)}
    evaluation = ipseval.evaluation.evaluate_ratings(
        predicted, split().test, propensity=FITTED_PROPENSITIES["pair"](), metrics=["mae", "rmse"]
    )
    return of_evaluation(evaluation)


def correction() -> Numbers:
    found = correct(models(), split(), random_exposure=exposure(), metrics=["recall@5", "atop"], rng=0)
    return of_frame(found.frame, ROW, ["estimate", "std_error"])


def baseline_ranks() -> Numbers:
    numbers = {}
    for name, fit in baselines.BASELINES.items():
        if name != "random":
            rank_table = ipseval.rank_positives(fit(split().train), split())
            numbers[f"{name} · n_above"] = float(
                (rank_table.n_above * (1 + np.arange(len(rank_table)))).sum()
            )
    return numbers


def agreement() -> Numbers:
    a, b = (wholes(1000, (8, 30), seed) / 10.0 for seed in (27, 28))
    agreement_result = ipseval.order_agreement(a[:, 0], b[:, 0] + a[:, 0], rng=0)
    return {name: float(value) for name, value in agreement_result.values.items()}


CASES: dict[str, Callable[[], Numbers]] = {
    "metrics": every_metric,
    "estimators": every_estimator,
    "propensities": every_propensity,
    "ties": every_choice_of_ties,
    "weights and ties": weighted_ties,
    "intervals": intervals,
    "intervals, drawn": drawn_intervals,
    "differences": differences,
    "sensitivity": sensitivity,
    "segments": segments,
    "beyond accuracy": beyond,
    "splits": splits,
    "splits, drawn": drawn_splits,
    "ranks": ranks,
    "ranks, drawn candidates": drawn_candidates,
    "ranks of baselines": baseline_ranks,
    "sampled metrics": sampled,
    "sampled corrections": sampled_corrections,
    "gamma": gammas,
    "slates": lists_shown,
    "policies": policies,
    "rewards, drawn folds": rewards,
    "ratings": ratings,
    "correction strength": correction,
    "agreement": agreement,
}
