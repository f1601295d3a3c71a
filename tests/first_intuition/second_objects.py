"""What people of six groups of libraries hold when they type the calls of second_ninety_calls.txt."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pandas as pd
import scipy.sparse

import ipseval

N_USERS = 60
N_ITEMS = 40
POPULARITY = 1 / np.arange(1, N_ITEMS + 1) ** 0.7
PROBABILITY = POPULARITY / POPULARITY.sum()
Names = dict[str, object]


def draw_pairs(rng: np.random.Generator, users: list, items: list, n: int = 12) -> list[tuple]:
    """Return pairs of each user and `n` items, of which the first are the most popular."""
    pairs = []
    for user in users:
        for item in rng.choice(np.asarray(items), n, replace=False, p=PROBABILITY).tolist():
            pairs.append((user, item))
    return pairs


def draw_log(rng: np.random.Generator, users: list, items: list, user: str, item: str) -> pd.DataFrame:
    """Return a log of ratings, with a column that tells which rows are held out."""
    frame = pd.DataFrame(draw_pairs(rng, users, items), columns=[user, item])
    frame["rating"] = rng.integers(1, 6, len(frame))
    frame["timestamp"] = rng.integers(1_600_000_000, 1_600_900_000, len(frame))
    frame["held"] = rng.random(len(frame)) < 0.25
    return frame


def split_parts(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = frame.drop(columns="held")
    return parts[~frame["held"]].reset_index(drop=True), parts[frame["held"]].reset_index(drop=True)


def to_csr(frame: pd.DataFrame) -> scipy.sparse.csr_matrix:
    entries = np.ones(len(frame), dtype=np.float32)
    return scipy.sparse.csr_matrix((entries, (frame["user_id"], frame["item_id"])), shape=(N_USERS, N_ITEMS))


def draw_lists(
    rng: np.random.Generator, train: pd.DataFrame, users: list, items: list, n: int
) -> pd.DataFrame:
    """Return the `n` best items outside training of each user, by scores drawn at random."""
    user_column, item_column = train.columns[:2]
    seen = set(zip(train[user_column], train[item_column], strict=True))
    rows = [(user, item, rng.normal()) for user in users for item in items if (user, item) not in seen]
    frame = pd.DataFrame(rows, columns=[user_column, item_column, "score"])
    frame = frame.sort_values([user_column, "score"], ascending=[True, False])
    frame["rank"] = frame.groupby(user_column).cumcount() + 1
    return frame[frame["rank"] <= n].reset_index(drop=True)


class TrainedModel:
    """A trained model with the attributes and the method `recommend` of implicit."""

    def __init__(
        self, factors: tuple[np.ndarray, np.ndarray], recommended: tuple[np.ndarray, np.ndarray]
    ) -> None:
        self.user_factors, self.item_factors = factors
        self.recommended = recommended

    def recommend(self, userid: np.ndarray, user_items: object, N: int = 10, **_: object) -> tuple:
        ids, scores = self.recommended
        return ids[userid][..., :N], scores[userid][..., :N]


def make_implicit() -> Names:
    rng = np.random.default_rng(0)
    log = draw_log(rng, list(range(N_USERS)), list(range(N_ITEMS)), "user_id", "item_id")
    train, test = split_parts(log)
    train_csr = to_csr(train)
    factors = (rng.normal(size=(N_USERS, 16)).astype("f4"), rng.normal(size=(N_ITEMS, 16)).astype("f4"))
    bpr_user_factors = rng.normal(size=(N_USERS, 17)).astype("f4")
    bpr_user_factors[:, -1] = 1
    scores = factors[0] @ factors[1].T
    masked = np.where(train_csr.toarray() > 0, -np.inf, scores)
    ids = np.argsort(-masked, axis=1)[:, :10].astype(np.int32)
    rec_scores = np.take_along_axis(masked, ids, axis=1)
    names = {"train": train, "test": test, "log": log.drop(columns="held")}
    for name, frame in names.items():
        frame.to_csv(f"{name}.csv", index=False)
    scipy.sparse.save_npz("train.npz", train_csr)
    scipy.sparse.save_npz("test.npz", to_csr(test))
    np.savez("als.npz", user_factors=factors[0], item_factors=factors[1])
    np.save("scores.npy", scores)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.1)
    shown = pd.DataFrame({"user": users, "item": items, "positive": rng.integers(0, 2, users.size)})
    return {
        "df": names["log"],
        "train_csr": train_csr,
        "test_csr": to_csr(test),
        "csr_split": ipseval.Split.from_frames(train_csr, to_csr(test)),
        "user_factors": factors[0],
        "item_factors": factors[1],
        "bpr_user_factors": bpr_user_factors,
        "bpr_item_factors": rng.normal(size=(N_ITEMS, 17)).astype("f4"),
        "scores": scores,
        "masked": masked,
        "ids": ids,
        "rec_scores": rec_scores,
        "pop": np.asarray((train_csr > 0).sum(axis=0)).ravel(),
        "random_test": scipy.sparse.csr_matrix((rng.random((N_USERS, N_ITEMS)) < 0.03).astype(np.float32)),
        "shown": shown,
        "als": TrainedModel(factors, (ids, rec_scores)),
    }


def make_lenskit() -> Names:
    """Return a log whose ids are whole numbers that do not begin with 0, and results of batch runs."""
    rng = np.random.default_rng(1)
    users, items = list(range(101, 161)), list(range(1001, 1041))
    log = draw_log(rng, users, items, "user", "item")
    log["rating"] = rng.integers(1, 11, len(log)) / 2
    train, test = split_parts(log)
    als_recs = draw_lists(rng, train, users, items, 20)
    knn_recs = draw_lists(rng, train, users, items, 20)
    predictions = [(user, item, rng.normal(3.5, 0.5)) for user in users for item in items]
    random_log = pd.DataFrame(
        [(user, item) for user in users for item in rng.choice(items, 4, replace=False).tolist()],
        columns=["user", "item"],
    )
    random_log["rating"] = rng.integers(1, 11, len(random_log)) / 2
    files = {"ratings": log.drop(columns="held"), "train": train, "test": test, "als_recs": als_recs}
    for name, frame in (files | {"knn_recs": knn_recs, "random": random_log}).items():
        frame.to_csv(f"{name}.csv", index=False)
    new_names = {"user": "user_id", "item": "item_id"}
    return {
        "train": train,
        "test": test,
        "recs": pd.concat(
            [als_recs.assign(Algorithm="ALS"), knn_recs.assign(Algorithm="II")], ignore_index=True
        ),
        "als_recs": als_recs,
        "knn_recs": knn_recs,
        "preds": pd.DataFrame(predictions, columns=["user", "item", "prediction"]),
        "ilc_df": als_recs.rename(columns=new_names),
        "train25": train.rename(columns=new_names),
        "test25": test.rename(columns=new_names),
        "probs": pd.Series(POPULARITY / POPULARITY.max(), index=items, name="propensity"),
        "lists": als_recs.groupby("user")["item"].apply(list).to_dict(),
        "random_log": random_log,
    }


def make_rectools() -> Names:
    rng = np.random.default_rng(2)
    users, catalog = (
        [f"user_{number}" for number in range(N_USERS)],
        [f"item_{number}" for number in range(N_ITEMS)],
    )
    interactions = pd.DataFrame(draw_pairs(rng, users, catalog), columns=["user_id", "item_id"])
    interactions["weight"] = 1.0
    seconds = pd.to_timedelta(rng.integers(0, 90 * 24 * 3600, len(interactions)), unit="s")
    interactions["datetime"] = pd.Timestamp("2024-01-01") + seconds
    is_train = interactions["datetime"] < pd.Timestamp("2024-03-10")
    train, test = interactions[is_train], interactions[~is_train]
    reco = draw_lists(rng, train, users, catalog, 10)
    reco_pop = draw_lists(rng, train, users, catalog, 10)
    reco_all = pd.concat([reco.assign(model="ials"), reco_pop.assign(model="popular")], ignore_index=True)
    impressions = pd.DataFrame(draw_pairs(rng, users, catalog, n=20), columns=["user_id", "item_id"])
    impressions["position"] = np.tile(np.arange(1, 21), N_USERS)
    impressions["clicked"] = (rng.random(len(impressions)) < 0.2).astype(int)
    seconds = pd.to_timedelta(rng.integers(0, 60 * 24 * 3600, len(impressions)), unit="s")
    impressions["datetime"] = pd.Timestamp("2024-02-01") + seconds
    files = {"interactions": interactions, "train": train, "test": test, "reco": reco, "reco_pop": reco_pop}
    for name, frame in files.items():
        frame.to_csv(f"{name}.csv", index=False)
    return files | {
        "user_index": np.array(users),
        "catalog": np.array(catalog),
        "reco_all": reco_all,
        "impressions": impressions,
        "item_propensity": pd.DataFrame({"item_id": catalog, "propensity": POPULARITY / POPULARITY.max()}),
        "vectors": (rng.normal(size=(N_USERS, 32)).astype("f4"), rng.normal(size=(N_ITEMS, 32)).astype("f4")),
        "p": POPULARITY,
    }


class Tensor:
    """A tensor of a library that is not installed."""

    def __init__(self, values: np.ndarray) -> None:
        self.a = np.asarray(values, dtype="f4")
        self.shape = self.a.shape
        self.dtype = self.a.dtype
        self.ndim = self.a.ndim

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, key: object) -> Tensor:
        return Tensor(self.a[key])

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.a if dtype is None else self.a.astype(dtype)

    def __matmul__(self, other: Tensor) -> Tensor:
        return Tensor(self.a @ other.a)

    @property
    def T(self) -> Tensor:
        return Tensor(self.a.T)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.a


def make_recbole() -> Names:
    rng = np.random.default_rng(3)
    log = draw_log(rng, list(range(N_USERS)), list(range(N_ITEMS)), "user_id", "item_id")
    train_df, test_df = split_parts(log.astype({"rating": float, "timestamp": float}))
    dicts = {}
    for name, part in {"train": train_df, "test": test_df}.items():
        dicts[name] = part.groupby("user_id")["item_id"].apply(list).to_dict()
        lines = [f"{user} {' '.join(map(str, items))}\n" for user, items in dicts[name].items()]
        with open(f"{name}.txt", "w") as file:
            file.writelines(lines)
    user_emb, item_emb, user_emb0, item_emb0 = (
        Tensor(rng.normal(size=(n, 64))) for n in (N_USERS, N_ITEMS, N_USERS, N_ITEMS)
    )
    rating = Tensor(1 / (1 + np.exp(-(user_emb.a @ item_emb.a.T) / 8)))
    train_mat = to_csr(train_df)
    full_scores = np.where(train_mat.toarray() > 0, -np.inf, rating.a)
    padded_scores = np.full((N_USERS + 1, N_ITEMS + 1), -np.inf, dtype="f4")
    padded_scores[1:, 1:] = full_scores
    typed = {"user_id": "user_id:token", "item_id": "item_id:token"}
    typed |= {"rating": "rating:float", "timestamp": "timestamp:float"}
    parts = {"data": log.drop(columns="held"), "data.train": train_df, "data.test": test_df}
    for name, part in parts.items():
        part.rename(columns=typed).to_csv(f"{name}.inter", sep="\t", index=False)
    np.save("lightgcn.npy", full_scores)
    np.savez("bpr.npz", user_factors=user_emb0.a, item_factors=item_emb0.a)
    pairs = ["user_id", "item_id"]
    return {
        "train_df": train_df,
        "test_df": test_df,
        "train_dict": dicts["train"],
        "test_dict": dicts["test"],
        "user_emb": user_emb,
        "item_emb": item_emb,
        "user_emb0": user_emb0,
        "item_emb0": item_emb0,
        "rating": rating,
        "train_mat": train_mat,
        "full_scores": full_scores,
        "padded_scores": padded_scores,
        "topk": np.argsort(-full_scores, axis=1)[:, :20],
        "train_edges": train_df[pairs].to_numpy().T,
        "test_edges": test_df[pairs].to_numpy().T,
        "pairs_split": ipseval.Split.from_frames(train_df[pairs], test_df[pairs]),
    }


Prediction = namedtuple("Prediction", ["uid", "iid", "r_ui", "est", "details"])


def make_cornac() -> Names:
    """Return tuples with ids that are text, arrays in the order of first appearance, and predictions."""
    rng = np.random.default_rng(4)
    users, items = [f"U{number}" for number in range(N_USERS)], [f"I{number}" for number in range(N_ITEMS)]
    data = [(user, item, float(rng.integers(1, 6))) for user, item in draw_pairs(rng, users, items)]
    is_test = rng.random(len(data)) < 0.25
    ratings = pd.DataFrame(data, columns=["userID", "itemID", "rating"])
    train_df, test_df = ratings[~is_test], ratings[is_test]
    seen = set(zip(train_df["userID"], train_df["itemID"], strict=True))
    user_factors, item_factors = rng.normal(size=(N_USERS, 10)), rng.normal(size=(N_ITEMS, 10))
    scores = user_factors @ item_factors.T
    lists = {}
    predictions = []
    for row, user in enumerate(users):
        ranked = [items[column] for column in np.argsort(-scores[row])]
        lists[user] = [item for item in ranked if (user, item) not in seen][:20]
        for item in items:
            if (user, item) not in seen:
                estimate = float(np.clip(3.5 + rng.normal(), 1, 5))
                predictions.append(Prediction(user, item, 3.5, estimate, {"was_impossible": False}))
    coat_random = [
        (user, item, float(rng.integers(1, 6)))
        for user in users
        for item in rng.choice(items, 4, replace=False).tolist()
    ]
    for name, part in {"u.data": ratings, "train.tsv": train_df, "test.tsv": test_df}.items():
        part.to_csv(name, sep="\t", index=False, header=False)
    pd.DataFrame(scores, index=users, columns=items).to_csv("bpr_scores.csv")
    svd = pd.DataFrame(
        [(row.uid, row.iid, row.est) for row in predictions], columns=["user", "item", "score"]
    )
    svd.to_csv("svd.csv", index=False)
    random_frame = pd.DataFrame(coat_random, columns=["user", "item", "rating"])
    random_frame.to_csv("random.csv", index=False)
    return {
        "train_uir": list(train_df.itertuples(index=False, name=None)),
        "test_uir": list(test_df.itertuples(index=False, name=None)),
        "testset": list(test_df.itertuples(index=False, name=None)),
        "raw_users": users,
        "raw_items": items,
        "uid_map": {user: row for row, user in enumerate(users)},
        "iid_map": {item: column for column, item in enumerate(items)},
        "U": user_factors,
        "V": item_factors,
        "S": scores,
        "P": np.tile(POPULARITY / POPULARITY.max(), (N_USERS, 1)),
        "theta": dict(zip(items, (POPULARITY / POPULARITY.max()).tolist(), strict=True)),
        "cornac_recs": lists,
        "predictions": predictions,
        "train_df": train_df,
        "test_df": test_df,
        "coat_random": coat_random,
        "shown": random_frame.assign(positive=random_frame["rating"] >= 4),
    }


def make_ranx() -> Names:
    """Return qrels and runs as mappings, frames and files, and a log with recorded propensities."""
    rng = np.random.default_rng(5)
    users, items = [f"q{number}" for number in range(N_USERS)], [f"d{number}" for number in range(N_ITEMS)]
    log = pd.DataFrame(draw_pairs(rng, users, items), columns=["user_id", "item_id"])
    log["held"] = rng.random(len(log)) < 0.25
    train, test = split_parts(log)
    qrels = {user: dict.fromkeys(group, 1) for user, group in test.groupby("user_id")["item_id"]}
    runs = {}
    for name in ("als", "bm25"):
        ranked = draw_lists(rng, train, users, items, N_ITEMS)
        runs[name] = {
            user: dict(zip(group["item_id"], group["score"], strict=True))
            for user, group in ranked.groupby("user_id")
        }
        lines = [
            f"{row.user_id} Q0 {row.item_id} {row.rank} {row.score:.6f} {name}\n"
            for row in ranked.itertuples()
        ]
        with open(f"{name}.trec", "w") as file:
            file.writelines(lines)
    with open("test.qrels", "w") as file:
        file.writelines(f"{user} 0 {item} 1\n" for user, grades in qrels.items() for item in grades)
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    actions = rng.integers(0, N_ITEMS, 2000)
    log_df = pd.DataFrame(
        {"user_id": rng.choice(users, 2000), "item_id": [items[action] for action in actions]}
    )
    log_df["position"] = rng.integers(1, 4, 2000)
    log_df["click"] = (rng.random(2000) < 0.1).astype(int)
    log_df["propensity_score"] = 1 / N_ITEMS
    log_df.to_csv("bandit.csv", index=False)
    propensity = dict(zip(items, POPULARITY / POPULARITY.max(), strict=True))
    run_rows = [(user, item, score) for user, run in runs["als"].items() for item, score in run.items()]
    return {
        "train": train,
        "test": test,
        "qrels": qrels,
        "run_als": runs["als"],
        "run_bm25": runs["bm25"],
        "qrels_df": test.set_axis(["query_id", "doc_id"], axis=1).assign(relevance=1),
        "run_df": pd.DataFrame(run_rows, columns=["query_id", "doc_id", "score"]),
        "bandit_feedback": {"n_rounds": 2000, "n_actions": N_ITEMS, "action": actions},
        "log_df": log_df,
        "clicks": log_df[log_df["click"] == 1],
        "test_with_p": test.assign(propensity=test["item_id"].map(propensity)),
    }
