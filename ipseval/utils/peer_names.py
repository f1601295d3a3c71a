"""Names that other libraries use, and the call or option of ipseval that does the same."""

from __future__ import annotations

import difflib
from collections.abc import Collection

NAMES_BY_REPLACEMENT: dict[str, tuple[str, ...]] = {
    "ipseval.read(path)": (
        "load_csv",
        "load_data",
        "load_frame",
        "from_csv",
        "from_pandas",
        "from_dataframe",
        "read_csv",
        "read_parquet",
        "open",
        "dataset",
        "construct",
        "from_uir",
        "from_interactions_df",
    ),
    "Interactions.from_frame(frame), or ipseval.read(path)": (
        "from_df",
        "from_raw",
        "from_records",
    ),
    "ipseval.split_random, split_temporal, split_leave_one_out or split_global_time": (
        "train_test_split",
        "split",
        "random_split",
        "ratiosplit",
        "leave_k_out_split",
        "leave_last_k",
        "last_n",
        "python_random_split",
        "python_chrono_split",
        "python_stratified_split",
        "crossfold",
        "sample_users",
        "sample_records",
        "kfold",
        "timeseriessplit",
        "timerangesplitter",
        "randomsplitter",
        "cross_validation",
        "split_log",
    ),
    "ipseval.evaluate(models, split)": (
        "experiment",
        "calc_metrics",
        "ranking_metrics_at_k",
        "run_recbole",
        "quick_start",
        "runanalysis",
        "score",
        "benchmark",
        "calc_aggregate",
        "iter_calc",
        "cross_validate",
        "evaluate_model",
        "cross_val_score",
        "evaluator",
    ),
    'a metric by its label, as in metrics=["ndcg@10", "recall@10"]': (
        "ndcg",
        "ndcg_at_k",
        "map",
        "map_at_k",
        "precision",
        "precision_at_k",
        "recall",
        "recall_at_k",
        "auc_at_k",
        "auc",
        "mrr",
        "hit_rate",
        "hitrate",
        "mean_average_precision_at_k",
        "mapk",
        "rmse",
        "roc_auc_score",
        "ndcg_score",
    ),
    'the cutoff in the label, as in metrics=["recall@10"]': (
        "k",
        "ks",
        "topk",
        "top_n",
        "cutoff",
        "n",
        "at_k",
    ),
    'propensity="power-law:gamma=0"': (
        "propensities",
        "gamma",
        "power",
        "eta",
        "alpha_pop",
        "popularity_exponent",
    ),
    'estimators=["snips-global", "ips"] of ipseval.evaluate': (
        "snips",
        "ips",
        "ipw",
        "inverseprobabilityweighting",
        "selfnormalizedinverseprobabilityweighting",
        "self_normalized",
    ),
    "ipseval.policies.evaluate_policies(log, policies)": (
        "offpolicyevaluation",
        "evaluate_policies",
        "directmethod",
        "doublyrobust",
        "ope",
    ),
    "ipseval.Lists(…), or ipseval.read_lists(path)": (
        "recommendations",
        "run",
        "itemlist",
        "top_k",
        "predictions",
    ),
    "ipseval.read(path), or ipseval.Split.from_frames(train, qrels) for judgements as the test part": (
        "qrels",
    ),
    "ipseval.PowerLawPropensity, or another class of ipseval.propensity": (
        "power_law",
        "power_law_propensity",
        "propensity_score",
        "powerlaw",
        "estimate_propensity",
        "propensity_model",
    ),
    "propensity=ipseval.ImpressionPropensity(log=ipseval.read(impressions))": (
        "from_impressions",
        "impressions",
        "impression_propensity",
        "examination",
        "position_bias",
    ),
    "candidates=ipseval.SampledCandidates(100)": (
        "sampled_negatives",
        "n_negatives",
        "num_negatives",
        "negatives",
        "neg_sampling",
    ),
    "ipseval.Evaluation.load(path)": (
        "load_evaluation",
        "load_result",
        "load_results",
        "from_json",
        "from_pickle",
    ),
    "evaluation.compare(), where evaluation = ipseval.evaluate(models, split)": ("compare",),
    "evaluation.compare()": (
        "ttest",
        "paired_test",
        "significance_test",
        "pairwise",
        "stat_test",
        "wilcoxon",
        "compare_models",
        "significance",
    ),
    "evaluation.per_user(model, metric, estimator)": (
        "user_values",
        "user_metrics",
        "per_user_values",
    ),
    "evaluation.sensitivity(gamma=…)": (
        "gammas",
        "gamma_sweep",
        "sweep",
    ),
    "ipseval.correction": ("correction",),
    "rng=": (
        "seed",
        "random_state",
        "random_seed",
        "np_random",
    ),
    "test_fraction=": (
        "test_size",
        "test_ratio",
        "frac",
        "ratio",
        "train_size",
        "share",
    ),
    "confidence_level=": (
        "level",
        "ci",
        "conf",
        "alpha",
        "confidence",
    ),
    "n_resamples=": (
        "n_boot",
        "n_bootstrap",
        "bootstrap",
        "n_samples",
    ),
    "compute=ipseval.ComputeOptions(…)": (
        "n_jobs",
        "num_threads",
        "n_threads",
        "n_workers",
        "workers",
        "batch_size",
        "block_size",
        "max_memory",
        "engine",
        "progress",
        "verbose",
        "show_progress",
    ),
    "user= (and item=) for the name of a column": (
        "user_col",
        "col_user",
        "user_column",
        "users_col",
        "uid",
        "user_id",
    ),
    "value=": (
        "rating",
        "ratings",
        "col_rating",
        "rating_col",
    ),
    "timestamp=": (
        "time_col",
        "col_timestamp",
        "time",
        "datetime",
        "ts",
        "date",
    ),
    "ipseval.read(log, threshold=…) for the log": ("threshold",),
    "threshold= of ipseval.read": (
        "min_rating",
        "positive_threshold",
        "relevance_threshold",
        "binarize",
    ),
    'seen="include"': (
        "exclude_seen",
        "exclude_unknowns",
        "filter_seen",
        "filter_viewed",
        "filter_already_liked_items",
        "remove_seen",
    ),
    "baselines of ipseval.baselines, or your own scorer": (
        "model",
        "algo",
        "algorithm",
        "recommender",
    ),
    ".frame, a data frame": (
        "to_frame",
        "to_df",
        "to_pandas",
        "to_dataframe",
        "df",
        "table",
        "results",
        "as_frame",
        "dataframe",
        "scores",
    ),
    "print(…), or .explain()": (
        "summary",
        "describe",
        "report",
        "show",
        "info",
    ),
    ".leader, or .verdict": (
        "best",
        "winner",
        "best_model",
        "best_estimator_",
        "best_params_",
        "leaderboard",
        "ranking",
    ),
    '.by("popularity")': (
        "groupby",
        "group_by",
        "segment",
        "slices",
        "breakdown",
    ),
    ".to_csv(path), .to_html(path) or .save(path)": (
        "to_excel",
        "to_pickle",
        "dump",
        "to_parquet",
        "write",
    ),
    "ipseval.datasets.load_movielens(path)": (
        "load_ml100k",
        "load_ml_100k",
        "load_ml1m",
        "load_movielens_100k",
        "load_builtin",
        "movielens",
    ),
    "baselines.popularity(train), item_knn, ease, pure_svd or random": (
        "popularity",
        "mostpop",
        "pop",
        "toppop",
        "itemknn",
        "poprec",
        "ease_r",
        "svd",
    ),
    "separator=": (
        "sep",
        "delimiter",
    ),
    ".to_frame()": (
        "frame",
        "head",
        "tail",
    ),
    "ipseval.simulation.World": (
        "world",
        "simulate",
        "simulator",
    ),
    "n_above + 1": (
        "ranks",
        "rank",
    ),
    ".frame or .to_json()": (
        "to_dict",
        "asdict",
        "as_dict",
    ),
    ".frame, in the columns claim and note": (
        "claims",
        "claim",
        "warnings",
        "notes",
    ),
    ".plot()": (
        "plot_metrics",
        "draw",
        "chart",
        "plot",
    ),
    ".to_html(path)": (
        "html",
        "save_html",
        "to_report",
    ),
    ".frame, in the columns ci_low, ci_high, std_error": (
        "confidence_intervals",
        "conf_intervals",
        "conf_int",
        "confidence_interval",
        "stderr",
        "std",
        "bse",
        "pvalues",
        "params",
        "pvalue",
    ),
    ".train and .test": (
        "training",
        "testing",
        "train_set",
        "test_set",
        "trainset",
        "testset",
    ),
    ".user and .item (codes), .user_ids and .item_ids": (
        "users",
        "items",
        "user_map",
        "item_map",
        "uid_map",
        "iid_map",
    ),
    ".to_csr()": (
        "to_sparse",
        "to_coo",
        "csr_matrix",
        "user_items",
        "tocsr",
        "to_scipy",
        "matrix",
        "shape",
    ),
    "ipseval.data.splits.k_core(log, 5)": (
        "filter_k_core",
        "kcore",
        "core",
        "min_interactions",
        "min_support",
    ),
    "ipseval.read(path) for a log, or ipseval.Evaluation.load(path) for a result": ("load",),
    "ipseval.split_temporal(log), or split_global_time": (
        "split_time",
        "time_split",
        "temporal_split",
        "chrono_split",
    ),
    "ipseval.correct(models, split, random_exposure=…), with ipseval.RandomExposure.from_frame(frame, split)": (
        "random_exposure",
        "random",
        "random_log",
        "exposure",
    ),
    "one frame whose column model or Algorithm names them: ipseval.evaluate(frame, train=train, test=test)": (
        "model_column",
        "model_col",
        "algorithm_column",
    ),
    "evaluation.compare(), in the columns difference and p_value": (
        "p_value",
        "p_values",
        "ttest_rel",
    ),
    "ipseval.plan_exposure(ipseval.correct(models, split))": ("plan",),
    "evaluation.by(groups), where evaluation = ipseval.evaluate(models, split)": (
        "groups",
        "group",
        "user_group",
        "item_group",
    ),
    "ipseval.PowerLawPropensity(gamma='fit', exposure=ipseval.RandomExposure.from_frame(frame, split))": (
        "estimate_gamma",
        "gamma_from_exposure",
    ),
    "layout=, or leave it out, because the content decides": (
        "format",
        "file_format",
        "fmt",
    ),
    "clicked= for clicks, or value= for grades": (
        "label",
        "label_col",
    ),
    "ipseval.testing.gate(evaluation, candidate=…, incumbent=…)": (
        "assert_not_worse",
        "gate",
        "assert_better",
    ),
    "ipseval.propensity.ExaminationModel().fit(ipseval.read(impressions))": (
        "position",
        "position_propensity",
        "examination_model",
    ),
    "ipseval.evaluate({'run': run}, train=train, test=qrels), or split=ipseval.Split.from_frames(None, qrels) "
    "where there is no training log": (
        "evaluate_run",
        "evaluate_runs",
        "evaluate_lists",
        "evaluate_qrels",
    ),
    "ipseval.evaluate({'model': (model, dataset)}, train=train, test=test), with the data set it was trained on": (
        "recbole",
        "rectools",
        "lightfm",
    ),
    "ipseval.evaluate({'model': model}, train=train, test=test), which takes the trained model itself": (
        "cornac",
        "lenskit",
        "surprise",
    ),
    "ipseval.read(frame, clicked=…, propensity=…), or ipseval.datasets.load_open_bandit(path)": (
        "from_obp",
        "load_obp",
        "from_bandit_feedback",
    ),
}
REPLACEMENTS = {name: replacement for replacement, names in NAMES_BY_REPLACEMENT.items() for name in names}


