"""Open Bandit: impressions and clicks under a random and a Bernoulli Thompson sampling policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.impression_log import ImpressionLog
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice
from ipseval.validation.datasets._base import CARDS, DataCard, check_values
from ipseval.validation.datasets._files import read_columns

CAMPAIGNS = ("all", "men", "women")
N_POSITIONS = 3
OPEN_BANDIT = CARDS["open-bandit"]
COLUMNS = {
    "timestamp": "str",
    "item_id": "int64",
    "position": "int64",
    "click": "int64",
    "propensity_score": "float64",
}


@dataclass(frozen=True, eq=False)
class BanditStudy:
    """The same campaign under the random policy, which shows what is true, and under `bts`."""

    campaign: str
    random: ImpressionLog
    bts: ImpressionLog
    card: DataCard


def load_open_bandit(path: str | Path, *, campaign: str = "men") -> BanditStudy:
    """Return one campaign of Open Bandit: impressions, clicks and propensities under both policies.

    Each impression is of a user of its own, as the data have no user ids.
    The full release and the sample of 10,000 impressions have the same layout; both are read, and the number
    of rows is not checked.

    Parameters
    ----------
    path : folder
        Holds `{random,bts}/<campaign>/<campaign>.csv` and `item_context.csv` beside each.
    campaign : {"men", "women", "all"}

    Raises
    ------
    InputError
        When a file or column is missing, the catalogue does not have 34, 46 or 80 items, an item or position
        is unknown, a click is neither 0 nor 1, a propensity is outside (0, 1], or the random log's
        propensities are not 1/n_items.

    References
    ----------
    Saito et al., Open Bandit Dataset and Pipeline, NeurIPS 2021, arXiv 2008.07146.
    """
    check_choice("campaign", campaign, CAMPAIGNS)
    random, bts = (_read(Path(path) / policy / campaign, policy, campaign) for policy in ("random", "bts"))
    assert random.propensity is not None
    what = f"propensities of the random log must be 1/{random.n_items} (are the folders swapped?)"
    good = np.abs(random.propensity * random.n_items - 1) <= 1e-6
    check_values(OPEN_BANDIT, what, good, random.propensity)
    return BanditStudy(campaign, random, bts, OPEN_BANDIT)


def _read(folder: Path, policy: str, campaign: str) -> ImpressionLog:
    items = read_columns(folder, "item_context.csv", OPEN_BANDIT, {"item_id": "int64"})["item_id"]
    n_items = OPEN_BANDIT.sizes[f"items ({campaign})"]
    if sorted(items) != list(range(n_items)):
        raise InputError(
            f"open-bandit: {policy}/{campaign}/item_context.csv must list items 0 … {n_items - 1} once; it "
            f"has {len(items)} rows, {items.nunique()} of them distinct."
        )
    name = f"{campaign}.csv"
    frame = read_columns(folder, name, OPEN_BANDIT, COLUMNS)
    for column, good, expected in (
        ("item_id", frame["item_id"].between(0, n_items - 1), f"0 … {n_items - 1}"),
        ("position", frame["position"].between(1, N_POSITIONS), "1, 2 or 3"),
        ("click", frame["click"].isin([0, 1]), "0 or 1"),
        ("propensity_score", frame["propensity_score"].gt(0) & frame["propensity_score"].le(1), "in (0, 1]"),
    ):
        what = f"{column} of {policy}/{campaign}/{name} must be {expected}"
        check_values(OPEN_BANDIT, what, good, frame[column])
    try:
        time = pd.to_datetime(frame["timestamp"], utc=True, format="ISO8601")
    except ValueError as error:
        raise InputError(f"open-bandit: {policy}/{campaign}/{name}: bad timestamp ({error}).") from None
    every = np.arange(len(frame))
    return ImpressionLog(
        every,
        frame["item_id"].to_numpy(),
        every,
        np.arange(n_items),
        frame["click"].to_numpy() == 1,
        time.dt.tz_localize(None).to_numpy().astype("datetime64[ns]"),
        frame["position"].to_numpy(),
        frame["propensity_score"].to_numpy(),
    )
