"""Does the order of recommenders survive another protocol? Tables in the form of Zhao et al. (CIKM 2020).

Run: ``python -m reproductions.protocol_study OUT [--data FOLDER] [--small]``. OUT gets the ranks (a run
that was interrupted goes on where it stopped), report.md, estimates.csv and agreement_*.csv. FOLDER holds
`coat` and `citeulike-a`. Both have no timestamps, so protocols in time run on the three simulated domains:
"steady" (no drift in time), "trend" (items come out one after the other and interest fades) and "hits" (the
same, with steeper popularity).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import ipseval
from ipseval.data.interactions import Interactions
from ipseval.ranking import SampledCandidates, baselines
from ipseval.validation.datasets import load_coat
from ipseval.validation.simulation import World
from reproductions.data import load_citeulike_a

MODELS = {
    "random": baselines.BASELINES["random"],
    "popularity": baselines.popularity,
    "item-kNN 20": partial(baselines.item_knn, n_neighbors=20),
    "item-kNN 200": partial(baselines.item_knn, n_neighbors=200),
    "EASE": partial(baselines.ease, regularization=200.0),
    "SVD 8": partial(baselines.pure_svd, n_factors=8),
    "SVD 32": partial(baselines.pure_svd, n_factors=32),
    "SVD 64": partial(baselines.pure_svd, n_factors=64),
}
DOMAINS = {"steady": (0.6, 0.0), "trend": (0.8, 0.9), "hits": (1.2, 0.9)}


def domain(skew: float, drift: float, seed: int, size: float) -> Interactions:
    """Return a log over a year: a share `drift` of the interactions comes soon after the item came out."""
    world = World(
        n_users=int(3000 * size),
        n_items=int(1200 * max(size, 0.4)),
        mean_relevant=60,
        popularity_skew=skew,
        rng=seed,
    )
    log = world.observe(rng=seed + 1)
    rng = np.random.default_rng(seed + 2)
    released = rng.random(log.n_items)[log.item]
    soon = np.minimum(released + rng.exponential(0.05, len(log)), 1.0)
    anytime = released + (1 - released) * rng.random(len(log)) if drift else rng.random(len(log))
    day = np.where(rng.random(len(log)) < drift, soon, anytime)
    return replace(log, timestamp=np.floor(365 * day).astype(np.int64))


def candidates() -> dict[str, object]:
    """Return the full catalogue, and 10, 50 and 100 candidates drawn uniformly or by popularity."""
    return {"full": "all"} | {
        f"{law}-{n}": SampledCandidates(n, distribution=law, rng=0)
        for law in ("uniform", "popularity")
        for n in (10, 50, 100)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--small", action="store_true", help="three small simulated domains only")
    options = parser.parse_args()
    size = 0.2 if options.small else 1.0
    logs = {
        name: domain(*shape, seed=10 * number, size=size)
        for number, (name, shape) in enumerate(DOMAINS.items())
    }
    if not options.small and (options.data / "coat").exists():
        logs["Coat"] = load_coat(options.data / "coat").positives().biased
    if not options.small and (options.data / "citeulike-a").exists():
        logs["citeulike-a"] = load_citeulike_a(options.data / "citeulike-a")
    study = ipseval.studies.protocols.study(
        MODELS,
        logs,
        ipseval.studies.protocols.grid(
            holdout=["ratio", "leave-one-out", "global-time"], candidates=candidates()
        ),
        path=options.out,
        metrics=["precision@10", "recall@10", "ap", "auc"],
        k=[1, 3, 5],
    )
    study.to_folder(options.out)
    print(study.to_markdown())


if __name__ == "__main__":
    main()
