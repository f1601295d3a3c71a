"""Users take the same items again: repeats that are kept, training items that compete, brute force."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import DataWarning, InputError
from tests.conftest import examples
from tests.distributed.test_partitions import in_partitions
from tests.golden import oracle
from tests.golden.ranking_oracle import rank_all
from tests.ranking.worlds import INSTALLED, rows

FAST = examples(60)
WORLDS = 10_000


def build_log(pairs, times=None) -> ipseval.Interactions:
    frame = pd.DataFrame(pairs, columns=["user", "item"])
    frame["time"] = range(len(frame)) if times is None else times
    return ipseval.Interactions.from_frame(frame, timestamp="time", duplicates="keep")


# Two users; user 0 plays item 1 three times, the last two of its four rows are held out.
DAYS = [1, 2, 5, 6, 3, 7, 8]
PLAYS = [(0, 1), (0, 1), (0, 2), (0, 1), (1, 3), (1, 3), (1, 2)]


def test_a_log_keeps_its_repeats_and_counts_each_of_them_in_popularity():
    log = build_log(PLAYS)
    assert repr(log) == "Interactions(7 interactions, 2 users, 3 items)"
    assert (log.n_repeats, log.popularity.tolist(), log.activity.tolist()) == (3, [3, 2, 2], [4, 3])
    assert log.distinct.to_frame()[["user", "item"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 3], [1, 2]]
    assert (log.distinct.repeats, log.distinct.n_repeats, log.distinct.popularity.tolist()) == (
        False,
        0,
        [1, 2, 1],
    )
    count = log.data.set_index("what").loc["rows that repeat an earlier pair, kept"]
    assert (count["count"], count["of"]) == (3, 7)
    assert ipseval.data.splits.k_core(log, 2).n_repeats == 3
    with pytest.raises(InputError, match=r"3 of 7 rows repeat.*or duplicates='keep'"):
        ipseval.Interactions(log.user, log.item, log.user_ids, log.item_ids)


def test_with_training_items_included_a_test_pair_may_be_a_training_pair():
    split = ipseval.split_temporal(build_log(PLAYS, DAYS), test_fraction=0.5, seen="include")
    assert split.test.to_frame()[["user", "item"]].to_numpy().tolist() == [[0, 2], [0, 1], [1, 3], [1, 2]]
    assert (split.n_repeated_positives, split.n_repeats_merged, split.n_overlap_dropped) == (2, 0, 0)
    assert "4 test (2 training pairs among them)" in repr(split)
    ranked = ipseval.rank_positives(np.array([[5.0, 4, 3], [1, 2, 3]]), split)
    assert rows(ranked) == [(0, 0, 0, 0), (0, 1, 1, 0), (1, 1, 1, 0), (1, 2, 0, 0)]
    assert (ranked.candidates, ranked.n_candidates.tolist()) == ("all items", [3, 3, 3, 3])


def test_with_training_items_excluded_their_repeats_are_left_out_counted_and_named():
    with pytest.warns(DataWarning, match=r"2 of 4 test pairs are in an earlier part.*seen='include'"):
        split = ipseval.split_temporal(build_log(PLAYS, DAYS), test_fraction=0.5)
    assert split.test.to_frame()[["user", "item"]].to_numpy().tolist() == [[0, 2], [1, 2]]
    assert (split.n_overlap_dropped, len(split.train), split.train.popularity.tolist()) == (2, 3, [2, 0, 1])
    ranked = ipseval.rank_positives(np.array([[5.0, 4, 3], [1, 2, 3]]), split)
    assert rows(ranked) == [(0, 1, 0, 0), (1, 1, 0, 0)]
    assert ranked.n_candidates.tolist() == [2, 2]  # a training pair that repeats is excluded once
    with pytest.raises(InputError, match=r"1 of 1 test pairs are in an earlier part"):
        ipseval.split_leave_one_out(build_log([(0, 1)] * 3), order="temporal", n_validation=0)


def test_rows_of_test_that_repeat_a_pair_are_one_positive():
    frames = (
        pd.DataFrame({"user": [0], "item": [1]}),
        pd.DataFrame({"user": [0] * 5, "item": [2, 1, 2, 2, 1]}),
    )
    split = ipseval.Split.from_frames(*frames, duplicates="keep", seen="include")
    assert (len(split.test), split.n_repeats_merged, split.n_repeated_positives) == (2, 3, 1)
    data = ipseval.evaluate({"m": np.array([[1.0, 2.0]])}, split, metrics=["auc"]).data.set_index("what")
    assert data.loc["test rows that repeat a test pair, merged", ["count", "of"]].tolist() == [3, 5]
    with pytest.raises(InputError, match=r"test part repeats 1 pairs.*test\.distinct"):
        ipseval.Split(split.train, build_log([(0, 1), (0, 1), (0, 2)]).select([0, 1]), seen="include")
    with pytest.raises(InputError, match=r"in more than one part.*seen='include'"):
        ipseval.Split(split.train, split.test)


def test_an_average_over_repeats_and_new_items_is_that_of_both():
    """Ten users; each plays its favourite again and one new item: half of the positives are repeats.

    The model ranks the favourite first and the new item fifth of the six items: recall@1 is 1 for repeats,
    0 for new items.
    """
    events = [(u, u % 6) for u in range(10) for _ in range(2)]
    later = [(u, item) for u in range(10) for item in (u % 6, (u + 1) % 6)]
    log = build_log(events + later)
    split = ipseval.split_global_time(log, test_start=len(events), seen="include")
    assert (len(split.test), split.n_repeated_positives) == (20, 10)
    place = np.array([0, 4, 1, 2, 3, 5])  # of favourite, favourite + 1, …
    scores = np.array([[-place[(i - u) % 6] for i in range(6)] for u in range(10)], dtype=float)
    evaluation = ipseval.evaluate({"m": scores}, split, metrics=["recall@1", "mean_dcg"])
    assert evaluation.estimate("m", "recall@1", "aoa").value == 0.5
    assert evaluation.estimate("m", "mean_dcg", "aoa").value == pytest.approx(
        (1 + 1 / np.log2(6)) / 2, abs=1e-15
    )
    with pytest.warns(DataWarning, match="10 of 20 test pairs"):
        new = ipseval.split_global_time(log, test_start=len(events))
    new_items = ipseval.evaluate({"m": scores}, new, metrics=["recall@1", "mean_dcg"])
    assert new_items.estimate("m", "recall@1", "aoa").value == 0
    # Without the favourite the new item is fourth of five.
    assert new_items.estimate("m", "mean_dcg", "aoa").value == pytest.approx(1 / np.log2(5), abs=1e-15)


@dataclass
class Plays:
    """Events with repeats, cut at one time, and what plain sets and loops make of them."""

    events: pd.DataFrame
    cut: int
    scores: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Plays:
        n_users, n_items = int(rng.integers(1, 5)), int(rng.integers(2, 7))
        n = int(rng.integers(4, 25))
        taste = rng.dirichlet(np.full(n_items, 0.5), size=n_users)  # peaked, so that repeats abound
        user = rng.integers(n_users, size=n)
        item = np.array([rng.choice(n_items, p=taste[u]) for u in user])
        events = pd.DataFrame({"user": user, "item": item, "time": rng.permutation(n)})
        scores = rng.integers(0, 4, size=(n_users, n_items)).astype(float)
        return cls(events, int(rng.integers(1, n)), scores)

    def pairs(self, test: bool) -> list[tuple[int, int]]:
        chosen = self.events[(self.events["time"] >= self.cut) == test]
        return [(int(u), int(i)) for u, i in zip(chosen["user"], chosen["item"], strict=True)]

    def split(self, seen: str) -> ipseval.Split:
        n_users, n_items = self.scores.shape
        log = ipseval.Interactions.from_frame(
            self.events,
            timestamp="time",
            users=np.arange(n_users),
            items=np.arange(n_items),
            duplicates="keep",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return ipseval.split_global_time(log, test_start=self.cut, seen=seen)

    def lists(self) -> pd.DataFrame:
        """Whole lists of all items, in an order that agrees with the scores; ties by item."""
        table = [
            (u, int(i), place + 1)
            for u, row in enumerate(self.scores)
            for place, i in enumerate(np.lexsort((np.arange(row.size), -row)))
        ]
        return pd.DataFrame(table, columns=["user", "item", "rank"])


def check(plays: Plays, *, in_parts: bool) -> bool:
    """Compare one world with plain loops; False where "exclude" leaves no positive."""
    train, test = plays.pairs(False), plays.pairs(True)
    for seen in ("include", "exclude"):
        positives = set(test) if seen == "include" else set(test) - set(train)
        if not positives:
            return False
        out = [] if seen == "include" else train
        split = plays.split(seen)
        assert set(zip(split.test.user.tolist(), split.test.item.tolist(), strict=True)) == positives
        assert split.n_repeats_merged == len(test) - len(set(test))
        assert split.n_repeated_positives == (len(set(test) & set(train)) if seen == "include" else 0)
        expected = rank_all(plays.scores.tolist(), out, positives)
        for engine in INSTALLED:
            options = ipseval.ComputeOptions(engine=engine, n_threads=1)
            factors = plays.scores, np.eye(plays.scores.shape[1])
            for model in (plays.scores, factors):
                assert rows(ipseval.rank_positives(model, split, compute=options)) == expected
        lists = plays.lists()
        strict = -lists.sort_values(["user", "item"])["rank"].to_numpy().reshape(plays.scores.shape)
        seen_by_user = set(out)
        is_unseen = [pair not in seen_by_user for pair in zip(lists["user"], lists["item"], strict=True)]
        allowed = lists[is_unseen].copy()
        allowed["rank"] = allowed.groupby("user").cumcount() + 1
        if len(allowed):
            ranked = ipseval.rank_positives(allowed, split)
            assert rows(ranked) == rank_all(strict.tolist(), out, positives)
        if in_parts and seen == "include":
            compare_partitions(plays, split)
        n_star = np.bincount([i for _, i in train], minlength=plays.scores.shape[1])
        if all(n_star[i] for _, i in positives):
            compare_estimates(plays, split, n_star, positives, out)
    return True


def compare_partitions(plays: Plays, split: ipseval.Split) -> None:
    """What two workers of Dask or Spark compute from the rows of their users is what one process does."""
    later = plays.events["time"] >= plays.cut
    frames = {"train": plays.events[~later], "test": plays.events[later]}
    options = {"metrics": ["recall@2", "ndcg@2"], "estimators": ["aoa", "snips-global"]}
    options["propensity"] = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth")
    models = {"m": plays.lists()}
    ids = {"users": split.user_ids, "items": split.item_ids}
    parts = in_partitions(frames, models, 2, **ids, **options, seen="include")
    evaluation = ipseval.evaluate(models, split, **options)
    columns = ["estimate", "std_error", "n_users", "n_positives"]
    np.testing.assert_allclose(parts.frame[columns], evaluation.frame[columns], rtol=1e-12, atol=1e-12)
    merged = parts.data.set_index("what")["count"].get("test rows that repeat a test pair, merged", 0)
    assert merged == split.n_repeats_merged


def compare_estimates(plays: Plays, split: ipseval.Split, n_star, positives, out) -> None:
    propensity = ipseval.PowerLawPropensity(gamma=0.5, unseen="drop")  # P ∝ (n*)^.75, n* counts every repeat
    options = {"metrics": ["auc", "recall@2", "ndcg@2"], "estimators": ["aoa", "snips-global"]}
    evaluation = ipseval.evaluate({"m": plays.scores}, split, propensity=propensity, **options)
    users = [
        oracle.User(
            {i: float(s) for i, s in enumerate(row) if (u, i) not in set(out)},
            {i: n_star[i] ** -0.75 for v, i in positives if v == u},
        )
        for u, row in enumerate(plays.scores)
    ]
    for name, k in (("auc", None), ("recall", 2), ("ndcg", 2)):
        label = name if k is None else f"{name}@{k}"
        for estimator in options["estimators"]:
            got = evaluation.estimate("m", label, estimator).value
            assert got == pytest.approx(oracle.evaluate(name, k, users, estimator), abs=1e-12, nan_ok=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "n_worlds", [pytest.param(FAST, id="fast"), pytest.param(WORLDS, marks=pytest.mark.slow, id="all")]
)
def test_repeats_agree_with_plain_loops_in_random_worlds(n_worlds: int):
    rng = np.random.default_rng(20261122)
    every = 1 if n_worlds == WORLDS else 5
    n_checked = sum(check(Plays.draw(rng), in_parts=number % every == 0) for number in range(n_worlds))
    assert n_checked > n_worlds / 2


def test_baselines_count_a_pair_once_but_popularity_counts_each_row():
    log = build_log(PLAYS)
    for name in ("item_knn", "ease"):
        model = getattr(ipseval.baselines, name)
        users = np.arange(2)
        np.testing.assert_array_equal(model(log)(users), model(log.distinct)(users))
    assert ipseval.baselines.popularity(log)[0].tolist() == [3, 2, 2]
    features = ipseval.propensity.profile_features
    pair = np.array([0]), np.array([0])
    similarity = 2  # the column
    assert features(log, *pair)[0, similarity] == features(log.distinct, *pair)[0, similarity]


def test_a_study_ranks_training_items_too(tmp_path):
    rng = np.random.default_rng(3)
    log = build_log(np.column_stack([rng.integers(12, size=300), rng.integers(9, size=300)]))
    models = {"popular": ipseval.baselines.popularity, "nearest": ipseval.baselines.item_knn}
    grid = ipseval.studies.protocols.grid(
        order=["temporal"], holdout=["global-time"], k_core=[None], seen="include", validation_fraction=0.0
    )
    study = ipseval.studies.protocols.study(
        models, {"log": log}, grid, metrics=["recall@2"], estimators=["aoa"], path=tmp_path, n_resamples=20
    )
    split = ipseval.split_global_time(log, test_fraction=0.1, seen="include")
    assert split.n_repeated_positives > 0
    for name, fit in models.items():
        evaluation = ipseval.evaluate({name: fit(split.train)}, split, metrics=["recall@2"])
        row = study.frame.query("model == @name and estimator == 'aoa'")
        assert row["estimate"].item() == evaluation.estimate(name, "recall@2", "aoa").value
        assert row["candidates"].item() == "full with seen items"


def test_comparisons_with_random_exposure_require_excluded_training_items():
    split = ipseval.split_temporal(build_log(PLAYS, DAYS), test_fraction=0.5, seen="include")
    with pytest.raises(InputError, match="seen='exclude'"):
        ipseval.correct({"m": np.ones((2, 3))}, split, metrics=["recall@1"])
    with pytest.raises(InputError, match="3 ratings repeat"):
        ipseval.evaluation.evaluate_ratings(
            {"m": np.ones((2, 3))}, build_log(PLAYS)._replace_unchecked(value=np.ones(7))
        )
