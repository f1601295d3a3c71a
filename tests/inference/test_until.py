"""Stopping early: looks, their bounds, what is refused, and the interval after stopping."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

import ipseval
from ipseval import InputError, PowerLawPropensity, RankedPositives, Split, UnknownNameError, Until
from ipseval._until import joined
from ipseval.cli import main
from ipseval.cli._evaluate import until_of
from ipseval.inference._looks import boundary, planned, spent
from ipseval.ranking import rank_positives

pytestmark = pytest.mark.filterwarnings("ignore:the median user has:ipseval.errors.DataWarning")

N_USERS, N_ITEMS = 400, 30
N_TESTED = 389  # of them have test positives
ESTIMATORS = ["aoa", "snips", "snips-global"]


def world(n_users: int = N_USERS) -> tuple[dict[str, np.ndarray], Split]:
    rng = np.random.default_rng(3)
    pairs = np.argwhere(rng.random((n_users, N_ITEMS)) < 0.3)
    test = rng.random(len(pairs)) < 0.4
    frames = (pd.DataFrame(pairs[rows], columns=["user", "item"]) for rows in (~test, test))
    split = Split.from_frames(*frames, users=np.arange(n_users), items=np.arange(N_ITEMS))
    good = rng.normal(size=(n_users, N_ITEMS))
    good[split.test.user, split.test.item] += 0.7
    return {"good": good, "poor": rng.normal(size=good.shape)}, split


def evaluated(**options):
    models, split = world()
    asked = {"propensity": PowerLawPropensity(gamma=0.0), "metrics": ["recall@5", "auc"]}
    asked |= {"estimators": ESTIMATORS, "on_low_ess": "ignore", "rng": 0}
    return ipseval.evaluate(models, split, **(asked | options))


def half_widths(frame: pd.DataFrame) -> np.ndarray:
    return (frame["ci_high"] - frame["ci_low"]).to_numpy(dtype=float) / 2


def test_looks_spend_their_shares_by_an_independent_integral():
    n = np.array([100.0, 400.0, 440.0])
    z = boundary(n, confidence_level=0.9)
    correlation = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))
    precise = {"abseps": 1e-7, "releps": 1e-7, "maxpts": 2_000_000}
    inside = [
        2 * norm.cdf(z[0]) - 1,
        *(
            multivariate_normal.cdf(z[:k], np.zeros(k), correlation[:k, :k], lower_limit=-z[:k], **precise)
            for k in (2, 3)
        ),
    ]
    assert 1 - np.array(inside) == pytest.approx(0.1 * spent(3), abs=2e-6)


def test_a_single_look_at_all_users_is_the_plain_interval():
    assert boundary(np.array([50.0]), confidence_level=0.95, final=True) == pytest.approx(
        [1.959964], abs=1e-6
    )
    assert spent(3, final=True)[-1] == 1


def test_the_next_look_asks_for_what_the_variance_says():
    # One standard error at 1,000 users is the half-width asked for: z² times as many, and 8 % more.
    n = planned(1_000, 10**6, 1.0, [1_000], confidence_level=0.95)
    z = boundary(np.array([1_000.0, n]), confidence_level=0.95)[-1]
    assert n == pytest.approx(1_000 * 1.08 * z**2, rel=1e-3)
    assert planned(1_000, 10**6, float("nan"), [1_000], confidence_level=0.95) == 2_000
    assert planned(1_000, 4_900, 1.0, [1_000], confidence_level=0.95) == 4_900
    assert planned(1_000, 10**6, 1e-3, [1_000], confidence_level=0.95) == 1_100


@pytest.mark.parametrize("of", ["levels", "differences"])
def test_no_interval_is_wider_than_asked_for_and_some_users_are_left(of):
    found = evaluated(until=Until(0.06, of=of, first=60))
    table = found.frame if of == "levels" else found.compare()
    assert half_widths(table).max() <= 0.06
    assert 60 < found.extent.n_users < N_TESTED
    assert 0.95 < found.confidence_level < 0.999
    (left,) = (one for one in found.counted if one.what.endswith("not ranked"))
    assert (left.count + found.extent.n_users, left.of) == (N_TESTED, N_TESTED)
    assert f"{found.extent.n_users} of {N_TESTED} users ranked" in found.provenance["until"]
    assert "users ranked" in " ".join(str(found).split())


def test_estimates_after_stopping_are_those_of_the_users_that_were_ranked():
    found = evaluated(until=Until(0.06, first=60))
    models, split = world()
    users = next(iter(found.samples.values())).ranked.users
    rows = np.isin(split.test.user, users)
    alone = Split(split.train, split.test.select(rows))
    plain = ipseval.evaluate(
        models,
        alone,
        propensity=PowerLawPropensity(gamma=0.0),
        metrics=["recall@5", "auc"],
        estimators=ESTIMATORS,
        on_low_ess="ignore",
        confidence_level=found.confidence_level,
    )
    pd.testing.assert_frame_equal(found.frame, plain.frame)


def test_the_same_seed_ranks_the_same_users_and_another_seed_others():
    first, again, other = (evaluated(until=Until(0.06, first=60), rng=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert not first.frame["estimate"].equals(other.frame["estimate"])


def test_all_users_are_ranked_where_the_precision_cannot_be_reached():
    found, plain = evaluated(until=Until(1e-4, first=60)), evaluated()
    pd.testing.assert_series_equal(found.frame["estimate"], plain.frame["estimate"])
    assert found.provenance["until"].startswith(f"all {N_TESTED} users ranked, and the widest interval is ± ")
    assert (half_widths(found.frame) >= half_widths(plain.frame)).all()
    assert half_widths(found.frame) == pytest.approx(half_widths(plain.frame), rel=0.03)


def test_no_stop_while_an_estimate_is_the_same_for_all_users():
    # Nobody has a hit: a standard error of 0 says nothing of users who would have one.
    found = evaluated(until=Until(0.5, first=60), metrics=["recall@1"], estimators=["aoa"])
    assert found.extent.n_users < N_TESTED
    models, split = world()
    nothing = {name: np.full(one.shape, 0.0) for name, one in models.items()}
    for scores in nothing.values():
        scores[split.test.user, split.test.item] = -1.0
    found = ipseval.evaluate(nothing, split, metrics=["recall@1"], until=Until(0.5, first=60), rng=0)
    assert found.extent.n_users == N_TESTED
    assert found.provenance["until"].endswith("an estimate is undefined, or the same for all of them")


def test_ranks_made_before_are_selected_and_equal_those_of_scores():
    models, split = world()
    ranks = {name: rank_positives(one, split) for name, one in models.items()}
    mixed = {"good": ranks["good"], "poor": models["poor"]}
    plain, given, both = (
        ipseval.evaluate(one, split, until=Until(0.06, first=60), rng=4).frame
        for one in (models, ranks, mixed)
    )
    pd.testing.assert_frame_equal(plain, given)
    pd.testing.assert_frame_equal(plain, both)


@pytest.mark.parametrize("kind", ["scores", "lists", "allowed"])
def test_joined_ranks_are_those_of_one_ranking(kind):
    models, split = world()
    model, options = models["good"], {}
    if kind == "lists":
        order = np.argsort(-np.where(np.isfinite(model), model, 0), axis=1)
        seen = set(zip(split.train.user.tolist(), split.train.item.tolist(), strict=True))
        rows = [(u, i) for u in range(N_USERS) if u % 3 for i in order[u] if (u, i) not in seen]
        model = pd.DataFrame(rows, columns=["user", "item"])
        model["rank"] = model.groupby("user").cumcount() + 1
        model = model[model["rank"] <= 6]
    if kind == "allowed":
        options["allowed_items"] = np.arange(N_ITEMS) > 4
    shuffled = np.random.default_rng(0).permutation(N_USERS)
    with pytest.warns() if kind == "allowed" else nullcontext():
        whole = rank_positives(model, split, **options)
        parts = []
        for users in (shuffled[:100], shuffled[100:250], shuffled[250:]):
            part = Split(split.train, split.test.select(np.isin(split.test.user, users)))
            parts.append(rank_positives(model, part, **options))
    found = joined(parts)
    for name in RankedPositives.__dataclass_fields__:
        one, other = getattr(found, name), getattr(whole, name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, name


REFUSED = {
    "no width": ({"until": 0.0}, "until must be"),
    "all users": (
        {
            "until": 0.1,
            "estimators": ["ips"],
            "n_relevant": 5,
            "propensity": PowerLawPropensity(gamma=0.0, scale="max"),
        },
        "ips divides by all of them",
    ),
    "lists": ({"until": 0.1, "beyond": ["coverage@5"]}, "beyond= needs all of them"),
    "sample": (
        {"until": 0.1, "candidates": ipseval.SampledCandidates(5)},
        "a choice of candidates needs all",
    ),
    "bootstrap": ({"until": 0.1, "interval": "bca"}, "leave interval at 'normal'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_all_users_is_refused(name):
    options, text = REFUSED[name]
    with pytest.raises(InputError, match=text):
        evaluated(**options)


def test_a_first_look_at_few_users_is_refused():
    with pytest.raises(InputError, match="first"):
        Until(0.1, first=29)


def test_differences_need_two_recommenders_and_a_known_reference():
    models, split = world()
    with pytest.raises(InputError, match="at least two recommenders"):
        ipseval.evaluate({"good": models["good"]}, split, until=Until(0.1, of="differences"))
    with pytest.raises(UnknownNameError):
        evaluated(until=Until(0.1, of="differences", reference="best"))
    found = evaluated(until=Until(0.05, of="differences", reference="poor", first=60))
    assert half_widths(found.compare(reference="poor")).max() <= 0.05


@pytest.mark.slow
def test_the_interval_after_stopping_holds_the_truth_and_costs_little_more_than_a_fixed_sample():
    # One positive per user, a hit with probability .2; a fixed sample would need 2,000 users.
    rng = np.random.default_rng(11)
    truth, held, used = 0.2, [], []
    wanted = 1.959964 * np.sqrt(truth * (1 - truth) / 2_000)
    ids = np.arange(6_000)
    for _ in range(1_000):
        above = np.where(rng.random(ids.size) < truth, 0, 9)
        ones = np.ones(ids.size, np.int64)
        ranked = RankedPositives.trusted(
            user=ids,
            item=0 * ids,
            n_above=above,
            n_tied=0 * ids,
            n_candidates=10 * ones,
            user_ids=ids,
            item_ids=np.arange(10),
        )
        log = ipseval.Interactions(ids, 0 * ids, ids, np.arange(10))
        split = Split(log.select(np.zeros(ids.size, dtype=bool)), log)
        found = ipseval.evaluate(
            {"m": ranked}, split, metrics=["recall@1"], until=Until(wanted, first=300), rng=rng
        )
        row = found.frame.iloc[0]
        held.append(row["ci_low"] <= truth <= row["ci_high"])
        used.append(found.extent.n_users)
    assert np.mean(held) >= 0.95
    assert np.median(used) <= 1.5 * 2_000


@pytest.mark.parametrize(
    ("text", "of"), [("0.1", "levels"), ("levels:0.1", "levels"), ("differences:0.1", "differences")]
)
def test_the_command_line_reads_a_width_and_what_it_is_of(tmp_path, capsys, text, of):
    _, split = world()
    split.train.to_frame().to_csv(tmp_path / "train.csv", index=False)
    split.test.to_frame().to_csv(tmp_path / "test.csv", index=False)
    files = ["--train", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv")]
    options = ["--model", "popularity", "--model", "random", "--metrics", "recall@10", "--until", text]
    assert main(["evaluate", *files, *options, "--seed", "1"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"of {N_TESTED} users ranked" in printed or f"all {N_TESTED} users ranked" in printed
    assert ("of a difference" in printed) == (of == "differences")


@pytest.mark.parametrize("text", ["narrow", "differences:", "ratios:0.1", "-1"])
def test_the_command_line_refuses_another_width(text):
    with pytest.raises(InputError):
        until_of(text)
