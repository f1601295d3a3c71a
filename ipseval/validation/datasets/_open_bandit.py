"""Open Bandit: impressions and clicks under a random and a Bernoulli Thompson sampling policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data.impression_log import ImpressionLog
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice
from ipseval.utils.public import public_class, public_function
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


@public_class
@dataclass(frozen=True, eq=False)
class BanditStudy:
    """One campaign under the random policy, which is unbiased, and under Bernoulli Thompson sampling (`bts`).

    Parameters
    ----------
    campaign : {"men", "women", "all"}
    random, bts : ImpressionLog
        Impressions under the two policies.
    card : DataCard
        Source, licence and citation.

    See Also
    --------
    load_open_bandit : Load a campaign.
    ipseval.policies.evaluate_policies : Estimate click rates of policies from a log.

    Examples
    --------
    A study with one impression under each policy, over two items:

    >>> import numpy as np
    >>> from ipseval.validation.datasets import CARDS
    >>> impression = {"user": [0], "item": [1], "user_ids": [0], "item_ids": [0, 1], "clicked": [True]}
    >>> impression = {name: np.array(values) for name, values in impression.items()}
    >>> random = ImpressionLog(**impression, propensity=np.array([0.5]))
    >>> bts = ImpressionLog(**impression, propensity=np.array([0.9]))
    >>> study = BanditStudy("men", random, bts, CARDS["open-bandit"])
    >>> study.random
    ImpressionLog(1 impression, 1 click, 1 user, 2 items)
    """

    campaign: str
    random: ImpressionLog
    bts: ImpressionLog
    card: DataCard


@public_function
def load_open_bandit(path: str | Path, *, campaign: str = "men") -> BanditStudy:
    """Load one campaign of Open Bandit: impressions, clicks and propensities under both policies.

    Each impression has a separate user, because the data have no user ids. The full release and the sample of
    10,000 impressions have the same layout; both are read, and the number of rows is not checked.

    Parameters
    ----------
    path : str or Path
        Folder with `{random,bts}/<campaign>/<campaign>.csv`, each next to an `item_context.csv`.
    campaign : {"men", "women", "all"}, default "men"
        Campaign to load.

    Returns
    -------
    BanditStudy
        The logs under the two policies.

    Raises
    ------
    InputError
        When a file or column is missing, the catalogue does not have 34, 46 or 80 items, an item or position
        is unknown, a click is neither 0 nor 1, a propensity is outside (0, 1], or the random log's
        propensities are not 1/n_items.

    See Also
    --------
    ipseval.policies.evaluate_policies : Estimate click rates of policies from a log.

    References
    ----------
    Saito et al., Open Bandit Dataset and Pipeline, NeurIPS 2021, arXiv 2008.07146.

    Examples
    --------
    Small files of the same format, with two impressions under each policy:

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> items = pd.DataFrame({"item_id": range(34)})
    >>> rows = pd.DataFrame({"item_id": [3, 5], "position": [1, 2], "click": [0, 1], "timestamp": "2019-11-24"})
    >>> with TemporaryDirectory() as folder:
    ...     for policy in ("random", "bts"):
    ...         target = Path(folder) / policy / "men"
    ...         target.mkdir(parents=True)
    ...         items.to_csv(target / "item_context.csv", index=False)
    ...         rows.assign(propensity_score=1 / 34).to_csv(target / "men.csv", index=False)
    ...     study = load_open_bandit(folder, campaign="men")
    >>> study.campaign, len(study.random), study.random.n_items, int(study.bts.clicked.sum())
    ('men', 2, 34, 1)
    """
    check_choice("campaign", campaign, CAMPAIGNS)
    random = _read_policy(Path(path), "random", campaign)
    bts = _read_policy(Path(path), "bts", campaign)
    assert random.propensity is not None
    check_values(
        OPEN_BANDIT,
        f"propensities of the random log must be 1/{random.n_items} (are the folders swapped?)",
        np.abs(random.propensity * random.n_items - 1) <= 1e-6,
        random.propensity,
    )
    return BanditStudy(campaign=campaign, random=random, bts=bts, card=OPEN_BANDIT)


def _read_policy(path: Path, policy: str, campaign: str) -> ImpressionLog:
    """Return the impressions of one campaign under one policy."""
    folder = path / policy / campaign
    items = read_columns(folder, "item_context.csv", OPEN_BANDIT, {"item_id": "int64"})["item_id"]
    n_items = OPEN_BANDIT.sizes[f"items ({campaign})"]
    if sorted(items) != list(range(n_items)):
        raise InputError(
            f"open-bandit: {policy}/{campaign}/item_context.csv must list items 0 … {n_items - 1} once; it "
            f"has {len(items)} rows, {items.nunique()} of them distinct."
        )
    name = f"{campaign}.csv"
    frame = read_columns(folder, name, OPEN_BANDIT, COLUMNS)
    propensity = frame["propensity_score"]
    for column, is_valid, requirement in (
        ("item_id", frame["item_id"].between(0, n_items - 1), f"0 … {n_items - 1}"),
        ("position", frame["position"].between(1, N_POSITIONS), "1, 2 or 3"),
        ("click", frame["click"].isin([0, 1]), "0 or 1"),
        ("propensity_score", propensity.gt(0) & propensity.le(1), "in (0, 1]"),
    ):
        check_values(
            OPEN_BANDIT,
            f"{column} of {policy}/{campaign}/{name} must be {requirement}",
            is_valid,
            frame[column],
        )
    try:
        time = pd.to_datetime(frame["timestamp"], utc=True, format="ISO8601")
    except ValueError as error:
        raise InputError(f"open-bandit: {policy}/{campaign}/{name}: bad timestamp ({error}).") from None
    impressions = np.arange(len(frame))  # each has a separate user
    return ImpressionLog(
        user=impressions,
        item=frame["item_id"].to_numpy(),
        user_ids=impressions,
        item_ids=np.arange(n_items),
        clicked=frame["click"].to_numpy() == 1,
        timestamp=time.dt.tz_localize(None).to_numpy().astype("datetime64[ns]"),
        position=frame["position"].to_numpy(),
        propensity=propensity.to_numpy(),
    )
