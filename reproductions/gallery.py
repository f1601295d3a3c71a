"""The gallery of pictures and the example pages of the documentation, from real logs, in one command.

    python -m reproductions.gallery [--data FOLDER]

FOLDER holds the public data sets (see data/README.md); the impressions are simulated (shop_files.py). Writes
docs/reports/*.html, docs/images/gallery/*.svg and docs/api/gallery.md, and prints the first table. Data are not
written, results are: no ids of users or items.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import ipseval
from ipseval.ranking import baselines
from reproductions.shop_files import write_impressions
from reproductions.tables import data_folder

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MODELS = {
    "EASE": baselines.ease,
    "item-kNN": baselines.item_knn,
    "SVD": baselines.pure_svd,
    "popularity": baselines.popularity,
    "random": baselines.BASELINES["random"],  # with a seed
}
# Kind of picture, as in `PLOT_KINDS` of ipseval/evaluation/plotting.py -> its caption.
KINDS = {
    "estimates": "Every recommender by every estimator, with intervals.",
    "differences": "How far each one is behind the highest, on the same users.",
    "sensitivity": "Does the order hold for other γ? Vertical lines are γ at which two swap.",
    "weights": "How many positives the weights leave: the effective sample size.",
    "popularity": "Which popularity groups determine the estimates, before and after weighting.",
    "segments": "For which items is it good? Intervals hold for all groups at once.",
    "decomposition": "Why weighted and unweighted values differ, by popularity group.",
}
SAVE_OPTIONS: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}, "bbox_inches": "tight"}
OPENING = """# Gallery

Every picture of an evaluation, drawn from MovieLens 100K: ratings of 4 and 5, a random split, γ = 0.
Each is one call. `ax.figure.savefig("picture.svg")` writes it.
The [page](../reports/movielens.html) of the same evaluation contains the tables, and its curves over γ.

Other pages: [Coat](../reports/coat.html), and [two versions of a
recommender](../reports/two-versions.html) from simulated impressions.
`python -m reproductions.gallery` makes this page, its pictures and the reports; `IPSEVAL_DATA` names the folder
of the [data sets](data-sets.md).
"""


def movielens(data: Path) -> ipseval.Evaluation:
    """Return the evaluation of the baselines on a random split of MovieLens 100K."""
    log = ipseval.read(data / "ml-100k" / "u.data", threshold=4)
    return _evaluated(ipseval.split_random(log, test_fraction=0.2, rng=0))


def coat(data: Path) -> ipseval.Evaluation:
    """Return the evaluation of the baselines on the ratings of Coat that users chose themselves."""
    log = ipseval.datasets.load_coat(data / "coat").biased
    return _evaluated(ipseval.split_random(log, test_fraction=0.2, rng=0))


def two_versions() -> ipseval.Evaluation:
    """Return the evaluation of two versions' lists on simulated clicks, weighted by the popularity of items."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_impressions(folder)
        return _evaluate_versions(folder)


def _evaluate_versions(folder: Path) -> ipseval.Evaluation:
    log = ipseval.read(folder / "impressions.parquet", ignore="p_shown")
    lists = {
        version: ipseval.read_lists(folder / f"recs_{version}.parquet", seen="drop", unknown="drop")
        for version in ("v1", "v2")
    }
    split = ipseval.split_random(log.positives, test_fraction=0.2, rng=0)
    gamma = ipseval.PowerLawPropensity(gamma=0.0)
    return ipseval.evaluate(lists, split, propensity=gamma, metrics=["recall@10", "mean_dcg@10"])


def _evaluated(split: ipseval.Split) -> ipseval.Evaluation:
    models = {name: fit(split.train) for name, fit in MODELS.items()}
    gamma = ipseval.PowerLawPropensity(gamma=0.0)
    return ipseval.evaluate(models, split, propensity=gamma, metrics=["recall@10", "mean_dcg@10"], rng=0)


def gallery(evaluation: ipseval.Evaluation) -> None:
    """Write the pictures and the page that shows them."""
    folder = DOCS / "images" / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        figure = evaluation.plot(kind).figure
        figure.savefig(folder / f"{kind}.svg", **SAVE_OPTIONS)
    (DOCS / "api" / "gallery.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the text of docs/api/gallery.md."""
    parts = [OPENING]
    for kind, words in KINDS.items():
        shown = f"![{words}](../images/gallery/{kind}.svg)"
        parts.append(f'## {kind.capitalize()}\n\n{words} `evaluation.plot("{kind}")`\n\n{shown}\n')
    return "\n".join(parts)


def main() -> None:
    """Run the command line."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "ipseval"  # the same bytes each time
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=data_folder(),
        help="folder of the public data sets; default: the folder in IPSEVAL_DATA, otherwise shared/data next to "
        "the clone",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the pages contain the warnings
    reports = DOCS / "reports"
    first = movielens(options.data)
    first.to_html(reports / "movielens.html", title="Five baselines on MovieLens 100K")
    second = coat(options.data)
    second.to_html(reports / "coat.html", title="Five baselines on Coat")
    decomposition = second.decomposition("recall@10", by="popularity:5")
    figure = decomposition.plot().figure
    figure.savefig(DOCS / "images" / "decomposition.svg", **SAVE_OPTIONS)
    title = "Two versions of a recommender, from simulated impressions"
    two_versions().to_html(reports / "two-versions.html", title=title)
    gallery(first)
    print(first)


if __name__ == "__main__":
    main()
