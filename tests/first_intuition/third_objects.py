"""What people of six libraries hold when they type the calls of third_ninety_calls.txt.

The classes stand in for those of libraries that are not installed, with the methods that matter here.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict, namedtuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

# Small data


def draw_log(n_users=100, n_items=60, per_user=14, seed=0, user="user_id", item="item_id"):
    """Interactions without duplicates; popular items are more frequent."""
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, n_items + 1) ** 0.7
    p /= p.sum()
    taste = rng.gamma(1.0, 1.0, size=(n_users, 4)) @ rng.gamma(1.0, 1.0, size=(4, n_items))
    rows = []
    for u in range(n_users):
        w = p * taste[u]
        w /= w.sum()
        k = int(rng.integers(max(5, per_user - 5), per_user + 6))
        for i in rng.choice(n_items, size=min(k, n_items), replace=False, p=w):
            rows.append((u, int(i)))
    return pd.DataFrame(rows, columns=[user, item])


def draw_ratings(seed=0, user="user_id", item="item_id", rating="rating", **kw):
    df = draw_log(seed=seed, user=user, item=item, **kw)
    rng = np.random.default_rng(seed + 1)
    df[rating] = rng.choice([1, 2, 3, 4, 5], size=len(df), p=[0.06, 0.11, 0.27, 0.34, 0.22])
    return df


def split_halves(df, fraction=0.25, seed=0):
    mask = np.random.default_rng(seed).random(len(df)) < fraction
    return df[~mask].reset_index(drop=True), df[mask].reset_index(drop=True)


def to_csr(df, n_users, n_items):
    u, i = df.iloc[:, 0].to_numpy(), df.iloc[:, 1].to_numpy()
    return sp.csr_matrix((np.ones(len(df), dtype=np.float32), (u, i)), shape=(n_users, n_items))


def draw_matrices(n_users=100, n_items=60, seed=0):
    train, test = split_halves(draw_log(n_users, n_items, seed=seed), seed=seed)
    return to_csr(train, n_users, n_items), to_csr(test, n_users, n_items)


def factorise(matrix, factors):
    u, s, vt = np.linalg.svd(matrix.toarray().astype(float), full_matrices=False)
    root = np.sqrt(s[:factors])
    return u[:, :factors] * root, vt[:factors].T * root


def score_pairs(train, n_users, n_items, factors=8):
    """Dense scores of a small factorisation from a frame of integer users and items."""
    u, v = factorise(to_csr(train, n_users, n_items), factors)
    return u @ v.T


def recommend_items(train, n_users, n_items, k=10, factors=8, user="user_id", item="item_id"):
    """Frame user, item, score, rank with the k best unseen items of every user."""
    s = score_pairs(train, n_users, n_items, factors)
    s[train.iloc[:, 0].to_numpy(), train.iloc[:, 1].to_numpy()] = -np.inf
    top = np.argsort(-s, axis=1)[:, :k]
    return pd.DataFrame(
        {
            user: np.repeat(np.arange(n_users), k),
            item: top.ravel(),
            "score": np.take_along_axis(s, top, axis=1).ravel(),
            "rank": np.tile(np.arange(1, k + 1), n_users),
        }
    )


def draw_likes(n_users=100, n_items=60, shown=12, seed=9, user="user_id", item="item_id", like="liked"):
    """Every user judged a few items drawn at random; 1 = liked."""
    rng = np.random.default_rng(seed)
    rows = []
    for u in range(n_users):
        for i in rng.choice(n_items, size=shown, replace=False):
            rows.append((u, int(i), int(rng.random() < 0.25)))
    return pd.DataFrame(rows, columns=[user, item, like])


def make_folder():
    return tempfile.mkdtemp(dir=".")


# Stand-ins for implicit


class AlternatingLeastSquares:
    def __init__(self, factors=8, regularization=0.01, iterations=15):
        self.factors = factors
        self.regularization = regularization
        self.iterations = iterations
        self.user_factors = None
        self.item_factors = None

    def fit(self, user_items, show_progress=True, callback=None):
        u, v = factorise(user_items, self.factors)
        self.user_factors, self.item_factors = u.astype(np.float32), v.astype(np.float32)

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
        scores = (self.user_factors[users] @ self.item_factors.T).astype(np.float32)
        if filter_already_liked_items and user_items is not None:
            scores[user_items.toarray() > 0] = -np.inf
        ids = np.argsort(-scores, axis=1)[:, :N].astype(np.int32)
        values = np.take_along_axis(scores, ids, axis=1)
        return (ids[0], values[0]) if np.isscalar(userid) else (ids, values)

    def similar_items(self, itemid, N=10):
        s = self.item_factors @ self.item_factors[itemid]
        ids = np.argsort(-s)[:N]
        return ids, s[ids]


class BayesianPersonalizedRanking(AlternatingLeastSquares):
    pass


class CosineRecommender:
    def __init__(self, K=20):
        self.K = K
        self.similarity = None

    def fit(self, weighted, show_progress=True, callback=None):
        m = weighted.toarray().astype(float)
        m = m / np.maximum(np.linalg.norm(m, axis=0), 1e-9)
        self.similarity = sp.csr_matrix(m.T @ m)

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
        dense = user_items.toarray()
        scores = np.asarray(dense @ self.similarity.toarray())
        if filter_already_liked_items:
            scores[dense > 0] = -np.inf
        ids = np.argsort(-scores, axis=1)[:, :N]
        values = np.take_along_axis(scores, ids, axis=1)
        return (ids[0], values[0]) if np.isscalar(userid) else (ids, values)


AlternatingLeastSquares.__module__ = "implicit.cpu.als"
BayesianPersonalizedRanking.__module__ = "implicit.cpu.bpr"
CosineRecommender.__module__ = "implicit.nearest_neighbours"


# Stand-ins for LensKit


class ItemList:
    def __init__(self, item_ids=None, *, scores=None, ordered=False, **fields):
        self._ids = np.asarray(item_ids)
        self._scores = None if scores is None else np.asarray(scores)
        self.ordered = ordered
        self._fields = {k: np.asarray(v) for k, v in fields.items()}

    def ids(self):
        return self._ids

    def scores(self):
        return self._scores

    def ranks(self):
        return np.arange(1, len(self._ids) + 1) if self.ordered else None

    def field(self, name):
        return self._fields.get(name)

    def __len__(self):
        return len(self._ids)

    def to_df(self, ids=True, numbers=False):
        d = {"item_id": self._ids}
        if self._scores is not None:
            d["score"] = self._scores
        if self.ordered:
            d["rank"] = self.ranks()
        d.update(self._fields)
        return pd.DataFrame(d)


UserIDKey = namedtuple("UserIDKey", ["user_id"])


class ItemListCollection:
    def __init__(self, lists):
        self._lists = [(UserIDKey(u), il) for u, il in lists]

    @classmethod
    def from_df(cls, df, key="user_id"):
        lists = []
        for u, g in df.groupby("user_id"):
            if "rank" in g:
                g = g.sort_values("rank")
            lists.append(
                (
                    u,
                    ItemList(
                        g["item_id"].to_numpy(),
                        scores=g["score"].to_numpy() if "score" in g else None,
                        ordered="rank" in g,
                        **({"rating": g["rating"].to_numpy()} if "rating" in g else {}),
                    ),
                )
            )
        return cls(lists)

    @property
    def key_fields(self):
        return ("user_id",)

    def lookup(self, key=None, **kw):
        wanted = kw.get("user_id", key)
        for k, il in self._lists:
            if k.user_id == wanted:
                return il
        return None

    def keys(self):
        return (k for k, _ in self._lists)

    def lists(self):
        return (il for _, il in self._lists)

    def items(self):
        return iter(self._lists)

    def to_df(self):
        return pd.concat([il.to_df().assign(user_id=k.user_id) for k, il in self._lists], ignore_index=True)

    def __iter__(self):
        return iter(self._lists)

    def __len__(self):
        return len(self._lists)

    def __getitem__(self, pos):
        return self._lists[pos]


class LKDataset:
    def __init__(self, df):
        self._df = df
        self.user_count = df["user_id"].nunique()
        self.item_count = df["item_id"].nunique()

    def interaction_table(self, *, original_ids=True, **_):
        return self._df.copy()

    def user_row(self, user_id):
        return ItemList(self._df.loc[self._df["user_id"] == user_id, "item_id"].to_numpy())


class TTSplit:
    def __init__(self, train, test, name=None):
        self.train, self.test, self.name = train, test, name

    @property
    def train_df(self):
        return self.train.interaction_table(format="pandas")

    @property
    def test_df(self):
        return self.test.to_df()


class Pipeline:
    """A trained top-N pipeline."""

    def __init__(self, name=None, factors=8, shape=(100, 60)):
        self.name, self._factors, self._shape = name, factors, shape

    def train(self, data, options=None):
        df = data.interaction_table(format="pandas")
        self._scores = score_pairs(df[["user_id", "item_id"]], *self._shape, self._factors)
        self._scores[df["user_id"], df["item_id"]] = -np.inf

    def run(self, node="recommender", *, query, n=None):
        s = self._scores[query]
        ids = np.argsort(-s)[: n or 20]
        return ItemList(ids, scores=s[ids], ordered=True)


LKDataset.__name__ = LKDataset.__qualname__ = "Dataset"
LKDataset.__module__ = "lenskit.data"
ItemList.__module__ = ItemListCollection.__module__ = "lenskit.data"
TTSplit.__module__ = "lenskit.splitting"
Pipeline.__module__ = "lenskit.pipeline"


def make_lenskit(seed=0, rating=False):
    """TTSplit, and the plain train and test frames."""
    df = draw_ratings(seed=seed) if rating else draw_log(seed=seed)
    train, test = split_halves(df, seed=seed)
    return TTSplit(LKDataset(train), ItemListCollection.from_df(test)), train, test


# Stand-ins for RecTools


class IdMap:
    def __init__(self, external_ids):
        self.external_ids = np.asarray(external_ids)

    @property
    def size(self):
        return len(self.external_ids)

    @property
    def to_internal(self):
        return pd.Series(np.arange(self.size), index=self.external_ids)

    @property
    def to_external(self):
        return pd.Series(self.external_ids, index=np.arange(self.size))

    def convert_to_internal(self, external):
        return self.to_internal.loc[np.asarray(external)].to_numpy()

    def convert_to_external(self, internal):
        return self.external_ids[np.asarray(internal)]


class Interactions:
    def __init__(self, df):
        self.df = df

    def get_csr_matrix(self, include_weights=True):
        return sp.csr_matrix((self.df["weight"], (self.df["user_id"], self.df["item_id"])))


class RTDataset:
    def __init__(self, user_id_map, item_id_map, interactions):
        self.user_id_map, self.item_id_map, self.interactions = user_id_map, item_id_map, interactions

    @classmethod
    def construct(cls, interactions_df):
        um, im = IdMap(pd.unique(interactions_df["user_id"])), IdMap(pd.unique(interactions_df["item_id"]))
        df = interactions_df.assign(
            user_id=um.convert_to_internal(interactions_df["user_id"]),
            item_id=im.convert_to_internal(interactions_df["item_id"]),
        )
        return cls(um, im, Interactions(df))

    def get_user_item_matrix(self, include_weights=True):
        d = self.interactions.df
        return sp.csr_matrix(
            (d["weight"].astype(float), (d["user_id"], d["item_id"])),
            shape=(self.user_id_map.size, self.item_id_map.size),
        )

    def get_raw_interactions(self):
        d = self.interactions.df
        return d.assign(
            user_id=self.user_id_map.convert_to_external(d["user_id"]),
            item_id=self.item_id_map.convert_to_external(d["item_id"]),
        )


class PureSVDModel:
    def __init__(self, factors=8):
        self.factors = factors

    def fit(self, dataset):
        self.user_factors, self.item_factors = factorise(dataset.get_user_item_matrix(), self.factors)
        return self

    def recommend(self, users, dataset, k, filter_viewed, items_to_recommend=None, add_rank_col=True):
        rows = dataset.user_id_map.convert_to_internal(users)
        s = self.user_factors[rows] @ self.item_factors.T
        if filter_viewed:
            s[dataset.get_user_item_matrix().toarray()[rows] > 0] = -np.inf
        top = np.argsort(-s, axis=1)[:, :k]
        reco = pd.DataFrame(
            {
                "user_id": np.repeat(np.asarray(users), k),
                "item_id": dataset.item_id_map.convert_to_external(top.ravel()),
                "score": np.take_along_axis(s, top, axis=1).ravel(),
            }
        )
        if add_rank_col:
            reco["rank"] = np.tile(np.arange(1, k + 1), len(rows))
        return reco


RTDataset.__name__ = RTDataset.__qualname__ = "Dataset"
RTDataset.__module__ = "rectools.dataset.dataset"
IdMap.__module__ = "rectools.dataset.identifiers"
Interactions.__module__ = "rectools.dataset.interactions"
PureSVDModel.__module__ = "rectools.models.pure_svd"


def make_rectools(seed=0, n_users=100, n_items=60):
    """Interactions with user_id, item_id, weight, datetime, split at a date."""
    df = draw_log(n_users, n_items, seed=seed)
    rng = np.random.default_rng(seed)
    df["weight"] = 1.0
    df["datetime"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 100, len(df)), unit="D")
    cut = pd.Timestamp("2024-03-16")
    return (
        df,
        df[df["datetime"] < cut].reset_index(drop=True),
        df[df["datetime"] >= cut].reset_index(drop=True),
    )


# Stand-ins for RecBole


class Tensor:
    """What a user sees of a torch tensor."""

    def __init__(self, a):
        self._a = np.asarray(a)
        self.shape, self.dtype, self.device = self._a.shape, self._a.dtype, "cpu"
        self.requires_grad = False

    def cpu(self):
        return self

    def detach(self):
        return self

    def numpy(self):
        return self._a

    def tolist(self):
        return self._a.tolist()

    def __array__(self, dtype=None, copy=None):
        return self._a if dtype is None else self._a.astype(dtype)

    def __len__(self):
        return len(self._a)

    def __getitem__(self, key):
        return Tensor(self._a[key])


Tensor.__module__ = "torch"


class Interaction:
    def __init__(self, interaction):
        self.interaction = interaction

    def __getitem__(self, key):
        return self.interaction[key]

    def __len__(self):
        return len(next(iter(self.interaction.values())))

    def numpy(self):
        return {k: v.numpy() for k, v in self.interaction.items()}


class RBDataset:
    """Internal ids start at 1; 0 is [PAD]."""

    uid_field, iid_field = "user_id", "item_id"

    def __init__(self, df, n_users, n_items):
        self.user_num, self.item_num = n_users + 1, n_items + 1
        self.field2id_token = {
            "user_id": np.array(["[PAD]"] + [f"u{k}" for k in range(n_users)]),
            "item_id": np.array(["[PAD]"] + [f"i{k}" for k in range(n_items)]),
        }
        self.inter_feat = Interaction(
            {"user_id": Tensor(df["user_id"].to_numpy() + 1), "item_id": Tensor(df["item_id"].to_numpy() + 1)}
        )
        self.inter_num = len(df)

    def id2token(self, field, ids):
        return self.field2id_token[field][np.asarray(ids)]

    def token2id(self, field, tokens):
        lookup = {t: k for k, t in enumerate(self.field2id_token[field])}
        return np.array([lookup[t] for t in np.atleast_1d(tokens)])

    def inter_matrix(self, form="coo", value_field=None):
        u, i = self.inter_feat["user_id"].numpy(), self.inter_feat["item_id"].numpy()
        m = sp.coo_matrix((np.ones(len(u)), (u, i)), shape=(self.user_num, self.item_num))
        return m.tocsr() if form == "csr" else m


class Embedding:
    def __init__(self, a):
        self.weight = Tensor(a)


class BPR:
    def __init__(self, dataset, factors=8):
        u, v = factorise(dataset.inter_matrix(form="csr"), factors)
        self.user_embedding, self.item_embedding = Embedding(u), Embedding(v)
        self.n_users, self.n_items = dataset.user_num, dataset.item_num

    def eval(self):
        return self

    def full_sort_predict(self, interaction):
        users = interaction["user_id"].numpy()
        return Tensor(
            (self.user_embedding.weight.numpy()[users] @ self.item_embedding.weight.numpy().T).ravel()
        )


RBDataset.__name__ = RBDataset.__qualname__ = "Dataset"
RBDataset.__module__ = "recbole.data.dataset.dataset"
Interaction.__module__ = "recbole.data.interaction"
BPR.__module__ = "recbole.model.general_recommender.bpr"


def full_sort_scores(uid_series, model, dataset):
    s = model.full_sort_predict(Interaction({"user_id": Tensor(uid_series)})).numpy()
    s = s.reshape(len(uid_series), -1).copy()
    s[dataset.inter_matrix(form="csr")[uid_series].toarray() > 0] = -np.inf
    s[:, 0] = -np.inf
    return Tensor(s)


def full_sort_topk(uid_series, model, dataset, k):
    s = full_sort_scores(uid_series, model, dataset).numpy()
    top = np.argsort(-s, axis=1)[:, :k]
    return Tensor(np.take_along_axis(s, top, axis=1)), Tensor(top)


def make_recbole(n_users=100, n_items=60, seed=0):
    """RecBole train and test data sets and the token frames they came from."""
    train, test = split_halves(draw_log(n_users, n_items, seed=seed), seed=seed)
    train_set, test_set = RBDataset(train, n_users, n_items), RBDataset(test, n_users, n_items)
    tokens = [
        pd.DataFrame({"user_id": "u" + d["user_id"].astype(str), "item_id": "i" + d["item_id"].astype(str)})
        for d in (train, test)
    ]
    return train_set, test_set, tokens[0], tokens[1]


def write_inter(df, path):
    names = {
        "user_id": "user_id:token",
        "item_id": "item_id:token",
        "rating": "rating:float",
        "timestamp": "timestamp:float",
    }
    df.rename(columns=names).to_csv(path, sep="\t", index=False)
    return path


# Stand-ins for Surprise

Prediction = namedtuple("Prediction", ["uid", "iid", "r_ui", "est", "details"])
Prediction.__module__ = "surprise.prediction_algorithms.predictions"


class Trainset:
    def __init__(self, rows):
        self._u, self._i = {}, {}
        self.ur, self.ir = defaultdict(list), defaultdict(list)
        for u, i, r in rows:
            iu = self._u.setdefault(u, len(self._u))
            ii = self._i.setdefault(i, len(self._i))
            self.ur[iu].append((ii, r))
            self.ir[ii].append((iu, r))
        self._ru, self._ri = list(self._u), list(self._i)
        self.n_users, self.n_items, self.n_ratings = len(self._u), len(self._i), len(rows)
        self.rating_scale = (1, 5)
        self.global_mean = float(np.mean([r for _, _, r in rows]))

    def to_raw_uid(self, iuid):
        return self._ru[iuid]

    def to_raw_iid(self, iiid):
        return self._ri[iiid]

    def to_inner_uid(self, ruid):
        return self._u[ruid]

    def to_inner_iid(self, riid):
        return self._i[riid]

    def knows_user(self, uid):
        return uid in self.ur

    def knows_item(self, iid):
        return iid in self.ir

    def all_users(self):
        return range(self.n_users)

    def all_items(self):
        return range(self.n_items)

    def all_ratings(self):
        for u, rs in self.ur.items():
            for i, r in rs:
                yield u, i, r

    def build_testset(self):
        return [(self.to_raw_uid(u), self.to_raw_iid(i), r) for u, i, r in self.all_ratings()]

    def build_anti_testset(self, fill=None):
        fill = self.global_mean if fill is None else fill
        out = []
        for u in self.all_users():
            seen = {i for i, _ in self.ur[u]}
            out += [(self.to_raw_uid(u), self.to_raw_iid(i), fill) for i in self.all_items() if i not in seen]
        return out


class SVD:
    def __init__(self, n_factors=8, random_state=0):
        self.n_factors = n_factors

    def fit(self, trainset):
        self.trainset = trainset
        m = np.zeros((trainset.n_users, trainset.n_items))
        for u, i, r in trainset.all_ratings():
            m[u, i] = r - trainset.global_mean
        self.pu, self.qi = factorise(sp.csr_matrix(m), self.n_factors)
        self.bu, self.bi = m.mean(axis=1), m.mean(axis=0)
        return self

    def estimate(self, u, i):
        return self.trainset.global_mean + self.bu[u] + self.bi[i] + self.pu[u] @ self.qi[i]

    def predict(self, uid, iid, r_ui=None, clip=True, verbose=False):
        t = self.trainset
        known = uid in t._u and iid in t._i
        est = self.estimate(t.to_inner_uid(uid), t.to_inner_iid(iid)) if known else t.global_mean
        return Prediction(uid, iid, r_ui, float(np.clip(est, 1, 5)), {"was_impossible": False})

    def test(self, testset, verbose=False):
        return [self.predict(u, i, r) for u, i, r in testset]


class KNNBasic(SVD):
    pass


Trainset.__module__ = "surprise.trainset"
SVD.__module__ = "surprise.prediction_algorithms.matrix_factorization"
KNNBasic.__module__ = "surprise.prediction_algorithms.knns"


def make_surprise(n_users=80, n_items=50, seed=0):
    """trainset, testset (raw string ids as Surprise gives them)."""
    df = draw_ratings(seed=seed, n_users=n_users, n_items=n_items)
    train, test = split_halves(df, seed=seed)
    rows = [[(str(u), str(i), float(r)) for u, i, r in d.itertuples(index=False)] for d in (train, test)]
    return Trainset(rows[0]), rows[1]


def get_top_n(predictions, n=10):
    """From the FAQ of Surprise."""
    top_n = defaultdict(list)
    for uid, iid, _, est, _ in predictions:
        top_n[uid].append((iid, est))
    for uid, user_ratings in top_n.items():
        user_ratings.sort(key=lambda x: x[1], reverse=True)
        top_n[uid] = user_ratings[:n]
    return top_n


# Stand-ins for ranx and ir_measures


class Qrels:
    def __init__(self, qrels=None, name=None):
        self.qrels, self.name = qrels or {}, name

    def keys(self):
        return self.qrels.keys()

    def items(self):
        return self.qrels.items()

    def __getitem__(self, q):
        return self.qrels[q]

    def __len__(self):
        return len(self.qrels)

    def to_dict(self):
        return {q: dict(d) for q, d in self.qrels.items()}

    def to_dataframe(self):
        return pd.DataFrame(
            [(q, d, s) for q, ds in self.qrels.items() for d, s in ds.items()],
            columns=["q_id", "doc_id", "score"],
        )


class Run:
    def __init__(self, run=None, name=None):
        self.run, self.name = run or {}, name
        self.metadata = {}

    def keys(self):
        return self.run.keys()

    def items(self):
        return self.run.items()

    def __getitem__(self, q):
        return self.run[q]

    def __len__(self):
        return len(self.run)

    def to_dict(self):
        return {q: dict(d) for q, d in self.run.items()}

    def to_dataframe(self):
        return pd.DataFrame(
            [(q, d, s) for q, ds in self.run.items() for d, s in ds.items()],
            columns=["q_id", "doc_id", "score"],
        )


Qrels.__module__ = "ranx.data_structures.qrels"
Run.__module__ = "ranx.data_structures.run"

ScoredDoc = namedtuple("ScoredDoc", ["query_id", "doc_id", "score"])
Qrel = namedtuple("Qrel", ["query_id", "doc_id", "relevance", "iteration"], defaults=["0"])
ScoredDoc.__module__ = Qrel.__module__ = "ir_measures.util"


def make_runs(n_queries=80, n_docs=60, k=20, seed=0, graded=False):
    """train clicks, qrels and two runs as dicts {query: {doc: value}}."""
    rng = np.random.default_rng(seed)
    train, test = split_halves(draw_log(n_queries, n_docs, seed=seed), seed=seed)

    def nested(df):
        out = {}
        for q, d in df[["user_id", "item_id"]].itertuples(index=False):
            out.setdefault(f"q{q}", {})[f"d{d}"] = int(rng.integers(0, 4)) if graded else 1
        return out

    def run(factors):
        out = {}
        for q, d, s, _ in recommend_items(train, n_queries, n_docs, k, factors).itertuples(index=False):
            out.setdefault(f"q{int(q)}", {})[f"d{int(d)}"] = float(s)
        return out

    return nested(train), nested(test), run(2), run(10)


def write_qrels(qrels, path):
    with open(path, "w") as f:
        for q, docs in qrels.items():
            for d, r in docs.items():
                f.write(f"{q} 0 {d} {r}\n")
    return path


def write_run(run, path, tag):
    with open(path, "w") as f:
        for q, docs in run.items():
            for rank, (d, s) in enumerate(sorted(docs.items(), key=lambda x: -x[1]), 1):
                f.write(f"{q} Q0 {d} {rank} {s:.6f} {tag}\n")
    return path
