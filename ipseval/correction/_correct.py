"""correct(): recommenders, split and whatever random exposure there is in; corrected estimates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval._base.checks import check_fraction, check_models, check_type
from ipseval._base.compute import DEFAULT_COMPUTE, ComputeOptions, one_blas_thread
from ipseval._base.ids import among, distinct, union
from ipseval._base.types import FloatArray, IntArray, Missing, RngLike, TieChoice
from ipseval.correction._anchors import Anchors, check_known
from ipseval.correction._difference import difference_totals, pairs_to_predict, ratio
from ipseval.correction._path import CorrectionPath, averages, path_with_odds
from ipseval.correction._posterior import RandomSample, posterior
from ipseval.correction._prior import CorrectionPrior
from ipseval.correction._result import Correction, OrderPosterior
from ipseval.data._evidence import Evidence, RandomExposure, check_evidence
from ipseval.data._interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.metrics import Metric
from ipseval.metrics.sampled._metric import requested_metrics
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking._comparable import check_lists, check_same_positives, resolve_missing
from ipseval.ranking._ranked import ALL_ITEMS

DEFAULT_METRICS = ("recall@10", "mean_dcg@10")


def correct(
    models: Mapping[str, Any],
    split: Split,
    *,
    evidence: Evidence | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    prior: CorrectionPrior | None = None,
    missing: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Correction:
    """Return corrected estimates, with intervals that carry what is not known about the propensity.

    θ(α) = Σ odds^−α c/Σ odds^−α over the held-out positives, where the odds tell them from uniform pairs:
    by popularity and the user's profile, or by popularity alone.
    α, the correction strength, is the part of the log's concentration that is exposure. It has a prior;
    the plain mean of random exposure updates it and pulls the estimates to itself, the more the larger it is.
    The target is the pooled mean: over all relevant pairs outside training.

    Parameters
    ----------
    models : mapping
        Name -> scorer or trained model, as in `evaluate`.
    split : Split
    evidence : Evidence, optional
        Pairs shown at random, and every pair of the log, liked or not; None: the log alone.
    metrics : labels or objects
        Averages over relevant items: atop, recall@k, mean_dcg@k.
    prior : CorrectionPrior, optional
    missing, ties, compute
        As in `evaluate`.
    confidence_level : float
        In (0, 1).
    rng : int, Generator or None
        Draws the uniform pairs that the odds are fitted on.

    Raises
    ------
    InputError
        For other metrics, and exposure in another id space.

    Examples
    --------
    >>> from ipseval.validation.simulation import World
    >>> world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> found = correct(models, split, metrics=["recall@10"], rng=3).frame
    >>> found["estimator"].tolist()
    ['aoa-pooled', 'corrected']
    >>> bool(found["estimate"][1] < found["estimate"][0])
    True
    """
    check_models(models, "models", "scorer")
    check_type("split", split, Split, " Make it with split_random or Split.from_frames.")
    split.check_seen_excluded("the correction")
    check_fraction("confidence_level", confidence_level)
    known = check_evidence(evidence)
    asked = averages(requested_metrics(metrics))  # before the ranking, which may take hours
    check_known(known, models, [one.label for one in asked])
    ranks = rank_with_exposure(models, split, known.exposure, compute=compute)
    depth = max(one.cutoff or 1 for one in asked)
    given = resolve_missing(ranks.all, missing, depth)
    first = next(iter(given.values()))
    n_left_out = 0 if first.left_out is None else int(first.left_out.sum())
    check_lists({name: one.list_counts(depth) for name, one in given.items()}, missing, n_left_out)
    return correct_ranks(
        replace(ranks, all=given),
        split,
        evidence=known,
        metrics=asked,
        prior=prior,
        ties=ties,
        confidence_level=confidence_level,
        rng=rng,
    )


@dataclass(frozen=True, eq=False)
class ExposedRanks:
    """Held-out positives, what was shown at random, and candidates of the exposed users, ranked in one pass.

    Attributes
    ----------
    all : dict of name to RankedPositives
    test, random : (n,) int arrays
        Keys of the held-out positives, and of the random ones outside training.
    shown : RandomExposure or None
    drawn : (n,) int array
        Keys of candidates of the exposed users, to which predictions are compared.
    """

    all: dict[str, RankedPositives]
    test: IntArray
    random: IntArray
    shown: RandomExposure | None
    drawn: IntArray

    def of(self, keys: IntArray) -> dict[str, RankedPositives]:
        """Return the ranks of the positives with these keys."""
        first = next(iter(self.all.values()))
        chosen = among(first.user * np.int64(first.item_ids.size) + first.item, keys)
        return dict(self.all) if chosen.all() else {n: one.select(chosen) for n, one in self.all.items()}


def rank_with_exposure(
    models: Mapping[str, Any], split: Split, exposure: RandomExposure | None, **options: Any
) -> ExposedRanks:
    """Return the ranks of `split.test` and of random positives; `options` as of `rank_positives`."""
    test = split.test.pair_key
    key: IntArray = np.zeros(0, dtype=np.int64)
    if exposure is None:
        ranks = {name: rank_positives(one, split, name=name, **options) for name, one in models.items()}
        check_same_positives(ranks)
        return ExposedRanks(ranks, test, key, None, key)
    exposure.check_ids(split, "split")
    shown = exposure.without(split.excluded)
    random, drawn = shown.pair_key[shown.positive], pairs_to_predict(shown, split)
    key = union(shown.pair_key, drawn)
    both = replace(split, test=_pairs(union(test, key), split))
    ranks = {name: rank_positives(one, both, name=name, **options) for name, one in models.items()}
    check_same_positives(ranks)
    first = next(iter(ranks.values()))
    key = first.user * np.int64(split.n_items) + first.item
    if not np.array_equal(key, both.test.pair_key):
        raise InputError(
            "ranks that were made before must be of the positives of split.test and of the exposure alike; "
            "pass the scorers, or use correction_path and correct_path."
        )
    return ExposedRanks(ranks, test, random, shown, drawn)


def correct_ranks(
    ranks: ExposedRanks,
    split: Split,
    *,
    metrics: Sequence[Metric],
    evidence: Evidence | None = None,
    prior: CorrectionPrior | None = None,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    rng: RngLike = None,
) -> Correction:
    """Return the correction of what was ranked; parameters as in `correct`. Exposure is that of the ranks.

    Without interactions, those are the impressions that the positives come from.
    """
    interactions, log = check_evidence(evidence).interactions, split.train.impressions
    if interactions is None and log is not None:
        shown = distinct(log.pair_key)
        positive = among(shown, split.test.pair_key) | among(shown, split.excluded.pair_key)
        interactions = None if positive.all() else _pairs(shown, split)
    path, odds_of = path_with_odds(ranks.of(ranks.test), split, metrics, interactions, ties, rng)
    found = correct_path(
        path,
        ranks.of(ranks.random),
        exposure=ranks.shown,
        evidence=evidence,
        prior=prior,
        confidence_level=confidence_level,
    )
    if found.sample is None or ranks.shown is None or ranks.shown.weight is not None:
        return found
    both = ranks.of(union(ranks.shown.pair_key, ranks.drawn))
    with one_blas_thread():
        totals = difference_totals(both, ranks.shown, ranks.drawn, split, path.metrics, ties, odds_of)
        return replace(found, difference=ratio(*totals[1:]))


MOST_CELLS, MOST_MODELS = 64, 20  # recommenders × metrics whose order is computed; beyond


def posterior_orders(
    ranks: ExposedRanks, split: Split, metrics: Sequence[Metric], plain: Mapping[str, float], **options: Any
) -> dict[str, OrderPosterior] | str:
    """Return metric -> what the log says of the order, or why it says nothing, in words.

    Of more than 64 recommenders × metrics, the first metric and the twenty recommenders with the highest
    `plain` average. The draws are those of one seed, so that an order is the same in every run.
    """
    first = next(iter(ranks.all.values()))
    found = {one: one.contributions(first) for one in metrics if one.kind == "mean"}
    known = {one: values for one, values in found.items() if values is not None}
    if not known:
        return "no metric is an average over relevant items"
    metrics = [one for one, values in known.items() if np.isfinite(values).all()]
    if not metrics:
        return "no metric is defined for every user"
    if first.candidates != ALL_ITEMS:
        return "not all items compete"
    if split.seen == "include":
        return "training items compete, too"
    if not len(split.train):
        return "there are no training interactions"
    given = ranks.all
    if len(metrics) * len(given) > MOST_CELLS:
        highest = sorted(given, key=lambda name: -plain[name])[:MOST_MODELS]
        given, metrics = {name: one for name, one in given.items() if name in highest}, metrics[:1]
    return correct_ranks(replace(ranks, all=given), split, metrics=metrics, rng=0, **options).orders()


def correct_path(
    path: CorrectionPath,
    random: Mapping[str, RankedPositives] | None = None,
    *,
    exposure: RandomExposure | None = None,
    evidence: Evidence | None = None,
    prior: CorrectionPrior | None = None,
    confidence_level: float = 0.95,
) -> Correction:
    """Return what a path and random exposure say together; without a positive the prior stands alone.

    Parameters
    ----------
    path : CorrectionPath
    random : mapping, optional
        Name -> ranks of the random-exposure positives outside training, by the recommenders of the path.
    exposure : RandomExposure, optional
        What they come from: it gives their weights, and counts to the report and the planner.
    evidence : Evidence, optional
        Of which only the known values are read: the rest is in `path` and `random`.
    prior, confidence_level
        As in `correct`.
    """
    check_fraction("confidence_level", confidence_level)
    prior = CorrectionPrior() if prior is None else prior
    check_type("prior", prior, CorrectionPrior)
    if exposure is not None:
        check_type("exposure", exposure, RandomExposure, "Pass RandomExposure.from_frame(frame, split).")
    sample = None
    if random is not None:
        if list(random) != list(path.models):
            raise InputError(f"random must rank by {list(path.models)}, in this order; got {list(random)}.")
        if len(next(iter(random.values()))):
            check_same_positives(random)
            sample = RandomSample.of(random, path, _weights(next(iter(random.values())), exposure))
    found, known, anchors = posterior(path, prior, sample), check_evidence(evidence), None
    if known.anchors:
        anchors = Anchors.of(known, path, found.total_mean)
        found = posterior(path, prior, sample, anchors)
    return Correction(path, prior, sample, found, exposure, confidence_level, anchors=anchors)


def _weights(random: RankedPositives, exposure: RandomExposure | None) -> FloatArray | None:
    """Return the weights of ranked random positives, the largest 1; None where all pairs count alike."""
    if exposure is None or exposure.weight is None:
        return None
    key = random.user * np.int64(exposure.n_items) + random.item
    order = np.argsort(exposure.pair_key)
    weight = exposure.weight[order[np.searchsorted(exposure.pair_key, key, sorter=order)]]
    return np.asarray(weight / weight.max())


def _pairs(key: IntArray, split: Split) -> Interactions:
    return Interactions(key // split.n_items, key % split.n_items, split.user_ids, split.item_ids)
