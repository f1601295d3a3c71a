"""Commands `evaluate`, which evaluates recommenders on a split, and `split`, which splits a log into files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipseval.cli import _options
from ipseval.cli._about import list_metrics
from ipseval.cli._files import load_column, load_item_vectors
from ipseval.cli._inputs import (
    build_compute_options,
    build_propensity,
    load_groups,
    load_models,
    load_split,
    split_labels,
)
from ipseval.cli._options import Command
from ipseval.cli._output import TABLES, check_out, deliver_result, print_text, write_table
from ipseval.errors import InputError
from ipseval.utils.checks import format_count

IMPRESSION_NOTE = (
    "The log states what was shown, so clicks are weighted. If a recommender showed its best items, pass --estimators "
    "aoa-pooled instead (docs/exposure-logs.md#which-log-do-you-have)."
)


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the metrics, and the option that lists them."""
    _options.add_metrics(parser)
    parser.add_argument(
        "--list-metrics",
        nargs="?",
        const="",
        metavar="LABELS",
        help="print the available metrics, or the definitions of some, and exit",
    )


def _run_evaluate(options: argparse.Namespace) -> int:
    from ipseval.evaluation import evaluate
    from ipseval.evaluation.beyond import beyond_accuracy

    if options.list_metrics is not None:
        list_metrics(split_labels(options.list_metrics) or [])
        return 0
    check_out(options)
    split, impressions = load_split(options)
    measures = split_labels(options.beyond)
    groupings = load_groups(options)
    item_vectors = load_item_vectors(options, split)
    models = load_models(options, split)
    candidates = _parse_candidates(options)
    if measures:
        models = _rank_with_lists(models, split, measures, candidates, options)
        candidates = "all"
    result = evaluate(
        models,
        split,
        propensity=build_propensity(options, split, impressions, split.test.impressions),
        metrics=split_labels(options.metrics) or [],
        estimators=split_labels(options.estimators),
        candidates=candidates,
        missing_lists=options.missing_lists,
        ties=options.ties,
        n_relevant=options.n_relevant,
        low_ess=options.low_ess,
        confidence_level=options.confidence_level,
        rng=options.seed,
        compute=build_compute_options(options),
    )
    intervals = {"interval": options.interval, "n_resamples": options.n_resamples, "rng": options.seed}
    result = result.with_intervals(**intervals, compute=build_compute_options(options))
    further_results: list[object] = []
    if measures:
        beyond = beyond_accuracy(
            models,
            split,
            measures=measures,
            item_vectors=item_vectors,
            confidence_level=options.confidence_level,
            **intervals,
        )
        further_results.append(beyond)
    further_results += [result.by(grouping) for grouping in groupings]
    deliver_result(result, options, further_results)
    has_default_weights = options.propensity is None and options.gamma is None and options.estimators is None
    if impressions is not None and has_default_weights:
        vars(options).setdefault("read_as", []).append(IMPRESSION_NOTE)
    return 0


def _rank_with_lists(
    models: dict[str, Any], split: Any, measures: list[str], candidates: Any, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the ranks of all models with the lists that the measures use."""
    from ipseval.evaluation.beyond import measure
    from ipseval.ranking import rank_positives

    compute = build_compute_options(options)
    top_k = max(measure(label).cutoff for label in measures)
    ranks = {}
    for name, model in models.items():
        ranks[name] = rank_positives(
            model, split, name=name, candidates=candidates, compute=compute, top_k=top_k
        )
    return ranks


def _parse_candidates(options: argparse.Namespace) -> Any:
    """Return the candidates that --candidates or --allowed-items name."""
    from ipseval.ranking import SampledCandidates

    if options.allowed_items is not None:
        if options.candidates != "all":
            raise InputError("--candidates must be 'all' with --allowed-items. Use one of the two options.")
        return load_column(options.allowed_items, "item", options)
    if options.candidates == "all":
        return "all"
    if not options.candidates.isdigit():
        raise InputError(
            f"--candidates must be 'all' or a number of sampled items; got {options.candidates!r}."
        )
    return SampledCandidates(int(options.candidates), rng=options.seed)


EVALUATE = Command(
    name="evaluate",
    summary="evaluate recommenders on a log, or on an existing split",
    description=(
        "Evaluate recommenders on held-out positives. The table shows the unweighted average (AOA) and, with a\n"
        "propensity, the weighted estimates (IPS, SNIPS) with intervals and guarantees. Without --model, the\n"
        "built-in baselines are evaluated."
    ),
    examples=(
        "ipseval evaluate clicks.csv --gamma 0",
        "ipseval evaluate log.parquet --split temporal --model mine=lists.parquet --model popularity "
        "--out page.html",
        "ipseval evaluate --train train.csv --test test.csv --model als=scores.npy --metrics recall@20,auc",
        "ipseval evaluate --list-metrics ap@10,auc",
    ),
    options=(
        _options.add_log_or_parts,
        _options.add_split,
        _options.add_models,
        _options.add_propensity,
        _add_metrics,
        _options.add_estimation,
        _options.add_compute,
        _options.add_output,
        _options.add_explain,
    ),
    run=_run_evaluate,
)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the format of the files."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--out", metavar="FOLDER", required=True, help="folder for the training, test and validation files"
    )
    group.add_argument(
        "--format",
        choices=[suffix.strip(".") for suffix in TABLES],
        default="csv",
        help="format of the files; default: csv",
    )
    group.add_argument("--quiet", action="store_true", help="no output but errors")


def _run_split(options: argparse.Namespace) -> int:
    folder = Path(options.out)
    if folder.is_file():
        raise InputError(f"--out must be a folder; {folder} is a file.")
    split, _ = load_split(options)
    lines = [split.description or "split"]
    for name in ("train", "validation", "test"):
        part = getattr(split, name)
        if part is not None:
            path = folder / f"{name}.{options.format}"
            write_table(part.to_frame(), path)
            lines.append(f"{path}  {format_count(len(part), 'pair')}")
    if not options.quiet:
        print_text("\n".join(lines))
        files = " ".join(f"--{name} {folder / name}.{options.format}" for name in ("train", "test"))
        print_text(f"Next: ipseval evaluate {files}")
    return 0


SPLIT = Command(
    name="split",
    summary="split a log into training and test files",
    description=(
        "Write the training and the test part of a log into a folder. Train your recommender on the first\n"
        "and evaluate it on the second. The same log, options and seed give the same files."
    ),
    examples=(
        "ipseval split clicks.csv --out parts",
        "ipseval split log.parquet --split global-time --test-start 2026-05-01 --out parts --format parquet",
    ),
    options=(_options.add_log, _options.add_split, _add_folder),
    run=_run_split,
)
