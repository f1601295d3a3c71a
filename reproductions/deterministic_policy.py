"""A log by one deterministic policy and no propensity: what its clicks say of other rankings, how wrongly.

    python -m reproductions.deterministic_policy [--worlds 10] [--jobs 2] [--write]

Users, items and recommenders are those of `feedback_worlds`, with the incumbent beside them. A policy with
fixed scores shows pages: the ten highest items that were neither clicked nor shown three times before. Six
pages train, one to three identical ones follow. A place k is examined with probability 1/log2(1 + k), which
is known, and what is examined and liked is clicked. Five kinds of logs: `positions`, every item on every
page, so that places alone are biased; `hidden`, ten of 200 items; `trust`, where what is not liked is
clicked, too, with probability .25/log2(1 + k) where it is examined; `taste`, a policy that knows which
categories a user likes; `rounds`, where one of three such policies, by chance and unlogged, makes each page.

Judged are recall@10, pooled over all liked pairs outside training, and the clicks per page that a
recommender's ten best would get. Estimators from elsewhere, in the forms implemented here:

* position-based (Wood & Sidana 2022, arXiv 2208.14980; from the abstract, as no full text was at hand): a
  click at place k counts θ(new place)/θ(k), and 1/θ(k) in a self-normalised recall. A pair on n identical
  pages has the one weight 1/(1 − (1 − θ(k))^n).
* CIPS and CDR (Tanaka et al. 2026, arXiv 2603.21485; from the abstract and the authors' code,
  tana-51/ICLR2026_Ranking_OPE): a click counts p(click | new page)/p(click | logged page), times the reward
  after it, here 1; CDR adds Σ p(click | new page) of all items and takes it from the clicks of those shown.
  For recall the new page is one with every item in the first place. The click model is a logistic
  regression here, a neural network there. Under a position-based click model the ratio is θ(new)/θ(k),
  whatever the liking, so that CIPS is the position-based estimator; the enumerated table shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import ipseval
from ipseval import ImpressionLog, ImpressionPropensity, Interactions, Split
from ipseval.data import RandomExposure
from ipseval.errors import IpsevalError
from ipseval.policies import evaluate_rewards
from ipseval.policies.rewards import FactorReward, Rewards
from ipseval.propensity import ExaminationCurve, ExaminationModel, KnownPropensity, PowerLawPropensity
from ipseval.ranking import rank_positives
from reproductions.feedback_worlds import HELD_OUT, POSITIVE, Tastes, recommenders
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "exposure-logs.md"
KINDS = ("positions", "hidden", "trust", "taste", "rounds")
SEED, N_USERS, N_ITEMS, SHARE = 390, 1_000, 200, 0.08
PLACES, TRAINING_PAGES, MOST_SHOWN, TRUST, Z = 10, 6, 3, 0.25, 1.959964
LEFT_OUT = ("item-kNN 60", "EASE 200", "SVD 16")  # much like three others
RECALL, CLICKS = "recall@10", "dcg@10"  # with the examination above, DCG is clicks per page
PLAIN, IMPRESSIONS, OWN = "AOA", "ImpressionPropensity", "position-based"
CORRECT, ANCHORED, EXPLORED = "correct", "correct, incumbent known", "correct, random slots"
SLOTS_ONLY = "correct, random slots only"  # without the shown pairs
KNOWN_ERROR, SLOTS = 0.08, 0.03


def theta(place: Any) -> np.ndarray:
    """Return the chance that a place is examined."""
    return np.asarray(1 / np.log2(1 + np.asarray(place, dtype=float)))


@dataclass(frozen=True, eq=False)
class Case:
    """A log of a deterministic policy, and what every recommender would have got."""

    kind: str
    number: int
    split: Split
    log: ImpressionLog  # of the test pages
    shown: Interactions  # all pairs that were on a page
    models: dict[str, Any]
    rank: dict[str, np.ndarray]  # (n_users, n_items) of the candidates; of training pairs infinite
    gain: dict[tuple[str, str], np.ndarray]  # (model, metric) -> (n_users, n_items)
    truth: pd.Series  # by model and metric
    liked: np.ndarray  # (n_users, n_items) bool

    def explored(self, rng: np.random.Generator) -> RandomExposure:
        """Return random pairs, as many as a share of the test rows, with what of them is liked."""
        chosen = rng.choice(self.log.user, int(SLOTS * len(self.log)))
        key = np.unique(chosen * self.log.n_items + rng.integers(self.log.n_items, size=chosen.size))
        user, item = np.divmod(key, self.log.n_items)
        ids = self.split.user_ids, self.split.item_ids
        return RandomExposure(user, item, self.liked[user, item], *self.liked.shape, 0, *ids)

    @classmethod
    def build(cls, kind: str, number: int) -> Case:
        """Return one log of a kind."""
        rng = np.random.default_rng([SEED, KINDS.index(kind), number])
        n_items = 60 if kind == "positions" else N_ITEMS
        tastes = Tastes.draw(N_USERS, n_items, SHARE, rng)
        liked, scores = tastes.rating >= POSITIVE, policies(kind, tastes, rng)
        length = n_items if kind == "positions" else PLACES
        trust = TRUST if kind == "trust" else 0.0
        shown, clicked = np.zeros((2, N_USERS, n_items), dtype=int)
        visits, rows = rng.integers(1, 4, N_USERS), []
        n_training = 1 if kind == "positions" else TRAINING_PAGES
        for number_of_page in range(n_training + 3):
            visit = number_of_page - n_training
            if visit <= 0:  # the pages of the test period are made from one state
                gone = (clicked > 0) | (shown >= MOST_SHOWN)
            if visit == 0:
                train = pairs_of(clicked > 0)
            here = np.flatnonzero(visits > visit)
            chosen = scores[rng.integers(len(scores), size=here.size), here]
            item = np.argsort(-np.where(gone[here], -np.inf, chosen), axis=1, kind="stable")[:, :length]
            user = np.repeat(here, length)
            place, item = np.tile(np.arange(1, length + 1), here.size), item.ravel()
            user, item, place = (one[~gone[user, item]] for one in (user, item, place))
            chance = theta(place) * np.where(liked[user, item], 1.0, trust * theta(place))
            taken = rng.random(user.size) < chance
            shown[user, item] += 1
            clicked[user, item] += taken
            if visit >= 0:
                rows.append((user, item, taken, place, user * 3 + visit))
        user, item, taken, place, query = (np.concatenate(one) for one in zip(*rows, strict=True))
        ids = {"user_ids": np.arange(N_USERS), "item_ids": np.arange(n_items)}
        log = ImpressionLog(
            *(user, item),
            **ids,
            clicked=taken,
            position=place,
            query=query,
            query_ids=np.arange(3 * N_USERS),
        )
        found = np.zeros(liked.shape, dtype=bool)
        found[user[taken], item[taken]] = True
        split = Split(train, pairs_of(found))
        made = recommenders(tastes, split, HELD_OUT, rng)
        models = {name: one for name, one in made.items() if name not in LEFT_OUT}
        models["incumbent"] = scores[0]
        return cls.judged(kind, number, split, log, pairs_of(shown > 0), models, liked, trust)

    @classmethod
    def judged(
        cls,
        kind: str,
        number: int,
        split: Split,
        log: ImpressionLog,
        shown: Interactions,
        models: dict[str, Any],
        liked: np.ndarray,
        trust: float,
    ) -> Case:
        """Return the case with ranks and truths of all recommenders."""
        outside = np.ones(liked.shape, dtype=bool)
        outside[split.train.user, split.train.item] = False
        everything, rank, gain, truth = Split(split.train, pairs_of(outside)), {}, {}, {}
        left = liked & outside
        for name, model in models.items():
            ranked = rank_positives(model, everything, name=name)
            rank[name] = np.full(liked.shape, np.inf)
            rank[name][ranked.user, ranked.item] = 1 + ranked.n_above + (ranked.n_tied - 1).clip(0) / 2
            for label in (RECALL, CLICKS):
                gain[name, label] = np.zeros(liked.shape)
                gain[name, label][ranked.user, ranked.item] = ipseval.metric(label).contributions(ranked)
            truth[name, RECALL] = (left * gain[name, RECALL]).sum() / left.sum()
            wrong = trust * gain[name, CLICKS] ** 2 * (outside & ~liked)
            truth[name, CLICKS] = (left * gain[name, CLICKS] + wrong).sum() / len(liked)
        return cls(kind, number, split, log, shown, models, rank, gain, pd.Series(truth), liked)


def policies(kind: str, tastes: Tastes, rng: np.random.Generator) -> np.ndarray:
    """Return the scores of the policy, or of three, (n_policies, n_users, n_items)."""
    shape = tastes.rating.shape
    quality = np.broadcast_to(tastes.quality + 0.5 * rng.standard_normal(shape[1]), shape)
    personal = quality + tastes.liking + rng.standard_normal(shape)
    category = 2 * tastes.affinity[:, tastes.category] + 0.5 * quality + 0.1 * rng.standard_normal(shape)
    own = {"taste": [category], "rounds": [personal, category, quality]}
    return np.array(own.get(kind, [personal]))


def pairs_of(found: np.ndarray) -> Interactions:
    """Return the pairs that are true in a (n_users, n_items) matrix."""
    return Interactions(*np.nonzero(found), *(np.arange(size) for size in found.shape))


def own_impressions(log: ImpressionLog, curve: ExaminationCurve) -> KnownPropensity:
    """Return the position-based propensity: 1 − Π(1 − θ) over a pair's own impressions."""
    missed = np.log1p(-curve.for_positions(log.position).clip(0, 1 - 1e-9))
    frame = pd.DataFrame({"user": log.user, "item": log.item, "missed": missed})
    pair = frame.groupby(["user", "item"], as_index=False)["missed"].sum()
    return KnownPropensity(pair=pair.assign(propensity=-np.expm1(pair["missed"])))


