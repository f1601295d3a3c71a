"""Five baselines on Coat and citeulike-a, printed as a table.

    python -m reproductions.first_results --data PATH [--only coat|citeulike-a] [--csv FOLDER]

PATH is the folder that holds `coat/` and `citeulike-a/` (see data/README.md). --csv writes the
tables as well, with all digits: in FOLDER/coat.csv.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import ipseval
from ipseval.ranking import baselines
from ipseval.validation import datasets
from reproductions.data import load_citeulike_a

METRICS = ["auc", "atop", "recall@5", "mean_dcg", "mean_dcg@5", "ndcg@10", "ap@10", "precision@10"]
ESTIMATORS = ["aoa", "snips", "snips-global", "aoa-pooled", "snips-pooled"]


def show(name: str, log: ipseval.Interactions, folder: Path | None) -> None:
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    start = time.perf_counter()
    models = {label: fit(split.train) for label, fit in baselines.BASELINES.items()}
    trained = time.perf_counter()
    result = ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=1.69),
        metrics=METRICS,
        estimators=ESTIMATORS,
    )
    end = time.perf_counter()
    print(f"== {name}: {log!r}\n\n{result}\n")
    if folder is not None:
        result.to_csv(folder / f"{name.lower()}.csv")
    print(f"trained in {trained - start:.1f} s, evaluated in {end - trained:.1f} s\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", choices=("coat", "citeulike-a"))
    parser.add_argument("--csv", type=Path, help="folder for the tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.only != "citeulike-a":
        show("Coat", datasets.load_coat(options.data / "coat").positives(threshold=4).biased, options.csv)
    if options.only != "coat":
        show("citeulike-a", load_citeulike_a(options.data / "citeulike-a"), options.csv)


if __name__ == "__main__":
    main()