def suggest_replacement(name: object) -> str:
    """Return a sentence with the replacement for a name of another library, and "" for other names."""
    replacement = REPLACEMENTS.get(str(name).strip("-=").replace("-", "_").lower(), "")
    if not replacement:
        return ""
    return f"Use {replacement}."


# Options of other libraries whose values mean the same here.
OWN_OPTIONS = {
    "value": ("rating", "ratings", "col_rating", "rating_col", "rating_column"),
    "timestamp": ("time", "datetime", "ts", "date", "time_col", "col_timestamp", "timestamp_col"),
    "user": ("user_col", "col_user", "user_column", "users_col", "uid", "user_id", "usercol", "user_field"),
    "item": ("item_col", "col_item", "item_column", "items_col", "iid", "item_id", "itemcol", "item_field"),
    "clicked": ("label", "label_col", "click", "clicks"),
    "rng": ("seed", "random_state", "random_seed", "np_random"),
    "test_fraction": ("test_size", "test_ratio"),
    "confidence_level": ("confidence", "level", "ci", "conf"),
    "metrics": ("metric",),
    "estimators": ("estimator",),
    "propensity": ("propensities",),
    "separator": ("sep", "delimiter"),
    "gamma": ("gammas",),
    "reference": ("baseline", "control"),
}
OWN_OPTION_BY_NAME = {name: option for option, names in OWN_OPTIONS.items() for name in names}


