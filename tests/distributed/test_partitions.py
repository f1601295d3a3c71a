"""Partitions of users give the numbers of the local path: values, standard errors, paired differences."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import UserSums
from ipseval.evaluation import evaluate
from ipseval.propensity import KnownPropensity, PowerLawPropensity, Propensity
from tests.estimators.labels import OF_RELATIVE_PROPENSITIES
from tests.inside.distributed import (
    build_catalogue,
    finish_evaluation,
    make_plan,
    partition,
    plan,
    reduce_partition,
    sorted_pairs,
    split_models,
)
from tests.inside.estimators import Moments, resolve_estimator

pytestmark = [
    pytest.mark.filterwarnings("ignore:the median user has"),
    pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning"),
]
METRICS = ("recall@5", "mean_dcg@3", "ndcg@5", "hit@1")
SCALED = PowerLawPropensity(gamma=0.5, scale="max", unseen="smooth")
UP_TO_A_FACTOR = PowerLawPropensity(gamma=1.0, unseen="drop")
ESTIMATORS = tuple(label for label in OF_RELATIVE_PROPENSITIES if resolve_estimator(label).separable)


@cache
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
        rows, items = [], log["item"].unique()
        for user in log["user"].unique():
            ranked = [item for item in rng.permutation(items) if (user, item) not in seen]
            rows += [(user, item, place + 1) for place, item in enumerate(ranked[: rng.integers(2, 9)])]
        frames[name] = pd.DataFrame(rows, columns=["user", "item", "rank"])
    return {name: frame.reset_index(drop=True) for name, frame in frames.items()}


def as_arrays(lists: pd.DataFrame) -> pd.DataFrame:
    """Return lists as one row per user, with its items in an array, best first."""
    ordered = lists.sort_values(["user", "rank"])
    return ordered.groupby("user")["item"].agg(list).rename("items").reset_index()


def local(frames, models, *, users=None, items=None, by=None, **options):
    """Return the evaluation here; with `by` as a cluster returns it, with its segments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        split = Split.from_frames(frames["train"], frames["test"], users=users, items=items)
        evaluation = evaluate(models, split, **options)
        request = by if isinstance(by, (list, tuple)) else [by] if by is not None else []
        return replace(
            evaluation, segments={segments.name: segments for segments in map(evaluation.by, request)}
        )


def test_a_bar_is_shown_where_progress_is_asked_for():
    visible_bar, hidden_bar = (plan.progress_bar([1], progress) for progress in (True, False))
    assert (visible_bar.disable, hidden_bar.disable) == (False, True)
    assert (visible_bar.delay, visible_bar.total) == (2, 1)  # nothing is shown of what ends at once
    assert list(visible_bar) == [1]


def test_where_nothing_is_ranked_users_keep_their_candidates_and_the_length_of_their_lists():
    """Of five items user 0 has trained on two; the lists are of user 1, the positive of user 0."""
    items = np.arange(5)
    train = pd.DataFrame({"user": [0, 0], "item": [0, 1]})
    train, test = (
        ipseval.Interactions.from_frame(value, users=[0, 1], items=items)
        for value in (train, pd.DataFrame({"user": [0], "item": [4]}))
    )
    lists = sorted_pairs.Rows(
        pd.DataFrame({"user": [1], "item": [3], "rank": [1]}), sorted_pairs.Catalogue(items)
    )
    for seen, candidates, words in (
        ("exclude", [3, 5], "all items minus the user's training items"),
        ("include", [5, 5], "all items"),
    ):
        actual = partition._ranks_without_lists(train, test, seen, lists)
        assert actual.candidates_by_user.tolist() == candidates
        assert actual.n_candidates.tolist() == candidates[:1]
        assert actual.candidates == words
        assert (actual.max_rank, actual.list_length.tolist()) == (0, [0, 5])
        scored = partition._ranks_without_lists(train, test, seen, None)
        assert (scored.max_rank, scored.list_length) == (None, None)


def test_rows_of_both_frames_are_counted_by_id_and_added():
    train, test = (pd.DataFrame({"item": list(value)}) for value in ("aab", "bc"))
    counts = partition.add_rows(
        [partition.count_rows(train, "item", 0), partition.count_rows(test, "item", 1)]
    )
    assert counts["trained"].to_dict() == {"a": 2, "b": 1, "c": 0}
    assert counts["tested"].to_dict() == {"a": 0, "b": 1, "c": 1}


