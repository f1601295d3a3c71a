"""Command `doctor`, which checks the installation, and the list of metrics."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ipseval._version import __version__
from ipseval.cli._options import Command
from ipseval.cli._output import print_text
from ipseval.utils.compute import available_cores

DEPENDENCIES = (
    "numpy",
    "scipy",
    "statsmodels",
    "pandas",
    "jinja2",
    "lazy-loader",
    "narwhals",
    "threadpoolctl",
    "tqdm",
)
# Extra -> module that is searched, distribution, and purpose.
EXTRAS = {
    "fast": ("numba", "numba", "ranks large logs about twice as fast"),
    "parquet": ("pyarrow", "pyarrow", "reads and writes Parquet"),
    "plot": ("matplotlib", "matplotlib", "draws plots, and the pictures of HTML reports"),
    "dask": ("dask", "dask", "evaluates on a cluster"),
    "duckdb": ("duckdb", "duckdb", "reads DuckDB relations, and files larger than memory"),
    "spark": ("pyspark", "pyspark", "evaluates on Spark"),
    "log": ("mlflow", "mlflow", "logs evaluations to MLflow, or to W&B with wandb"),
}


def _run_doctor(options: argparse.Namespace) -> int:
    print_text(f"ipseval {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    print_text("  ".join(f"{name} {_find_version(name)}" for name in DEPENDENCIES))
    print_text(f"{available_cores()} cores; program {Path(sys.executable)}\n")
    for extra, (module, distribution, purpose) in EXTRAS.items():
        state = f"missing: pip install {distribution}"
        if find_spec(module) is not None:
            state = _find_version(distribution)
        print_text(f"{extra:<12}{state:<44}{purpose}")
    print_text(f"\ncache       {_describe_cache()}")
    start = time.process_time()
    failure = self_test()
    seconds = time.process_time() - start
    print_text(f"self-test   {failure or 'passed'} ({seconds:.1f} s of processor time)")
    if failure:
        return 2
    return 0


def self_test() -> str:
    """Evaluate four positives with averages known by hand, and return the failure, or "" for none.

    Users a and b like items 0 and 1, with P = 1/2 and 1/4; item 2 is in training. The recommender ranks item
    0 highest, so recall@1 counts it as 1 and item 1 as 0. AOA is 1/2. SNIPS with weights 2 and 4 and a global
    normaliser is (2 + 2)/(2 + 4 + 2 + 4) = 1/3.
    """
    import numpy as np
    import pandas as pd

    from ipseval.data.splits import Split
    from ipseval.evaluation import evaluate
    from ipseval.propensity import KnownPropensity
    from ipseval.utils.compute import ComputeOptions

    pairs = pd.DataFrame({"user": ["a", "a", "b", "b"], "item": [0, 1, 0, 1]})
    split = Split.from_frames(pairs.assign(item=2), pairs, duplicates="drop")
    evaluation = evaluate(
        {"model": np.tile([2.0, 1.0, 0.0], (2, 1))},
        split,
        propensity=KnownPropensity(item=pd.DataFrame({"item": [0, 1, 2], "propensity": [0.5, 0.25, 1]})),
        metrics=["recall@1"],
        low_ess="ignore",
        compute=ComputeOptions(progress=False),
    )
    values = evaluation.frame["estimate"].round(12).tolist()
    expected = [0.5, round(1 / 3, 12)]
    if values == expected:
        return ""
    return f"FAILED: expected {expected}, got {values}"


def _find_version(distribution: str) -> str:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "version unknown"


def _describe_cache() -> str:
    """Return the size and the folder of the compiled code of Numba."""
    folder = Path(__file__).parents[1] / "ranking" / "kernels" / "__pycache__"
    files = [*folder.glob("*.nbi"), *folder.glob("*.nbc")]
    if not files:
        return "no compiled code so far"
    size = sum(file.stat().st_size for file in files) / 2**20
    return f"{size:.1f} MB of compiled code in {folder}"


DOCTOR = Command(
    name="doctor",
    summary="check the installation",
    description="Print versions, missing extras with the command that installs them, the cache, and a self-test.",
    examples=("ipseval doctor",),
    options=(),
    run=_run_doctor,
)


CUTOFFS = {"required": "@k", "optional": "[@k]", "none": ""}


def list_metrics(labels: list[str]) -> None:
    """Print the definitions of metrics, or without labels the names of all metrics."""
    from ipseval.estimators import card
    from ipseval.metrics import METRICS
    from ipseval.metrics.rating_metrics import RATING_METRICS
    from ipseval.utils.registry import describe_package

    if labels:
        print_text("\n\n".join(card(label) for label in labels))
        return
    for name, family in METRICS.items():
        label = name + CUTOFFS[family.takes_cutoff]
        parameters = ""
        if family.parameters:
            parameters = f" ({', '.join(family.parameters)})"
        print_text(f"{label:<19}{family.summary}{parameters}")
    for name, points in METRICS.list_offers().items():
        print_text(f"{name:<19}of {describe_package(points[0])}")
    print_text(f"\nOn predicted ratings (evaluate_ratings): {', '.join(RATING_METRICS)}")
    print_text("\n--list-metrics LABELS prints the definition and the guarantees of metrics.")
