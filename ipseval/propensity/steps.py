"""Transforms of a propensity; those after a power law can be repeated at any γ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ipseval.errors import PropensityError
from ipseval.utils.types import FloatArray, IntArray

ValuesAndSlopes = tuple[FloatArray, FloatArray]  # P and d ln P/dγ
Option = float | str | None


@dataclass(frozen=True)
class PropensityTransform:
    """One step of a propensity: "power-law" (always first), "cap", "clip" or "held_out", with its options."""

    name: str
    options: Mapping[str, Option] = field(default_factory=dict)

    def __repr__(self) -> str:
        option_texts = []
        for name, value in self.options.items():
            option_texts.append(_format_option(name, value))

        options = ", ".join(option_texts)
        return f"{self.name}({options})"

    def apply(self, p: FloatArray, slope: FloatArray | float = 0.0) -> ValuesAndSlopes:
        """Return P after the step, and d ln P/dγ."""
        return TRANSFORMS[self.name](p, np.broadcast_to(slope, p.shape), **self.options)


def _format_option(name: str, value: Option) -> str:
    """Return ``name=value``, floats with four digits."""
    if isinstance(value, float):
        return f"{name}={value:.4g}"
    return f"{name}={value}"


def _cap(p: FloatArray, slope: FloatArray) -> ValuesAndSlopes:
    """Return P with values above 1 set to 1."""
    return np.minimum(p, 1.0), np.where(p > 1, 0.0, slope)


def _clip(p: FloatArray, slope: FloatArray, *, floor: float) -> ValuesAndSlopes:
    """Return P with values below the floor raised to it."""
    return np.maximum(p, floor), np.where(p < floor, 0.0, slope)


def _hold_out(
    p: FloatArray, slope: FloatArray, *, test_fraction: float, popularity_source: str
) -> ValuesAndSlopes:
    """Return P(in test | not in train) under a random split."""
    rho = test_fraction
    in_train = p if popularity_source == "train" else (1 - rho) * p
    n_above = int((in_train > (1 - rho) * (1 + 1e-12)).sum())
    if n_above:
        raise PropensityError(
            f"{n_above} of {p.size} propensities of being in train exceed 1 − ρ = {1 - rho:g}, the largest "
            "that a random split allows. Check the scale, or pass popularity_source='log'."
        )
    # The check above leaves values over 1 only through rounding.
    in_test = np.minimum(rho / (1 - rho) * in_train / (1 - in_train), 1.0)
    return in_test, slope / (1 - in_train)


TRANSFORMS: dict[str, Callable[..., ValuesAndSlopes]] = {
    "cap": _cap,
    "clip": _clip,
    "held_out": _hold_out,
}


@dataclass(frozen=True, eq=False)
class GammaPath:
    """A power law and its later transforms, for each distinct popularity, as functions of γ."""

    level: FloatArray  # (n_levels,) the distinct n* > 0, ascending
    place: IntArray  # (n_items,) level of each item; −1 for items without a propensity
    top: float | None  # P of the most popular item, fixed at every γ where P is a probability
    steps: tuple[PropensityTransform, ...]  # the transforms after the power law

    @classmethod
    def from_popularity(cls, popularity: FloatArray, steps: tuple[PropensityTransform, ...]) -> GammaPath:
        """Return the path for the n* of all items; the first step is the power law."""
        seen = popularity > 0
        levels, level_codes = np.unique(popularity[seen], return_inverse=True)
        item_levels = np.full(popularity.size, -1, dtype=np.int64)
        item_levels[seen] = level_codes
        power_law, *later_steps = steps
        top = power_law.options.get("top")
        assert not isinstance(top, str)
        return cls(level=levels, place=item_levels, top=top, steps=tuple(later_steps))

    def for_gamma(self, gamma: float) -> ValuesAndSlopes:
        """Return P of each level and d ln P/dγ, both (n_levels,)."""
        log_level = np.log(self.level)
        scale = 1.0
        if self.top is not None:
            log_level = log_level - log_level[-1]
            scale = self.top
        p: FloatArray = np.exp((gamma + 1) / 2 * log_level) * scale
        slope: FloatArray = log_level / 2
        for step in self.steps:
            p, slope = step.apply(p, slope)
        return p, slope
