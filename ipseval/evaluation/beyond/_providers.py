"""Exposure of providers: the share of the positions in lists that the items of each provider have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.estimators import Claim, Estimate, UserSums
from ipseval.evaluation.beyond._measures import Recommended
from ipseval.evaluation.beyond._result import LISTS, Key, select_lists
from ipseval.evaluation.evaluation import Evaluation
from ipseval.inference.intervals import compute_normal_intervals
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.utils.checks import check_models, check_positive_int
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import align_labels
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray

COLUMNS = [
    *("model", "provider", "exposure", "std_error", "ci_low", "ci_high"),
    *("catalogue", "training", "n_users"),
]


@public_function
def exposure_by_provider(
    models: Mapping[str, Any] | Evaluation,
    split: Split,
    providers: Any,
    *,
    k: int = 10,
    confidence_level: float = 0.95,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Measure which share of the exposure in recommendation lists each provider of items has, with its error.

    Parameters
    ----------
    models : mapping, or Evaluation
        Name -> scorer or trained model, as in `beyond_accuracy`.
    split : Split
        Its items are the catalogue.
    providers : {item: provider}, Series by item id, or (n_items,) array in the order of `split.item_ids`
        Provider of each item, such as an artist, a seller or a group of them. Every item needs one.
    k : int, default 10
        Number of first items of each list that count.
    confidence_level : float, default 0.95
        Level of the intervals.
    compute : ComputeOptions
        As in `evaluate`.

    Returns
    -------
    DataFrame
        One row per recommender and provider. exposure is the share of all positions in lists, with std_error,
        ci_low and ci_high over users; catalogue and training are the shares of the provider in the items and
        in the training interactions, for comparison; n_users is the number of users with lists.

    Raises
    ------
    InputError
        For items without a provider, and for ranks without lists that long.

    See Also
    --------
    beyond_accuracy : Measures of the lists, among them the Gini coefficient of the exposure of items.

    Notes
    -----
    With L_u the first k items of user u, the exposure of provider g is Σ_u |{i ∈ L_u: g_i = g}| / Σ_u |L_u|.
    The shares of a recommender add up to 1. The error is that of a ratio of sums over users. Exposure is
    compared with the catalogue, with the training interactions, or with another recommender; which share is
    fair is not a question of statistics [1]_.

    References
    ----------
    .. [1] Singh and Joachims, "Fairness of exposure in rankings", KDD 2018, doi:10.1145/3219819.3220088

    Examples
    --------
    Both users get items 0 and 1; item 2 of provider "b" is in no list:

    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": [0, 1], "item": [3, 3]}), pd.DataFrame({"user": [0, 1], "item": [0, 2]}),
    ...     items=[0, 1, 2, 3])
    >>> scores = np.array([[4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]])
    >>> frame = exposure_by_provider({"model": scores}, split, {0: "a", 1: "b", 2: "b", 3: "b"}, k=2)
    >>> frame[["provider", "exposure", "catalogue", "training"]]
      provider  exposure  catalogue  training
    0        a       0.5       0.25       0.0
    1        b       0.5       0.75       1.0
    """
    k = check_positive_int("k", k)
    codes, names = _encode_providers(providers, split)
    if isinstance(models, Evaluation):
        models = {name: sample.ranked for name, sample in models.samples.items()}
    check_models(models, "models", "scorer")

    estimates: dict[Key, Estimate] = {}
    for model_name, model in models.items():
        ranked = model
        if not isinstance(ranked, RankedPositives):
            ranked = rank_positives(model, split, name=model_name, top_k=k, compute=compute)
        data = Recommended(select_lists(model_name, ranked, k), split.train)
        for provider in range(len(names)):
            estimates[model_name, str(provider), LISTS] = _estimate_share(data, codes == provider)
    intervals = compute_normal_intervals(estimates, confidence_level=confidence_level)

    catalogue = np.bincount(codes, minlength=len(names)) / codes.size
    training = np.bincount(codes[split.train.item], minlength=len(names)) / max(len(split.train), 1)
    rows = []
    for (model_name, provider_code, _), estimate in estimates.items():
        interval = intervals[model_name, provider_code, LISTS]
        provider = int(provider_code)
        row = (
            *(model_name, names[provider], estimate.value, interval.std_error, interval.low, interval.high),
            *(catalogue[provider], training[provider], estimate.sums.n_users),
        )
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def _encode_providers(providers: Any, split: Split) -> tuple[IntArray, list[object]]:
    """Return the code of the provider of each item (n_items,), and the names of the codes, sorted."""
    if isinstance(providers, Mapping):
        values = pd.Series([providers.get(item) for item in split.item_ids.tolist()], dtype=object)
    else:
        labels = align_labels(providers, split.item_ids, "providers")
        try:
            entries = np.asarray(labels)
        except ValueError as error:
            raise InputError(
                "must be one-dimensional, with one provider for each item; got lists in lists.",
                argument="providers",
            ) from error
        if entries.ndim != 1:
            raise InputError(
                f"must be one-dimensional, with one provider for each item; got shape {entries.shape}.",
                argument="providers",
            )
        values = pd.Series(entries)
    if values.size != split.n_items:
        raise InputError(
            f"must have one entry for each of the {split.n_items:,} items; got {values.size:,}.",
            argument="providers",
        )
    n_missing = int(values.isna().sum())
    if n_missing:
        raise InputError(
            f"must name a provider for every item; {n_missing:,} of {values.size:,} have none. Name a group for "
            "them, such as 'unknown'.",
            argument="providers",
        )
    codes, names = pd.factorize(values, sort=True)
    return codes.astype(np.int64), list(names)


def _estimate_share(data: Recommended, is_of_provider: np.ndarray[Any, np.dtype[np.bool_]]) -> Estimate:
    """Return the share of positions that the items of a provider have."""
    n_positions = data.list_sums(is_of_provider.astype(np.float64))
    sums = UserSums.from_values(data.top.users, n_positions, data.length.astype(np.float64))
    return Estimate(
        metric="exposure",
        estimator=LISTS,
        sums=sums,
        n_positives=int(data.length.sum()),
        claim=Claim("no guarantee", "it describes the lists"),
    )
