"""Mistakes that type checkers have to find: a line with `# error` is one, no other line is."""

from __future__ import annotations

from typing import assert_type

import ipseval


def mistakes(split: ipseval.Split, found: ipseval.Evaluation) -> None:
    """One mistake in a line."""
    assert_type(found.frame, str)  # error
    ipseval.evaluate({}, split, n_resample=10)  # error
    ipseval.evaluate({}, split, interval="bootstrap")  # error
    ipseval.split_random(split, rng=0)  # error
    ipseval.PowerLawPropensity(gamma="zero")  # error
    found["als"]  # error
    found.compare(correction="tukey")  # error
    print(found.means)  # error
    ipseval.evaluate({}, split)