FORMS = {RECALL: "snips-pooled", CLICKS: "ips"}
Found = tuple[str, str, pd.DataFrame]  # estimator, metric, and model, estimate, ci_low, ci_high


def estimates(case: Case) -> Iterator[Found]:
    """Yield what every estimator says of every recommender."""
    log, split, models = case.log, case.split, case.models
    assert log.position is not None
    known = ExaminationCurve.from_theta(theta(np.arange(1, int(log.position.max()) + 1)))
    nothing = KnownPropensity(item=np.ones(split.n_items))
    power = PowerLawPropensity(gamma=0.0, unseen="smooth")
    for name, rule, label, plain in (
        (PLAIN, nothing, RECALL, "snips-pooled"),
        (PLAIN, nothing, CLICKS, "ips"),
        ("power law, γ = 0", power, RECALL, "snips-pooled"),
    ):
        found = ipseval.evaluate(models, split, propensity=rule, metrics=[label], estimators=[plain])
        yield name, label, found.frame
    for name, weights in (
        (IMPRESSIONS, ImpressionPropensity(log=log, examination=known)),
        (OWN, own_impressions(log, known)),
    ):
        rewards = Rewards(log, FactorReward(), examination=known, rng=0)
        for label, plain in FORMS.items():
            found = evaluate_rewards(
                *(models, split, rewards), propensity=weights, metrics=[label], estimators=[plain, "dr"]
            ).frame
            for estimator, more in ((plain, ""), ("dr", ", doubly robust")):
                yield f"{name}{more}", label, found[found["estimator"] == estimator]
    with contextlib.suppress(IpsevalError):  # where the curve is 0, or of no item that stood at two places
        weights = own_impressions(log, ExaminationModel("harvesting").fit(log))
        for label, plain in FORMS.items():
            made = ipseval.evaluate(models, split, propensity=weights, metrics=[label], estimators=[plain])
            yield f"{OWN}, fitted curve", label, made.frame
    yield from click_based(case)
    rng, value = np.random.default_rng([SEED, case.number]), case.truth["incumbent", RECALL]
    drawn = value * (1 + KNOWN_ERROR * rng.standard_normal())
    anchor = {"incumbent": {RECALL: (drawn, KNOWN_ERROR * drawn)}}
    exposure = case.explored(rng)
    data: dict[str, dict[str, Any]] = {
        CORRECT: {"interactions": case.shown},
        ANCHORED: {"interactions": case.shown, "reference_values": anchor, "source": "randomised"},
        EXPLORED: {"interactions": case.shown, "random_exposure": exposure},
        SLOTS_ONLY: {"random_exposure": exposure},
    }
    for name, options in data.items():
        frame = ipseval.correct(models, split, metrics=[RECALL], rng=0, **options).frame
        yield name, RECALL, frame[frame["estimator"] == "corrected"]


