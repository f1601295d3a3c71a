"""Open Bandit: impressions and clicks under a random and a Bernoulli Thompson sampling policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._base.checks import as_float_vector, check_choice, check_mask, check_positive_int
from ipseval._base.types import AnyArray, FloatArray, IntArray, freeze
from ipseval.data._exposure_log import ExposureLog
from ipseval.data._interactions import check_codes
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard
from ipseval.validation.datasets._files import read_columns

N_ITEMS = {"all": 80, "men": 34, "women": 46}
N_POSITIONS = 3
_REPOSITORY = "https://raw.githubusercontent.com/st-tech/zr-obp/master/obd"
_SAMPLE_SHA256 = {
    "bts/men/men.csv": "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
    "bts/men/item_context.csv": "3b411ed6b0471316321a6b93f4f756bb25888eac6218cd71d0b603d41d85732d",
    "bts/women/women.csv": "e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    "bts/women/item_context.csv": "a56295bad066a558eb783055afd9279f5f4e209a4776eafc22151c53f0ac89d4",
    "random/men/men.csv": "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
    "random/men/item_context.csv": "6d855c2b7e917d0448d71bbe62c023147495882c0fdc8c41e86fef86abf9fe09",
    "random/women/women.csv": "e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
    "random/women/item_context.csv": "b1ca4905f97703d196004f2ad4552c1e90c2afad8b50688d333b0d2dc0b33147",
}
OPEN_BANDIT = DataCard(
    name="open-bandit",
    title="Open Bandit Dataset",
    url="https://research.zozo.com/data.html",
    how_to_get="Download the data from the authors' page, or the sample in github.com/st-tech/zr-obp (obd/).",
    licence="CC BY 4.0",
    citation=(
        "Saito, Aihara, Matsutani, Narita: Open Bandit Dataset and Pipeline: Towards Realistic and "
        "Reproducible Off-Policy Evaluation, NeurIPS 2021 Datasets and Benchmarks, arXiv 2008.07146"
    ),
    sizes={f"items ({campaign})": count for campaign, count in N_ITEMS.items()},
    sha256=_SAMPLE_SHA256,
    downloads={name: (f"{_REPOSITORY}/{name}", f"sha256:{sha}") for name, sha in _SAMPLE_SHA256.items()},
)
COLUMNS = {
    "timestamp": "str",
    "item_id": "int64",
    "position": "int64",
    "click": "int64",
    "propensity_score": "float64",
}


ARRAYS = ("item", "position", "click", "propensity", "timestamp")


@dataclass(frozen=True, eq=False)
class BanditLog:
    """Impressions under one policy, in the order of the file.

    Attributes
    ----------
    policy : str
    item, position : (n,) int arrays
        Which item was shown, 0 … n_items − 1, and where, 1 … 3.
    click : (n,) bool array
    propensity : (n,) float array
        Probability in (0, 1] with which the policy showed this item at this position.
    timestamp : (n,) datetime64[ns] array, UTC
    n_items : int
    """

    policy: str
    item: IntArray
    position: IntArray
    click: npt.NDArray[np.bool_]
    propensity: FloatArray
    timestamp: AnyArray
    n_items: int

    def __post_init__(self) -> None:
        for name in ARRAYS:
            object.__setattr__(self, name, np.asarray(getattr(self, name)))
        freeze(self, *ARRAYS)
        shapes = {name: getattr(self, name).shape for name in ARRAYS}
        if set(shapes.values()) != {self.item.shape} or self.item.ndim != 1:
            raise InputError(f"the columns of a log must be of one length; got shapes {shapes}.")
        check_codes("item", self.item, check_positive_int("n_items", self.n_items))
        if self.position.dtype.kind not in "iu" or (self.position < 1).any():
            raise InputError("position must hold whole numbers >= 1.")
        check_mask("click", self.click, self.item.size)
        p = as_float_vector("propensity", self.propensity)
        if not ((p > 0) & (p <= 1)).all():
            raise InputError(f"propensity must be in (0, 1]; {int((~((p > 0) & (p <= 1))).sum())} are not.")

    def __len__(self) -> int:
        return int(self.item.size)

    def exposure_log(self) -> ExposureLog:
        """Return the impressions as an exposure log, each of a user of its own: the data have no user ids."""
        return ExposureLog(
            np.arange(len(self)),
            self.item,
            np.arange(len(self)),
            np.arange(self.n_items),
            self.click,
            self.timestamp,
            self.position,
            self.propensity,
        )

    def __repr__(self) -> str:
        size = f"{len(self):,} impressions of {self.n_items} items, {self.click.sum():,} clicks"
        return f"BanditLog({self.policy}: {size})"


@dataclass(frozen=True, eq=False)
class BanditStudy:
    """The same campaign under the random policy, which shows what is true, and under `bts`."""

    campaign: str
    random: BanditLog
    bts: BanditLog
    card: DataCard


def load_open_bandit(path: str | Path, *, campaign: str = "men") -> BanditStudy:
    """Return one campaign of Open Bandit: impressions, clicks and propensities under both policies.

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
    check_choice("campaign", campaign, N_ITEMS)
    random, bts = (_read(Path(path) / policy / campaign, policy, campaign) for policy in ("random", "bts"))
    off = np.abs(random.propensity * random.n_items - 1) > 1e-6
    if off.any():
        raise InputError(
            f"open-bandit: the random log must have propensity 1/{random.n_items}; {int(off.sum())} of "
            f"{len(random):,} rows do not (e.g. {random.propensity[off][0]:g}). Are the folders swapped?"
        )
    return BanditStudy(campaign, random, bts, OPEN_BANDIT)


def _read(folder: Path, policy: str, campaign: str) -> BanditLog:
    items = read_columns(folder, "item_context.csv", OPEN_BANDIT, {"item_id": "int64"})["item_id"]
    n_items = N_ITEMS[campaign]
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
        if not good.all():
            raise InputError(
                f"open-bandit: {column} of {policy}/{campaign}/{name} must be {expected}; "
                f"{int((~good).sum())} of {len(frame):,} rows are not (e.g. {frame[column][~good].iloc[0]})."
            )
    try:
        time = pd.to_datetime(frame["timestamp"], utc=True, format="ISO8601")
    except ValueError as error:
        raise InputError(f"open-bandit: {policy}/{campaign}/{name}: bad timestamp ({error}).") from None
    return BanditLog(
        policy,
        frame["item_id"].to_numpy(),
        frame["position"].to_numpy(),
        frame["click"].to_numpy() == 1,
        frame["propensity_score"].to_numpy(),
        time.dt.tz_localize(None).to_numpy().astype("datetime64[ns]"),
        n_items,
    )