def user_rows(frames) -> pd.DataFrame:
    counts = [frames[name]["user"].value_counts() for name in ("train", "test")]
    return pd.concat(counts, axis=1, keys=["trained", "tested"]).fillna(0).astype(int)


def in_partitions(frames, models, n_partitions: int, *, users=None, items=None, **options):
    """Run what a cluster runs, in this process."""
    if items is None:
        items = np.sort(pd.concat([frames["train"]["item"], frames["test"]["item"]]).unique())
    counts = frames["train"]["item"].value_counts()
    options = {
        "missing_lists": "zero",
        "ties": "default",
        "confidence_level": 0.95,
        "n_relevant": None,
        **options,
    }
    _, popularity = build_catalogue(pd.DataFrame({"trained": counts}), items)
    plan = make_plan(items, popularity, users=users, count_users=lambda: user_rows(frames), **options)
    lists, factors = split_models(models, plan.users, len(items))

    def part(frame: pd.DataFrame, number: int) -> pd.DataFrame:
        return frame if n_partitions == 1 else frame[frame["user"] % n_partitions == number]

    parts = [
        reduce_partition(
            part(frames["train"], number),
            part(frames["test"], number),
            {name: factors[name] if name in factors else part(lists[name], number) for name in models},
            plan,
        )
        for number in range(n_partitions)
    ]
    return finish_evaluation(parts, models | factors, plan)


def assert_same(distributed, evaluation, *, words: bool = True) -> None:
    """Check that every table of two evaluations has the same columns, words and, to 1e-12, numbers."""
    assert type(distributed) is type(evaluation)
    pairs = [(result.frame, result.diagnostics) for result in (distributed, evaluation)]
    if len(evaluation.models) > 1:
        pairs = [
            (*tables, result.compare())
            for tables, result in zip(pairs, (distributed, evaluation), strict=True)
        ]
    assert list(distributed.segments) == list(evaluation.segments)
    for name, segments in evaluation.segments.items():
        assert_same_groups(distributed.segments[name], segments, words=words)
    for actual, expected in zip(*pairs, strict=True):
        # Words on the effective sample size turn on a last bit where it ends in .5.
        worded = [] if words else ["remark", "flag"]
        actual, expected = (result.drop(columns=worded, errors="ignore") for result in (actual, expected))
        pd.testing.assert_frame_equal(actual, expected, rtol=1e-9, atol=1e-12)
        for column in actual.columns.difference(["pareto_k", "n_users_needed", "effect_size", "p_adjusted"]):
            if actual[column].dtype.kind == "f":
                np.testing.assert_allclose(actual[column], expected[column], rtol=1e-11, atol=1e-12)


def assert_same_groups(ours, theirs, *, words: bool) -> None:
    """Check every table of segments of two evaluations."""
    assert (ours.name, ours.axis, ours.labels, ours.note) == (
        theirs.name,
        theirs.axis,
        theirs.labels,
        theirs.note,
    )
    tables = ["differences"] if len(theirs.models) > 1 else []
    tables += ["gaps"] if len(theirs.labels) > 1 else []
    frames = [
        (ours.frame, theirs.frame),
        *((getattr(ours, name)(), getattr(theirs, name)()) for name in tables),
    ]
    # Skewness is a quotient of powers, which amplify the last bits of two users who are nearly alike. So the
    # bounds that it widens are compared in worlds of more than a dozen users only.
    unstable = [] if words else ["note", "ci_low", "ci_high"]
    for frame, reference_frame in frames:
        frame, reference_frame = (
            table.drop(columns=unstable, errors="ignore") for table in (frame, reference_frame)
        )
        pd.testing.assert_frame_equal(frame, reference_frame, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("n_partitions", "n_relevant"), [(9, None), (4, "estimated")])
def test_partitions_of_lists_give_the_numbers_of_the_local_path(n_partitions, n_relevant):
    frames = example(n_users=40)
    models = {"first": frames["first"], "second": frames["second"]}
    options = {"metrics": METRICS, "estimators": ESTIMATORS, "propensity": UP_TO_A_FACTOR}
    if n_relevant is not None:
        options |= {"estimators": ("ips", "snips-global"), "propensity": SCALED, "n_relevant": n_relevant}
    assert_same(in_partitions(frames, models, n_partitions, **options), local(frames, models, **options))


