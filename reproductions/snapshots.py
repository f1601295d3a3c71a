"""Which PMF did Yang et al. (RecSys 2018) report? Their training loop on citeulike-a, replayed.

    python -m reproductions.snapshots --data PATH [--write]

The authors' script trains PMF for 50,001 steps (Adam at openrec's rate of .001, batches of 8,000 with a fifth
of positives, no penalty), saves it every 5,000 steps and prints AUC, Recall@10…100 and NDCG@10…100 of the
validation part among 200 sampled items. The snapshot was chosen by a person, by a rule that is not written
down. Here every plausible rule chooses on the validation part, and the test part says what it would have
led to: with our draws of training examples, with openrec's, and with openrec's if its five processes draw the
same negatives (its sampler is seeded once, before it forks them).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import ComputeOptions, SampledCandidates, Split, evaluate_ranks, rank_positives
from ipseval.errors import IdentificationWarning
from reproductions.citeulike import GAMMAS, LABELS, PAPER, rank_all, table
from reproductions.models import CACHE, SEED, citeulike_split, torch_model
from reproductions.tables import command, markdown

EVERY = 5_000  # the authors' display_itr: they saw and saved nothing in between
FINE = (1_000, 2_000, 3_000, 4_000, 6_000, 7_000, 8_000, 9_000)
CUTOFFS = tuple(range(10, 101, 10))
# How examples are drawn -> (n_processes of torch_model, steps). 50,000 steps are the authors' budget.
LOOPS: dict[str, tuple[int | None, int]] = {
    "our draws": (None, 10_000),
    "openrec's draws": (1, 50_000),
    "openrec's draws, five processes": (5, 10_000),
}
SHOWN = (
    "AUC",
    "Recall@10",
    "Recall@50",
    "Recall@100",
    "NDCG@10",
    "NDCG@50",
    "NDCG@100",
    "recall@50, all items",
)


def openrec_criteria(factors: Any, split: Split) -> dict[str, float]:
    """Return what openrec prints during training: AUC, Recall@k and NDCG@k of the validation part.

    Each validation item is ranked among 200 items that are neither training nor validation items of the user,
    without the user's other validation items. openrec's Recall counts 0-based ranks <= k, and its ideal DCG
    is that of all the user's items, whatever the cut-off.
    """
    assert split.validation is not None
    check = Split(split.train, split.validation)
    pool = SampledCandidates(200, replacement=False, pool="unobserved", rng=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)  # this pool is theirs, not ours
        ranked = rank_positives(factors, check, candidates=pool, compute=ComputeOptions(n_threads=1))
    above = ranked.n_above
    ideal = np.cumsum(1 / np.log2(np.arange(ranked.counts.max()) + 2))[ranked.counts - 1]
    found = {"AUC": ranked.sum_by_user(1 - above / 200) / ranked.counts}
    for k in CUTOFFS:
        found[f"Recall@{k}"] = ranked.sum_by_user((above <= k).astype(float)) / ranked.counts
        found[f"NDCG@{k}"] = ranked.sum_by_user((above < k) / np.log2(above + 2)) / ideal
    full = rank_positives(factors, check, compute=ComputeOptions(n_threads=1))
    everything = evaluate_ranks({"PMF": full}, metrics=["recall@50"], estimators=["aoa"]).frame
    values = {name: float(np.mean(value)) for name, value in found.items()}
    return values | {"recall@50, all items": float(everything["estimate"].iloc[0])}


def replay(folder: Path, loop: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return criteria on the validation part and the paper's table on the test part, by step. Cached."""
    n_processes, n_steps = LOOPS[loop]
    stem = CACHE / f"replay_{loop.replace(chr(39), '').replace(',', '').replace(' ', '_')}"
    paths = [stem.with_suffix(end) for end in (".criteria.csv", ".test.csv")]
    if not all(path.exists() for path in paths):
        split = citeulike_split(folder)
        at = sorted({step for step in (*FINE, *range(EVERY, n_steps + 1, EVERY)) if step <= n_steps})
        start, criteria, tests = time.perf_counter(), [], []
        for label, factors in torch_model(
            split.train, SEED, loss="pmf", l2=0.0, n_steps=n_steps, rate=0.001, at=set(at),
            n_processes=n_processes,
        ):  # fmt: skip
            step = int(label.split()[0])
            criteria.append({"step": step, **openrec_criteria(factors, split)})
            test = table(rank_all({"PMF": factors}, split), split.train, (GAMMAS[1],))
            tests.append(test.assign(step=step))
            print(f"PMF, {loop}: {label}, {time.perf_counter() - start:.0f} s", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(criteria).to_csv(paths[0], index=False)
        pd.concat(tests).to_csv(paths[1], index=False)
    return pd.read_csv(paths[0]).set_index("step"), pd.read_csv(paths[1])


def chosen_by(criteria: pd.DataFrame, steps: Sequence[int]) -> pd.DataFrame:
    """Return, for each criterion, the best of the steps and the last before the first fall."""
    seen = criteria.loc[list(steps)]
    falls = seen.diff() < 0
    before = {
        name: steps[int(np.argmax(falls[name])) - 1] if falls[name].any() else steps[-1] for name in seen
    }
    return pd.DataFrame({"best": seen.idxmax(), "before the first fall": before})


def distances(test: pd.DataFrame) -> pd.Series:
    """Return the mean absolute difference from the paper by step: four metrics, AOA and SNIPS(1.69)."""
    paper = {(m, g): PAPER[m, "PMF"][column] for m in LABELS for column, g in ((0, -1.0), (2, GAMMAS[1]))}
    aim = test["metric"].combine(test["gamma"], lambda metric, gamma: paper[metric, gamma])
    return (test["estimate"] - aim).abs().groupby(test["step"]).mean()


def steps_table(loops: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> str:
    """Return AOA → SNIPS(1.69) of the test part by loop and step, beside the paper's values."""
    rows = []
    for loop, (_, test) in loops.items():
        cells = test.pivot_table(index="step", columns=["metric", "gamma"], values="estimate", sort=False)
        far = distances(test)
        for step, row in cells.iterrows():
            values = [f"{row[m, -1.0]:.3f} → {row[m, GAMMAS[1]]:.3f}" for m in LABELS]
            rows.append([f"{loop}, {step:,} steps", *values, f"{far[step]:.3f}"])
    values = [f"*{PAPER[m, 'PMF'][0]:.3f} → {PAPER[m, 'PMF'][2]:.3f}*" for m in LABELS]
    rows.append(["*paper*", *values, ""])
    return markdown(["PMF", *LABELS, "mean distance"], rows)


def rules_table(loops: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> str:
    """Return what each criterion of the validation part chooses, by loop and rule, and how far it ends.

    One entry where the best step is also the last before the first fall; otherwise both, in this order.
    """
    header, columns = ["criterion, validation part"], []
    for loop, (criteria, test) in loops.items():
        far = distances(test)
        every = [step for step in criteria.index if step % EVERY == 0]
        for name, steps in ((f"every {EVERY:,}", every), ("all snapshots", list(criteria.index))):
            header.append(f"{loop}: {name}")
            found = chosen_by(criteria, steps)
            columns.append(
                {c: "; ".join(f"{s:,} ({far[s]:.3f})" for s in dict.fromkeys(found.loc[c])) for c in SHOWN}
            )
    return markdown(header, [[criterion, *(one[criterion] for one in columns)] for criterion in SHOWN])


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    loops = {loop: replay(folder, loop) for loop in LOOPS}
    return {"yang-snapshots": steps_table(loops), "yang-rules": rules_table(loops)}


if __name__ == "__main__":
    command(__doc__, tables)
