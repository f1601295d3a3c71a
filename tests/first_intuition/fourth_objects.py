"""What people of six libraries hold when they type the calls of fourth_ninety_calls.txt.

The classes stand in for those of libraries that are not installed, with the methods that matter here.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict, namedtuple
from functools import cache

import numpy as np
import pandas as pd
import scipy.sparse as sp

try:
    import torch
except ImportError:
    torch = None

NU, NI = 120, 60


# Helpers
def make_path(name):
    return os.path.join(tempfile.mkdtemp(prefix="calls4_"), name)


@cache
def draw_rows(seed):
    """Draw interactions with a popularity bias; about 15 per user."""
    rng = np.random.default_rng(seed)
    pop = 1.0 / (np.arange(NI) + 3.0)
    taste = rng.normal(size=(NU, 3)) @ rng.normal(size=(3, NI))
    rows = []
    for u in range(NU):
        p = pop * np.exp(0.6 * taste[u])
        items = rng.choice(NI, size=rng.integers(12, 20), replace=False, p=p / p.sum())
        for i in items:
            r = int(np.clip(np.round(3.6 + taste[u, i] * 0.6 + rng.normal(0, 0.5)), 1, 5))
            rows.append((u, i, r, 1_600_000_000 + int(rng.integers(0, 10_000_000))))
    return pd.DataFrame(rows, columns=["u", "i", "r", "t"])


def draw_log(
    user="user_id", item="item_id", rating="rating", time="timestamp", seed=0, implicit=False, strings=False
):
    """A log with a popularity bias; about 15 interactions per user."""
    df = draw_rows(seed).copy()
    if strings:
        df["u"] = "u" + df["u"].astype(str)
        df["i"] = "i" + df["i"].astype(str)
    names = {"u": user, "i": item, "r": rating, "t": time}
    df = df.rename(columns={k: v for k, v in names.items() if v})
    drop = [k for k, v in names.items() if v is None]
    if implicit and rating:
        drop.append(rating)
    return df.drop(columns=drop)


def split_rows(df, frac=0.25, seed=1):
    rng = np.random.default_rng(seed)
    mask = rng.random(len(df)) < frac
    return df[~mask].reset_index(drop=True), df[mask].reset_index(drop=True)


def draw_frames(**kw):
    return split_rows(draw_log(**kw))


def to_csr(df, user="user_id", item="item_id", values=None):
    v = np.ones(len(df), dtype=np.float32) if values is None else np.asarray(values, dtype=np.float32)
    return sp.csr_matrix((v, (df[user].to_numpy(), df[item].to_numpy())), shape=(NU, NI))


def draw_matrices():
    train, test = draw_frames(implicit=True)
    return to_csr(train), to_csr(test)


def factorise(matrix, k=8):
    u, s, vt = np.linalg.svd(np.asarray(matrix.todense(), dtype=float), full_matrices=False)
    return (u[:, :k] * s[:k]).astype(np.float32), vt[:k].T.astype(np.float32)


def score_items(matrix, kind="mf"):
    if kind == "pop":
        s = np.tile(np.asarray(matrix.sum(axis=0)).ravel().astype(float), (matrix.shape[0], 1))
        return s + np.random.default_rng(5).random(s.shape) * 0.01
    uf, vf = factorise(matrix, 8 if kind == "mf" else 3)
    return (uf @ vf.T).astype(float)


def list_items(
    scores, train, k=10, user="user_id", item="item_id", names=None, strings=False, rank="rank", score="score"
):
    s = scores.copy()
    s[train.nonzero()] = -np.inf
    rows = []
    for u in range(s.shape[0]):
        for r, i in enumerate(np.argsort(-s[u])[:k], 1):
            rows.append((f"u{u}" if strings else u, f"i{i}" if strings else int(i), r, float(s[u, i])))
    return pd.DataFrame(rows, columns=[user, item, rank, score])


def to_coded_csr(df, user="user_id", item="item_id"):
    """csr of a frame whose ids may be strings such as u3 and i7."""
    d = pd.DataFrame(
        {
            "user_id": df[user].astype(str).str.lstrip("u").astype(int),
            "item_id": df[item].astype(str).str.lstrip("i").astype(int),
        }
    )
    return to_csr(d)


def draw_exposure(user="user_id", item="item_id", label="liked", n=10, strings=False, seed=9):
    """Answers of all users to n items drawn at random."""
    rng = np.random.default_rng(seed)
    rows = []
    for u in range(NU):
        for i in rng.choice(NI, n, replace=False):
            rows.append((f"u{u}" if strings else u, f"i{i}" if strings else int(i), int(rng.random() < 0.2)))
    return pd.DataFrame(rows, columns=[user, item, label])


def draw_impressions(df, user="user_id", item="item_id", seed=4):
    rng = np.random.default_rng(seed)
    clicked = set(zip(df[user], df[item], strict=False))
    items = df[item].unique()
    rows = [(u, i, 1) for u, i in clicked]
    for u in df[user].unique():
        for i in rng.choice(items, 15, replace=False):
            if (u, i) not in clicked:
                rows.append((u, i, 0))
    return pd.DataFrame(rows, columns=[user, item, "clicked"])


# implicit
class AlternatingLeastSquares:
    __module__ = "implicit.cpu.als"

    def __init__(self, factors=8):
        self.factors, self.user_factors, self.item_factors = factors, None, None

    def fit(self, user_items, show_progress=True):
        self.user_factors, self.item_factors = factorise(sp.csr_matrix(user_items), self.factors)
        return self

    def recommend(
        self,
        userid,
        user_items,
        N=10,
        filter_already_liked_items=True,
        filter_items=None,
        recalculate_user=False,
        items=None,
    ):
        users = np.atleast_1d(userid)
        s = self.user_factors[users] @ self.item_factors.T
        if filter_already_liked_items:
            for r in range(len(users)):
                s[r, user_items[r].indices] = -np.finfo(np.float32).max
        ids = np.argsort(-s, axis=1)[:, :N].astype(np.int32)
        sc = np.take_along_axis(s, ids, axis=1)
        return (ids[0], sc[0]) if np.isscalar(userid) else (ids, sc)


class BayesianPersonalizedRanking(AlternatingLeastSquares):
    __module__ = "implicit.cpu.bpr"


class CosineRecommender:
    __module__ = "implicit.nearest_neighbours"

    def __init__(self, K=20):
        self.K, self.similarity = K, None

    def fit(self, user_items, show_progress=True):
        m = sp.csr_matrix(user_items).astype(float)
        n = np.sqrt(np.asarray(m.multiply(m).sum(axis=0)).ravel()) + 1e-9
        self.similarity = sp.csr_matrix((m.T @ m).toarray() / n[:, None] / n[None, :])
        return self

    def recommend(
        self,
        userid,
        user_items,
        N=10,
        filter_already_liked_items=True,
        filter_items=None,
        recalculate_user=False,
        items=None,
    ):
        users = np.atleast_1d(userid)
        s = (sp.csr_matrix(user_items) @ self.similarity).toarray()
        if filter_already_liked_items:
            for r in range(len(users)):
                s[r, user_items[r].indices] = -1e9
        ids = np.argsort(-s, axis=1)[:, :N].astype(np.int32)
        sc = np.take_along_axis(s, ids, axis=1)
        return (ids[0], sc[0]) if np.isscalar(userid) else (ids, sc)


# LensKit
class ItemList:
    __module__ = "lenskit.data.items"

    def __init__(self, item_ids, scores=None, ordered=True):
        self._ids, self._scores, self.ordered = np.asarray(item_ids), scores, ordered

    def ids(self):
        return self._ids

    def scores(self):
        return self._scores

    def ranks(self):
        return np.arange(1, len(self._ids) + 1)

    def __len__(self):
        return len(self._ids)

    def to_df(self):
        df = pd.DataFrame({"item_id": self._ids})
        if self._scores is not None:
            df["score"] = self._scores
        if self.ordered:
            df["rank"] = self.ranks()
        return df


UserIDKey = namedtuple("UserIDKey", ["user_id"])


class ItemListCollection:
    __module__ = "lenskit.data.collection"

    def __init__(self, lists):
        self._lists = lists
        self.key_fields = ("user_id",)

    def __iter__(self):
        return iter((UserIDKey(u), il) for u, il in self._lists.items())

    def __len__(self):
        return len(self._lists)

    def items(self):
        return iter(self)

    def keys(self):
        return (UserIDKey(u) for u in self._lists)

    def lists(self):
        return iter(self._lists.values())

    def lookup(self, user_id=None):
        return self._lists.get(user_id)

    def to_df(self):
        return pd.concat([il.to_df().assign(user_id=u) for u, il in self._lists.items()], ignore_index=True)


class Pipeline:
    __module__ = "lenskit.pipeline"

    def __init__(self, scores):
        self.name = "als"
        self._scores = scores

    def run(self, *nodes, query=None, items=None, n=None, **kw):
        s = self._scores[int(query)]
        ids = np.arange(NI) if items is None else np.asarray(items.ids() if hasattr(items, "ids") else items)
        order = np.argsort(-s[ids])[: n or None]
        return ItemList(ids[order], s[ids][order])


class TTSplit:
    __module__ = "lenskit.splitting"

    def __init__(self, train, test):
        self.train, self.test = train, test


def make_collection(scores, train, k=10):
    df = list_items(scores, train, k)
    return ItemListCollection(
        {u: ItemList(g["item_id"].to_numpy(), g["score"].to_numpy()) for u, g in df.groupby("user_id")}
    )


def make_lenskit():
    train, test = draw_frames()
    m = to_csr(train)
    return train, test, m


# RecTools
class IdMap:
    __module__ = "rectools.dataset.identifiers"

    def __init__(self, external_ids):
        self.external_ids = np.asarray(external_ids)
        self.to_internal = pd.Series(np.arange(len(self.external_ids)), index=self.external_ids)
        self.to_external = pd.Series(self.external_ids)
        self.size = len(self.external_ids)

    def convert_to_internal(self, external, strict=True):
        return self.to_internal.reindex(external).to_numpy()

    def convert_to_external(self, internal, strict=True):
        return self.external_ids[np.asarray(internal)]


class Interactions:
    __module__ = "rectools.dataset.interactions"

    def __init__(self, df):
        self.df = df


class Dataset:
    __module__ = "rectools.dataset.dataset"

    def __init__(self, user_id_map, item_id_map, interactions):
        self.user_id_map, self.item_id_map, self.interactions = user_id_map, item_id_map, interactions
        self.user_features = self.item_features = None

    @classmethod
    def construct(cls, df):
        um, im = IdMap(df["user_id"].unique()), IdMap(df["item_id"].unique())
        inner = df.assign(
            user_id=um.convert_to_internal(df["user_id"]), item_id=im.convert_to_internal(df["item_id"])
        )
        return cls(um, im, Interactions(inner))

    def get_user_item_matrix(self, include_weights=True, dtype=np.float32):
        d = self.interactions.df
        v = d["weight"].to_numpy(dtype) if include_weights else np.ones(len(d), dtype)
        return sp.csr_matrix(
            (v, (d["user_id"], d["item_id"])), shape=(self.user_id_map.size, self.item_id_map.size)
        )

    def get_raw_interactions(self, include_weight=True, include_datetime=True):
        d = self.interactions.df.copy()
        d["user_id"] = self.user_id_map.convert_to_external(d["user_id"])
        d["item_id"] = self.item_id_map.convert_to_external(d["item_id"])
        return d


class ImplicitALSWrapperModel:
    __module__ = "rectools.models.implicit_als"

    def __init__(self, factors=8):
        self.factors, self.is_fitted = factors, False

    def fit(self, dataset):
        self.uf, self.vf = factorise(dataset.get_user_item_matrix(include_weights=False), self.factors)
        self.is_fitted = True
        return self

    def get_vectors(self):
        return self.uf, self.vf

    def recommend(
        self,
        users,
        dataset,
        k,
        filter_viewed,
        items_to_recommend=None,
        add_rank_col=True,
        on_unsupported_target="raise",
    ):
        inner = dataset.user_id_map.convert_to_internal(users).astype(int)
        s = self.uf[inner] @ self.vf.T
        if filter_viewed:
            s[dataset.get_user_item_matrix(False)[inner].nonzero()] = -np.inf
        rows = []
        for r, u in enumerate(users):
            for rank, i in enumerate(np.argsort(-s[r])[:k], 1):
                rows.append((u, dataset.item_id_map.external_ids[i], float(s[r, i]), rank))
        df = pd.DataFrame(rows, columns=["user_id", "item_id", "score", "rank"])
        return df if add_rank_col else df.drop(columns="rank")


class PopularModel(ImplicitALSWrapperModel):
    __module__ = "rectools.models.popular"

    def fit(self, dataset):
        m = dataset.get_user_item_matrix(False)
        pop = np.asarray(m.sum(axis=0)).ravel()
        self.uf, self.vf = np.ones((m.shape[0], 1)), pop[:, None].astype(float)
        self.is_fitted = True
        return self


def draw_interactions():
    df = draw_log(rating="weight", time="datetime")
    df["weight"] = 1.0
    df["datetime"] = pd.to_datetime(df["datetime"], unit="s").dt.floor("D")
    return df


def make_rectools():
    train, test = split_rows(draw_interactions())
    return train, test, Dataset.construct(train)


# RecBole
class RecBoleDataset:
    __module__ = "recbole.data.dataset.dataset"

    def __init__(self, df):
        self.uid_field, self.iid_field = "user_id", "item_id"
        self.field2id_token = {
            "user_id": np.array(["[PAD]"] + [f"u{u}" for u in range(NU)]),
            "item_id": np.array(["[PAD]"] + [f"i{i}" for i in range(NI)]),
        }
        self.field2token_id = {f: {t: k for k, t in enumerate(v)} for f, v in self.field2id_token.items()}
        self.user_num, self.item_num = NU + 1, NI + 1
        self.inter_feat = {
            "user_id": np.array([self.field2token_id["user_id"][x] for x in df["user_id"]]),
            "item_id": np.array([self.field2token_id["item_id"][x] for x in df["item_id"]]),
        }

    def num(self, field):
        return len(self.field2id_token[field])

    def id2token(self, field, ids):
        return self.field2id_token[field][np.asarray(ids)]

    def token2id(self, field, tokens):
        if isinstance(tokens, str):
            return self.field2token_id[field][tokens]
        return np.array([self.field2token_id[field][t] for t in tokens])

    def inter_matrix(self, form="coo", value_field=None):
        u, i = self.inter_feat["user_id"], self.inter_feat["item_id"]
        m = sp.coo_matrix((np.ones(len(u), np.float32), (u, i)), shape=(self.user_num, self.item_num))
        return m if form == "coo" else m.tocsr()


RecBoleDataset.__name__ = RecBoleDataset.__qualname__ = "Dataset"


class BPR:
    __module__ = "recbole.model.general_recommender.bpr"

    def __init__(self, dataset, k=8):
        self.USER_ID, self.ITEM_ID = "user_id", "item_id"
        self.n_users, self.n_items = dataset.user_num, dataset.item_num
        self.uf, self.vf = factorise(dataset.inter_matrix("csr"), k)
        self.device = "cpu"

    def eval(self):
        return self

    def full_sort_predict(self, interaction):
        u = np.asarray(interaction["user_id"])
        s = (self.uf[u] @ self.vf.T).ravel()
        return torch.as_tensor(s) if torch is not None else s

    def predict(self, interaction):
        u, i = np.asarray(interaction["user_id"]), np.asarray(interaction["item_id"])
        s = (self.uf[u] * self.vf[i]).sum(axis=1)
        return torch.as_tensor(s) if torch is not None else s


def make_recbole():
    train, test = draw_frames(implicit=True, strings=True)
    return train, test, RecBoleDataset(train)


def write_inter(df, name="ml-100k.inter"):
    path = make_path(name)
    cols = {
        "user_id": "user_id:token",
        "item_id": "item_id:token",
        "rating": "rating:float",
        "timestamp": "timestamp:float",
    }
    df.rename(columns=cols).to_csv(path, sep="\t", index=False)
    return path


def list_codes(model, dataset, k=10):
    """like recbole.utils.case_study.full_sort_topk: (scores, internal ids) for all users."""
    s = (model.uf @ model.vf.T)[1:].copy()
    s[:, 0] = -np.inf
    s[dataset.inter_matrix("csr")[1:].nonzero()] = -np.inf
    ids = np.argsort(-s, axis=1)[:, :k]
    sc = np.take_along_axis(s, ids, axis=1)
    return (torch.as_tensor(sc), torch.as_tensor(ids)) if torch is not None else (sc, ids)


# cornac
class CornacDataset:
    __module__ = "cornac.data.dataset"

    def __init__(self, uir, uid_map=None, iid_map=None):
        self.uid_map = uid_map if uid_map is not None else OrderedDict()
        self.iid_map = iid_map if iid_map is not None else OrderedDict()
        u = np.array([self.uid_map.setdefault(a, len(self.uid_map)) for a, _, _ in uir], dtype=int)
        i = np.array([self.iid_map.setdefault(b, len(self.iid_map)) for _, b, _ in uir], dtype=int)
        self.uir_tuple = (u, i, np.array([c for _, _, c in uir], dtype=float))
        self.num_users, self.num_items, self.num_ratings = len(set(u)), len(set(i)), len(u)
        self.timestamps = None

    @property
    def user_ids(self):
        return list(self.uid_map)

    @property
    def item_ids(self):
        return list(self.iid_map)

    @property
    def matrix(self):
        return self.csr_matrix

    @property
    def csr_matrix(self):
        u, i, r = self.uir_tuple
        return sp.csr_matrix((r, (u, i)), shape=(len(self.uid_map), len(self.iid_map)))

    @classmethod
    def from_uir(cls, data, seed=None):
        return cls(data)


CornacDataset.__name__ = CornacDataset.__qualname__ = "Dataset"


class MF:
    __module__ = "cornac.models.mf.recom_mf"

    def __init__(self, k=8, name="MF"):
        self.k, self.name = k, name

    def fit(self, train_set, val_set=None):
        self.train_set = train_set
        self.uid_map, self.iid_map = train_set.uid_map, train_set.iid_map
        self.num_users, self.num_items = train_set.num_users, train_set.num_items
        self.total_users, self.total_items = len(self.uid_map), len(self.iid_map)
        self.u_factors, self.i_factors = factorise(train_set.csr_matrix, self.k)
        return self

    @property
    def user_ids(self):
        return list(self.uid_map)

    @property
    def item_ids(self):
        return list(self.iid_map)

    def score(self, user_idx, item_idx=None):
        s = self.i_factors @ self.u_factors[user_idx]
        return s if item_idx is None else s[item_idx]

    def rank(self, user_idx, item_indices=None, k=-1, **kw):
        s = self.score(user_idx)
        idx = np.arange(len(s)) if item_indices is None else np.asarray(item_indices)
        return idx[np.argsort(-s[idx])], s[idx]

    def recommend(self, user_id, k=-1, remove_seen=False, train_set=None):
        u = self.uid_map[user_id]
        s = self.score(u).astype(float)
        if remove_seen:
            s[(train_set or self.train_set).csr_matrix[u].indices] = -np.inf
        ids = self.item_ids
        return [ids[i] for i in np.argsort(-s)[: k if k > 0 else None]]


class WMF(MF):
    __module__ = "cornac.models.wmf.recom_wmf"


class RatioSplit:
    __module__ = "cornac.eval_methods.ratio_split"

    def __init__(self, data, test_size=0.2, rating_threshold=4.0, exclude_unknowns=True, seed=123):
        rng = np.random.default_rng(seed)
        mask = rng.random(len(data)) < test_size
        tr = [d for d, t in zip(data, mask, strict=False) if not t]
        self.train_set = CornacDataset(tr)
        te = [
            d
            for d, t in zip(data, mask, strict=False)
            if t and d[0] in self.train_set.uid_map and d[1] in self.train_set.iid_map
        ]
        self.test_set = CornacDataset(te, self.train_set.uid_map, self.train_set.iid_map)
        self.rating_threshold = rating_threshold
        self.global_uid_map, self.global_iid_map = self.train_set.uid_map, self.train_set.iid_map


def to_tuples(df):
    return list(zip(df["user_id"], df["item_id"], df["rating"].astype(float), strict=False))


def make_cornac():
    df = draw_log(strings=True)
    return RatioSplit(to_tuples(df))


def to_frame(ds):
    u, i, r = ds.uir_tuple
    return pd.DataFrame(
        {"user_id": np.array(ds.user_ids)[u], "item_id": np.array(ds.item_ids)[i], "rating": r}
    )


# ranx / ir_measures
class Qrels:
    __module__ = "ranx.data_structures.qrels"

    def __init__(self, qrels=None, name=None):
        self.qrels, self.name = qrels or {}, name

    def to_dict(self):
        return {q: dict(d) for q, d in self.qrels.items()}

    def to_dataframe(self):
        return pd.DataFrame(
            [(q, d, s) for q, x in self.qrels.items() for d, s in x.items()],
            columns=["q_id", "doc_id", "score"],
        )

    def keys(self):
        return self.qrels.keys()

    def __len__(self):
        return len(self.qrels)


class Run(Qrels):
    __module__ = "ranx.data_structures.run"

    def __init__(self, run=None, name=None):
        self.run, self.name = run or {}, name
        self.qrels = self.run


Qrel = namedtuple("Qrel", ["query_id", "doc_id", "relevance", "iteration"], defaults=["0"])
ScoredDoc = namedtuple("ScoredDoc", ["query_id", "doc_id", "score"])


def make_runs():
    train, test = draw_frames(implicit=True, strings=True)
    m = to_coded_csr(train)
    qrels = {q: dict.fromkeys(g["item_id"], 1) for q, g in test.groupby("user_id")}
    runs = {}
    for name, kind in (("bm25", "pop"), ("dense", "mf")):
        rec = list_items(score_items(m, kind), m, k=20, strings=True)
        runs[name] = {q: dict(zip(g["item_id"], g["score"], strict=False)) for q, g in rec.groupby("user_id")}
    return train, test, qrels, runs


def write_trec():
    train, _test, qrels, runs = make_runs()
    qpath = make_path("test.qrels")
    with open(qpath, "w") as f:
        for q, d in qrels.items():
            for i, r in d.items():
                f.write(f"{q} 0 {i} {r}\n")
    paths = {}
    for name, run in runs.items():
        paths[name] = make_path(f"{name}.run")
        with open(paths[name], "w") as f:
            for q, d in run.items():
                for rank, (i, s) in enumerate(sorted(d.items(), key=lambda x: -x[1]), 1):
                    f.write(f"{q} Q0 {i} {rank} {s:.6f} {name}\n")
    return train, qpath, paths
