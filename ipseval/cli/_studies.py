"""`ipseval demo`, `validate` and `study`: worlds and data sets whose truth is known, and many protocols."""

from __future__ import annotations

import argparse

from ipseval.cli import _options
from ipseval.cli._options import Command, add_seed
from ipseval.cli._output import check_out, deliver_result, print_text
from ipseval.cli._streams import write_error
from ipseval.errors import InputError


def _add_demo(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--picture",
        default="ipseval-demo.svg",
        metavar="FILE",
        help="where to draw it; default: ipseval-demo.svg; '' for none",
    )
    add("--html", metavar="FILE", help="write all of it as one page")
    add("--log", metavar="FILE", help="write the biased log, to go on with: .csv or .parquet")
    add("--quiet", action="store_true", help="say nothing before it is done")


def _run_demo(options: argparse.Namespace) -> int:
    if not options.quiet:
        # Before anything is imported that takes time.
        write_error("Training five recommenders on a simulated log; this takes a few seconds.")
    from ipseval.cli._demo_world import run_demo
    from ipseval.cli._output import write_table
    from ipseval.utils.artefacts import writable, write_text

    if options.picture and not options.picture.endswith(".svg"):
        raise InputError(f"--picture must end in .svg, which any browser shows; got {options.picture!r}.")
    for path in filter(None, (options.picture, options.html, options.log)):
        writable(path)
    demo = run_demo(rng=options.seed)
    done = []
    if options.picture:
        write_text(options.picture, demo.picture)
        done.append(f"Picture: {options.picture}")
    if options.html:
        demo.to_html(options.html)
        done.append(f"Page:    {options.html}")
    if options.log:
        write_table(demo.log, options.log)
        done.append(f"Log:     {options.log}")
    done.append(f"Next:    ipseval evaluate {options.log or 'YOUR-LOG.csv'} --gamma 0")
    # At once, after all files: a reader that takes one line, such as head, leaves nothing undone.
    print_text("\n".join((str(demo), "", *done)))
    return 0


DEMO = Command(
    name="demo",
    summary="evaluate five recommenders in a world whose truth is known",
    description=(
        "Simulate a world whose truth is known and train five recommenders on a biased log of it. Print\n"
        "what the plain and the weighted averages say beside the truth, and draw it."
    ),
    examples=("ipseval demo", "ipseval demo --html demo.html --log clicks.csv"),
    options=(add_seed, _add_demo),
    run=_run_demo,
)


def _add_validate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("study", help="data set with random exposure: coat, yahoo-r3, kuairand or kuairec")
    add("--data", required=True, metavar="FOLDER", help="folder or archive of the data set")
    add(
        "--splits",
        type=_options.integer_type(1),
        default=10,
        metavar="N",
        help="repeated splits; default: 10",
    )


def _run_validate(options: argparse.Namespace) -> int:
    from ipseval.utils.registry import lookup
    from ipseval.validation import default_models, default_propensities, validate
    from ipseval.validation.datasets import STUDIES
    from ipseval.validation.validation_study import ESTIMATORS, METRICS

    check_out(options)
    study = lookup(STUDIES, options.study, "study")(options.data)
    result = validate(
        default_models(),
        study,
        propensities=default_propensities(study),
        metrics=METRICS,
        estimators=ESTIMATORS,
        n_splits=options.splits,
        rng=options.seed,
    )
    deliver_result(result, options)
    return 0


VALIDATE = Command(
    name="validate",
    summary="does weighting help: estimates beside random exposure",
    description=(
        "Compare plain and weighted estimates from a biased log with what random exposure of the same users\n"
        "says, on a public data set that has both."
    ),
    examples=("ipseval validate coat --data data/coat --splits 2 --out coat.html",),
    options=(_add_validate, add_seed, _options.add_output),
    run=_run_validate,
)


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="FILE", help="TOML file; the page on protocols shows one")
    parser.set_defaults(format="md")


def _run_study(options: argparse.Namespace) -> int:
    from ipseval.studies.protocols import run_config

    check_out(options)
    deliver_result(run_config(options.config), options)
    return 0


STUDY = Command(
    name="study",
    summary="does the order of recommenders survive another protocol",
    description="Evaluate the same recommenders under many protocols, and print how far the orders agree.",
    examples=("ipseval study study.toml --out study.html",),
    options=(_options.add_output, _add_study),
    run=_run_study,
)