def click_based(case: Case) -> Iterator[Found]:
    """Yield CIPS and CDR with a fitted click model."""
    log, (n_users, n_items) = case.log, next(iter(case.rank.values())).shape
    assert log.position is not None
    chance = click_model(case)
    pages = np.bincount(np.unique(log.query), minlength=3 * n_users).reshape(n_users, 3).sum(axis=1)
    per_page = 1 / pages[log.user]
    logged = chance(log.user, log.item, log.position)
    user, item = np.divmod(np.arange(n_users * n_items), n_items)
    everywhere = chance(user, item, np.ones(user.size)).reshape(n_users, n_items)
    rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for name in case.models:
        place, recall = case.rank[name], case.gain[name, RECALL]
        candidate = np.isfinite(place)
        new = np.where(
            place <= PLACES, chance(user, item, place.clip(1, PLACES).ravel()).reshape(place.shape), 0
        )
        shown_new, shown_first = (
            one[log.user, log.item] for one in (new, np.where(candidate, everywhere, 0))
        )
        hit = recall[log.user, log.item]
        for model, y, totals in (
            ("CIPS", log.clicked.astype(float), (0.0, 0.0, 0.0)),
            (
                "CDR",
                log.clicked - logged,
                (new.sum(1), (everywhere * recall).sum(1), (everywhere * candidate).sum(1)),
            ),
        ):
            w = per_page * y / logged
            value = totals[0] + np.bincount(log.user, w * shown_new, minlength=n_users)
            rows.setdefault((model, CLICKS), []).append((name, *ratio(value, np.ones(n_users))))
            above = totals[1] + np.bincount(log.user, w * shown_first * hit, minlength=n_users)
            below = totals[2] + np.bincount(log.user, w * shown_first, minlength=n_users)
            rows.setdefault((model, RECALL), []).append((name, *ratio(above, below)))
    for (model, label), found in rows.items():
        yield model, label, pd.DataFrame(found, columns=["model", "estimate", "ci_low", "ci_high"])


def ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """Return Σ above / Σ below over users, with a normal 95% interval."""
    value = above.sum() / below.sum()
    error = np.sqrt(((above - value * below) ** 2).sum()) / below.sum()
    return float(value), float(value - Z * error), float(value + Z * error)


def click_model(case: Case) -> Any:
    """Return p(click | user, item, place) by logistic regression on the test pages."""
    from sklearn.linear_model import LogisticRegression

    log, train = case.log, case.split.train
    assert log.position is not None
    mean = log.clicked.mean()

    def odds(code: np.ndarray, size: int) -> np.ndarray:
        rate = (np.bincount(code, log.clicked, minlength=size) + 10 * mean) / (
            np.bincount(code, minlength=size) + 10
        )
        return np.asarray(np.log(rate / (1 - rate)))

    by_item, by_user = odds(log.item, log.n_items), odds(log.user, log.n_users)
    matrix = np.zeros((log.n_users, log.n_items))
    matrix[train.user, train.item] = 1
    directions = np.linalg.eigh(matrix.T @ matrix)[1][:, -8:]
    taste = matrix @ directions @ directions.T

    def terms(user: np.ndarray, item: np.ndarray, place: np.ndarray) -> np.ndarray:
        deep = np.log(place)
        return np.column_stack([deep, deep**2, by_item[item], by_user[user], taste[user, item]])

    fitted = LogisticRegression(max_iter=500).fit(terms(log.user, log.item, log.position), log.clicked)
    return lambda user, item, place: fitted.predict_proba(terms(user, item, place))[:, 1]


def judged(at: tuple[str, int]) -> pd.DataFrame:
    """Return errors, coverage and order of every estimator, on one log."""
    warnings.simplefilter("ignore")
    case, rows = Case.build(*at), []
    for name, label, frame in estimates(case):
        own = frame.set_index("model")
        own = own.drop(index="incumbent") if name == ANCHORED else own
        truth = np.array([case.truth[model, label] for model in own.index])
        off = np.abs(own["estimate"].to_numpy() - truth)
        inside = (own["ci_low"].to_numpy() <= truth) & (truth <= own["ci_high"].to_numpy())
        order = kendalltau(own["estimate"], truth).statistic
        rows.append((*at, name, label, off.mean(), truth.mean(), inside.mean(), order))
    names = ["kind", "number", "estimator", "metric", "error", "truth", "covered", "order"]
    return pd.DataFrame(rows, columns=names)