def test_per_user_values_are_kept_when_asked_for_only():
    frames = example(4, n_users=40)
    models, options = {"first": frames["first"]}, {"metrics": ("recall@5",), "estimators": ("aoa",)}
    evaluation = local(frames, models, **options)
    expected = evaluation.per_user("first", "recall@5", "aoa")
    reference_evaluation = in_partitions(frames, models, 2, per_user=True, **options)
    pd.testing.assert_series_equal(reference_evaluation.per_user("first", "recall@5", "aoa"), expected)
    merged_frame, local_frame = (
        result.with_intervals("bca", n_resamples=50, rng=0).frame
        for result in (reference_evaluation, evaluation)
    )
    pd.testing.assert_frame_equal(merged_frame, local_frame)
    merged = in_partitions(frames, models, 2, **options)
    assert merged.user_ids.tolist() == []
    for ask in (
        lambda: merged.per_user("first", "recall@5", "aoa"),
        lambda: merged.with_intervals("bca"),
    ):
        with pytest.raises(InputError, match="only moments of the users were kept"):
            ask()
    with pytest.raises(InputError, match="pass by= to evaluate_dask or evaluate_spark"):
        merged.by("popularity")
    for ask in (merged.sensitivity, merged.bounds, merged.to_json):
        with pytest.raises(InputError, match="the ranked positives, which stayed on the cluster"):
            ask()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_merged_moments_are_those_of_all_users_at_once(seed, sizes):
    rng = np.random.default_rng(seed)
    values = 1e3 + rng.normal(size=(4, sum(sizes)))  # a mean far from 0 takes digits from Σx² − n x̄²
    users = np.arange(sum(sizes))

    def sums(rows) -> list[UserSums]:
        return [UserSums.from_values(users[rows], values[0, rows], values[1, rows]),
                UserSums.from_values(users[rows], values[2, rows], values[3, rows])]  # fmt: skip

    bounds = np.concatenate([[0], np.cumsum(sizes)])
    merged = Moments.from_user_sums(sums(slice(0, 0)))
    for start, stop in itertools.pairwise(bounds):
        merged = merged.merge(Moments.from_user_sums(sums(slice(start, stop))))
    expected = sums(slice(None))
    for number, user_sums in enumerate(expected):
        psi, n = user_sums.influence(), user_sums.n_users
        error = np.sqrt(np.sum(psi**2) / (n * (n - 1))) if n > 1 else np.nan
        member = merged.members()[number]
        np.testing.assert_allclose(member.value(), user_sums.value(), rtol=1e-12)
        np.testing.assert_allclose(member.standard_error(), error, rtol=1e-9)
    assert merged.n == users.size


PER_PAIR = Propensity(None, True, "known", 25, pair=np.array([0.5]), pair_key=np.array([0]))


class OfLogs:
    """A model that reads a log, not counts."""

    def fit(self, train=None, popularity=None):
        return train.popularity


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"estimators": ("snips-shrunk",), "propensity": UP_TO_A_FACTOR},
            InputError,
            r"^snips-shrunk\(.*\) read all users at once and cannot be computed in partitions; use aoa, ",
        ),
        ({"estimators": ("aoa",), "n_relevant": [3] * 80}, InputError, "^n_relevant must be one number"),
        ({"estimators": ("aoa",), "per_user": 1}, InputError, "^per_user must be"),
        ({"estimators": ("aoa",), "seen": "keep"}, InputError, "seen"),
        ({"propensity": PER_PAIR}, PropensityError, "^a propensity per user-item pair is not supported here"),
        ({"propensity": OfLogs()}, PropensityError, "^OfLogs cannot be fitted to item counts alone"),
        ({"estimators": ("snips",)}, PropensityError, "snips needs a propensity"),
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
        evaluation = in_partitions(frames, models, 3, **options)
    assert_same(evaluation, local(frames, models, **options))


