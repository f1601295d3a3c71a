"""Every exception and warning that ipseval raises."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DataWarning",
    "IdentificationWarning",
    "InputError",
    "IpsevalError",
    "PositivityWarning",
    "Problem",
    "ProblemsError",
    "PropensityError",
    "UnknownNameError",
]


class IpsevalError(Exception):
    """Base of every error that ipseval raises on purpose."""


class InputError(IpsevalError, ValueError):
    """Input that cannot be used; the text says what was expected, what came and what to do."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input, and the way out.

    Attributes
    ----------
    what : str
        What is wrong, how often, and where first; one sentence without its full stop.
    way_out : str
        What to do. Options stand in braces, ``{duplicates=drop}`` or ``{user}``, and are phrased in the words
        of the caller.
    """

    what: str
    way_out: str = ""

    def said(self, *, as_options: bool = False) -> str:
        """Return the sentences, with arguments of Python or options of the command line.

        Examples
        --------
        >>> repeats = Problem("3 rows repeat a pair", "Pass {duplicates=drop} to keep the first")
        >>> repeats.said()
        "3 rows repeat a pair. Pass duplicates='drop' to keep the first."
        >>> repeats.said(as_options=True)
        '3 rows repeat a pair. Pass --duplicates drop to keep the first.'
        """
        return self._phrased(_option if as_options else _argument)

    def _phrased(self, phrase: Callable[[str, str | None], str]) -> str:
        way_out = re.sub(r"\{(\w+)(?:=([^}]*))?\}", lambda found: phrase(found[1], found[2]), self.way_out)
        return f"{self.what}. {way_out}." if way_out else f"{self.what}."


def _argument(name: str, value: str | None) -> str:
    if value is None:
        return f"{name}="
    return f"{name}={value if value in ('True', 'False', '…') else repr(value)}"


# Arguments whose option has another name, as the option of that name means something else.
_RENAMED = {"propensity": "propensity-column", "missing": "incomplete"}


def _option(name: str, value: str | None) -> str:
    if value in ("True", "False"):
        return f"--{'' if value == 'True' else 'no-'}{name}"
    option = f"--{_RENAMED.get(name, name).replace('_', '-')}"
    return option if value is None else f"{option} {value}"


def _option_of_lists(name: str, value: str | None) -> str:
    """Return an option of a file of lists, whose columns are named behind the file."""
    return f"FILE:{name}=COLUMN" if value in (None, "…") else _option(name, value)


class ProblemsError(InputError):
    """Everything that is wrong with one input, at once: each problem with its count, examples and way out.

    Attributes
    ----------
    source : str
        What was read.
    problems : tuple of Problem
    takes_options : str
        What takes the options that the ways out name, where that is not what was called.
    """

    def __init__(self, source: str, problems: Iterable[Problem], takes_options: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        self.takes_options = takes_options
        super().__init__(self.said())

    def said(self, *, as_options: bool = False) -> str:
        """Return the whole text, with arguments of Python or options of the command line."""
        option = _option_of_lists if "Lists" in self.takes_options else _option
        said = [one._phrased(option if as_options else _argument) for one in self.problems]
        optional = self.takes_options and not as_options and any("{" in one.way_out for one in self.problems)
        taker = f"Options go to {self.takes_options}." if optional else ""
        if len(said) == 1:
            return f"{self.source}: {said[0]} {taker}".rstrip()
        listed = "".join(f"\n  {place}. {text}" for place, text in enumerate(said, 1))
        have = "have" if self.source.endswith("lists") else "has"
        return f"{self.source} {have} {len(said)} problems:{listed}" + (f"\n{taker}" if taker else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.problems, self.takes_options)


class PropensityError(InputError):
    """A propensity that is out of range, missing, or not on the scale that an estimator needs."""


# What ipseval has: what other libraries call it, in lower case.
PEERS = """
ipseval.read(path): load load_csv load_data load_frame from_csv from_pandas from_dataframe read_csv
  read_parquet open dataset construct from_uir from_interactions_df
Interactions.from_frame(frame), or ipseval.read(path): from_df from_raw from_records
ipseval.split_random, split_temporal, split_leave_one_out or split_global_time: train_test_split split
  random_split ratiosplit leave_k_out_split leave_last_k last_n python_random_split python_chrono_split
  python_stratified_split crossfold sample_users sample_records kfold timeseriessplit timerangesplitter
  randomsplitter cross_validation split_log
ipseval.evaluate(models, split): experiment calc_metrics ranking_metrics_at_k run run_recbole quick_start
  runanalysis score benchmark calc_aggregate iter_calc cross_validate evaluate_model cross_val_score
a metric by its label, as in metrics=["ndcg@10", "recall@10"]: ndcg ndcg_at_k map map_at_k precision
  precision_at_k recall recall_at_k auc_at_k auc mrr hit_rate hitrate mean_average_precision_at_k mapk rmse
  roc_auc_score ndcg_score
