"""Twenty real logs and the findings of Zhao et al.: tables, differences with intervals, blocks of logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ipseval import Interactions
from ipseval.data.splits import k_core
from ipseval.studies.agreement import order_agreement
from ipseval.studies.agreement._blocks import blocks
from ipseval.studies.protocols import ProtocolStudy
from reproductions import field_logs
from reproductions.field_logs import METRICS
from reproductions.tables import markdown
from reproductions.traits import log_traits

MEASURES = ("or@1", "or@3", "src", "ipc")
SHOWN = (
    "OR@1",
    "OR@3",
    "SRC, 95% over logs",
    "inverted of 21",
    *(f"SRC {m}" for m in METRICS),
    "beyond",
    "logs",
)
POOLS = [f"{law}-{n}" for law in ("uniform", "popularity") for n in (10, 50, 100)]
DRAWS = 2_000


def over_logs(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the mean over logs and its 95% interval, a percentile bootstrap over the logs."""
    known = np.array([value for value in values if not np.isnan(value)])
    drawn = np.random.default_rng(0).choice(known, (DRAWS, known.size)).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(known.mean()), float(low), float(high)


def shown(values: Iterable[float], sign: str = "") -> str:
    """Return a mean with its interval over logs."""
    mean, low, high = over_logs(values)
    return f"{mean:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def pair_of(frame: pd.DataFrame, factor: str, a: str, b: str) -> pd.DataFrame:
    """Return the comparisons of two levels."""
    return frame[frame[[f"{factor}_a", f"{factor}_b"]].isin([a, b]).all(axis=1)]


def row(name: str, part: pd.DataFrame) -> list[str]:
    """Return one row of a table in the layout of the paper's, means over logs and metrics."""
    by_log = part.groupby("log", sort=False)[list(MEASURES)].mean()
    beyond = part["n_beyond"]
    return [
        name,
        *(f"{by_log[m].mean():.2f}" for m in MEASURES[:2]),
        shown(by_log["src"]),
        f"{by_log['ipc'].mean():.1f}",
        *(f"{part.loc[part['metric'] == m, 'src'].mean():.2f}" for m in METRICS),
        "–" if beyond.isna().all() else f"{beyond.sum():.0f} in {len(part)}",
        str(len(by_log)),
    ]


def drawn_again(study: ProtocolStudy, again: ProtocolStudy, split: str) -> pd.DataFrame:
    """Return the agreement of a split with RO_RS of another seed, by log and metric."""
    # With the same seed, what RO_LS holds out of a user is among what RO_RS holds out.
    first, second = (
        frame[frame["candidates"] == "full"].set_index(["split", "log", "metric", "model"])["estimate"]
        for frame in (study.frame, again.frame)
    )
    rows = []
    for (log, metric), values in second.loc["RO_RS"].groupby(level=["log", "metric"], sort=False):
        other = first.loc[split].xs((log, metric), level=("log", "metric"))
        one = order_agreement(other.to_dict(), values.droplevel(["log", "metric"]).to_dict(), k=(1, 3))
        rows.append({"log": log, "metric": metric, "n_beyond": np.nan, **one.values})
    return pd.DataFrame(rows)


def merged(studies: list[ProtocolStudy]) -> ProtocolStudy:
    """Return studies of one log each, of recommenders with the same names, as one."""
    return ProtocolStudy(
        pd.concat([one.frame for one in studies], ignore_index=True),
        tuple(result for one in studies for result in one.results),
        studies[0].models,
        k=studies[0].k,
    )


def loaded(out: Path, file: str) -> ProtocolStudy:
    """Return the studies of all logs that are there, as one."""
    places = [out / name.replace(" ", "_") / file for name in field_logs.loaders(out)]
    return merged([ProtocolStudy.load(place) for place in places if place.exists()])


