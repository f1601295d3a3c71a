"""Situations in which a result is printed: small worlds of whole numbers.

`python -m tests.golden.situations` writes what is printed now beside this file, to be read before it is kept.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

import ipseval
from ipseval.ranking import baselines
from ipseval.reporting import Tables
from ipseval.validation.simulation import World
from tests.distributed.test_partitions import example, in_partitions
from tests.inside.reporting import Heading, Picture, to_text

FOLDER = Path(__file__).parent / "printed"
N_USERS, N_ITEMS = 240, 40
RECALL = ("recall@10",)
Result = TypeVar("Result")


def split(seed: int = 0) -> ipseval.Split:
    """Return a log in which item 0 is by far the most popular, and a random split of it."""
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.8, 0.05, N_ITEMS)
    pairs = pd.DataFrame(np.argwhere(rng.random((N_USERS, N_ITEMS)) < chance), columns=["user", "item"])
    pairs["user"] = [f"u{code:03}" for code in pairs["user"]]
    pairs["item"] = [f"i{code:02}" for code in pairs["item"]]
    return ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.3, rng=seed)


def scores(data: ipseval.Split, taste: float, popular: float, seed: int) -> np.ndarray:
    """Return whole-number scores that follow the test positives by `taste`, and popularity by `popular`."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 1000, (data.n_users, data.n_items))
    noise[data.test.user, data.test.item] += round(1000 * taste)
    return noise + (popular * 1000 * (1 - np.arange(data.n_items) / data.n_items)).astype(np.int64)


DATA = split()
MODELS = {
    "als": scores(DATA, 0.45, 0.0, 1),
    "ease": scores(DATA, 0.35, 0.5, 2),
    "bpr": scores(DATA, 0.25, 0.3, 3),
    "popular": scores(DATA, 0.0, 3.0, 4),
    "random": baselines.random(DATA.train, rng=5),
}
POWER = ipseval.PowerLawPropensity(gamma=0.0)


def evaluate(*names: str, **options: object) -> ipseval.Evaluation:
    """Return the evaluation of some of the models, by recall@10 under a power law unless said otherwise."""
    models = {name: MODELS[name] for name in names or MODELS}
    settings = {"metrics": RECALL, "propensity": POWER} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ipseval.evaluate(models, DATA, **settings)


SITUATIONS: dict[str, Callable[[], object]] = {}


def keep_result(situation: Callable[[], Result]) -> Callable[[], Result]:
    """List a situation under its name, and compute it once for all tests."""
    SITUATIONS[situation.__name__] = cache(situation)
    return SITUATIONS[situation.__name__]


@keep_result
def commonest() -> ipseval.Evaluation:
    """Five recommenders, the default metrics."""
    return evaluate(metrics=("recall@10", "mean_dcg@10"))


@keep_result
def one_model() -> ipseval.Evaluation:
    """One recommender: there is nothing to compare."""
    return evaluate("ease")