LIKING = np.array([[0.8, 0.4, 0.2, 0.6], [0.3, 0.9, 0.5, 0.7]])  # of two users and four items
LOGGED = np.array([[0, 1, 2], [1, 2, 0]])  # their pages; nobody was shown the last item
RANKED = {"same items": np.array([[2, 1, 0], [0, 2, 1]]), "one never shown": np.array([[3, 2, 0], [0, 3, 1]])}


def enumerated() -> Iterator[tuple[str, str, str, float]]:
    """Yield click model, page, estimator, and E[clicks per page] over all outcomes, in parts of the truth.

    CIPS and CDR have the true chances of clicks. ImpressionPropensity reads who was shown what, and no click.
    """
    users, seen = np.arange(2)[:, None], theta(np.arange(1, 4))
    curve = ExaminationCurve.from_theta(seen)
    log = ImpressionLog(
        *(np.repeat([0, 1], 3), LOGGED.ravel(), np.arange(2), np.arange(4), np.zeros(6, bool)),
        position=np.tile([1, 2, 3], 2),
    )
    shown = (
        ImpressionPropensity(log=log, examination=curve).fit(log).for_pairs(log.user, log.item).reshape(2, 3)
    )
    outcomes = np.array([*product((0, 1), repeat=6)]).reshape(-1, 2, 3)
    for model, trust in (("positions", 0.0), ("trust", TRUST)):

        def chance(page: np.ndarray, trust: float = trust) -> np.ndarray:
            liking = LIKING[users, page]
            return np.asarray(seen * (liking + (1 - liking) * trust * seen))

        logged = chance(LOGGED)
        likely = np.where(outcomes, logged, 1 - logged).prod(axis=(1, 2))
        for name, page in RANKED.items():
            new, place = np.zeros((2, 2, 4))
            place[users, page], new[users, page] = seen, chance(page)
            own, wanted, total = place[users, LOGGED], new[users, LOGGED], new.sum()
            for estimator, weight, added in (
                (PLAIN, own, 0.0),
                (IMPRESSIONS, own / shown, 0.0),
                (OWN, own / seen, 0.0),
                ("CIPS", wanted / logged, 0.0),
                ("CDR", wanted / logged, total - wanted.sum()),
            ):
                found = (outcomes * weight).sum(axis=(1, 2)) + added
                yield model, name, estimator, float(likely @ found / total)


def enumerated_table() -> str:
    """Return the expected estimates in parts of the truth."""
    rows = pd.DataFrame(enumerated(), columns=["clicks", "new page", "estimator", "value"])
    wide = rows.pivot(index=["clicks", "new page"], columns="estimator", values="value")
    names = list(dict.fromkeys(rows["estimator"]))
    lines = [(*at, *(f"{one[name]:.2f}" for name in names)) for at, one in wide.iterrows()]
    return markdown(["clicks", "new page", *names], lines)


def simulated_tables(rows: pd.DataFrame) -> dict[str, str]:
    """Return error in % of the mean truth, coverage in % and τ: a row per estimator, a column per kind."""
    tables = {}
    for table, label in (("deterministic", RECALL), ("deterministic-clicks", CLICKS)):
        part = rows[rows["metric"] == label]
        sums = part.groupby(["estimator", "kind"], sort=False)
        found = sums[["covered", "order"]].mean()
        found["error"] = sums["error"].sum() / sums["truth"].sum()
        lines = []
        for name in dict.fromkeys(part["estimator"]):
            cells = [found.loc[name, kind] if (name, kind) in found.index else None for kind in KINDS]
            lines.append((name, *("–" if one is None else _cell(one) for one in cells)))
        tables[table] = markdown(["error, % / coverage, % / τ", *KINDS], lines)
    return tables


def _cell(one: pd.Series) -> str:
    return f"{100 * one['error']:.0f} / {100 * one['covered']:.0f} / {one['order']:.2f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=10, help="of each kind of log")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    at = [(kind, number) for kind in KINDS for number in range(options.worlds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = pd.concat(pool.map(judged, at), ignore_index=True)
    tables = {"enumerated": enumerated_table()} | simulated_tables(rows)
    if options.write:
        write_tables(tables, PAGE)
    print("\n\n".join(f"{name}\n{one}" for name, one in tables.items()))


if __name__ == "__main__":
    main()
