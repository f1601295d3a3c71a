"""No number changes unsaid: over 500 results are compared with those of the file."""

from __future__ import annotations

import pytest

from tests.contracts import numbers
from tests.contracts.number_cases import CASES
from tests.contracts.number_worlds import bits
from tests.contracts.numbers import Kept

KEPT = Kept.of(numbers.FILE.read_text(encoding="utf-8"))
LOG = """# Changelog
## [Unreleased]
### Numbers changed
- `ips` counts users once,
  and says so
### Added
- `snips` of everything
## [0.1]
### Numbers changed
- `rr` of ties
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_file(case):
    now = dict(CASES[case]())
    different = numbers.changed({case: KEPT.numbers[case]}, {case: now})
    assert not different, "\n".join([numbers.REFRESH, *different])
    new = [name for name in now if name not in KEPT.numbers[case]]
    assert not new, "\n".join(["store new numbers by `python -m tests.contracts.numbers --write`:", *new])


def test_the_file_holds_every_case_and_over_500_numbers_all_of_them_defined():
    assert list(KEPT.numbers) == list(CASES)
    values = [one for case in KEPT.numbers.values() for one in case.values()]
    assert len(values) > 500
    assert not [one for one in values if one != one]
    assert len({f"{one:.12g}" for one in values}) > 350


def test_the_file_is_as_its_command_wrote_it():
    assert KEPT.seal == numbers.sealed(KEPT.body()), (
        "numbers.txt was changed by hand; see python -m tests.contracts.numbers"
    )
    assert KEPT.text() == numbers.FILE.read_text(encoding="utf-8")


def test_every_change_has_its_line_under_numbers_changed():
    said = numbers.entries(numbers.CHANGELOG.read_text(encoding="utf-8"))
    assert not [words for words in KEPT.changes if not any(words in one for one in said)]


def test_entries_are_those_under_numbers_changed_of_every_release():
    assert numbers.entries(LOG) == ["`ips` counts users once, and says so", "`rr` of ties"]


def test_a_changed_number_is_written_only_with_words_of_a_line_of_its_own():
    kept = Kept(("`rr` of ties",), {"a": {"x": 1.0, "y": 2.0}})
    now = {"a": {"x": 1.0, "y": 2.5, "z": 3.0}}
    for words in ("", "`snips` of everything", "of nothing"):
        with pytest.raises(ValueError, match=r"Numbers changed(.|\n)*y: 2.0, and now 2.5"):
            numbers.refreshed(kept, now, words, LOG)
    with pytest.raises(ValueError, match="an earlier change"):
        numbers.refreshed(kept, now, "`rr` of ties", LOG)
    new = numbers.refreshed(kept, now, "counts users once, and", LOG)
    assert new == Kept(("`rr` of ties", "counts users once, and"), now)
    assert Kept.of(new.text()) == Kept(new.changes, new.numbers, numbers.sealed(new.body()))


def test_a_number_that_is_gone_is_a_change_and_a_new_one_is_not():
    kept = Kept((), {"a": {"x": 1.0}})
    with pytest.raises(ValueError, match=r"x: 1\.0, and now not computed"):
        numbers.refreshed(kept, {"b": {}}, "", LOG)
    now = {"a": {"x": 1.0 + 1e-14, "y": 2.0}}
    assert numbers.refreshed(kept, now, "", LOG).numbers == {"a": {"x": 1.0, "y": 2.0}}
    with pytest.raises(ValueError, match="no number changed"):
        numbers.refreshed(kept, now, "`rr` of ties", LOG)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (1.0, 1 + 5e-13, True),
        (1.0, 1 + 2e-12, False),
        (0.0, 1e-15, True),
        (0.0, 1e-13, False),
        (1e9, 1e9, True),
    ],
)
def test_numbers_are_compared_to_one_part_in_a_million_millions(old, new, same):
    assert numbers.same(old, new) == same


def test_the_recipe_gives_the_bits_that_were_published():
    # The first outputs of SplitMix64 with seed 0: https://prng.di.unimi.it/splitmix64.c
    assert [hex(bit) for bit in bits(3, 0)] == ["0x0", "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]
