"""Users reduced to what an evaluation reads of them: sums of every estimate, sums of weights, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ipseval.estimators import Sample, UserSums
from ipseval.estimators.estimate import independent_sums
from ipseval.estimators.sample import Extent
from ipseval.estimators.user_sums import MergedSums, Moments
from ipseval.evaluation.request import Request
from ipseval.evaluation.segments import Groups
from ipseval.evaluation.segments._sums import SegmentSums
from ipseval.evaluation.segments._sums import merge_two as merge_two  # for clusters, too
from ipseval.inference.interval_methods import propensity_influences
from ipseval.inference.weight_diagnostics import AllWeights
from ipseval.ranking import RankedPositives
from ipseval.ranking.model_checks import resolve_missing
from ipseval.utils.counts import RESULT, Count, added, some
from ipseval.utils.types import AnyArray, IntArray

Cell: TypeAlias = tuple[str, str]  # (metric, estimator)
Sums: TypeAlias = tuple[UserSums, ...] | Moments  # of each model


@dataclass(frozen=True, eq=False)
class Reduction:
    """What an evaluation reads of some users; reductions of other users merge."""

    models: tuple[str, ...]
    sums: Mapping[Cell, Sums]
    extent: Extent
    weights: AllWeights
    list_counts: dict[str, IntArray]
    given_counts: dict[str, IntArray]
    user_ids: AnyArray
    candidates: str
    samples: dict[str, Sample] = field(default_factory=dict)
    ranks: dict[str, RankedPositives] = field(default_factory=dict)
    counted: tuple[Count, ...] = ()
    segments: tuple[SegmentSums, ...] = ()

    def __repr__(self) -> str:
        return f"Reduction({', '.join(self.models)}; {self.extent!r})"

    @classmethod
    def of(
        cls,
        ranks: Mapping[str, RankedPositives],
        request: Request,
        n_threads: int | None = 1,
    ) -> Reduction:
        """Return what a request reads of the users whose positives are ranked."""
        depth = request.depth
        ranks = resolve_missing(ranks, request.missing_lists, depth)
        samples = {
            name: replace(request.sample(ranked), rewarded=ranked.candidate_sums)
            for name, ranked in ranks.items()
        }
        first = next(iter(samples.values()))
        with ThreadPoolExecutor(1) as beside:
            weights = beside.submit(
                AllWeights.of, first, request.estimators, request.metrics, propensity=request.propensity
            )
            if n_threads == 1:
                weights.result()
            sums = {
                (metric.label, one.label): tuple(
                    independent_sums(sample, metric, one) for sample in samples.values()
                )
                for metric in request.metrics
                for one in request.estimators
            }
            if request.propensity is not None and request.propensity.error is not None:
                asked = request.metrics, request.estimators
                found = propensity_influences(samples, *asked, request.propensity.error)
                for cell, own in sums.items():
                    moved = (found.get((model, *cell)) for model in samples)
                    pairs = zip(own, moved, strict=True)
                    sums[cell] = tuple(replace(one, propensity_influence=by) for one, by in pairs)
            return cls(
                tuple(ranks),
                sums,
                Extent.of(first),
                weights.result(),
                {name: one.ranked.list_counts(depth) for name, one in samples.items()},
                {name: one.list_counts(depth) for name, one in ranks.items()},
                first.ranked.unit_ids,
                first.ranked.candidates,
                samples=samples,
                ranks=ranks,
                counted=_counted(ranks),
            )

    def by(self, groupings: Sequence[Groups], request: Request) -> Reduction:
        """Return the reduction with its sums in groups too, while it has the positives."""
        cells = {key: one for key, one in self.sums.items() if not isinstance(one, Moments)}
        asked = request.metrics, request.estimators
        made = (SegmentSums.of(one, self.samples, cells, *asked) for one in groupings)
        return replace(self, segments=tuple(made))

    def as_part(self, *, per_user: bool) -> Reduction:
        """Return what a worker sends: moments, or the sums of each user; never the positives."""
        sums: dict[Cell, Sums] = {
            key: one if per_user or isinstance(one, Moments) else Moments.of(one)
            for key, one in self.sums.items()
        }
        return replace(
            self, sums=sums, samples={}, ranks={}, segments=tuple(one.alone() for one in self.segments)
        )

    def merge(self, other: Reduction) -> Reduction:
        """Return the reduction of the users of both, who are different."""
        shift = self.user_ids.size

        def both(one: Sums, two: Sums) -> Sums:
            if isinstance(one, Moments):
                assert isinstance(two, Moments)
                return one.merge(two)
            assert isinstance(two, tuple)
            return tuple(mine.concatenate(theirs, shift) for mine, theirs in zip(one, two, strict=True))

        return Reduction(
            self.models,
            {key: both(one, other.sums[key]) for key, one in self.sums.items()},
            self.extent.merge(other.extent),
            self.weights.merge(other.weights),
            {name: counts + other.list_counts[name] for name, counts in self.list_counts.items()},
            {name: counts + other.given_counts[name] for name, counts in self.given_counts.items()},
            np.concatenate([ids for ids in (self.user_ids, other.user_ids) if ids.size] or [self.user_ids]),
            self.candidates,
            counted=added(self.counted, other.counted),
            segments=tuple(one.merge(two) for one, two in zip(self.segments, other.segments, strict=True)),
        )

    def ordered(self, user_ids: AnyArray) -> Reduction:
        """Return the reduction with its users in the order of `user_ids`."""
        place = {user: code for code, user in enumerate(user_ids.tolist())}
        codes = np.array([place[user] for user in self.user_ids.tolist()], dtype=np.int64)
        sums = {
            key: cell if isinstance(cell, Moments) else tuple(one.remap_users(codes) for one in cell)
            for key, cell in self.sums.items()
        }
        return replace(self, sums=sums, user_ids=user_ids)

    def members(self, cell: Cell) -> list[UserSums] | list[MergedSums]:
        """Return the sums of each model for a metric and estimator."""
        sums = self.sums[cell]
        return sums.members() if isinstance(sums, Moments) else list(sums)


def _counted(ranks: Mapping[str, RankedPositives]) -> tuple[Count, ...]:
    """Return what was counted while each model was ranked, and the positives that are no candidates."""
    found = (count.about(name) for name, ranked in ranks.items() for count in ranked.counted)
    first, words = next(iter(ranks.values())), "test positives that are no candidates, left out"
    n_out = first.n_not_candidates
    return (*found, *some(Count(words, n_out, len(first) + n_out, RESULT)))


def merge_all(parts: list[Reduction | None]) -> Reduction | None:
    """Return all parts merged, in pairs in their order: the same bits in every run."""
    while len(parts) > 1:
        parts = [merge_two(one, other) for one, other in zip_longest(parts[::2], parts[1::2])]
    return parts[0] if parts else None
