"""Partitions of users give the numbers of the local path: values, standard errors, paired differences."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval.distributed._moments import Block, merge_all
from ipseval.distributed._partition import reduce_partition
from ipseval.distributed._plan import make_plan, popularity_of, split_models
from ipseval.distributed._result import finish
from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import UserSums
from ipseval.evaluation import evaluate
from ipseval.propensity import KnownPropensity, PowerLawPropensity
from ipseval.splits import Split

METRICS = ("recall@5", "mean_dcg@3", "precision@4", "ndcg@5", "ap@5", "hit@1")
SCALED = PowerLawPropensity(gamma=0.5, scale="max", unseen="smooth")
UP_TO_A_FACTOR = PowerLawPropensity(gamma=1.0)
ESTIMATORS = ("aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled")


def example(seed: int = 0, n_users: int = 80, n_items: int = 25) -> dict[str, pd.DataFrame]:
    """Return frames with users without positives or training items, and lists of unequal length."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < rng.uniform(0.02, 0.5, n_items))
    log = pd.DataFrame({"user": user * 3 + 1, "item": item + 500})
    in_test = rng.random(len(log)) < np.where(log["user"] % 5 == 0, 0.0, 0.4)
    train, test = log[~in_test], log[in_test]
    seen = set(zip(train["user"], train["item"], strict=True))
    frames = {"train": train, "test": test}
    for name in ("first", "second"):
        rows = []
        for one in log["user"].unique():
            ranked = [other for other in rng.permutation(log["item"].unique()) if (one, other) not in seen]
            rows += [(one, other, place + 1) for place, other in enumerate(ranked[: rng.integers(2, 9)])]
        frames[name] = pd.DataFrame(rows, columns=["user", "item", "rank"])
    return {name: frame.reset_index(drop=True) for name, frame in frames.items()}


def as_arrays(lists: pd.DataFrame) -> pd.DataFrame:
    """Return lists as one row per user, with its items in an array, best first."""
    ordered = lists.sort_values(["user", "rank"])
    return ordered.groupby("user")["item"].agg(list).rename("items").reset_index()


def local(frames, models, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(models, Split.from_frames(frames["train"], frames["test"]), **options)


def in_partitions(frames, models, n_partitions: int, *, users=None, **options):
    """Run what a cluster runs, in this process."""
    options = {"ties": "default", "n_relevant": None, "per_user": False, "propensity": None, **options}
    level = options.setdefault("confidence_level", 0.95)
    items = np.sort(pd.concat([frames["train"]["item"], frames["test"]["item"]]).unique())
    counts = frames["train"]["item"].value_counts()
    plan = make_plan(items, popularity_of(items, counts.index.to_numpy(), counts.to_numpy()), **options)
    lists, factors = split_models(models, users, len(items))

    def part(frame: pd.DataFrame, number: int) -> pd.DataFrame:
        return frame[frame["user"] % n_partitions == number]

    parts = [
        reduce_partition(
            part(frames["train"], number),
            part(frames["test"], number),
            {name: factors[name] if name in factors else part(lists[name], number) for name in models},
            plan,
        )
        for number in range(n_partitions)
    ]
    return finish(list(models), merge_all(parts), plan, confidence_level=level)


def assert_same(distributed, evaluation) -> None:
    """Check the whole table, and the paired differences against the users' influence, to 1e-12."""
    ours, theirs = distributed.frame, evaluation.frame
    words = ["model", "metric", "estimator", "n_users", "n_positives", "claim", "note"]
    pd.testing.assert_frame_equal(ours[words], theirs[words])
    for column in ours.columns.difference(words):
        np.testing.assert_allclose(ours[column], theirs[column], rtol=1e-12, atol=1e-12)
    for label, weights in evaluation.weights.items():
        found = asdict(distributed.weights[label])
        assert found.pop("weighting") == weights.weighting
        for name in found:
            value = getattr(weights, name)
            np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=f"{label} {name}")
    if len(evaluation.models) > 1:
        ours, theirs = distributed.compare(), evaluation.compare()
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9, atol=1e-12)
        for column in ("difference", "std_error", "ci_low", "ci_high", "p_value"):
            np.testing.assert_allclose(ours[column], theirs[column], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_partitions", [1, 2, 7, 50])
def test_partitions_of_lists_give_the_numbers_of_the_local_path(n_partitions):
    frames = example()
    models = {"first": frames["first"], "second": frames["second"]}
    options = {"metrics": METRICS, "estimators": ESTIMATORS, "propensity": UP_TO_A_FACTOR}
    assert_same(in_partitions(frames, models, n_partitions, **options), local(frames, models, **options))


@pytest.mark.parametrize("n_relevant", [25, "estimated"])
def test_ips_counts_users_without_positives_in_every_partition(n_relevant):
    frames = example(1)
    models = {"first": frames["first"], "second": frames["second"]}
    options = {
        "metrics": METRICS,
        "estimators": ("ips", "snips-global"),
        "propensity": SCALED,
        "n_relevant": n_relevant,
    }
    assert_same(in_partitions(frames, models, 6, **options), local(frames, models, **options))


def test_factors_give_the_numbers_of_the_local_path_for_whole_rankings_too():
    frames = example(2)
    split = Split.from_frames(frames["train"], frames["test"])
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(split.n_users, 3)), rng.normal(size=(split.n_items, 3))
    models = {"plain": factors, "biased": (*factors, rng.normal(size=split.n_items))}
    options = {"metrics": ("auc", "dcg", "rr"), "estimators": ESTIMATORS, "propensity": UP_TO_A_FACTOR}
    ours = in_partitions(frames, models, 5, users=split.user_ids, **options)
    assert_same(ours, local(frames, models, **options))


