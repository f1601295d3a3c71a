"""Fuzz the public border for a while: python tests/fuzz/run.py --minutes 60 --seed 0."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.border import attempt, cases


def main() -> None:
    """Run cases in random order until time is over, and print what is foreign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chooser, end, n_run, foreign = (
        random.Random(options.seed),
        time.monotonic() + 60 * options.minutes,
        0,
        set(),
    )
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        found = cases(Path(name))
        while time.monotonic() < end:
            one = attempt(*chooser.choice(found))
            n_run += 1
            if one is not None and str(one) not in foreign:
                foreign.add(str(one))
                print(one, flush=True)
        os.chdir("/")
    print(f"{n_run:,} of {len(found):,} cases; {len(foreign)} foreign")
    sys.exit(bool(foreign))


if __name__ == "__main__":
    main()
