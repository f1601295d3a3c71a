"""What the gate decides in simulated seasons of 26 weeks, by the number of users.

    python -m reproductions.gate_seasons [--seasons 60] [--write]

Each week has new users. A user has 1 + Poisson(4) positives among 1,000 items; the incumbent ranks a positive
by how easy it and its user are, and by noise of its own. The incumbent's recall@10 is .5. Candidates:

equal     the same rule with other noise.
uneven    truly equal as well: nearly all users lose a little, and one in twenty gains much.
worse     a share of the positives has a random rank; the true loss is the smallest visible one that the gate
states. shuffled  every positive has a random rank.
leaked    four of five test positives stand first.
random    random ranks beside popularity, with a recall@10 of .05 and .08.
rare loss the incumbent's own hits, but for one user in 25, who loses all of them.

A second table has single decisions on equal candidates where each user has one positive and recall@10 is .05,
in which an improvement by half is not rare: the shares called worse, called better or suspicious, and either.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import RankedPositives
from ipseval.testing import Gate, gate
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "regression-tests-accuracy.md"
SEED, WEEKS, N_ITEMS, METRIC = 43, 26, 1000, "recall@10"
USERS = (25, 200, 5000)
OUTCOMES = ("better", "identical", "not worse", "worse", "suspicious", "cannot tell")
SINGLE_USERS, SINGLE_RUNS, SINGLE_SHARE = (25, 200, 1000), 400, 0.05
EASE, SPREAD, NOISE = -2.34, 0.94, 0.8  # recall@10 of .5
POPULAR = (0.08, 0.05)


@dataclass(frozen=True)
class Week:
    """The positives of some users, by what makes them easy to find."""

    n_users: int
    user: np.ndarray
    item: np.ndarray
    ease: np.ndarray

    @classmethod
    def draw(cls, n_users: int, rng: np.random.Generator) -> Week:
        """Draw users and their positives."""
        counts = 1 + rng.poisson(4, n_users)
        user = np.repeat(np.arange(n_users), counts)
        item = np.arange(user.size) - np.repeat(np.cumsum(counts) - counts, counts)
        ease = EASE + 0.5 * rng.normal(size=n_users)[user] + 0.8 * rng.normal(size=user.size)
        return cls(n_users, user, item, ease)

    def ranked(self, rng: np.random.Generator) -> np.ndarray:
        """Return how many candidates stand above each positive, with new noise."""
        return np.floor((N_ITEMS - 1) * ndtr(self.ease + NOISE * rng.normal(size=self.ease.size))).astype(int)

    def anywhere(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random rank of each positive."""
        return rng.integers(0, N_ITEMS, self.user.size)

    def gate(self, new: np.ndarray, old: np.ndarray, n_comparisons: int = WEEKS) -> Gate:
        """Return the gate on two rankings."""
        ranks = {
            name: RankedPositives(
                user=self.user, item=self.item, n_above=above, n_tied=np.zeros_like(above),
                n_candidates=np.full(above.size, N_ITEMS), user_ids=np.arange(self.n_users),
                item_ids=np.arange(N_ITEMS),
            )
            for name, above in (("new", new), ("old", old))
        }  # fmt: skip
        found = evaluate_ranks(ranks, metrics=[METRIC], estimators=["aoa"])
        return gate(found, candidate="new", incumbent="old", n_comparisons=n_comparisons)


def broken(above: np.ndarray, share: float, week: Week, rng: np.random.Generator) -> np.ndarray:
    """Return the ranks with a share of the positives anywhere."""
    return np.where(rng.random(above.size) < share, week.anywhere(rng), above)


def uneven(above: np.ndarray, lost: float, week: Week, rng: np.random.Generator) -> np.ndarray:
    """Return ranks of which one user in twenty gains all, and a share of the other positives is lost."""
    gains = (rng.random(week.n_users) < 0.05)[week.user]
    return np.where(gains, 0, np.where(rng.random(above.size) < lost, N_ITEMS - 1, above))


def leaked(above: np.ndarray, _: float, week: Week, rng: np.random.Generator) -> np.ndarray:
    """Return the ranks with four of five positives first."""
    return np.where(rng.random(week.user.size) < 0.8, 0, above)


def at(value: float, week: Week, rng: np.random.Generator) -> np.ndarray:
    """Return ranks of which a share is in the first ten."""
    first = rng.random(week.user.size) < value
    return np.where(first, rng.integers(0, 10, first.size), rng.integers(10, N_ITEMS, first.size))


def lose_rarely(above: np.ndarray, week: Week, rng: np.random.Generator) -> np.ndarray:
    """Return ranks with the same hits but for one user in 25, who has none; ranks below 10 are others."""
    hit = above < 10
    lost = (rng.random(week.n_users) < 0.04)[week.user]
    return np.where(hit & ~lost, above, rng.integers(10, N_ITEMS, above.size))


def recall(above: np.ndarray, week: Week) -> float:
    """Return recall@10, the mean over users of the share of their positives in the first ten."""
    hits = np.bincount(week.user, above < 10, week.n_users)
    return float((hits / np.bincount(week.user)).mean())


CANDIDATES: dict[str, Callable[[np.ndarray, float, Week, np.random.Generator], np.ndarray]] = {
    "equal": lambda above, _, __, ___: above,
    "uneven": uneven,
    "worse": broken,
    "shuffled": lambda _, __, week, rng: week.anywhere(rng),
    "leaked": leaked,
}


