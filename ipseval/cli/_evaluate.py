"""`ipseval evaluate`: recommenders on one split, every metric by every estimator."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._command import Command
from ipseval.cli._inputs import (
    column_of,
    compute_options,
    exposure_of,
    groups_of,
    labels,
    models_of,
    propensity_of,
    work_of,
)
from ipseval.cli._output import check_out, deliver
from ipseval.cli._vectors import vectors_of
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    _options.add_log(parser, parts=True)
    _options.add_split(parser)
    _options.add_models(parser)
    _options.add_propensity(parser)
    _options.add_metrics(parser, "ndcg@10,recall@10")
    _options.add_estimation(parser)
    _options.add_compute(parser)
    _options.add_output(parser)
    _options.add_explain(parser)
    _options.add_config(parser)


def _run(options: argparse.Namespace) -> int:
    from ipseval.evaluation import evaluate

    check_out(options)
    work = work_of(options)
    split = work.split
    beyond = labels(options.beyond)
    allowed = None if options.allowed_items is None else column_of(options.allowed_items, "item", options)
    result = evaluate(
        models_of(options, split),
        split,
        propensity=propensity_of(options, split, work.exposures),
        exposure=exposure_of(options, split),
        metrics=labels(options.metrics) or [],
        estimators=labels(options.estimators),
        candidates=_candidates(options),
        missing=options.missing,
        ties=options.ties,
        confidence_level=options.confidence_level,
        n_relevant=options.n_relevant,
        on_low_ess=options.on_low_ess,
        interval=options.interval,
        n_resamples=options.n_resamples,
        rng=options.seed,
        progress=False if options.quiet else None,
        allowed_items=allowed,
        by=groups_of(options),
        beyond=beyond,
        item_vectors=vectors_of(options, split, beyond),
        compute=compute_options(options),
    )
    deliver(result, options)
    return 0


def _candidates(options: argparse.Namespace) -> Any:
    from ipseval.ranking import SampledCandidates

    if options.candidates == "all":
        return "all"
    if not options.candidates.isdigit():
        raise InputError(f"--candidates is 'all' or a number of sampled items; got {options.candidates!r}.")
    return SampledCandidates(int(options.candidates), rng=options.seed)


COMMAND = Command(
    name="evaluate",
    summary="evaluate recommenders on your log, or on a split made elsewhere",
    description=(
        "Print how good recommenders are on held-out positives: the plain average beside the weighted one,\n"
        "with intervals, and what is claimed of each. Without --model the built-in baselines are evaluated."
    ),
    examples=(
        "ipseval evaluate clicks.csv --gamma 0",
        "ipseval evaluate log.parquet --split temporal --model mine=lists.parquet --model popularity "
        "--out page.html",
        "ipseval evaluate --train train.csv --test test.csv --model als=scores.npy --metrics recall@20,auc",
    ),
    add=_add,
    run=_run,
)