the cutoff in the label, as in metrics=["recall@10"]: k ks topk top_n cutoff n at_k
propensity="power-law:gamma=0": propensities gamma power eta alpha_pop popularity_exponent
estimators=["snips-global", "ips"] of ipseval.evaluate: snips ips ipw inverseprobabilityweighting
  selfnormalizedinverseprobabilityweighting self_normalized
ipseval.policies.evaluate_policies(log, policies): offpolicyevaluation evaluate_policies directmethod
  doublyrobust ope
ipseval.Lists(…), or ipseval.read_lists(path): recommendations qrels itemlist top_k predictions
ipseval.PowerLawPropensity, or another class of ipseval.propensity: propensity_score powerlaw
  estimate_propensity propensity_model
ipseval.Evaluation.load(path): load_evaluation load_result load_results from_json from_pickle
evaluation.compare(): ttest paired_test significance_test pairwise stat_test wilcoxon compare_models
evaluation.sensitivity(gamma=…): gamma_sweep sweep
ipseval.inference.correction: correction
rng=: seed random_state random_seed np_random
test_fraction=: test_size test_ratio frac ratio train_size share
confidence_level=: level ci conf alpha confidence
n_resamples=: n_boot n_bootstrap bootstrap n_samples
compute=ipseval.ComputeOptions(…): n_jobs num_threads n_threads n_workers workers batch_size block_size
  max_memory engine progress verbose show_progress
user= (and item=) for the name of a column: user_col col_user user_column users_col uid user_id
value=: rating ratings col_rating rating_col
timestamp=: time_col col_timestamp time datetime ts date
threshold= of ipseval.read: min_rating positive_threshold relevance_threshold binarize
seen="include": exclude_seen exclude_unknowns filter_seen filter_viewed filter_already_liked_items
  remove_seen
baselines of ipseval.baselines, or your own scorer: model algo algorithm recommender
.frame, a data frame: to_frame to_df to_pandas df table results as_frame dataframe
print(…), or .explain(): summary describe report show info
.verdict, in words: best winner best_model best_estimator_ best_params_ leaderboard ranking
.by("popularity"): groupby group_by segment slices breakdown
.to_csv(path), .to_html(path) or .save(path): to_excel to_pickle dump to_parquet write
ipseval.datasets.load_movielens(path): load_ml100k load_ml_100k load_ml1m load_movielens_100k load_builtin
  movielens
baselines.popularity(train), item_knn, ease, pure_svd or random: popularity mostpop pop toppop itemknn
  poprec ease_r svd
separator=: sep delimiter
.to_frame(): frame head tail
ipseval.simulation.World: world simulate simulator
n_above + 1: ranks rank
.frame or .to_json(): to_dict asdict as_dict
.frame, in the columns claim and note: claims claim warnings notes
.plot(): plot_metrics draw chart plot
.to_html(path): html save_html to_report
.frame, in the columns ci_low, ci_high, std_error: conf_int confidence_interval stderr std bse pvalues
  params pvalue
.train and .test: training testing train_set test_set trainset testset
.user and .item (codes), .user_ids and .item_ids: users items user_map item_map uid_map iid_map
.to_csr(): to_sparse to_coo csr_matrix user_items tocsr to_scipy matrix shape
ipseval.data.splits.k_core(log, 5): filter_k_core kcore core min_interactions min_support
"""
_ENTRIES = [one.rsplit(": ", 1) for one in PEERS.strip().replace("\n  ", " ").split("\n")]
_HERE = {name: here for here, names in _ENTRIES for name in names.split()}


def hint(name: object) -> str:
    """Return what to use in place of a name of another library, in a sentence; "" for others."""
    here = _HERE.get(str(name).strip("-=").replace("-", "_").lower(), "")
    return f"Use {here}." if here else ""


class UnknownNameError(InputError):
    """A name that is not registered; the text lists the choices and suggests the nearest, or `advice`."""

    def __init__(self, what: str, name: object, choices: Iterable[str], advice: str = "") -> None:
        known = sorted(choices)
        by_case = {one.casefold(): one for one in known}
        near = [] if advice else difflib.get_close_matches(str(name).casefold(), by_case, n=1)
        hint = f" Did you mean {by_case[near[0]]!r}?" if near else f" {advice}" if advice else ""
        listed = ", ".join(known) if known else "none"
        super().__init__(f"unknown {what} {name!r}.{hint} Choices: {listed}.")
        self.what = what
        self.name = name
        self.choices = tuple(known)
        self.advice = advice

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their text alone; a pool of processes hangs on one that cannot be.
        return type(self), (self.what, self.name, self.choices, self.advice)


class DataWarning(UserWarning):
    """Something in the data limits what the result can say."""


class PositivityWarning(UserWarning):
    """Some positives have little or no chance to be observed: weights are large or missing."""


class IdentificationWarning(UserWarning):
    """The data do not identify the quantity that was asked for without a further assumption."""
