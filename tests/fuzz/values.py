# ruff: noqa: E501
"""What a fuzzer passes: arguments that are right, and values that are wrong in every way a user's can be."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse

import ipseval
from ipseval import correction
from ipseval.validation import datasets
from ipseval.validation.simulation import World
from tests.inside.estimators import build_sample as inference_sample
from tests.inside.estimators import estimate, resolve_estimator
from tests.worlds import STUDY

N_USERS, N_ITEMS = 12, 9
USERS, ITEMS = [f"u{code:02d}" for code in range(N_USERS)], list(range(3, 3 + N_ITEMS))


def read_values(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    lists = pd.DataFrame({"user": USERS[:2], "item": ITEMS[:2], "rank": [1, 1]})
    lists.to_csv(folder / "lists.csv", index=False)
    return {
        "read.source": frame,
        "Lists.source": lists,
        "read_lists.path": folder / "lists.csv",
        "Problem.description": "3 rows repeat",
        "user_groups.source": dict.fromkeys(USERS, "web"),
        "item_groups.source": dict.fromkeys(ITEMS, "old"),
        "Evaluation.by.by": "activity",
        "measure.label": "arp@2",
        "beyond_accuracy.measures": ["arp@2"],
        "read_attributes.source": frame.drop_duplicates("item")[["item", "value"]],
    }


def slate_values(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    listed = frame.assign(query=frame["user"], label=(frame["value"] > 3).astype(int), score=frame["value"])
    listed = listed.assign(position=listed.groupby("query").cumcount() + 1, propensity=0.5)
    slates = ipseval.evaluation.slates.Slates.from_frame(listed)
    mind = "1\tu\t11/11/2019 9:05:58 AM\t\tN1-1 N2-0\n"
    texts = {
        "mind": "1\tu\tnow\t\tN1-1 N2-0\n",
        "behaviors": mind,
        "qrels": "q 0 d 1\n",
        "run": "q Q0 d 1 2.5 tag\n",
    }
    for name, text in {**texts, "triples": "a\tr\tb\t1\n", "adjacency": "0 1 2\n5 1\n"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    names = ("query", "item", "label", "query_ids", "item_ids", "user", "user_ids", "position", "propensity")
    return {
        **{f"Slates.{name}": getattr(slates, name) for name in names},
        "slates": slates,
        "Slates.from_frame.frame": listed,
        "Slates.from_frame.query": "query",
        "Slates.from_frame.item": "item",
        "Slates.from_frame.label": "label",
        "Slates.from_log.log": ipseval.ImpressionLog.from_frame(
            listed.assign(clicked=listed["label"]), query="query"
        ),
        "by_position": [1.0, 0.5, 0.4, 0.3, 0.2],
        "rank_slates.scores": np.arange(len(listed), dtype=float),
        "evaluate_slates.models": {"a": np.arange(len(listed), dtype=float)},
        "evaluate_slates.slates": slates,
        "read_mind.path": folder / "mind",
        "load_adjacency.files": folder / "adjacency",
        "read_trec.qrels": folder / "qrels",
        "read_trec.runs": {"a": folder / "run"},
        "Slates.of_positives.model": "mine",
        "Slates.of_positives.values": np.full(int(slates.is_positive.sum()), 0.5),
    }


def right(folder: Path) -> dict[str, Any]:
    """Return right arguments by the name of the parameter, or of "function.parameter"."""
    rng = np.random.default_rng(0)
    seen = rng.permuted(np.tile(np.arange(N_ITEMS), (N_USERS, 1)), axis=1)[:, :5]
    frame = pd.DataFrame({"user": np.repeat(USERS, 5), "item": np.array(ITEMS)[seen.ravel()]})
    frame["value"] = rng.integers(1, 6, len(frame))
    frame["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9999, len(frame)), unit="h")
    in_test = np.arange(len(frame)) % 5 < 2
    train, test = frame[~in_test], frame[in_test]
    log = ipseval.Interactions.from_frame(frame, value="value", timestamp="time", users=USERS, items=ITEMS)
    split = ipseval.Split.from_frames(train, test, users=USERS, items=ITEMS)
    scores = rng.random((N_USERS, N_ITEMS))
    models = {"a": scores, "b": -scores}
    propensity = ipseval.PowerLawPropensity(gamma=0.5, scale=0.1, unseen="smooth").fit(split.train)
    exposure = ipseval.RandomExposure.from_ratings(log, threshold=4)
    ranked = ipseval.rank_positives(scores, split, name="a")
    evaluation = ipseval.evaluate(
        models, split, propensity=propensity, metrics=["recall@2"], low_ess="ignore"
    )
    alone = ipseval.evaluate(
        {"a": scores}, split, propensity=propensity, metrics=["recall@2"], low_ess="ignore"
    )
    evaluation.save(folder / "baseline.npz", ranks=False)
    (folder / "gates").mkdir()
    pair = {"candidate": "a", "incumbent": "b", "estimator": "aoa"}
    ipseval.testing.gate(evaluation, **pair).save(folder / "gates" / "1.npz")
    world = World(n_users=40, n_items=20, mean_relevant=6, rng=0)
    counts = np.array([4.0, 9, 2, 7, 5, 1, 3, 8, 6])
    sample = inference_sample(ranked, propensity, None, "default")
    metric, estimator = ipseval.metric("recall@2"), resolve_estimator("snips-global")
    estimates = {("a", "recall@2", "snips-global"): estimate(sample, metric, estimator)}
    estimates |= {("b", "recall@2", "snips-global"): estimate(sample, metric, estimator)}
    shown = np.arange(N_ITEMS)
    times = np.full(N_ITEMS, np.datetime64("2020-01-01", "ns"))
    bandit = ipseval.ImpressionLog(
        shown, shown, shown, shown, shown < 4, times, shown % 3 + 1, np.full(N_ITEMS, 1 / N_ITEMS)
    )
    ranked.to_parquet(folder / "ranks.parquet")
    corrected = correction.correction_path(
        {"a": ranked, "b": ipseval.rank_positives(-scores, split)}, split, metrics=["recall@2"], rng=0
    )
    study_file = folder / "study.toml"
    frame.to_csv(folder / "clicks.csv", index=False)
    study_file.write_text(
        STUDY + 'holdout = ["ratio"]\n[study]\nmetrics = ["recall@2"]\ngammas = [0.5]\nn_resamples = 20\n'
    )
    return {
        **dict.fromkeys(("correction", "plan_exposure.correction"), correction.correct_path(corrected)), **read_values(frame, folder), **slate_values(frame, folder),
        "beyond_accuracy.models": {"a": ipseval.rank_positives(scores, split, top_k=2)},
        "frame": frame, "train": split.train, "test": split.test, "log": log, "split": split,
        "evaluate.split": split, "correct.split": split,
        "models": models, "model": scores, "ranks": {"a": ranked}, "ranked": ranked,
        "Split.from_frames.train": train, "Split.from_frames.test": test, "RandomExposure.from_frame.ids": split,
        "RandomExposure.from_frame.frame": frame.assign(positive=frame["value"] > 3)[["user", "item", "positive"]],
        "ratings": log, "ids": split, "study": world.study(0), "validate.study": world.study(0), "evaluation": evaluation, "label": "recall@10",
        "metric": "recall@2", "metrics": ["recall@2"], "estimator": "snips-global",
        "user": log.user, "item": log.item, "user_ids": log.user_ids, "item_ids": log.item_ids,
        "RandomExposure.positive": log.value > 3, "RandomExposure.n_users": N_USERS, "RandomExposure.n_items": N_ITEMS,
        "RankedPositives.user": ranked.user, "RankedPositives.item": ranked.item, "n_above": ranked.n_above,
        "n_tied": ranked.n_tied, "RankedPositives.n_candidates": ranked.n_candidates,
        "Propensity.item": propensity.item, "is_probability": True, "Propensity.model": "mine", "n_items": N_ITEMS,
        "KnownPropensity.item": propensity.item, "PowerLawPropensity.gamma": 0.5, "propensity": propensity,
        "propensities": {"p": ipseval.PowerLawPropensity(gamma=0)}, "exposure": exposure,
        "popularity": counts, "fit_gamma.recommendations": counts * 3 + 1,
        "fit_gamma.n_lists": 40, "fit_gamma.source": "logging-policy", "n_exposed": np.full(N_ITEMS, 40.0), "n_positive": counts,
        "fit_gamma_from_exposure.n_users": 99, "k": 2, "n_candidates": 20, "n_sampled": 5,
        "sampled_ranks": rng.integers(1, 7, 60), "expected_sampled.ranks": np.arange(1, 21), "std_sampled.ranks": np.arange(1, 21),
        "a": [3.0, 2.0, 1.0], "b": [3.0, 1.0, 2.0], "fit_popularity_exponent.popularity": np.arange(1.0, 40),
        "rng": 0, "threshold": 4,
        "name": "mine", "biased": log, "random": log, "path": folder / "baseline.npz", "baseline": folder / "baseline.npz",
        "Interactions.from_frame.user": "user", "Interactions.from_frame.item": "item", "Split.from_frames.user": "user",
        "Split.from_frames.item": "item", "Interactions.from_frame.value": "value", "Interactions.from_frame.timestamp": "time",
        "Split.from_frames.value": None, "Split.from_frames.timestamp": None, "RandomExposure.from_frame.user": "user",
        "RandomExposure.from_frame.item": "item", "RandomExposure.from_frame.positive": "positive", "keep": np.arange(len(frame)) % 2 == 0,
        "load.path": folder / "baseline.npz", "Report.results": [evaluation], "read_impressions.source": frame.assign(clicked=1),
        "computation": "things", "description": "things", "floor": 0.3,
        "agreements": [ipseval.order_agreement([3.0, 2, 1], [3.0, 1, 2])],
        "study.logs": {"l": log},
        "study.models": {"pop": ipseval.baselines.popularity, "any": ipseval.baselines.BASELINES["random"]}, "validate.models": {"pop": ipseval.baselines.popularity, "any": ipseval.baselines.BASELINES["random"]},
        "claim.metric": metric, "claim.estimator": estimator, "bounds.metrics": [metric], "bounds.estimators": [estimator],
        "bounds.samples": {"a": sample, "b": sample}, "estimates": estimates, "factors": [1.5],
        "FitError.users": rng.random((N_USERS, 2)), "FitError.change": lambda user, item: np.ones((len(user), 2)),
        "campaign": "toy", "BanditStudy.random": bandit, "bts": bandit,
        "card": datasets.CARDS["open-bandit"], "random_negatives": log, "n_in_both": 0, "StudyPositives.threshold": 4.0, "StudyPositives.n_exposed": np.full(N_ITEMS, 40),
        "StudyPositives.n_positive": counts.astype(int), "run_config.path": study_file, "study.path": folder / "study",
        "RankedPositives.exclude_users.users": np.arange(N_USERS) < 3, "RankedPositives.sum_by_user.values": ranked.n_above + 1.0,
        "RankedPositives.mean_by_user.values": ranked.n_above + 1.0, "RankedPositives.select.keep": np.arange(len(ranked)) < 9,
        "count_recommendations.k": 2, "count_recommendations.lists": seen[:, :2], "k_core.k": 2,
        "correct_sampled.n_candidates": 20, "correct_sampled.n_sampled": 5,
        "correct_path.path": corrected, "plan_exposure.n_users": [25], "plan_exposure.positive_share": 0.1,
        "study.protocols": ipseval.studies.protocols.grid(k_core=[None], order=["random"]), "gate.old": None, "gate.candidate": "a", "gate.incumbent": "b", "gate.estimator": "aoa",
        "plot_sensitivity.estimator": "aoa", "World.recommend.length": 5,
        "Evaluation.sensitivity.gamma": [0.0, 1.0],
        **{f"Evaluation.{name}.model": "a" for name in ("estimate", "per_user")}, "World.recommend.popularity": np.ones(20),
        "World.example_models.split": world.split(rng=0), "World.truth.split": world.split(rng=0),
        "World.truth.models": {"w": np.ones((40, 20))}, "gate.new": evaluation,
        "gate_metrics.new": evaluation, "gate_metrics.old": None, "gate_metrics.candidate": "a", "gate_metrics.incumbent": "b", "gate_metrics.estimator": "aoa",
        "gate_metrics.limits": {"recall@2": 0.01}, "assert_not_worse.limits": None, "gate_metrics.rules": None, "assert_not_worse.rules": None,
        "preflight.incumbent": "a", "assert_not_worse.evaluation": alone, "history.folder": folder / "gates",
        "parse_propensity.label": "power-law:gamma=1", "RankedPositives.from_parquet.path": folder / "ranks.parquet", "Propensity.held_out.test_fraction": 0.2,
        **{f"plot_{name}.frame": frame for name, frame in plotted(evaluation).items()}, "depth": 3,
        "mask": np.arange(len(ranked)) < 9,
        "exposure_by_provider.providers": np.arange(N_ITEMS) % 3, "CountedPropensity.n_relevant": np.full(N_ITEMS, 10.0), "CountedPropensity.n_observed": np.full(N_ITEMS, 5.0),
        **{key: {"u": list(log.item_ids[:3])} for key in ("list_overlap.a", "list_overlap.b")},
        "evaluate_generations.models": {"m": {user: [list(log.item_ids[:2]), []] for user in log.user_ids.tolist()}},
        "load_mind.path": folder / "behaviors",
        "evaluate_sequential.targets": np.arange(len(log)) >= len(log) - 5,
        "evaluate_sequential.models": {"m": [list(log.item_ids[:2])] * 5},
        "KnownPropensity.user": None, "KnownPropensity.pair": None, "KnownPropensity.function": None, "repeated_splits.method": ipseval.split_random,
        "PowerLawPropensity.exposure": None, "StratifiedPropensity.exposure": exposure, "world": world,
        "profile_features.user": log.user, "profile_features.item": log.item, **shown_values(log), **time_values(world, log),
        "correct_ranks.ranks": correction.rank_with_exposure({"a": scores}, split, exposure), "rank_with_exposure.random_exposure": exposure, "correct_ranks.metrics": [metric],
        "exposure_curve.models": {"pop": ipseval.baselines.popularity, "any": ipseval.baselines.BASELINES["random"]},
        "exposure_curve.n_users": [10], "exposure_curve.metrics": ["recall@5"], "study.metrics": ["recall@2"], "study.gammas": [0.5], "study.n_resamples": 20, "exposure_curve.n_draws": 1, "validate.n_resamples": 20, "exposure_curve.n_splits": 1, "World.n_users": 100, "World.n_items": 200, "Evaluation.with_intervals.n_resamples": 20,
        "Evaluation.diff.other": evaluation,
        "Evaluation.log.tracker": SimpleNamespace(log_metrics=len, set_tags=len, log_text=lambda text, name: None),
    }  # fmt: skip


def time_values(world: World, log: ipseval.Interactions) -> dict[str, Any]:
    """Return what is given to what is about time and tuning."""
    measured = pd.DataFrame({"experiment": range(9), "difference": np.arange(9.0) ** 2 - 9, "std_error": 1.0})
    return {
        "rank_curves.metrics": ["recall@2"], "rank_curves.n_sampled": [5],
        "windows": ipseval.data.splits.split_sliding(log, start="2024-06-01", test="90D"), "offline": measured, "online": measured,
        "split_sliding.test": "30D", "split_sliding.train": "90D", "Tuned.fit": ipseval.baselines.ease,
    }  # fmt: skip


def shown_values(log: ipseval.Interactions) -> dict[str, Any]:
    """Return what functions of exposure logs are given."""
    names = {name: name for name in ("user", "item", "clicked")}
    frame = log.to_frame()[["user", "item"]].assign(clicked=log.value > 3)
    placed = frame.assign(position=np.arange(len(frame)) % 3 + 1, p=0.5)
    exposures = ipseval.ImpressionLog.from_frame(placed, position="position", propensity="p")
    return {
        "evaluate_policies.log": exposures, "evaluate_policies.estimators": ["ips"],
        "evaluate_policies.policies": {"new": np.full((N_ITEMS, 3), 1 / N_ITEMS)},
        "Rewards.log": exposures, "rewards": ipseval.policies.rewards.Rewards(exposures, n_folds=2, rng=0),
        "top_items.model": np.random.default_rng(0).random((N_USERS, N_ITEMS)), "Rewards.rng": 0,
        "RandomExposure.from_log.log": exposures, "RandomExposure.from_log.ids": log, "RandomExposure.from_log.rate": 0.5,
        "RandomExposure.from_log.where": np.arange(len(frame)) % 2 == 0,
        "check_logged.log": exposures, "theta": [1.0, 0.5, 0.25], "ImpressionPropensity.log": exposures,
        "plot_examination.frame": pd.DataFrame({"position": [1, 2], "theta": [1.0, 0.5], "std_error": [0.0, 0.1], "method": "em"}),
        "clicked": log.value > 3, "ImpressionLog.propensity": None,
        **{f"ImpressionLog.from_frame.{name}": example for name, example in {**names, "frame": frame}.items()},
        **{f"ImpressionLog.{name}": None for name in ("position", "timestamp", "query")},
        **{f"ImpressionLog.from_frame.{name}": None for name in ("position", "propensity", "query", "timestamp")},
    }  # fmt: skip


def plotted(evaluation: ipseval.Evaluation) -> dict[str, Any]:
    """Return what each plot is given, by its name."""
    square = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "b"])
    sampled = {
        "model": "a",
        "metric": "recall@2",
        "n_sampled": [5, 6],
        "estimate": 0.5,
        "ci_low": 0.4,
        "ci_high": 0.6,
        "exact": 0.5,
    }
    reduced = {
        "propensity": "p",
        "estimator": "snips",
        "metric": ["recall@2"],
        "reduction": 0.1,
        "reduction_low": 0.0,
        "reduction_high": 0.2,
    }
    bias = {"model": "a", "metric": ["recall@2"], "estimator": "snips", "propensity": "p", "bias": 0.1, "std_error": 0.1, "ci_low": 0.0, "ci_high": 0.2,
            "bias_low": 0.0, "bias_high": 0.2, "truth": 0.3, "estimate": 0.4}  # fmt: skip
    planned = {"n_users": [10, 20], "n_items": 5, "metric": "recall@2", "half_width": [0.2, 0.1]}
    levels = {"popularity": [1, 2, 4], "n_at_least": [9, 4, 1], "frequency": [1.0, 2, 3]}
    return {
        "estimates": evaluation, "sensitivity": evaluation.sensitivity(gamma=[0.0, 1]).frame, "weights": evaluation,
        "agreement": square, "sampled": pd.DataFrame(sampled), "popularity": pd.DataFrame(levels), "frequency": pd.DataFrame(levels),
        "bias": pd.DataFrame(bias), "validation": pd.DataFrame(reduced),
        "plan": pd.DataFrame(planned),
    }  # fmt: skip


def endless() -> list[Any]:
    """Return a list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