def test_arrays_of_items_are_lists():
    frames = example(3)
    options = {"metrics": METRICS, "estimators": ("aoa",)}
    ours = in_partitions(frames, {"first": as_arrays(frames["first"])}, 4, **options)
    assert_same(ours, local(frames, {"first": frames["first"]}, **options))


def test_per_user_values_are_kept_when_asked_for_only():
    frames = example(4)
    models, options = {"first": frames["first"]}, {"metrics": ("recall@5",), "estimators": ("aoa",)}
    expected = local(frames, models, **options).per_user("first", "recall@5", "aoa")
    values = in_partitions(frames, models, 6, per_user=True, **options).per_user
    np.testing.assert_array_equal(values.set_index("user")["value"].sort_index(), expected.sort_index())
    with pytest.raises(InputError, match="per_user=True"):
        in_partitions(frames, models, 6, **options).per_user  # noqa: B018 - the property raises


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_merged_moments_are_those_of_all_users_at_once(seed, sizes):
    rng = np.random.default_rng(seed)
    values = 1e3 + rng.normal(size=(4, sum(sizes)))  # a mean far from 0 takes digits from Σx² − n x̄²
    users = np.arange(sum(sizes))

    def sums(rows) -> list[UserSums]:
        return [UserSums.of(users[rows], values[0, rows], values[1, rows]),
                UserSums.of(users[rows], values[2, rows], values[3, rows])]  # fmt: skip

    bounds = np.concatenate([[0], np.cumsum(sizes)])
    merged = Block.of(sums(slice(0, 0)))
    for start, stop in itertools.pairwise(bounds):
        merged = merged.merge(Block.of(sums(slice(start, stop))))
    whole = sums(slice(None))
    for number, one in enumerate(whole):
        psi, n = one.influence(), one.n_users
        error = np.sqrt(np.sum(psi**2) / (n * (n - 1))) if n > 1 else np.nan
        np.testing.assert_allclose(merged.value(number), one.value(), rtol=1e-12)
        np.testing.assert_allclose(merged.standard_error(number), error, rtol=1e-9)
    assert merged.n == users.size


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"estimators": ("stratified",), "propensity": UP_TO_A_FACTOR},
            InputError,
            "cannot be computed in part",
        ),
        ({"estimators": ("snips",)}, PropensityError, "snips need a propensity"),
        (
            {"propensity": KnownPropensity(item=np.ones(25))},
            PropensityError,
            "cannot be fitted to item counts",
        ),
        ({"metrics": ("auc",)}, InputError, "auc reads the whole ranking"),
        ({"n_relevant": "guessed"}, InputError, "n_relevant"),
        ({"confidence_level": 2}, InputError, "confidence_level"),
    ],
)
def test_bad_options_get_an_error_that_names_them(options, error, text):
    frames = example()
    given_options = {"metrics": ("recall@5",), "estimators": None, **options}
    with pytest.raises(error, match=text):
        in_partitions(frames, {"first": frames["first"]}, 3, **given_options)


def test_lists_shorter_than_the_cutoff_are_padded_as_they_are_locally():
    frames = example()
    models, options = {"first": frames["first"]}, {"metrics": ("recall@9",), "estimators": ("aoa",)}
    with pytest.warns(DataWarning, match="every list of 'first' is shorter than 9, the largest cutoff"):
        ours = in_partitions(frames, models, 3, **options)
    assert_same(ours, local(frames, models, **options))


def test_factors_that_do_not_fit_get_an_error():
    frames = example()
    options = {"metrics": ("recall@5",), "estimators": None}
    factors = np.ones((2, 3)), np.ones((25, 3))
    with pytest.raises(InputError, match="pass users="):
        in_partitions(frames, {"one": factors}, 3, **options)
    with pytest.raises(InputError, match="2 users and 25 items; expected 3 as in users= and 25"):
        in_partitions(frames, {"one": factors}, 3, users=[1, 4, 7], **options)
    with pytest.raises(InputError, match=r"users of the data have no factors .*the factors are of 1, 2"):
        in_partitions(frames, {"one": factors}, 3, users=[1, 2], **options)
    with pytest.raises(InputError, match="non-empty dict"):
        in_partitions(frames, {}, 3, **options)


def test_a_distributed_evaluation_is_printed_as_its_table():
    frames = example(4)
    options = {"metrics": ("recall@5",), "estimators": ("aoa",)}
    found = in_partitions(frames, {"first": frames["first"]}, 6, **options)
    head, _, columns, row = repr(found).splitlines()[:4]
    counts = found.moments.n_positives, found.frame["n_users"].item()
    assert head == f"1 recommender, {counts[0]} held-out positives of {counts[1]} users"
    assert columns.split() == ["recall@5", "aoa"]
    assert row.split()[::2] == ["first", "±"]
    assert found.to_markdown().count("| first |") == 1
