"""Fuzz the public border: python -m tests.fuzz.run --calls 5000 --seed 0, or --minutes 60."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.fuzz.border import attempt, cases
from tests.fuzz.doors import dressed

HERE = Path.cwd()


def main() -> None:
    """Dress the data of all doors, call with wrong values in random order, and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--calls", type=int, default=None, help="stop after so many, whatever the time")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tally = dressed()
    print(f"{tally.n:,} of the same data in other clothes: {tally.same:,} same, {tally.refused:,} refused, "
          f"{len(tally.wrong)} wrong", *tally.wrong, sep="\n", flush=True)  # fmt: skip
    chooser = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    n_run = 0
    n_from_callers = 0
    foreign = set()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        case_list = cases(Path(name))
        for n_run in itertools.count():
            if n_run == options.calls or (options.calls is None and time.monotonic() > end):
                break
            foreign_error = attempt(*chooser.choice(case_list))
            if foreign_error is not None and foreign_error.from_caller:
                n_from_callers += 1
            elif foreign_error is not None and str(foreign_error) not in foreign:
                foreign.add(str(foreign_error))
                print(foreign_error, flush=True)
        os.chdir(HERE)
    print(
        f"{n_run:,} calls with a wrong value, of {len(case_list):,} kinds; {len(foreign)} foreign; {n_from_callers} "
        "ended by an error of a function that was the wrong value"
    )
    sys.exit(bool(foreign) or bool(tally.wrong))


if __name__ == "__main__":
    main()