def wrong(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return makers of wrong values by name: types, shapes, values, labels, orders, files."""
    (folder / "empty").write_bytes(b"")
    (folder / "garbage.npz").write_bytes(bytes(range(256)))
    (folder / "text.csv").write_text("user,item\n1,2\n")
    numbers = {"0": 0, "-1": -1, "1": 1, "1.5": 1.5, "nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e300": 1e300,
               "5e-324": 5e-324, "timedelta64": np.timedelta64(3, "D"), "10**30": 10**30, "-10**30": -(10**30), "2**63": 2**63, "2**53": 2.0**53, "complex": 1j, "true": True, "false": False,
               "int8": np.int8(-1), "float16": np.float16(2), "nat": np.datetime64("NaT", "D"), "decimal": "0.5"}  # fmt: skip
    texts = {"empty": "", "a": "a", "escape": "\x1b[31m", "nul": "\0", "surrogate": "\ud800", "bytes": b"a", "@": "recall@",
             "deep": "recall@2@2", "long": "a" * 9999, "auc": "auc", "snips": "snips", "all": "all", "drop": "drop"}  # fmt: skip
    arrays = {
        "scalar array": np.array(1.0), "no entries": np.zeros(0), "one": np.ones(1), "nine": np.ones(9), "zeros": np.zeros(9),
        "ints": np.arange(9), "reversed": np.arange(9)[::-1], "negative": -np.ones(9), "nans": np.full(9, np.nan), "infs": np.full(9, np.inf),
        "huge": np.full(9, 1e308), "tiny": np.full(9, 5e-324), "twelve": np.arange(12.0), "table": np.ones((12, 9)), "turned": np.ones((9, 12)),
        "cube": np.ones((2, 2, 2)), "text": np.array(["a", "b"]), "object": np.array([None, 1, "a"], dtype=object), "imaginary": np.ones(9) * 1j,
        "dates": np.array(["2020", "9999"], dtype="datetime64[s]"), "record": np.zeros(2, dtype=[("a", int)]), "large": np.array([2**63 + 5], dtype=np.uint64),
        "bools": np.ones(9, dtype=bool), "long double": np.ones(9, dtype=np.longdouble), "masked": np.ma.array(np.ones(9), mask=[1] + [0] * 8),
        "strided": np.ones(18)[::2], "overlap": np.broadcast_to(1.0, (9,)), "bytes array": np.frombuffer(b"abc", dtype=np.uint8),
    }  # fmt: skip
    frames = {
        "series": pd.Series(np.ones(9)), "labelled": pd.Series(np.ones(9), index=list("abcdefghi")), "twice": pd.Series(np.ones(2), index=[1, 1]),
        "backwards": pd.Series(np.ones(9))[::-1], "two levels": pd.Series(np.ones(1), index=pd.MultiIndex.from_tuples([(1, 2)])),
        "no columns": pd.DataFrame(), "other columns": pd.DataFrame({"x": [1]}), "same columns": pd.DataFrame([[1, 2]], columns=["user", "user"]),
        "user item": pd.DataFrame({"user": ["u00"], "item": [3]}), "nulls": pd.DataFrame({"user": [None], "item": [np.nan]}),
        "lists inside": pd.DataFrame({"user": [[1]], "item": [{}]}), "category": pd.Series(pd.Categorical(["a", "b"])),
        "nullable": pd.Series([1, None], dtype="Int64"), "frame": pd.DataFrame(np.ones((12, 9))), "index": pd.Index([1, 2]), "interval": pd.interval_range(0, 2),
        "header": pd.DataFrame({"user": ["user_id", "1"], "item": ["item_id", "2"]}), "timedelta": pd.Series(pd.to_timedelta([1])), "period": pd.Series(pd.period_range("2020", periods=2)),
    }  # fmt: skip
    others: dict[str, Any] = {
        "none": None, "object": object(), "class": int, "function": lambda *_: 1, "builtin": len, "dict": {"a": 1}, "empty dict": {}, "keys": {1: 2, None: 3},
        "nested": {"a": {"b": []}}, "set": {1}, "tuple": (1, 2), "empty tuple": (), "empty list": [], "list": [1, 2], "text list": ["a"], "lists": [[1], [2, 3]],
        "mixed": [1, "a", None], "none list": [None], "slice": slice(3), "range": range(3), "date": datetime.date(2020, 1, 1), "when": datetime.datetime(9999, 12, 31),
        "delta": datetime.timedelta(1), "module": np, "error": ValueError("x"), "ellipsis": ..., "not implemented": NotImplemented,
        "folder": folder, "missing file": folder / "missing", "empty file": folder / "empty", "garbage": folder / "garbage.npz", "csv": str(folder / "text.csv"),
    }  # fmt: skip
    made = {
        **numbers,
        **{f"'{name}'": text for name, text in texts.items()},
        **arrays,
        **{f"pd {name}": example for name, example in frames.items()},
        **others,
    }
    table: dict[str, Callable[[], Any]] = {name: (lambda one=example: one) for name, example in made.items()}
    table["list of itself"] = endless
    table["matrix"] = lambda: np.asmatrix([[3]])
    table["sparse"] = lambda: scipy.sparse.csr_matrix(np.eye(9))
    table["polars"] = lambda: pl.DataFrame({"user": ["u00"], "item": [3]})
    table["generator"] = lambda: (number for number in (1, 2))
    table["rng"] = lambda: np.random.default_rng(0)
    table["iterator"] = lambda: iter([1])
    return table