@keep_result
def ties() -> ipseval.Evaluation:
    """Two recommenders with the same scores, ahead of a third."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {"als": MODELS["als"], "als again": MODELS["als"], "random": MODELS["random"]}
        return ipseval.evaluate(models, DATA, metrics=RECALL, propensity=POWER)


@keep_result
def nothing_significant() -> ipseval.Evaluation:
    """Three recommenders that do not differ."""
    models = {f"random {seed}": scores(DATA, 0.0, 0.0, seed) for seed in (11, 12, 13)}
    return ipseval.evaluate(models, DATA, metrics=RECALL, propensity=POWER)


@keep_result
def flagged() -> ipseval.Evaluation:
    """Weights so uneven that the weighted average cannot be relied on: the verdict rests on AOA."""
    return evaluate(propensity=ipseval.PowerLawPropensity(gamma=6.0), low_ess="ignore")


@keep_result
def suppressed() -> ipseval.Evaluation:
    """The same with low_ess="nan": weighted estimates are not shown."""
    return evaluate(propensity=ipseval.PowerLawPropensity(gamma=6.0), low_ess="nan")


@keep_result
def missing_users() -> ipseval.Evaluation:
    """Top-10 lists that lack a tenth of the users, and a propensity without the rarest items."""
    rows = np.argwhere(np.arange(DATA.n_users) % 10 != 0)[:, 0]
    lists = {}
    for name in ("als", "ease"):
        top_lists = (
            np.where(DATA.train.mask, -1, MODELS[name])
            if hasattr(DATA.train, "mask")
            else MODELS[name].copy()
        )
        top_lists[DATA.train.user, DATA.train.item] = -1
        top = np.argsort(-top_lists, axis=1, kind="stable")[:, :10]
        frame = pd.DataFrame(
            {
                "user": np.repeat(DATA.user_ids, 10),
                "item": DATA.item_ids[top.ravel()],
                "rank": np.tile(np.arange(1, 11), DATA.n_users),
            }
        )
        is_listed = np.repeat(np.isin(np.arange(DATA.n_users), rows), 10)
        lists[name] = frame[is_listed] if name == "als" else frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ipseval.evaluate(lists, DATA, metrics=RECALL, propensity=POWER)


@keep_result
def thirty_models() -> ipseval.Evaluation:
    """Thirty recommenders with long names."""
    models = {
        f"als, 64 factors, version {number:02} of the night": scores(DATA, number / 60, 0.2, 100 + number)
        for number in range(30)
    }
    return ipseval.evaluate(models, DATA, metrics=RECALL, propensity=POWER)


@keep_result
def disagreement() -> ipseval.Evaluation:
    """AOA ranks one first, SNIPS another."""
    models = {"taste": scores(DATA, 0.5, -0.6, 21), "bestsellers": scores(DATA, 0.3, 1.6, 22)}
    return ipseval.evaluate(models, DATA, metrics=RECALL, propensity=POWER)


@keep_result
def several_metrics() -> ipseval.Evaluation:
    """The default metrics, and AOA, SNIPS and global SNIPS side by side."""
    return evaluate(metrics=("ndcg@10", "recall@10"), estimators=("aoa", "snips", "snips-global"))


@keep_result
def saved_and_loaded() -> ipseval.Evaluation:
    """The first result, from its file."""
    with tempfile.TemporaryDirectory() as folder:
        commonest().save(Path(folder) / "result.npz")
        return ipseval.Evaluation.load(Path(folder) / "result.npz")


@keep_result
def known_propensity() -> ipseval.Evaluation:
    """Propensities that follow no power law: nothing is said of γ."""
    return evaluate(propensity=ipseval.KnownPropensity(item=np.linspace(0.9, 0.3, N_ITEMS).round(2)))


@keep_result
def plain_only() -> ipseval.Evaluation:
    """No propensity: AOA alone."""
    return evaluate(propensity=None)


@keep_result
def distributed() -> ipseval.Evaluation:
    """Users in four partitions: moments are merged, and the ranked positives stay where they are."""
    frames = example(4)
    models = {"first": frames["first"], "second": frames["second"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return in_partitions(
            frames,
            models,
            4,
            metrics=RECALL,
            estimators=("aoa", "snips-global"),
            propensity=ipseval.PowerLawPropensity(gamma=0.5),
        )


@keep_result
def design() -> ipseval.Evaluation:
    """Propensities of a logged randomisation: the verdict rests on their paired differences."""
    propensities = np.linspace(0.9, 0.3, N_ITEMS).round(2)
    return evaluate(
        "als", "bpr", "random", propensity=ipseval.KnownPropensity(item=propensities, basis="design")
    )


@keep_result
def design_undecided() -> ipseval.Evaluation:
    """A logged randomisation in which the paired test does not decide."""
    propensities = np.linspace(0.9, 0.3, N_ITEMS).round(2)
    return evaluate("als", "ease", propensity=ipseval.KnownPropensity(item=propensities, basis="design"))


@keep_result
def exposure() -> ipseval.Evaluation:
    """γ fitted to random exposure."""
    rng = np.random.default_rng(3)
    user, item = np.divmod(rng.choice(N_USERS * N_ITEMS, 2400, replace=False), N_ITEMS)
    liked = rng.random(user.size) < np.linspace(0.4, 0.1, N_ITEMS)[item]
    random_exposure = ipseval.data.RandomExposure(user, item, liked, N_USERS, N_ITEMS)
    return evaluate(
        "als", "ease", propensity=ipseval.PowerLawPropensity(gamma="fit", exposure=random_exposure)
    )


@keep_result
def fitted() -> ipseval.Evaluation:
    """Propensities that were fitted rank another recommender first than AOA: no verdict."""
    propensities = np.linspace(0.9, 0.1, N_ITEMS).round(2)
    return evaluate("als", "ease", propensity=ipseval.KnownPropensity(item=propensities, basis="fitted"))


@keep_result
def thin() -> ipseval.Evaluation:
    """Weights that few interactions carry, though enough to be printed."""
    return evaluate("als", "ease", propensity=ipseval.PowerLawPropensity(gamma=2.5))


@keep_result
def no_training() -> ipseval.Evaluation:
    """Ranks alone, without a training part."""
    ranks = {name: ipseval.rank_positives(MODELS[name], DATA) for name in ("als", "ease", "random")}
    return ipseval.evaluate_ranks(ranks, metrics=RECALL)


def ranked(models: dict[str, np.ndarray], metric: str = "recall@10") -> ipseval.Evaluation:
    """Return the evaluation of ranks alone."""
    ranks = {name: ipseval.rank_positives(model, DATA) for name, model in models.items()}
    return ipseval.evaluate_ranks(ranks, metrics=(metric,))


@keep_result
def no_difference() -> ipseval.Evaluation:
    """Ranks alone: two are the same, and by a third one positive of one user has rank 5 in place of 4."""
    less = MODELS["als"].copy()
    less[123, 34] = 919
    models = {"als": MODELS["als"], "als again": MODELS["als"], "als but one": less}
    return ranked(models | {"random": MODELS["random"]}, "mean_dcg@10")


@keep_result
def many_alike() -> ipseval.Evaluation:
    """More recommenders than a text has rows, and none differs significantly."""
    return ranked({f"random {number:02}": scores(DATA, 0.0, 0.0, number) for number in range(14)})


@keep_result
def all_equal() -> ipseval.Evaluation:
    """Three recommenders with the same scores."""
    models = {f"als {number}": MODELS["als"] for number in (1, 2, 3)}
    return ipseval.evaluate(models, DATA, metrics=RECALL)


@keep_result
def a_hundred_models() -> ipseval.Evaluation:
    """A hundred recommenders: the twelve highest are printed."""
    models = {f"run {number:03}": scores(DATA, number / 200, 0.2, number) for number in range(100)}
    return ipseval.evaluate(models, DATA, metrics=RECALL)


@keep_result
def impressions() -> ipseval.Evaluation:
    """A log of what was shown, and propensities from it."""
    rng = np.random.default_rng(5)
    popular = np.linspace(3.0, 0.0, N_ITEMS)
    rows = []
    for user in range(N_USERS):
        slates = (popular + rng.gumbel(size=(4, N_ITEMS))).argsort(axis=1)[:, -8:]
        rows += [(user, item, number) for number, slate in enumerate(slates) for item in slate]
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    frame["clicked"] = rng.random(len(frame)) < np.linspace(0.1, 0.5, N_ITEMS)[frame["item"]]
    log = ipseval.ImpressionLog.from_frame(frame, timestamp="time", items=range(N_ITEMS))
    data = ipseval.split_random(log.positives, test_fraction=0.3, rng=0)
    models = {name: scores(data, taste, popular, 9) for name, taste, popular in MOST_LIKED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        propensity = ipseval.ImpressionPropensity(log=log)
        return ipseval.evaluate(models, data, propensity=propensity, metrics=RECALL)


MOST_LIKED = (("rare", 0.1, -0.8), ("bestsellers", 0.1, 1.2))


@keep_result
def without_a_claim() -> ipseval.Evaluation:
    """Metrics that have no guarantee after weighting."""
    return evaluate("als", "ease", metrics=("ndcg@10", "auc"))


@keep_result
def two_estimands() -> ipseval.Evaluation:
    """Means over users and means over interactions: a table of each."""
    return evaluate(estimators=("aoa", "snips-pooled", "snips-global", "aoa-pooled"))


@keep_result
def two_metrics_flagged() -> ipseval.Evaluation:
    """Two metrics with weights that cannot be relied on."""
    power = ipseval.PowerLawPropensity(gamma=6.0)
    return evaluate(metrics=("recall@10", "mean_dcg@10"), propensity=power, low_ess="ignore")


class Text(str):
    """A text that is printed as it is."""

    __repr__ = str.__str__


def explanation(evaluation: ipseval.Evaluation) -> Text:
    """Return what is explained, before the definitions of metrics."""
    return Text(repr(evaluation.explain()).partition("\n\nrecall@10\n  formula")[0])


@keep_result
def explained() -> Text:
    """Two metrics explained: orders, claims, what is highest over γ."""
    return explanation(commonest())


@keep_result
def explained_flagged() -> Text:
    """Weights that cannot be relied on have no order."""
    return explanation(flagged())


@keep_result
def explained_missing_users() -> Text:
    """A note that is of one recommender says so."""
    return explanation(missing_users())


def below(evaluation: ipseval.Evaluation) -> Text:
    """Return the sections of a page below its tables, before the definitions; pictures by their captions."""
    parts = evaluation.tables(page=True).appendix
    parts = parts[: parts.index(Heading("Definitions and guarantees"))]
    texts = (f"{part.alt}: {part.caption}" if isinstance(part, Picture) else part for part in parts)
    return Text(to_text(Tables((), tuple(texts))))


@keep_result
def page() -> Text:
    """The sections of a page: differences, γ, popularity, weights, counts."""
    return below(commonest())


@keep_result
def page_flagged() -> Text:
    """Weights that cannot be relied on have neither intervals nor tests on a page."""
    return below(flagged())


@keep_result
def page_known_propensity() -> Text:
    """Without a power law nothing is said of γ."""
    return below(known_propensity())


@keep_result
def groups_of_items() -> object:
    """Five recommenders in groups by popularity: who leads where, and whether groups differ."""
    return evaluate(*reversed(MODELS)).by("popularity:3")


@cache
def als_and_ease() -> ipseval.Evaluation:
    return evaluate("als", "ease")


@keep_result
def groups_of_users() -> object:
    """Two recommenders that differ significantly in no group."""
    return als_and_ease().by("activity:3")


@keep_result
def groups_of_few_users() -> object:
    """Groups with too few users, with few, and without any positive."""
    size = np.repeat(["none", "four", "twenty", "many"], [1, 4, 20, N_USERS - 25])
    test = DATA.test.select(DATA.test.user > 0)
    data = ipseval.Split(DATA.train, test)
    evaluation = ipseval.evaluate({"als": MODELS["als"], "ease": MODELS["ease"]}, data, metrics=RECALL)
    return evaluation.by(ipseval.evaluation.segments.user_groups(size, name="size"))


@keep_result
def decomposition() -> object:
    """Where the weighted estimate differs from AOA, and in which groups leads lie."""
    return als_and_ease().decomposition(by="popularity:3")


@keep_result
def difference() -> object:
    """Two evaluations under different propensities, of which one cannot be relied on."""
    return commonest().diff(flagged())


@keep_result
def validation() -> ipseval.validation.Validation:
    """Weights judged by random exposure: right ones, equal ones, and too strong ones."""
    study = World(n_users=300, n_items=80, mean_relevant=16, max_propensity=0.9, gamma=0.0, rng=0).study(
        1, n_per_user=20
    )
    rng = np.random.default_rng(0)
    models = {
        "popular": baselines.popularity,
        "random": lambda train: rng.integers(0, 1000, (300, 80)),
        "rare": lambda train: -np.tile(train.popularity, (300, 1)),
    }
    powers = {
        f"γ = {gamma}": ipseval.PowerLawPropensity(gamma=gamma, unseen="smooth") for gamma in (-1, 0, 1)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ipseval.validate(
            models, study, propensities=powers, metrics=RECALL, n_resamples=200, n_splits=1, rng=0
        )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, situation in SITUATIONS.items():
        text = f"{situation()!r}\n"
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"--- {name}: {situation.__doc__}\n{text}")


if __name__ == "__main__":
    main()
