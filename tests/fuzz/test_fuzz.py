"""The fast share of the fuzzer: nothing foreign leaves the public border, and no order changes a number."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.fuzz.border import attempt, cases, targets

N_CASES = 2600


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cases(tmp_path_factory.mktemp("fuzz"))


def share(found: list) -> list:
    """Return `N_CASES` cases, the same every day; what is slow is taken less often, and nothing left out."""
    slow = {
        "World",
        "study",
        "run_config",
        "exposure_curve",
        "validate",
        "Evaluation.to_html",
        "compare_results",
        "assert_not_worse",
    }
    chooser = random.Random(0)
    chooser.shuffle(found)
    quick = [case for case in found if case[0].name not in slow]
    return quick[: N_CASES - 100] + [case for case in found if case[0].name in slow][:100]


def test_what_the_fuzzer_calls_right_is_right(tmp_path, monkeypatch):
    """Where the right arguments fail, a wrong one is never reached. Only readers of data have no file."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [one for one in targets(tmp_path) if not one.name.startswith("load_")]
        for one in found:
            one.call(**one.arguments)


def test_whatever_is_passed_a_result_comes_or_an_error_of_the_library(all_cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of the values are names of files to write
    chosen = share(list(all_cases))
    assert len(chosen) == N_CASES
    foreign = [str(one) for case in chosen if (one := attempt(*case)) is not None]
    assert not foreign, f"{len(foreign)} of {len(chosen)} cases:\n" + "\n".join(foreign[:40])


def world(seed: int):
    """Return train, test, scores, propensities by pair and by item and s_u, all labelled with ids."""
    rng = np.random.default_rng(seed)
    users = rng.permutation([f"u{code}" for code in range(rng.integers(3, 9))])
    n_items = rng.integers(4, 12)
    items = rng.choice(2**60, n_items, replace=False) if seed % 2 else rng.permutation(range(1, n_items + 1))
    pairs = pd.MultiIndex.from_product([users, items], names=["user", "item"]).to_frame(index=False)
    pairs = pairs.sample(frac=0.7, random_state=seed).reset_index(drop=True)
    pairs["propensity"] = rng.uniform(0.1, 1, len(pairs))
    cut = max(1, len(pairs) // 2)
    scores = pd.DataFrame(rng.integers(0, 4, (users.size, n_items)).astype(float), users, items)
    by_item = pd.Series(rng.uniform(0.1, 1, items.size), index=items)
    least = pairs["user"].value_counts().reindex(users, fill_value=0)
    relevant = pd.Series(rng.integers(least, items.size, endpoint=True).astype(float), index=users)
    return pairs.iloc[:cut], pairs.iloc[cut:], scores, by_item, relevant


def numbers(train, test, scores, by_item, relevant, *, users, items, per_pair: bool) -> pd.Series:
    split = ipseval.Split.from_frames(train, test, users=users, items=items)
    known = ipseval.KnownPropensity(pair=test) if per_pair else ipseval.KnownPropensity(item=by_item)
    result = ipseval.evaluate(
        {"m": scores, "n": -scores},
        split,
        propensity=known.fit(split),
        metrics=["recall@2", "ndcg@3", "mean_dcg"],
        estimators=["aoa", "ips", "snips-global"] if per_pair else ["aoa", "snips-pooled"],
        n_relevant=relevant if per_pair else None,
        on_low_ess="ignore",
    )
    return result.frame.set_index(["model", "metric", "estimator"])[["estimate", "std_error"]].stack()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(12))  # two worlds of each kind
def test_no_order_of_the_users_and_items_changes_a_number(seed):
    """Rows and labels in other orders are among the clothes of the doors."""
    train, test, scores, by_item, relevant = world(seed)
    users, items = list(scores.index), list(scores.columns)
    options = {"users": users, "items": items, "per_pair": seed % 3 > 0}
    given = [train, test, scores, by_item, relevant]
    expected = numbers(*given, **options)
    for change in (
        {"users": users[::-1]}, {"items": items[::-1]}, {"users": sorted(users)}, {"items": sorted(items)},
    ):  # fmt: skip
        # Sums over users are made in the order of the universe.
        found = numbers(*given, **{**options, **change})
        pd.testing.assert_series_equal(found, expected, check_exact=False, rtol=1e-12, atol=1e-12)
