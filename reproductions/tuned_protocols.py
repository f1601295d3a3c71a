"""Zhao et al. (CIKM 2020) with recommenders tuned on the validation part, on ten logs.

Run: ``python -m reproductions.tuned_protocols OUT [--data FOLDER] [--small]``. OUT gets the ranks (a run that
was interrupted goes on where it stopped), the two studies, and tables.md, in the form of the paper's tables
with its conclusions beside ours. FOLDER holds `ml-100k`, `coat` and `citeulike-a`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval
from ipseval.data.interactions import Interactions
from ipseval.ranking import SampledCandidates, baselines
from ipseval.studies.agreement import order_agreement
from ipseval.studies.protocols import ProtocolStudy
from ipseval.validation.datasets import load_coat
from reproductions.closed_forms import TUNED, UNTUNED
from reproductions.data import load_citeulike_a
from reproductions.protocol_study import DOMAINS, domain
from reproductions.tables import data_folder, markdown
from reproductions.traits import log_traits

PLAIN = {"random": baselines.BASELINES["random"], "popularity": baselines.popularity}
GENRES = ("Drama", "Comedy", "Action", "Thriller")
METRICS = ("precision@10", "recall@10", "ap", "auc")
METRIC = "recall@10"
OPTIONS = {"metrics": METRICS, "estimators": ["aoa"], "k": [1, 3, 5], "n_resamples": 200}
GENRE_USERS, CITEULIKE_USERS = 400, 800  # drawn once: what a study of twelve protocols can afford


def films(folder: Path) -> dict[str, Interactions]:
    """Return MovieLens 100K, and users' ratings of films of one genre; every rating is a positive."""
    log = replace(ipseval.datasets.load_movielens(folder), value=None)
    with (folder / "u.item").open(encoding="latin-1") as file:
        rows = [line.rstrip("\n").split("|") for line in file]
    names = [name.strip() for name in rows[0][-18:]]
    flags = {int(row[0]): row[-18:] for row in rows[1:]}
    found, rng = {"ML-100K": log}, np.random.default_rng(0)
    for genre in GENRES:
        place = names.index(genre)
        has = np.array([flags[int(item)][place] == "1" for item in log.item_ids])
        found[genre] = some_users(log.select(has[log.item]), GENRE_USERS, rng)
    return found


def some_users(log: Interactions, n_users: int, rng: np.random.Generator) -> Interactions:
    """Return the interactions of users drawn at random."""
    return log.select(np.isin(log.user, rng.choice(log.n_users, n_users, replace=False)))


def logs(folder: Path, small: bool = False) -> dict[str, Interactions]:
    """Return the logs by name: films, articles, coats, and three simulated shops."""
    made = {name: domain(*shape, seed=10 * n, size=0.17) for n, (name, shape) in enumerate(DOMAINS.items())}
    if small:
        return made
    articles = load_citeulike_a(folder / "citeulike-a")
    return {
        **films(folder / "ml-100k"),
        "citeulike-a": some_users(articles, CITEULIKE_USERS, np.random.default_rng(0)),
        "Coat": load_coat(folder / "coat").positives().biased,
        **made,
    }


def protocols() -> list[ipseval.studies.protocols.Protocol]:
    """Return the twelve protocols: two orders, two ways to hold out, three sets of candidates."""
    sampled = {
        f"{law}-100": SampledCandidates(100, distribution=law, rng=0) for law in ("uniform", "popularity")
    }
    return ipseval.studies.protocols.grid(candidates={"full": "all"} | sampled, n_repeats=5, n_searches=5)


def studies(data: dict[str, Interactions], out: Path) -> tuple[ProtocolStudy, ProtocolStudy]:
    """Return the study with tuned and the one with untuned recommenders, stored below OUT."""
    chosen = protocols()
    tuned = ipseval.studies.protocols.study(PLAIN | TUNED, data, chosen, path=out / "tuned", **OPTIONS)
    plain = [replace(one, n_repeats=1 if one.order == "temporal" else 5) for one in chosen]
    return tuned, ipseval.studies.protocols.study(
        PLAIN | UNTUNED, data, plain, path=out / "untuned", **OPTIONS
    )


def interval(row: pd.Series, name: str) -> str:
    """Return a value with its interval."""
    return f"{row[name]:.2f} [{row[name + '_low']:.2f}, {row[name + '_high']:.2f}]"


