"""Write the sample log of this folder: clicks of a simulated world, biased towards popular items.

    python data/samples/generate.py

`clicks.csv`: one row per observed user–item pair, columns user and item. The same bytes at every run.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ipseval.validation.simulation import World

HERE = Path(__file__).parent


def clicks() -> pd.DataFrame:
    """Return the log with readable ids."""
    world = World(
        n_users=600, n_items=300, mean_relevant=90, affinity=5.0, popularity_skew=0.6, gamma=0.0, rng=2018
    )
    log = world.observe(rng=1)
    return pd.DataFrame(
        {"user": [f"user{u:03}" for u in log.user], "item": [f"item{i:03}" for i in log.item]}
    )


if __name__ == "__main__":
    clicks().to_csv(HERE / "clicks.csv", index=False, lineterminator="\n")