class Found:
    """The agreements between splits, between candidates, and with RO_RS of another seed, of all logs."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.study: ProtocolStudy = loaded(out, "study.npz")
        splits = self.study.compare_levels("split")
        self.splits = splits[splits["candidates"] == "full"]
        self.pools = self.study.compare_levels("candidates", reference="full")
        again = loaded(out, "again.npz")
        self.again = {name: drawn_again(self.study, again, name) for name in ("RO_RS", "RO_LS")}
        self.timed = [
            log for log in self.study.levels("log") if log in set(self.of_split("RO_RS", "TO_RS").index)
        ]

    def of_split(self, a: str, b: str, metric: str | None = None) -> pd.Series:
        """Return the SRC of two splits by log, mean of the metrics."""
        return self._src(pair_of(self.splits, "split", a, b), metric)

    def of_pool(self, pool: str, split: str = "RO_RS", metric: str | None = None) -> pd.Series:
        """Return the SRC of a pool with the full catalogue by log, mean of the metrics."""
        part = pair_of(self.pools, "candidates", "full", pool)
        return self._src(part[part["split"] == split], metric)

    def of_again(self, split: str, metric: str | None = None) -> pd.Series:
        """Return the SRC of a split with RO_RS of another seed, by log."""
        return self._src(self.again[split], metric)

    @staticmethod
    def _src(part: pd.DataFrame, metric: str | None) -> pd.Series:
        if metric is not None:
            part = part[part["metric"] == metric]
        return part.groupby("log", sort=False)["src"].mean()


def split_table(found: Found) -> str:
    """Return the table in the layout of their Table 1."""
    rows = []
    pairs = [("RO_RS", "RO_LS"), ("TO_RS", "TO_LS"), ("RO_RS", "TO_RS"), ("RO_LS", "TO_LS"),
             ("RO_RS", "TO_LS"), ("RO_LS", "TO_RS")]  # fmt: skip
    for a, b in pairs:
        part = pair_of(found.splits, "split", a, b)
        rows.append(row(f"{a} / {b}", part[part["log"].isin(found.timed)]))
    for split, part in found.again.items():
        rows.append(row(f"RO_RS′ / {split}", part[part["log"].isin(found.timed)]))
    rows.append(row("all logs: RO_RS / RO_LS", pair_of(found.splits, "split", "RO_RS", "RO_LS")))
    for split, part in found.again.items():
        rows.append(row(f"all logs: RO_RS′ / {split}", part))
    return markdown(["splits", *SHOWN], rows)


def pool_table(found: Found) -> str:
    """Return the table in the layout of their Table 2, for RO_RS on all logs."""
    part = found.pools[found.pools["split"] == "RO_RS"]
    rows = [row(f"full / {pool}", pair_of(part, "candidates", "full", pool)) for pool in POOLS]
    return markdown(["candidates, RO_RS", *SHOWN], rows)


def pool_by_split(found: Found) -> str:
    """Return the SRC of pools of 100 with the full catalogue under each split, on the logs with time."""
    splits = ["RO_RS", "RO_LS", "TO_RS", "TO_LS"]
    rows = [
        [f"full / {pool}", *(shown(found.of_pool(pool, split)[found.timed]) for split in splits)]
        for pool in ("uniform-100", "popularity-100")
    ]
    return markdown(["SRC, logs with time", *splits], rows)


def log_rows(found: Found) -> str:
    """Return the SRC of the main comparisons by log."""
    columns = {
        "RO_RS / RO_LS": found.of_split("RO_RS", "RO_LS"),
        "TO_RS / TO_LS": found.of_split("TO_RS", "TO_LS"),
        "RO_RS / TO_RS": found.of_split("RO_RS", "TO_RS"),
        "RO_LS / TO_LS": found.of_split("RO_LS", "TO_LS"),
        "RO_RS′ / RO_RS": found.of_again("RO_RS"),
        "RO_RS′ / RO_LS": found.of_again("RO_LS"),
        **{f"full / {pool}": found.of_pool(pool) for pool in ("uniform-100", "popularity-100")},
    }
    rows = [
        [log, *(f"{one[log]:.2f}" if log in one.index else "–" for one in columns.values())]
        for log in found.study.levels("log")
    ]
    return markdown(["SRC, mean of the metrics", *columns], rows)


def differences(found: Found, metric: str | None = None) -> dict[str, tuple[str, pd.Series]]:
    """Return, by finding, what must be above 0 for it to hold, and its value on each log."""
    redrawn, ratio = (found.of_again(split, metric) for split in ("RO_RS", "RO_LS"))
    order, order_one = found.of_split("RO_RS", "TO_RS", metric), found.of_split("RO_LS", "TO_LS", metric)
    late = found.of_split("TO_RS", "TO_LS", metric)
    pool = {name: found.of_pool(name, metric=metric) for name in POOLS}
    made = {
        "order": ("Order matters, beyond another draw: (RO_RS′, RO_RS) − (RO_RS, TO_RS)", redrawn - order),
        "holdout": (
            "Hold-out matters, beyond another draw: (RO_RS′, RO_RS) − (RO_RS′, RO_LS)",
            redrawn - ratio,
        ),
        "order, ratio": ("Order matters more than hold-out: (RO_RS′, RO_LS) − (RO_RS, TO_RS)", ratio - order),
        "order, one": ("… (RO_RS′, RO_LS) − (RO_LS, TO_LS)", ratio - order_one),
        "order, late": ("… (TO_RS, TO_LS), which share the last item, − (RO_LS, TO_LS)", late - order_one),
    }
    for name in POOLS:
        made[f"{name}, holdout"] = (
            f"Sampling matters more than hold-out: (RO_RS′, RO_LS) − {name}",
            ratio - pool[name],
        )
    for name in POOLS:
        made[f"{name}, order"] = (
            f"Sampling matters more than order: (RO_RS, TO_RS) − {name}",
            order - pool[name],
        )
    for law in ("uniform", "popularity"):
        for low, high in ((10, 50), (50, 100)):
            values = pool[f"{law}-{high}"] - pool[f"{law}-{low}"]
            made[f"{law}-{high}, more"] = (f"More candidates help: {law}-{high} − {law}-{low}", values)
    for n in (10, 50, 100):
        values = pool[f"uniform-{n}"] - pool[f"popularity-{n}"]
        made[f"law, {n}"] = (f"Uniform is better: uniform-{n} − popularity-{n}", values)
    return made


def finding_table(found: Found) -> str:
    """Return each difference of SRC with its interval over logs, and in how many logs it is above 0."""
    rows = []
    by_metric = {metric: differences(found, metric) for metric in METRICS}
    for name, (text, values) in differences(found).items():
        known = values.dropna()
        _, low, high = over_logs(known)
        verdict = "holds" if low > 0 else "refuted" if high < 0 else "open"
        means = (f"{by_metric[metric][name][1].dropna().mean():+.2f}" for metric in METRICS)
        own = known[known.index.isin([one.replace("_", " ") for one in field_logs.AMAZON])]
        above = f"{(known > 0).sum()} of {known.size}"
        rows.append([text, shown(known, "+"), verdict, above, shown(own, "+") if own.size else "–", *means])
    header = [
        *("difference of SRC, above 0 if it holds", "mean, 95% over logs", "", "logs above 0"),
        *("on the paper's domains", *METRICS),
    ]
    return markdown(header, rows)


def places(log: Interactions) -> Interactions:
    """Return the log with the place in each user's history, from 0 to 1, for its time."""
    assert log.timestamp is not None
    order = np.lexsort((log.timestamp, log.user))
    start = np.cumsum(log.activity) - log.activity
    place = np.empty(len(log))
    place[order] = np.arange(len(log)) - np.repeat(start, log.activity)
    return replace(log, timestamp=place / np.maximum(log.activity[log.user] - 1, 1))