def paper_tables(tuned: ProtocolStudy, untuned: ProtocolStudy) -> tuple[str, str]:
    """Return the tables in the form of the paper's: between splits, and sampled against full."""
    measures = ["or@1", "or@3", "src", "ipc"]
    header = [
        "",
        "",
        *(f"{m} tuned" for m in measures),
        "significantly opposite pairs, tuned",
        *(f"{m} untuned" for m in measures),
        "significantly opposite pairs, untuned",
    ]
    made = []
    for factor, reference in (("split", None), ("candidates", "full")):
        tables = [one.table(factor, metric=METRIC, reference=reference) for one in (tuned, untuned)]
        if factor == "split":
            tables = [one[one["candidates"] == "full"] for one in tables]
        keys = [f"{factor}_a", f"{factor}_b"]
        names = keys if factor == "split" else ["split", f"{factor}_b"]
        lines = []
        for (_, a), (_, b) in zip(tables[0].iterrows(), tables[1].iterrows(), strict=True):
            cells = [a[names[0]], a[names[1]]]
            for row in (a, b):
                cells += [*(interval(row, m) for m in measures), str(row["n_beyond"])]
            lines.append(cells)
        made.append(markdown(header, lines))
    return made[0], made[1]


def tuning_table(tuned: ProtocolStudy, untuned: ProtocolStudy) -> tuple[str, pd.DataFrame]:
    """Return tuned against untuned by protocol: order, winner, gain; and all comparisons behind it."""
    rows = []
    other = {(one.setting, one.metric): one for one in untuned.results}
    for one in tuned.results:
        if one.metric != METRIC:
            continue
        before = other[one.setting, one.metric]
        found = order_agreement(one.estimates, before.estimates, k=[1])
        gain = np.median(one.estimates[2:] / before.estimates[2:] - 1)
        swaps = {"src": found.src, "or@1": found.overlap[1], "ipc": found.ipc, "gain": float(gain)}
        rows.append(
            {"log": one.setting.log, "split": one.setting.split, "candidates": one.setting.candidates} | swaps
        )
    frame = pd.DataFrame(rows)
    mean = (
        frame.groupby(["split", "candidates"], sort=False)[["src", "or@1", "ipc", "gain"]]
        .mean()
        .reset_index()
    )
    lines = []
    for row in mean.to_dict("records"):
        cells = [f"{row[name]:.2f}" for name in ("src", "or@1")] + [f"{row['ipc']:.1f}"]
        lines.append([row["split"], row["candidates"], *cells, f"{100 * row['gain']:+.1f}%"])
    header = ["split", "candidates", "SRC", "same winner", "IPC of 28", "median gain of recall@10"]
    return markdown(header, lines), frame


def noise_table(tuned: ProtocolStudy) -> str:
    """Return how firmly settings are chosen: over repeats, and over draws of the validation users."""
    lines = []
    frame = tuned.frame[(tuned.frame["metric"] == METRIC) & (tuned.frame["candidates"] == "full")]
    for model in TUNED:
        chosen = tuned.settings[tuned.settings["model"] == model]
        distinct = chosen.groupby(["log", "split", "candidates"])["setting"].nunique().mean()
        part = frame[(frame["model"] == model) & frame["split"].str.startswith("TO")]
        ratio = (part["std_repeats"] / part["std_error"]).median()
        ratio_random = frame[(frame["model"] == model) & frame["split"].str.startswith("RO")]
        both = (ratio_random["std_repeats"] / ratio_random["std_error"]).median()
        lines.append(
            [model, f"{distinct:.1f}", f"{chosen['chosen_share'].mean():.2f}", f"{ratio:.2f}", f"{both:.2f}"]
        )
    header = ["recommender", "settings chosen in 5 repeats", "chosen again by other validation users"]
    return markdown([*header, "search noise / SE over users (TO)", "split and search noise / SE (RO)"], lines)


def winner_table(study: ProtocolStudy) -> str:
    """Return, by log, the winner under each split with the full catalogue, and how many there are in all."""
    found = study.winners(metric=METRIC)
    lines = []
    for log, part in found.groupby("log", sort=False):
        full = part[part["candidates"] == "full"].set_index("split")
        cells = [
            f"{full.loc[s, 'winner']} ({full.loc[s, 'share_first']:.1f})" if s in full.index else "–"
            for s in study.levels("split")
        ]
        lines.append([str(log), *cells, f"{part['winner'].nunique()} of {len(part)}"])
    return markdown(["log", *study.levels("split"), "different winners"], lines)


def mean_src(
    study: ProtocolStudy, factor: str, a: str, b: str, **fixed: str
) -> tuple[float, dict[str, float]]:
    """Return the mean SRC between two levels, and that of each log."""
    frame = study.compare_levels(factor, metric=METRIC)
    rows = frame[frame[[f"{factor}_a", f"{factor}_b"]].isin([a, b]).all(axis=1)]
    for name, value in fixed.items():
        rows = rows[rows[name] == value]
    each = rows.groupby("log", sort=False)["src"].mean()
    return float(each.mean()), each.to_dict()


