"""Every public door as numbers, and what of it can be dressed in other clothes."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from ipseval.evaluation.beyond import beyond_accuracy
from ipseval.policies import evaluate_policies
from ipseval.ranking import rank_positives
from tests.fuzz.clothes import (
    Clothes,
    by_id,
    by_row,
    in_lists,
    labelled_rows,
    matrix,
    renamed,
    reordered,
    table,
    universe,
    whole_table,
)


@dataclass(frozen=True)
class Door:
    """A public function as numbers, its right arguments, and what can be dressed in which way."""

    name: str
    numbers: Callable[..., Any]
    arguments: dict[str, Any]
    dress: dict[str, Callable[[Any], Clothes]]


def cells(result: Any) -> np.ndarray:
    """Return estimates and errors of a result, by name and never by place."""
    frame = result.frame
    keys = [name for name in ("model", "policy", "metric", "measure", "estimator", "group") if name in frame]
    values = [name for name in ("estimate", "std_error", "n_positives") if name in frame]
    names = zip(*(frame[key].astype(str) for key in keys), strict=True)
    order = sorted(range(len(frame)), key=list(names).__getitem__)
    return frame[values].to_numpy(dtype=float)[order]


def eighths(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(1, 64, shape) / 8


def doors(seed: int) -> list[Door]:
    """Return every door with a small world of its own."""
    rng = np.random.default_rng(seed)
    users = rng.permutation([f"u{code}" for code in range(9)])
    items = rng.permutation(np.arange(3, 10)) if seed % 2 else rng.permutation(list("abcdefg"))
    pairs = pd.MultiIndex.from_product([users, items], names=["user", "item"]).to_frame(index=False)
    pairs = pairs.sample(frac=0.8, random_state=seed)
    pairs["propensity"] = rng.integers(1, 9, len(pairs)) / 8
    train, test = pairs.iloc[:18, :2], pairs.iloc[18:]
    scores = pd.DataFrame(eighths(rng, users.size, items.size), users, items)
    split = ipseval.Split.from_frames(train, test, users=users, items=items)
    world = {"train": train, "test": test, "scores": scores, "split": split, "rng": rng}
    return [
        *_ranked(**world),
        *_factors(**world),
        *_slates(rng),
        *_rows(rng),
        *_logs(rng),
        *_fits(rng, items),
    ]


def _ranked(train: Any, test: Any, scores: Any, split: Any, rng: np.random.Generator) -> list[Door]:
    users, items = scores.index, scores.columns

    def evaluated(train=train, test=test, scores=scores, item=None, pair=None, by=None,
                  metrics=("hit@2", "ndcg@3"), users=users, items=items, **options):  # fmt: skip
        own = ipseval.Split.from_frames(train, test, users=users, items=items)
        propensity = None
        if item is not None or pair is not None:
            known = ipseval.KnownPropensity(item=item) if pair is None else ipseval.KnownPropensity(pair=pair)
            propensity = known.fit(own)
        estimators = ["aoa"] if propensity is None else ["aoa", "snips-global"]
        estimators += [] if options.get("n_relevant") is None else ["ips"]
        evaluation = ipseval.evaluate(
            {"m": scores}, own, propensity=propensity, metrics=metrics,
            estimators=estimators, low_ess="ignore", **options,
        )  # fmt: skip
        return cells(evaluation if by is None else evaluation.by(by))

    averages = ("recall@2", "mean_dcg")
    by_item = pd.Series(rng.integers(1, 9, items.size) / 8, index=items)
    mask = pd.Series(np.arange(items.size) % 3 > 0, index=items)
    relevant = pd.Series(np.full(users.size, 7.0) - np.arange(users.size) % 2 * 0, index=users)
    groups = pd.Series(np.where(np.arange(items.size) % 2, "old", "new"), index=items)
    kinds = pd.Series(np.where(np.arange(users.size) % 2, "app", "web"), index=users)
    listed = pd.MultiIndex.from_product([users, items], names=["user", "item"]).to_frame(index=False)
    seen = pd.MultiIndex.from_frame(train)
    free = listed[~pd.MultiIndex.from_frame(listed).isin(seen)]
    lists = free.groupby("user", sort=False).head(4).reset_index(drop=True)
    lists["rank"] = lists.groupby("user").cumcount() + 1
    vectors = pd.DataFrame(eighths(rng, items.size, 3), index=items)
    ranked = {"m": rank_positives(scores.to_numpy(), split, top_k=3)}

    def diverse(item_vectors):
        return cells(beyond_accuracy(ranked, split, measures=["ild@2", "ild@3"], item_vectors=item_vectors))

    def function(frame):
        return evaluated(scores=lambda codes: frame.loc[users[codes]])

    return [
        Door("evaluate: log", evaluated, {"train": train, "test": test, "scores": scores, "pair": test},
             {"train": whole_table, "test": whole_table, "scores": matrix, "pair": whole_table}),
        Door("evaluate: item propensity", evaluated, {"item": by_item}, {"item": by_id}),
        Door("evaluate: allowed", evaluated, {"candidates": mask, "metrics": averages},
             {"candidates": by_id}),
        Door("evaluate: s", evaluated, {"item": by_item, "n_relevant": relevant}, {"n_relevant": by_id}),
        Door("evaluate: ids", evaluated,
             {"users": users, "items": items, "pair": test, "n_relevant": relevant, "metrics": averages},
             {"users": universe, "items": universe}),
        Door("evaluate: candidates", evaluated, {"candidates": listed, "metrics": averages},
             {"candidates": whole_table}),
        Door("evaluate: lists", evaluated, {"scores": lists}, {"scores": whole_table}),
        Door("evaluate: function", function, {"frame": scores}, {"frame": matrix}),
        Door("by items", evaluated, {"by": groups.rename_axis("item")}, {"by": by_id}),
        Door("by users", evaluated, {"by": kinds.rename_axis("user")}, {"by": by_id}),
        Door("item vectors", diverse, {"item_vectors": vectors}, {"item_vectors": labelled_rows}),
    ]  # fmt: skip


def _factors(train: Any, test: Any, scores: Any, split: Any, rng: np.random.Generator) -> list[Door]:
    del train, test
    of_users = pd.DataFrame(eighths(rng, len(scores), 2), scores.index)
    of_items = pd.DataFrame(eighths(rng, scores.shape[1], 2), scores.columns)
    bias = pd.Series(eighths(rng, scores.shape[1]), scores.columns)

    def factors(users, items, bias):
        ranked = rank_positives((users, items, bias), split)
        return np.array([ranked.n_above, ranked.n_tied])

    return [
        Door("factors", factors, {"users": of_users, "items": of_items, "bias": bias},
             {"users": labelled_rows, "items": labelled_rows, "bias": by_id}),
    ]  # fmt: skip


def _slates(rng: np.random.Generator) -> list[Door]:
    frame = pd.DataFrame({"query": np.repeat(np.arange(6), 4), "item": np.tile(np.arange(4), 6)})
    frame["label"] = (rng.random(len(frame)) < 0.4).astype(int)
    frame.loc[::4, "label"] = 1
    frame["user"] = frame["query"] // 2
    frame["mine"] = eighths(rng, len(frame))
    odd = frame.set_axis(rng.permutation(len(frame)) + 5)
    made = frame[["query", "item"]].assign(score=frame["mine"])

    def slates(model, listed):
        return cells(ipseval.evaluate_slates({"m": model}, listed, metrics=["rr", "ndcg@3"]))

    def rank(model, listed):
        ranked = ipseval.evaluation.slates.rank_slates(
            model, ipseval.evaluation.slates.Slates.from_frame(listed)
        )
        return np.array([ranked.n_above, ranked.n_tied])

    found = []
    for name, listed in (("numbered", frame), ("labelled", odd)):
        arguments = {"model": listed["mine"], "listed": listed}
        found.append(Door(f"slates, {name}", slates, arguments, {"model": by_row}))
        found.append(Door(f"rank_slates, {name}", rank, arguments, {"model": by_row}))
    rows = {"listed": table}  # a Series of scores goes with its rows, so that these keep their labels
    labelled = {"model": frame["mine"], "listed": frame}

    def labelled_table(one: pd.DataFrame) -> Clothes:
        return ((name, frame) for name, frame in table(one) if isinstance(frame, pd.DataFrame))

    moved = Door("slates, moved", slates, labelled, {"listed": labelled_table})
    return [
        *found,
        moved,
        Door("slates, column", slates, {"model": "mine", "listed": frame}, rows | {"listed": whole_table}),
        Door("slates, frame", slates, {"model": made, "listed": frame},
             {"model": whole_table, "listed": whole_table}),
    ]  # fmt: skip


def _rows(rng: np.random.Generator) -> list[Door]:
    n = 24
    frame = pd.DataFrame({
        "rank": rng.integers(1, 7, n), "n": rng.integers(20, 40, n), "user": rng.integers(0, 8, n),
        "weight": eighths(rng, n),
    })  # fmt: skip
    odd = frame.set_axis(rng.permutation(n) + 5)
    rated = pd.DataFrame({"user": np.repeat(np.arange(6), 4), "item": np.tile(np.arange(4), 6)})
    rated["value"] = rng.integers(1, 6, n).astype(float)
    ratings = ipseval.Interactions.from_frame(rated, value="value")
    predicted = pd.Series(eighths(rng, n))
    dense = pd.DataFrame(eighths(rng, 6, 4))

    def corrected(ranks, n, users, weights):
        sampled_estimate = ipseval.correct_sampled(
            ranks, n, 5, "recall@3", "rank", users=users, weights=weights
        )
        return np.array([sampled_estimate.estimate, sampled_estimate.standard_error])

    def expected(ranks, n):
        return np.sort(ipseval.expected_sampled(ranks, n, 5, "recall@3"))

    def std(ranks, n):
        return np.sort(ipseval.metrics.sampled.std_sampled(ranks, n, 5, "recall@3"))

    def errors(predictions, log):
        made = ipseval.Interactions.from_frame(log, value="value") if isinstance(log, pd.DataFrame) else log
        return cells(ipseval.evaluation.evaluate_ratings({"m": predictions}, made, low_ess="ignore"))

    found = []
    for name, one in (("numbered", frame), ("labelled", odd)):
        ranks, size = one["rank"], one["n"]
        given = {"ranks": ranks, "n": size, "users": one["user"], "weights": one["weight"]}
        along = dict.fromkeys(("n", "users", "weights"), by_row)
        found.append(Door(f"correct_sampled, {name}", corrected, given, along))
        for of, function in (("expected", expected), ("std", std)):
            found.append(Door(f"{of}_sampled, {name}", function, {"ranks": ranks, "n": size}, {"n": by_row}))
    return [
        *found,
        Door("ratings", errors, {"predictions": predicted, "log": ratings}, {"predictions": by_row}),
        Door("ratings, frame", errors,
             {"predictions": dense.rename(index=str), "log": rated.assign(user=rated["user"].astype(str))},
             {"predictions": matrix, "log": whole_table}),
    ]  # fmt: skip


def _logs(rng: np.random.Generator) -> list[Door]:
    n = 40
    shown = pd.DataFrame({"user": np.repeat(np.arange(10), 4), "item": np.tile(np.arange(4), 10)})
    shown["position"] = shown.groupby("user").cumcount() + 1
    shown["item"] = np.concatenate([rng.permutation(4) for _ in range(10)])
    shown["clicked"] = (rng.random(n) < 0.5).astype(int)
    shown["p"] = 0.25
    lists = shown[["user", "item", "position"]].sample(frac=1, random_state=0).reset_index(drop=True)
    times = pd.DataFrame({"user": np.repeat(np.arange(6), 7)[:n], "item": np.tile(np.arange(10, 17), 6)[:n]})
    times["value"], times["timestamp"] = rng.integers(1, 6, n), rng.permutation(n) * 86_400

    def policies(log, lists, estimators=("ips", "snips")):
        made = ipseval.ImpressionLog.from_frame(log, position="position", propensity="p")
        return cells(evaluate_policies(made, {"m": lists}, estimators=estimators, rng=0))

    def read(log):
        made = ipseval.read(log)
        frame = made.to_frame()
        return frame.sort_values(["timestamp"]).to_numpy(dtype=float)

    def splits(log):
        made = ipseval.Interactions.from_frame(log, value="value", timestamp="timestamp")
        made = ipseval.split_global_time(made, test_fraction=0.25)
        return np.sort(made.test.pair_key)

    return [
        Door("policies", policies, {"log": shown, "lists": lists},
             {"log": whole_table, "lists": whole_table}),
        # Folds are drawn in the order of the users, which the codes have.
        Door("policies: dr", policies, {"log": shown, "lists": lists, "estimators": ["dr"]},
             {"log": reordered, "lists": reordered}),
        Door("read", read, {"log": times}, {"log": whole_table}),
        Door("read: lists", read, {"log": times}, {"log": in_lists}),
        Door("splits", splits, {"log": times}, {"log": whole_table}),
    ]  # fmt: skip


def _fits(rng: np.random.Generator, items: Any) -> list[Door]:
    n = 40
    ids = [f"i{code:02d}" for code in range(n)]
    popularity = pd.Series(np.arange(n) + 2.0, ids)
    recommended = pd.Series(rng.binomial(400, popularity / 60).astype(float), ids)
    exposed, liked = pd.Series(np.full(n, 50.0), ids), pd.Series(rng.binomial(50, popularity / 60), ids)
    first_values = {
        str(name): float(value) for name, value in zip(items, rng.random(items.size), strict=True)
    }
    second_values = {
        str(name): float(value) for name, value in zip(items, rng.random(items.size), strict=True)
    }

    def gamma(popularity, recommended):
        return np.array([ipseval.fit_gamma(popularity, recommended, 400, "poisson").gamma])

    def strength(popularity, exposed, liked):
        return np.array([ipseval.fit_gamma_from_exposure(popularity, exposed, liked).gamma])

    def exponent(popularity):
        return np.array([ipseval.propensity.fit_popularity_exponent(popularity).exponent])

    def agreement(a, b):
        agreement_result = ipseval.order_agreement(a, b)
        return np.array([agreement_result.src, agreement_result.tau_b])

    counts = {"popularity": popularity, "exposed": exposed, "liked": liked}
    return [
        Door("fit_gamma", gamma, {"popularity": popularity, "recommended": recommended},
             {"popularity": by_row, "recommended": by_row}),
        Door("fit_gamma_from_exposure", strength, counts, dict.fromkeys(counts, by_row)),
        Door("fit_popularity_exponent", exponent, {"popularity": popularity}, {"popularity": by_row}),
        Door("order_agreement", agreement, {"a": first_values, "b": second_values}, {"a": renamed, "b": renamed}),
    ]  # fmt: skip


@dataclass
class Tally:
    """What came of it: the same numbers, errors of the library, and what is neither."""

    same: int = 0
    refused: int = 0
    wrong: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return self.same + self.refused + len(self.wrong)


def chosen(name: str, share: int) -> bool:
    """Return whether a name is one in `share`, by its checksum."""
    return zlib.crc32(name.encode()) % share == 0


def dressed(seeds: range = range(2), arguments: int = 1, share: int = 1) -> Tally:
    """Return what came of every door in all clothes; or one in `arguments`, in one of `share` clothes."""
    tally, wrong = Tally(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            for door in doors(seed):
                taken = [name for name in door.dress if chosen(f"{door.name} ({name})", arguments)]
                right = door.numbers(**door.arguments) if taken else None
                for argument in taken:
                    for name, changed in door.dress[argument](door.arguments[argument]):
                        case = f"{door.name} ({argument} as {name}, world {seed})"
                        if not chosen(case, share):
                            continue
                        try:
                            changed_numbers = door.numbers(**{**door.arguments, argument: changed})
                        except ipseval.IpsevalError:
                            tally.refused += 1
                        except Exception as error:
                            wrong.append(f"{case}: {type(error).__name__}: {error!s:.150}")
                        else:
                            same = changed_numbers.shape == right.shape and np.allclose(
                                changed_numbers, right, 1e-12, 1e-12, True
                            )
                            tally.same += same
                            wrong += [] if same else [f"{case}: another number"]
    tally.wrong = tuple(wrong)
    return tally