def traits(folder: Path, names: list[str]) -> pd.DataFrame:
    """Return the traits of the 5-cores; drift is between the halves of the users' histories."""
    frames = []
    for name in names:
        core = k_core(field_logs.read_log(name, folder), 5)
        frames.append(log_traits({name: core if core.timestamp is None else places(core)}))
    return pd.concat(frames)


def trait_table(frame: pd.DataFrame) -> str:
    """Return the traits of the logs."""
    rows = [
        [name, *(f"{one[c]:,.0f}" for c in ("n_users", "n_items", "n_pairs", "median_profile")),
         f"{100 * one['density']:.2f}", f"{one['gini']:.2f}",
         "–" if np.isnan(one["drift"]) else f"{one['drift']:.2f}"]
        for name, one in frame.iterrows()
    ]  # fmt: skip
    header = ["log (5-core)", "users", "items", "pairs", "profile", "density, %", "Gini", "drift"]
    return markdown(header, rows)


def correlation(pairs: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of two columns, (…, n, 2) -> (…), NaN where one does not vary."""
    ranks = rankdata(pairs, axis=-2)
    first, second = np.moveaxis(ranks - ranks.mean(axis=-2, keepdims=True), -1, 0)
    norm = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return np.divide((first * second).sum(-1), norm, out=np.full(norm.shape, np.nan), where=norm > 0)


@cache
def resamples(n_rows: int) -> np.ndarray:
    """Return the rows of 500 draws with replacement, (500, n_rows)."""
    return np.array([np.random.RandomState(n).choice(n_rows, n_rows) for n in range(500)])


def trait_links(frame: pd.DataFrame, found: Found) -> str:
    """Return Spearman's correlation over logs of each trait with three agreements, with intervals."""
    asked = {
        "RO_RS / TO_RS": found.of_split("RO_RS", "TO_RS"),
        "full / uniform-100": found.of_pool("uniform-100"),
        "full / popularity-100": found.of_pool("popularity-100"),
    }
    rows = []
    for trait in ("n_users", "n_items", "median_profile", "density", "gini", "drift"):
        cells = []
        for values in asked.values():
            pair = pd.concat([frame[trait], values], axis=1, join="inner").dropna().to_numpy()
            drawn = correlation(pair[resamples(len(pair))])
            known = drawn[~np.isnan(drawn)]
            low, high = np.quantile(known if known.size else [np.nan], [0.025, 0.975])
            cells.append(f"{correlation(pair):+.2f} [{low:+.2f}, {high:+.2f}]")
        rows.append([trait, *cells])
    return markdown(["correlation over logs of SRC with", *asked], rows)


def block_table(found: Found, n_draws: int = 100) -> str:
    """Return the blocks of logs that agree, and how many blocks there are when users are drawn again."""
    names = found.study.levels("log")
    whole = found.study.matrix("log")
    square = blocks(whole.to_numpy())
    groups = [
        ", ".join(names[n] for n in square.order if square.label[n] == label)
        for label in np.unique(square.label)
    ]
    total, count = np.zeros((n_draws, len(names), len(names))), np.zeros((len(names), len(names)))
    settings: dict[tuple[str, str, str], dict[str, np.ndarray]] = {}
    for one in found.study.results:
        key = (one.setting.split, one.setting.candidates, one.metric)
        ranks = rankdata(one.replicates[:n_draws], axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        norm = np.linalg.norm(ranks, axis=1, keepdims=True)
        settings.setdefault(key, {})[one.setting.log] = ranks / np.maximum(norm, 1e-9)
    for by_log in settings.values():
        at = [names.index(log) for log in by_log]
        stack = np.stack(list(by_log.values()))
        total[np.ix_(range(n_draws), at, at)] += np.einsum("adm,bdm->dab", stack, stack)
        count[np.ix_(at, at)] += 1
    drawn = [blocks(one / count) for one in total]
    sizes = np.bincount([int(one.label.max()) + 1 for one in drawn])
    counted = ", ".join(f"{n} in {k}" for n, k in enumerate(sizes) if k)
    rows = [(str(number), names) for number, names in enumerate(groups, 1)]
    said = f"Number of blocks when users are drawn again: {counted} of {n_draws} draws."
    return f"{markdown(['block', 'logs'], rows)}\n\nSilhouette {square.silhouette:.2f}. {said}"


def factor_frame(out: Path) -> pd.DataFrame:
    """Return the agreement of every level of the training part and of the target with the first one."""
    rows = []
    for name in field_logs.loaders(out):
        file = out / name.replace(" ", "_") / "factors.csv"
        if not file.exists():
            continue
        for (factor, metric), part in pd.read_csv(file).groupby(["factor", "metric"], sort=False):
            part = part.replace({"level": {"1-core": "as it is"}})
            values = {level: one.set_index("model") for level, one in part.groupby("level", sort=False)}
            levels = list(values)
            pairs = [(levels[0], other) for other in levels[1:]] + [("first", "last")] * (factor == "target")
            for a, b in pairs:
                one = order_agreement(
                    values[a]["estimate"].to_dict(), values[b]["estimate"].to_dict(), k=(1, 3)
                )
                left = values[b]["n_train"].iloc[0] / values[a]["n_train"].iloc[0]
                about = {"log": name, "factor": factor, "metric": metric, "pair": f"{a} / {b}", "left": left}
                rows.append(about | dict(one.values) | {"n_beyond": np.nan})
    return pd.DataFrame(rows)


def factor_table(frame: pd.DataFrame) -> str:
    """Return the agreement of other training parts and other target items, means over logs."""
    rows = []
    for (factor, pair), part in frame.groupby(["factor", "pair"], sort=False):
        left = f"{100 * part.groupby('log')['left'].first().median():.0f}%" if factor == "training" else "–"
        rows.append([*row(f"{factor}: {pair}", part)[:-2], left, str(part["log"].nunique())])
    return markdown(["", *SHOWN[:-2], "training left, median", "logs"], rows)


def value_table(found: Found) -> str:
    """Return recall@10 of every recommender on every log, RO_RS and TO_RS, full catalogue."""
    frame = found.study.frame
    frame = frame[(frame["metric"] == "recall@10") & (frame["candidates"] == "full")]
    frame = frame[frame["split"].isin(["RO_RS", "TO_RS"])]
    cells = frame.pivot_table(index=["log", "split"], columns="model", values="estimate", sort=False)
    rows = [
        [f"{log}, {split}", *(f"{values[m]:.3f}" for m in found.study.models)]
        for (log, split), values in cells.iterrows()
    ]
    return markdown(["recall@10", *found.study.models], rows)


def tables(found: Found, folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    known = traits(folder, found.study.levels("log"))
    return {
        "field-findings": finding_table(found),
        "field-splits": split_table(found),
        "field-pools": pool_table(found),
        "field-pools-by-split": pool_by_split(found),
        "field-by-log": log_rows(found),
        "field-factors": factor_table(factor_frame(found.out)),
        "field-logs": trait_table(known),
        "field-traits": trait_links(known, found),
        "field-values": value_table(found),
        "field-blocks": block_table(found),
    }


def heat_map(found: Found, file: Path) -> None:
    """Write the heat map of the logs, in the order of their blocks."""
    axes = found.study.plot("log")
    axes.figure.set_size_inches(14, 12)
    axes.figure.savefig(file, bbox_inches="tight", dpi=60, metadata={"Software": None})
