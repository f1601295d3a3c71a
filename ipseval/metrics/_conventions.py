"""What other libraries compute under the names of our metrics: the words, and which rule gives the number.

Conventions are those of ranx 0.3, scikit-learn 1.9, pytrec_eval 0.5 (trec_eval 9), implicit 0.7, LensKit
2025.8, RecTools 0.19 and RecBole 1.2, with default settings and lists that hold every candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Convention:
    """What one library computes under one label.

    Attributes
    ----------
    name : str
        What the library calls it.
    difference : str
        In what it differs from ipseval's; empty when it is the same.
    rule : str
        How it follows from ipseval's: a key of the rules of `CompatMetric`.
    cutoff : {"any", "required", "none"}
        Which labels of this name the library has.
    """

    name: str
    difference: str = ""
    rule: str = "same"
    cutoff: Literal["any", "required", "none"] = "any"


_AP_PER_RELEVANT = "divides by s, also when the list is cut at k < s"
_CLIPPED = "discount log2 max(r, 2): ranks 1 and 2 count the same"

CONVENTIONS: dict[str, dict[str, Convention]] = {
    "ranx": {
        "precision": Convention("precision@k"),
        "recall": Convention("recall@k"),
        "hit": Convention("hit_rate@k"),
        "rr": Convention("mrr@k"),
        "ap": Convention("map@k", _AP_PER_RELEVANT, "per relevant"),
        "dcg": Convention("dcg@k"),
        "ndcg": Convention("ndcg@k"),
        "rbp": Convention("rbp.p", cutoff="none"),
    },
    "sklearn": {
        "auc": Convention("roc_auc_score"),
        "ap": Convention(
            "average_precision_score",
            "tied items enter the list together instead of in random order",
            "ap at thresholds",
            "none",
        ),
        "dcg": Convention("dcg_score(k=k)"),
        "ndcg": Convention("ndcg_score(k=k)"),
    },
    "trec_eval": {
        "precision": Convention("P_k"),
        "recall": Convention("recall_k"),
        "hit": Convention("success_k"),
        "rr": Convention("recip_rank", cutoff="none"),
        "ap": Convention("map, map_cut_k", _AP_PER_RELEVANT, "per relevant"),
        "ndcg": Convention("ndcg, ndcg_cut_k"),
    },
    "implicit": {
        "precision": Convention(
            "precision",
            "hits of all users over Σ_u min(k, s): neither divided by k nor averaged over users",
            "pooled over reachable",
            "required",
        ),
        "ap": Convention("map", cutoff="required"),
        "ndcg": Convention("ndcg", cutoff="required"),
    },
    "lenskit": {
        "precision": Convention(
            "Precision(k)", "divides by the length of the list, min(k, n)", "per list", "required"
        ),
        "recall": Convention("Recall(k)", "divides by min(s, k)", "per reachable", "required"),
        "hit": Convention("Hit(k)"),
        "rr": Convention("RecipRank(k)"),
        "ap": Convention("AveragePrecision(k)"),
        "dcg": Convention("DCG(k)", _CLIPPED, "clipped dcg"),
        "ndcg": Convention("NDCG(k)", _CLIPPED, "clipped ndcg"),
        "rbp": Convention("RBP(k, patience=p)"),
    },
    "rectools": {
        "precision": Convention("Precision(k)"),
        "recall": Convention("Recall(k)"),
        "hit": Convention("HitRate(k)"),
        "rr": Convention("MRR(k)", cutoff="required"),
        "ap": Convention("MAP(k)", _AP_PER_RELEVANT, "per relevant", "required"),
        "ndcg": Convention(
            "NDCG(k)", "ideal list of k relevant items, also when there are fewer", "full ideal", "required"
        ),
    },
    "recbole": {
        "precision": Convention("Precision"),
        "recall": Convention("Recall"),
        "hit": Convention("Hit"),
        "rr": Convention("MRR", cutoff="required"),
        "ap": Convention("MAP", cutoff="required"),
        "ndcg": Convention("NDCG", cutoff="required"),
        "auc": Convention(
            "GAUC",
            "users weighted by their number of positives",
            "weighted by positives",
        ),
    },
}


def differences(name: str) -> list[str]:
    """Return, for a metric name, "library: difference" for each library that computes something else."""
    return [
        f"{library} ({known[name].name}): {known[name].difference}"
        for library, known in CONVENTIONS.items()
        if name in known and known[name].difference
    ]
