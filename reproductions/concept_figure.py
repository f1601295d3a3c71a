"""Draw the figure of docs/concepts.md: what users like, what the log contains, and the log after weighting.

    python -m reproductions.concept_figure

The simulation is that of the example on the page: 5,000 users like the same 40 films, of which ten are popular.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reproductions.tables import ROOT

FIGURE = ROOT / "docs" / "images" / "concept.svg"
N_USERS, N_FILMS, N_POPULAR = 5_000, 40, 10
POPULAR_PROPENSITY, NICHE_PROPENSITY = 0.6, 0.06


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: the number of likes of each film, and the recall@10 of the recommender of popular films."""

    title: str
    likes: npt.NDArray[np.float64]
    recall: float


def simulate_panels() -> tuple[Panel, Panel, Panel]:
    """Return all likes, the observed likes, and the observed likes with weights 1/propensity."""
    rng = np.random.default_rng(0)
    is_popular = np.arange(N_FILMS) < N_POPULAR  # and in the list of the recommender
    propensity = np.where(is_popular, POPULAR_PROPENSITY, NICHE_PROPENSITY)
    observed = (rng.random((N_USERS, N_FILMS)) < propensity).astype(float)
    weights = observed / propensity
    aoa = (observed @ is_popular / observed.sum(axis=1)).mean()
    snips = (weights @ is_popular).sum() / weights.sum()
    return (
        Panel(
            title="What users like",
            likes=np.full(N_FILMS, float(N_USERS)),
            recall=float(is_popular.mean()),
        ),
        Panel(title="What the log contains: AOA", likes=observed.sum(axis=0), recall=float(aoa)),
        Panel(title="Weighted by 1/propensity: SNIPS", likes=weights.sum(axis=0), recall=float(snips)),
    )


def draw() -> None:
    """Draw the panels side by side, with one axis for all."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    panels = simulate_panels()
    with pyplot.rc_context({"svg.hashsalt": "concept", "font.size": 9}):
        figure, axes = pyplot.subplots(
            1, len(panels), figsize=(9, 2.6), sharex=True, sharey=True, layout="constrained"
        )
        film = np.arange(1, N_FILMS + 1)
        is_listed = film <= N_POPULAR
        for axis, panel in zip(axes, panels, strict=True):
            axis.bar(film[is_listed], panel.likes[is_listed], color="C0", label="in the list of ten")
            axis.bar(film[~is_listed], panel.likes[~is_listed], color="0.7", label="not in the list")
            axis.set_title(f"{panel.title}\nrecall@10 = {panel.recall:.2f}", fontsize=9)
            axis.set_xlabel("film, by popularity")
        axes[0].set_ylabel("likes")
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
        )
        figure.savefig(FIGURE, metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    draw()