# What to use for an unknown option of one function; "" stands for all options without a line of their own.
SIZES = "n_users=[100, 400], n_items=[10, 20], positive_share=0.05"
LOG_PLAN = f"ipseval.plan_exposure(ipseval.correct(models, split), {SIZES})"
METRIC_PLAN = f"ipseval.plan_exposure(ipseval.correct(models, split, metrics=['recall@10']), {SIZES})"
SPLIT = ", where split = ipseval.Split.from_frames(train, test)"
EXPOSURE = "ipseval.RandomExposure.from_frame(frame, split)"
FITTED_GAMMA = f"propensity=ipseval.PowerLawPropensity(gamma='fit', exposure={EXPOSURE})"
CALLS_BY_FUNCTION = {
    "evaluate": {
        "unknown": "ipseval.read_lists(path, unknown='drop') or ipseval.Lists(frame, unknown='drop') as a model"
    },
    "plan_exposure": {
        "": LOG_PLAN + SPLIT,
        "metric": METRIC_PLAN + SPLIT,
        "metrics": METRIC_PLAN + SPLIT,
        "difference": f"the column smallest_difference of {LOG_PLAN}{SPLIT}",
    },
    "PowerLawPropensity.fit": {"random_exposure": FITTED_GAMMA, "exposure": FITTED_GAMMA},
}


