"""Commands `demo`, `validate` and `study`: simulated truth, data sets with random exposure, and protocols."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ipseval.cli import _options
from ipseval.cli._options import Command, add_seed
from ipseval.cli._output import check_out, deliver_result, print_text
from ipseval.cli._streams import write_error
from ipseval.errors import InputError

DEFAULT_PICTURE = "ipseval-demo.svg"


def _add_demo(parser: argparse.ArgumentParser) -> None:
    """Add the files that the demonstration writes."""
    add = parser.add_argument
    add(
        "--picture",
        metavar="FILE",
        help=f"file of the plot; default: {DEFAULT_PICTURE}; '' for no plot",
    )
    add("--html", metavar="FILE", help="page with the whole result")
    add("--log", metavar="FILE", help="file for the biased log, .csv or .parquet")
    add("--quiet", action="store_true", help="no message before the result")


def _run_demo(options: argparse.Namespace) -> int:
    if not options.quiet:
        # This message comes before the imports, because they take time.
        write_error("Training five recommenders on a simulated log; this takes a few seconds.")
    from ipseval.cli._demo_world import run_demo
    from ipseval.cli._output import write_table
    from ipseval.utils.artefacts import check_writable, write_text

    picture_path = _choose_picture_path(options.picture)
    for path in filter(None, (picture_path, options.html, options.log)):
        check_writable(path)
    demo = run_demo(rng=options.seed)
    lines = [str(demo), ""]
    if picture_path:
        write_text(picture_path, demo.picture)
        lines.append(f"Picture: {picture_path}")
    elif options.picture is None:
        lines.append("Picture: none, because matplotlib is not installed: pip install matplotlib")
    if options.html:
        demo.to_html(options.html)
        lines.append(f"Page:    {options.html}")
    if options.log:
        write_table(demo.log, options.log)
        lines.append(f"Log:     {options.log}")
    lines.append(f"Next:    ipseval evaluate {options.log or 'YOUR-LOG.csv'} --gamma 0")
    # All files are written before the text, because a reader such as head may close the pipe early.
    print_text("\n".join(lines))
    return 0


def _choose_picture_path(option: str | None) -> str:
    """Return the file of the plot: the default only where matplotlib is installed; "" for no plot."""
    can_draw = find_spec("matplotlib") is not None
    if option is None and can_draw:
        return DEFAULT_PICTURE
    if not option:
        return ""
    if not option.endswith(".svg"):
        raise InputError(f"--picture must end in .svg, which any browser shows; got {option!r}.")
    if not can_draw:
        raise InputError("--picture needs matplotlib; pip install matplotlib.")
    return option


DEMO = Command(
    name="demo",
    summary="evaluate five recommenders in a simulation with known true values",
    description=(
        "Simulate users with known relevance, train five recommenders on a biased log of them, and compare\n"
        "the unweighted (AOA) and the weighted (IPS, SNIPS) estimates with the true values."
    ),
    examples=("ipseval demo", "ipseval demo --html demo.html --log clicks.csv"),
    options=(add_seed, _add_demo),
    run=_run_demo,
)


def _add_validate(parser: argparse.ArgumentParser) -> None:
    """Add the data set and the number of splits."""
    add = parser.add_argument
    add("study", help="data set with random exposure: coat, yahoo-r3, kuairand, kuairec or cm100k")
    add("--data", required=True, metavar="FOLDER", help="folder or archive of the data set")
    add(
        "--splits",
        type=_options.integer_type(1),
        default=10,
        metavar="N",
        help="number of repeated splits; default: 10",
    )


def _run_validate(options: argparse.Namespace) -> int:
    from ipseval.utils.registry import look_up
    from ipseval.validation import default_models, default_propensities, validate
    from ipseval.validation.datasets import STUDIES
    from ipseval.validation.validation_study import ESTIMATORS, METRICS

    check_out(options)
    study = look_up(STUDIES, options.study, "study")(options.data)
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
    summary="compare estimates with random exposure",
    description=(
        "Compare unweighted and weighted estimates from a biased log with random exposure of the same users,\n"
        "on a public data set that has both."
    ),
    examples=("ipseval validate coat --data data/coat --splits 2 --out coat.html",),
    options=(_add_validate, add_seed, _options.add_output),
    run=_run_validate,
)


def _add_study(parser: argparse.ArgumentParser) -> None:
    """Add the configuration of the study."""
    parser.add_argument(
        "config", metavar="FILE", help="TOML file; the documentation on protocols shows an example"
    )
    parser.set_defaults(format="md")


def _run_study(options: argparse.Namespace) -> int:
    from ipseval.studies.protocols import run_config

    check_out(options)
    deliver_result(run_config(options.config), options)
    return 0


STUDY = Command(
    name="study",
    summary="compare the ranking of recommenders under several protocols",
    description="Evaluate the same recommenders under several protocols, and print the agreement of the rankings.",
    examples=("ipseval study study.toml --out study.html",),
    options=(_options.add_output, _add_study),
    run=_run_study,
)
