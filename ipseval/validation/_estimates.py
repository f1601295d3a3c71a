"""Estimates of all recommenders by one estimator, from contributions that are made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ipseval._types import FloatArray
from ipseval.estimators import Estimate, Estimator, Extent, Sample, estimate_of, independent_sums
from ipseval.metrics import Metric

Contributions = Callable[[str, Metric], FloatArray | None]


def estimates(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], kind: Estimator, contributions: Contributions
) -> list[list[Estimate]]:
    """Return the estimates of each metric, one per recommender: the very numbers of `estimate`.

    Parameters
    ----------
    samples : mapping of name to Sample
    contributions : function
        (recommender, metric) -> c of its positives, (n_pos,), or None.
    """
    extents = {name: Extent.of(sample) for name, sample in samples.items()}
    made: list[list[Estimate]] = []
    for one in metrics:
        made.append([])
        for name, sample in samples.items():
            scale, known = sample.is_probability, sample.n_relevant_kind
            kind.check(one, is_probability=scale, n_relevant=known)
            given = contributions(name, one)
            if given is not None:
                sample.keep_values(one, given, weighted=kind.weighted)
            sums = independent_sums(sample, one, kind)
            made[-1].append(
                estimate_of(sums, one, kind, extents[name], is_probability=scale, n_relevant=known)
            )
    return made
