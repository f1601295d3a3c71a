"""Printed corrections are stored in text files for review.

After a change of words: `python -m tests.correction.test_printed`, and read what it prints.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ipseval
from ipseval import RandomExposure
from ipseval.correction import Correction
from ipseval.validation.simulation import World

FOLDER = Path(__file__).with_name("printed")
WORLD = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
SPLIT = WORLD.split(rng=1)
MODELS = WORLD.example_models(SPLIT, rng=2)


def exposure_of(n_users: int) -> RandomExposure:
    study = WORLD.study(rng=3, n_per_user=20)
    exposure = RandomExposure.from_ratings(study.random, threshold=4)
    return exposure.select(exposure.user < n_users)


def log_alone() -> Correction:
    """No random items were passed."""
    return ipseval.correct(MODELS, SPLIT, rng=0)


def few_exposed_users() -> Correction:
    """25 users were shown random items, which is not enough for a winner."""
    return ipseval.correct(MODELS, SPLIT, random_exposure=exposure_of(25), rng=0)


def winner() -> Correction:
    """All users were shown random items, and one recommender is the winner."""
    return ipseval.correct(MODELS, SPLIT, random_exposure=exposure_of(300), rng=0)


def reference_value() -> Correction:
    """An experiment measured one recommender."""
    models = {name: MODELS[name] for name in ("popular", "noisy")}
    values = {"popular": {"recall@10": (0.33, 0.02)}}
    return ipseval.correct(
        models, SPLIT, reference_values=values, source="randomised", metrics=["recall@10"], rng=0
    )


def one_recommender() -> Correction:
    """There is nothing to compare."""
    return ipseval.correct({"popular": MODELS["popular"]}, SPLIT, metrics=["recall@10"], rng=0)


SITUATIONS: dict[str, Callable[[], Correction]] = {
    situation.__name__: situation
    for situation in (log_alone, few_exposed_users, winner, reference_value, one_recommender)
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_correction_is_printed_as_in_its_file(name):
    text = f"{SITUATIONS[name]()!r}\n"
    assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 110


def test_every_file_belongs_to_a_situation():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SITUATIONS)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, situation in SITUATIONS.items():
        text = f"{situation()!r}\n"
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"--- {name}: {situation.__doc__}\n{text}")


if __name__ == "__main__":
    main()