def test_factors_and_rows_that_do_not_fit_get_an_error():
    frames = example()
    options = {"metrics": ("recall@5",), "estimators": None}
    factors = np.ones((2, 3)), np.ones((25, 3))
    with pytest.raises(InputError, match="pass users="):
        in_partitions(frames, {"one": factors}, 3, **options)
    with pytest.raises(InputError, match="2 users and 25 items; expected 3 as in users= and 25"):
        in_partitions(frames, {"one": factors}, 3, users=[1, 4, 7], **options)
    for n_users, n_items in ((4, 25), (3, 24), (3, 26)):
        factors_argument = np.ones((n_users, 3)), np.ones((n_items, 3))
        with pytest.raises(InputError, match=f"^one has factors of {n_users} users and {n_items} items; "):
            in_partitions(frames, {"one": factors_argument}, 3, users=[1, 4, 7], **options)
    for factors_argument in (factors[:1], factors * 2):
        with pytest.raises(
            InputError, match=rf"^one is a tuple of {len(factors_argument)}; expected \(user_factors, "
        ):
            in_partitions(frames, {"one": factors_argument}, 3, users=[1, 4, 7], **options)
    with pytest.raises(InputError, match=r"users of the frames are not among users= .*holds 1, 2"):
        in_partitions(frames, {"one": factors}, 3, users=[1, 2], **options)
    with pytest.raises(InputError, match="non-empty mapping"):
        in_partitions(frames, {}, 3, **options)
    twice = frames | {"train": pd.concat([frames["train"]] * 2)}
    with pytest.raises(InputError, match="rows repeat an earlier"):
        in_partitions(twice, {"first": frames["first"]}, 3, **options)


def test_results_over_moments_are_printed_saved_and_loaded_as_others_are(tmp_path):
    frames = example(4, n_users=40)
    models = {"first": frames["first"], "second": frames["second"]}
    options = {"metrics": ("recall@5",), "estimators": ("aoa", "snips-global")}
    options["propensity"] = UP_TO_A_FACTOR
    evaluation, reference_evaluation = (
        in_partitions(frames, models, 2, **options),
        local(frames, models, **options),
    )
    # The range of γ needs the ranked positives, which stay in their partitions.
    reference_evaluation = replace(
        reference_evaluation, _stored=replace(reference_evaluation._stored, gamma_ranges={})
    )
    assert repr(evaluation) == repr(reference_evaluation)
    assert evaluation.to_markdown() == reference_evaluation.to_markdown()
    assert evaluation.to_csv().count("\n") == reference_evaluation.to_csv().count("\n")
    assert "Evaluation of recommenders" in evaluation.to_html()
    evaluation.save(tmp_path / "moments.npz")
    loaded = ipseval.Evaluation.load(tmp_path / "moments.npz")
    pd.testing.assert_frame_equal(loaded.frame, evaluation.frame, check_exact=True)
    pd.testing.assert_frame_equal(loaded.compare(), evaluation.compare(), check_exact=True)
    second_evaluation = in_partitions(example(5), {"second": example(5)["second"]}, 2, **options)
    cell = "recall@5", "aoa"
    with pytest.raises(InputError, match="a paired difference needs both recommenders in one evaluation"):
        evaluation.estimate("first", *cell).sums.paired_error(
            second_evaluation.estimate("second", *cell).sums
        )


def test_ips_averages_over_users_without_a_row_in_any_frame():
    train = pd.DataFrame({"user": [0, 1], "item": [0, 1]})
    test = pd.DataFrame({"user": [0, 1], "item": [2, 0]})
    factors = np.ones((4, 1)), np.array([[4.0], [3.0], [2.0], [1.0]])
    options = {"metrics": ["dcg"], "estimators": ["ips"], "users": range(4), "items": np.arange(4)}
    options["propensity"] = KnownPropensity(item=[0.5] * 4).fit(
        Split.from_frames(train, test, users=range(4), items=range(4))
    )
    evaluation = in_partitions({"train": train, "test": test}, {"m": factors}, 1, **options)
    # User 0 has item 2 at rank 2 of (1, 2, 3), user 1 item 0 at rank 1; each weighs 2; two more users add 0.
    assert evaluation.frame["estimate"].item() == pytest.approx((2 / np.log2(3) + 2) / 4)
    assert evaluation.frame["n_users"].item() == 4
    assert_same(evaluation, local({"train": train, "test": test}, {"m": factors}, **options))


def test_missing_lists_are_settled_over_all_partitions():
    frames = example()
    models = {"first": frames["first"][frames["first"]["user"] > 40], "second": frames["second"]}
    options = {"metrics": ("recall@5",), "estimators": ("aoa",)}
    with pytest.raises(InputError) as error:
        in_partitions(frames, models, 3, missing_lists="raise", **options)
    with pytest.raises(InputError) as local_error:
        local(frames, models, missing_lists="raise", **options)
    assert str(error.value) == str(local_error.value)
    with pytest.raises(InputError, match=r"1 of .* users of the frames are not among users="):
        in_partitions(frames, models, 1, users=frames["first"]["user"].unique()[1:], **options)