def conclusions(tuned: ProtocolStudy, untuned: ProtocolStudy) -> str:
    """Return the paper's conclusions, each with the figures of both studies."""
    lines = []

    def add(claim: str, *parts: tuple[str, str, str, dict[str, str]], holds: Callable[..., bool]) -> None:
        figures = []
        for study in (tuned, untuned):
            values = [mean_src(study, factor, a, b, **fixed)[0] for factor, a, b, fixed in parts]
            verdict = "holds" if holds(*values) else "does not hold"
            figures.append(f"{verdict}: {', '.join(f'{one:.2f}' for one in values)}")
        lines.append([claim, *figures])

    full = {"candidates": "full"}
    add("Order (RO_RS, TO_RS) matters more than hold-out (RO_RS, RO_LS)",
        ("split", "RO_RS", "TO_RS", full), ("split", "RO_RS", "RO_LS", full),
        holds=lambda a, b: a < b)  # fmt: skip
    add("… and with leave-one-out (RO_LS, TO_LS) against (TO_RS, TO_LS)",
        ("split", "RO_LS", "TO_LS", full), ("split", "TO_RS", "TO_LS", full),
        holds=lambda a, b: a < b)  # fmt: skip
    add("Sampled metrics (uniform-100, popularity-100; RO_RS) agree less than hold-outs (RO_RS, RO_LS)",
        ("candidates", "full", "uniform-100", {"split": "RO_RS"}),
        ("candidates", "full", "popularity-100", {"split": "RO_RS"}),
        ("split", "RO_RS", "RO_LS", full), holds=lambda a, b, c: max(a, b) < c)  # fmt: skip
    add("… and less than orders do (RO_RS, TO_RS)",
        ("candidates", "full", "uniform-100", {"split": "RO_RS"}),
        ("candidates", "full", "popularity-100", {"split": "RO_RS"}),
        ("split", "RO_RS", "TO_RS", full), holds=lambda a, b, c: max(a, b) < c)  # fmt: skip
    add("Uniform samples agree better than popularity samples (RO_RS; TO_RS)",
        ("candidates", "full", "uniform-100", {"split": "RO_RS"}),
        ("candidates", "full", "popularity-100", {"split": "RO_RS"}),
        ("candidates", "full", "uniform-100", {"split": "TO_RS"}),
        ("candidates", "full", "popularity-100", {"split": "TO_RS"}),
        holds=lambda a, b, c, d: a > b and c > d)  # fmt: skip
    return markdown(["Zhao et al. conclude", "tuned: mean SRC", "untuned: mean SRC"], lines)


def trait_tables(data: dict[str, Interactions], tuned: ProtocolStudy) -> tuple[str, str]:
    """Return the traits of the 5-cores, and the blocks of logs that agree."""
    cores = {name: ipseval.data.splits.k_core(log, 5) for name, log in data.items()}
    traits = log_traits(cores)
    shown = [
        [name, *(f"{row[one]:,.0f}" for one in ("n_users", "n_items", "n_pairs", "median_profile")),
         *(f"{row[one]:.3f}" for one in ("density", "gini", "drift", "repeat_rate"))]
        for name, row in traits.iterrows()
    ]  # fmt: skip
    header = ["log (5-core)", "users", "items", "pairs", "profile", "density", "Gini", "drift", "repeats"]
    found = tuned.blocks("log", metric=METRIC)
    names = tuned.levels("log")
    groups = [
        ", ".join(names[n] for n in found.order if found.label[n] == label)
        for label in np.unique(found.label)
    ]
    text = f"{' | '.join(groups)} (silhouette {found.silhouette:.2f})"
    return markdown(header, shown), text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--small", action="store_true", help="the simulated shops only")
    options = parser.parse_args()
    start = time.process_time()
    data = logs(options.data, options.small)
    tuned, untuned = studies(data, options.out)
    splits, candidates = paper_tables(tuned, untuned)
    order, comparisons = tuning_table(tuned, untuned)
    traits, blocks = trait_tables(data, tuned)
    parts = {
        "Between splits (full catalogue; recall@10, mean over logs, 95% over users)": splits,
        "Sampled candidates against the full catalogue": candidates,
        "Conclusions": conclusions(tuned, untuned),
        "Tuned against untuned": order,
        "How firmly settings are chosen": noise_table(tuned),
        "Winners (share of repeats)": winner_table(tuned),
        "Winners, untuned": winner_table(untuned),
        "Logs": traits,
        "Blocks of logs": blocks,
        "Processor time of this run": f"{time.process_time() - start:.0f} s",
    }
    text = "\n\n".join(f"## {name}\n\n{one}" for name, one in parts.items())
    (options.out / "tables.md").write_text(text + "\n", encoding="utf-8")
    comparisons.to_csv(options.out / "tuning.csv", index=False)
    tuned.to_folder(options.out / "tuned")
    untuned.to_folder(options.out / "untuned")
    print(text)


if __name__ == "__main__":
    main()