def suggest_call(function: str, option: str, options: Collection[str]) -> str:
    """Return a sentence with the call to use for an unknown option of a function, "" if there is none.

    A misspelt option, which resembles one of `options`, is left to the list of similar names.
    """
    calls = CALLS_BY_FUNCTION.get(function, {})
    if option in calls:
        return f"Use {calls[option]}."
    if "" not in calls or difflib.get_close_matches(option, options, n=1, cutoff=SIMILAR_OPTION):
        return ""
    return f"Use {calls['']}."


SIMILAR_OPTION = 0.8  # similarity from which an unknown option counts as misspelt


def suggest_own_option(name: str, value: object, options: Collection[str]) -> str:
    """Return a sentence with an option of the same meaning and its value, "" if the function has none.

    `options` are the options of the function.
    """
    option = OWN_OPTION_BY_NAME.get(name.lower(), "")
    is_short = isinstance(value, (str, int, float, list, tuple)) and len(repr(value)) <= LONGEST_VALUE
    if option not in options or not is_short:
        return ""
    return f"Use {option}={value!r}."


LONGEST_VALUE = 60  # characters of a value that is repeated in an error

# Options of the functions that read data, which are often passed to functions that take data.
OPTIONS_OF_READERS = frozenset({"user", "item", "value", "timestamp", "duplicates", "validation", "overlap"})


def suggest_option(name: str, value: object = None) -> str:
    """Return a sentence with the replacement for an unknown option, and "" for other names."""
    if name in OPTIONS_OF_READERS:
        text = repr(value) if isinstance(value, str) else "…"
        return (
            f"Use ipseval.Split.from_frames(train, test, {name}={text}), or ipseval.read(frame, {name}={text}) for a "
            "log."
        )
    return suggest_replacement(name)
