"""`ipseval evaluate`: recommenders on one split; `split`: a log into files."""

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


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    _options.add_metrics(parser)
    parser.add_argument(
        "--list-metrics",
        nargs="?",
        const="",
        metavar="LABELS",
        help="print the metrics, or the definitions of some, and end",
    )


def _run_evaluate(options: argparse.Namespace) -> int:
    from ipseval.evaluation import evaluate
    from ipseval.evaluation.beyond import beyond_accuracy

    if options.list_metrics is not None:
        list_metrics(split_labels(options.list_metrics) or [])
        return 0
    check_out(options)
    split, impressions = load_split(options)
    beyond, groups = split_labels(options.beyond), load_groups(options)
    vectors = load_item_vectors(options, split)
    models, candidates = load_models(options, split), _candidates(options)
    if beyond:
        models, candidates = _with_lists(models, split, beyond, candidates, options), "all"
    result = evaluate(
        models,
        split,
        propensity=build_propensity(options, split, impressions),
        metrics=split_labels(options.metrics) or [],
        estimators=split_labels(options.estimators),
        candidates=candidates,
        **{name: getattr(options, name) for name in ("missing_lists", "ties", "n_relevant", "low_ess")},
        confidence_level=options.confidence_level,
        rng=options.seed,
        compute=build_compute_options(options),
    )
    intervals = {"interval": options.interval, "n_resamples": options.n_resamples, "rng": options.seed}
    result = result.with_intervals(**intervals)
    more: list[Any] = []
    if beyond:
        more.append(
            beyond_accuracy(
                models,
                split,
                measures=beyond,
                item_vectors=vectors,
                confidence_level=options.confidence_level,
                **intervals,
            )
        )
    more += [result.by(one) for one in groups]
    deliver_result(result, options, more)
    return 0


def _with_lists(
    models: dict[str, Any], split: Any, measures: list[str], candidates: Any, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the ranks of all models with the lists that measures read."""
    from ipseval.evaluation.beyond import measure
    from ipseval.ranking import rank_positives

    how = {"candidates": candidates, "compute": build_compute_options(options)}
    how["top_k"] = max(measure(one).cutoff for one in measures)
    return {name: rank_positives(one, split, name=name, **how) for name, one in models.items()}


def _candidates(options: argparse.Namespace) -> Any:
    from ipseval.ranking import SampledCandidates

    if options.allowed_items is not None:
        if options.candidates != "all":
            raise InputError("give --candidates or --allowed-items, not both.")
        return load_column(options.allowed_items, "item", options)
    if options.candidates == "all":
        return "all"
    if not options.candidates.isdigit():
        raise InputError(f"--candidates is 'all' or a number of sampled items; got {options.candidates!r}.")
    return SampledCandidates(int(options.candidates), rng=options.seed)


EVALUATE = Command(
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
        "ipseval evaluate --list-metrics ap@10,auc",
    ),
    options=(
        *(_options.add_log_or_parts, _options.add_split, _options.add_models, _options.add_propensity),
        *(_add_metrics, _options.add_estimation, _options.add_compute, _options.add_output),
        _options.add_explain,
    ),
    run=_run_evaluate,
)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="FOLDER", required=True, help="for train, test and validation files")
    group.add_argument(
        "--format", choices=[suffix.strip(".") for suffix in TABLES], default="csv", help="default: csv"
    )
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


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
            lines.append(f"{path}  {len(part):,} pairs")
    if not options.quiet:
        print_text("\n".join(lines))
        files = " ".join(f"--{name} {folder / name}.{options.format}" for name in ("train", "test"))
        print_text(f"Next: ipseval evaluate {files}")
    return 0


SPLIT = Command(
    name="split",
    summary="divide a log into training and test files",
    description=(
        "Write the training and the test part of a log into a folder, so that you train your recommender on\n"
        "one and evaluate it on the other. The same log, options and seed give the same files."
    ),
    examples=(
        "ipseval split clicks.csv --out parts",
        "ipseval split log.parquet --split global-time --test-start 2026-05-01 --out parts --format parquet",
    ),
    options=(_options.add_log, _options.add_split, _add_folder),
    run=_run_split,
)
