"""A bar while partitions are evaluated: parts held here, or tasks that Spark reports."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipseval._base.compute import quiet_tqdm

DELAY = 2.0  # seconds before a bar appears
PERIOD = 0.5  # seconds between two looks at what Spark has done
GROUP = "spark.jobGroup.id"


def bar(parts: Any, progress: bool | None, total: int | None = None) -> Any:
    """Return a bar over parts; progress None: only on a terminal."""
    hidden = None if progress is None else not progress
    return quiet_tqdm()(parts, desc="evaluating", unit="part", delay=DELAY, disable=hidden, total=total)


@contextmanager
def spark_tasks(context: Any, progress: bool | None) -> Iterator[None]:
    """Show the tasks of the jobs that this thread starts while the block runs."""
    shown, before = bar(None, progress, 0), context.getLocalProperty(GROUP)
    if shown.disable:
        yield
        return
    group, done = before or f"ipseval-{uuid.uuid4()}", threading.Event()
    watch = threading.Thread(target=_watch, args=(context, group, shown, done), daemon=True)
    context.setLocalProperty(GROUP, group)
    watch.start()
    is_whole = False
    try:
        yield
        is_whole = True
    finally:
        done.set()
        watch.join()
        if is_whole:  # what Spark reports comes a little late
            shown.update(shown.total - shown.n)
        context.setLocalProperty(GROUP, before)
        shown.close()


def _watch(context: Any, group: str, shown: Any, done: threading.Event) -> None:
    tracker = context.statusTracker()
    while True:
        is_last = done.wait(PERIOD)
        stages: set[int] = set()
        for number in tracker.getJobIdsForGroup(group):
            job = tracker.getJobInfo(number)
            stages.update(job.stageIds if job else ())
        found = [one for one in map(tracker.getStageInfo, stages) if one]
        shown.total = sum(one.numTasks for one in found)
        shown.update(sum(one.numCompletedTasks for one in found) - shown.n)
        if is_last:
            return
