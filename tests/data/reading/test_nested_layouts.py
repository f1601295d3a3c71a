"""Files in layouts that are no plain table of interactions: impressions are read, nested files are refused."""

from __future__ import annotations

import gzip
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import ipseval
from ipseval.data import ImpressionLog
from ipseval.errors import InputError

START = 1_649_400_000_000  # 8 April 2022, in milliseconds since 1970
N_ROWS = 60
CLICKS = [row % 3 == 0 for row in range(N_ROWS)]
USERS = [str(row % 7 + 1) for row in range(N_ROWS)]


def write_kuairand() -> str:
    """Return a log of impressions with clicks, as log_random_*.csv of KuaiRand."""
    lines = ["user_id,video_id,date,hourmin,time_ms,is_click,is_like,long_view,play_time_ms"]
    for row, (user, click) in enumerate(zip(USERS, CLICKS, strict=True)):
        lines.append(f"{user},{row},20220408,1200,{START + 1000 * row},{int(click)},0,1,{row * 37}")
    return "\n".join(lines) + "\n"


def write_otto() -> str:
    """Return sessions with nested events, as in OTTO."""
    lines = []
    for session in range(20):
        events = [{"aid": event + session, "ts": START + event, "type": "clicks"} for event in range(4)]
        lines.append(json.dumps({"session": session, "events": events}))
    return "\n".join(lines) + "\n"


def write_mind() -> str:
    """Return impressions with a history and a list of news in cells, as behaviors.tsv of MIND."""
    rows = [
        f"{row}\tU{row % 7}\t11/11/2019 9:05:58 AM\tN{row} N{row + 1}\tN{row + 2}-1 N{row + 3}-0"
        for row in range(30)
    ]
    return "\n".join(rows) + "\n"


def write_open_bandit() -> str:
    """Return impressions without users, as all.csv of the Open Bandit dataset."""
    lines = [",timestamp,item_id,position,click,propensity_score,user_feature_0"]
    for row in range(N_ROWS):
        time = f"2019-11-24 00:00:{row:02d}.004101+00:00"
        lines.append(f"{row},{time},{row % 34},{row % 3 + 1},{row % 2},0.0125,81ce123")
    return "\n".join(lines) + "\n"


def write_trec_run() -> str:
    """Return recommendation lists, as a run of TREC."""
    rows = [
        f"{query} Q0 D{rank + query} {rank} {10 - rank} bm25" for query in range(5) for rank in range(1, 6)
    ]
    return "\n".join(rows) + "\n"


def write_negatives() -> str:
    """Return a pair and its sampled negatives in each line, as test.negative of NCF."""
    generator = random.Random(0)
    lines = []
    for user in range(12):
        negatives = "\t".join(str(generator.randint(100, 199)) for _ in range(9))
        lines.append(f"({user},{user + 5})\t{negatives}")
    return "\n".join(lines) + "\n"


NESTED = {
    "OTTO": write_otto,
    "MIND": write_mind,
    "Open Bandit": write_open_bandit,
    "TREC run": write_trec_run,
    "NCF negatives": write_negatives,
}
HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "CR LF": lambda content: content.replace(b"\n", b"\r\n"),
    "no last newline": lambda content: content.rstrip(b"\n"),
    "mark of the byte order": lambda content: b"\xef\xbb\xbf" + content,
}
HARMFUL: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: gzip.compress(content)[:-30],
    "footer": lambda content: content + b"Total: 60 rows\n",
    "cut line": lambda content: content[: content.rstrip(b"\n").rfind(b"\n") + 3],
    "header again": lambda content: content + content.split(b"\n")[0] + b"\n",
    "unbalanced quote": lambda content: content.replace(b"\n", b'\n"', 5).replace(b'\n"', b"\n", 4),
}


def read_content(content: bytes, folder: Path) -> ipseval.Interactions | ImpressionLog:
    """Write a file and read it; warnings other than those of the library are errors."""
    path = folder / "log.txt"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ipseval.errors.DataWarning)
        return ipseval.read(path)


@pytest.mark.parametrize("disturbance", HARMLESS)
def test_impressions_of_kuairand_are_read_exactly(disturbance, tmp_path):
    log = read_content(HARMLESS[disturbance](write_kuairand().encode()), tmp_path)
    assert isinstance(log, ImpressionLog)
    assert log.clicked.tolist() == CLICKS
    assert log.user_ids[log.user].astype(str).tolist() == USERS
    assert log.item_ids[log.item].astype(str).tolist() == [str(row) for row in range(N_ROWS)]
    assert (log.timestamp - log.timestamp[0]).tolist() == [row * 10**9 for row in range(N_ROWS)]


@pytest.mark.parametrize("disturbance", HARMFUL)
def test_disturbed_impressions_of_kuairand_are_refused(disturbance, tmp_path):
    with pytest.raises(InputError):
        read_content(HARMFUL[disturbance](write_kuairand().encode()), tmp_path)


@pytest.mark.parametrize("disturbance", [*HARMLESS, *HARMFUL])
@pytest.mark.parametrize("layout", NESTED)
def test_a_nested_file_is_refused_with_or_without_a_disturbance(layout, disturbance, tmp_path):
    change = (HARMLESS | HARMFUL)[disturbance]
    with pytest.raises(InputError):
        read_content(change(NESTED[layout]().encode()), tmp_path)


def test_the_lists_of_a_trec_run_are_read_by_their_own_function(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text(write_trec_run())
    with pytest.raises(InputError, match=r"Read it by ipseval\.read_lists"):
        ipseval.read(path)
    lists = ipseval.read_lists(path)
    items = [f"D{number}" for number in range(1, 10)]
    split = ipseval.Split.from_frames(
        None,
        {"user": list(range(5)), "item": [f"D{query + 3}" for query in range(5)]},
        items=items,
    )
    evaluation = ipseval.evaluate({"run": lists}, split, metrics=["rr@5"])
    assert evaluation.frame["estimate"].tolist() == pytest.approx([1 / 3])