def calibrated(rng: np.random.Generator, n_users: int = 400_000) -> tuple[float, float]:
    """Return the true recall of the incumbent, and what the uneven candidate loses so that it is equal."""
    week = Week.draw(n_users, rng)
    value = recall(week.ranked(rng), week)
    # .05 + .95 (1 − lost) value = value
    return value, 1 - (value - 0.05) / (0.95 * value)


def share_of(n_users: int, value: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the share of broken positives whose true loss is the one that the gate states, and that loss."""
    share = 0.0
    for _ in range(5):
        stated = []
        for _ in range(200 if n_users < 1000 else 20):
            week = Week.draw(n_users, rng)
            above = week.ranked(rng)
            found = week.gate(broken(week.ranked(rng), share, week, rng), above)
            stated.append(found.smallest_visible_loss)
        loss = float(np.median(stated))
        share = loss / (value - 10 / N_ITEMS)
    return share, loss


def season(n_users: int, names: Mapping[str, float], rng: np.random.Generator) -> dict[str, list[Gate]]:
    """Return the gates of the weeks of one season, for each candidate."""
    gates: dict[str, list[Gate]] = {name: [] for name in names}
    for _ in range(WEEKS):
        week = Week.draw(n_users, rng)
        old, new = week.ranked(rng), week.ranked(rng)
        for name, share in names.items():
            if name == "random":
                found = week.gate(at(POPULAR[1], week, rng), at(POPULAR[0], week, rng))
            else:
                found = week.gate(CANDIDATES[name](new, share, week, rng), old)
            gates[name].append(found)
    return gates


def rare_losses(n_users: int, n_seasons: int) -> Counter[str]:
    """Return how often each outcome is that of the candidate that loses all hits of one user in 25."""
    rng = np.random.default_rng([SEED, n_users, 2])
    counts: Counter[str] = Counter()
    for _ in range(n_seasons * WEEKS):
        week = Week.draw(n_users, rng)
        old = week.ranked(rng)
        counts[week.gate(lose_rarely(old, week, rng), old).outcome] += 1
    return counts


def rows(n_users: int, n_seasons: int) -> list[tuple[str, ...]]:
    """Return the rows of the table for one number of users."""
    rng = np.random.default_rng([SEED, n_users])
    value, lost = calibrated(rng)
    share, loss = share_of(n_users, value, rng)
    few = {"shuffled": 0.0, "leaked": 0.0, "random": 0.0}
    many = {"equal": 0.0, "uneven": lost, "worse": share}
    counts: dict[str, Counter[str]] = {name: Counter() for name in many | few}
    alarms: Counter[tuple[str, str]] = Counter()
    seasons: Counter[str] = Counter()
    for number in range(n_seasons):
        for name, gates in season(n_users, many | (few if number < n_seasons // 5 else {}), rng).items():
            found = [one.outcome for one in gates]
            counts[name].update(found)
            seasons[name] += 1
            sides = {"worse", "suspicious"} & set(found)
            for side in (*sides, *(["either"] if sides else [])):
                alarms[name, side] += 1
    counts["rare loss"] = rare_losses(n_users, n_seasons // 5)
    lines = []
    for name, count in counts.items():
        total = count.total()
        words = f"worse by {loss:.3f}" if name == "worse" else name
        alarm = "–"
        if name in ("equal", "uneven"):
            sides = (alarms[name, side] for side in ("worse", "suspicious", "either"))
            alarm = f"{', '.join(map(str, sides))} of {seasons[name]}"
        lines.append(
            (f"{n_users:,} users, {words}", *(f"{count[one] / total:.1%}" for one in OUTCOMES), alarm)
        )
    return lines


def table(n_seasons: int, users: tuple[int, ...] = USERS) -> str:
    """Return the share of weeks with each outcome, and how many seasons have a false alarm."""
    header = ("candidate", *OUTCOMES, "seasons with WORSE, suspicious, either")
    return markdown(
        header, [one for n in users for one in rows(n, n_seasons if n < 1000 else n_seasons // 2)]
    )


def single_decisions(n_users: int, n_runs: int) -> tuple[str, ...]:
    """Return the shares of equal candidates called worse, better or suspicious, and either, with one positive each."""
    rng = np.random.default_rng([SEED, n_users, 1])
    user = np.arange(n_users)
    week = Week(n_users, user, user % N_ITEMS, np.zeros(n_users))
    counts: Counter[str] = Counter()
    for _ in range(n_runs):
        new, old = at(SINGLE_SHARE, week, rng), at(SINGLE_SHARE, week, rng)
        counts[week.gate(new, old, n_comparisons=1).outcome] += 1
    worse, suspicious = counts["worse"], counts["suspicious"]
    above = counts["better"] + suspicious
    shares = (worse, suspicious, worse + suspicious, above)
    return (f"{n_users:,} users", *(f"{count / n_runs:.1%}" for count in shares))


def alarms_table(n_runs: int = SINGLE_RUNS, users: tuple[int, ...] = SINGLE_USERS) -> str:
    """Return the shares of false alarms of single decisions."""
    header = ("equal candidates", "WORSE", "suspicious", "either", "better or suspicious")
    return markdown(header, [single_decisions(n, n_runs) for n in users])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seasons", type=int, default=60, help="with 5,000 users half as many")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = {"gate alarms": alarms_table(), "gate seasons": table(options.seasons)}
    deliver(tables, PAGE if options.write else None)


if __name__ == "__main__":
    main()
