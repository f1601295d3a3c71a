"""From reduced users to an Evaluation: the same for ranks here, partitions on a cluster, and ratings."""

from __future__ import annotations

from ipseval._base.checks import warn_user
from ipseval._base.counts import RESULT, Count, some
from ipseval._base.types import AnyArray
from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import Estimate
from ipseval.estimators._estimate import estimate_of
from ipseval.estimators._sample import NOBODY, Extent
from ipseval.evaluation._reduction import Reduction
from ipseval.evaluation._request import Request, warn_about_few_positives, warn_about_sampling
from ipseval.evaluation._result import Evaluation
from ipseval.inference._frame import joined, judged
from ipseval.ranking._comparable import check_lists, list_count, list_notes

MANY_LEFT_OUT = 0.1  # of the positives
NO_POSITIVE = "there is no positive to evaluate."


def finished(reduction: Reduction, request: Request, user_ids: AnyArray | None = None) -> Evaluation:
    """Return the evaluation, after the checks and warnings that need all users.

    `user_ids`: ids of the population; None: those of the reduction.
    """
    extent, weights = reduction.extent, reduction.weights
    check_lists(reduction.given_counts, request.missing, extent.n_left_out, extent.unit_plural)
    if not extent.n_positives:
        raise PropensityError(NOBODY) if extent.n_without_propensity else InputError(NO_POSITIVE)
    warn_about_few_positives(extent, request.estimators)
    for sample in list(reduction.samples.values())[:1]:
        warn_about_sampling(sample.ranked, request.metrics)
    _warn_about_left_out(extent)
    diagnostics = weights.diagnostics(request.estimators, extent, request.propensity)
    products = weights.product_flags(extent.n_users)
    estimates = _estimates(reduction, request)
    flags = {cell: joined(diagnostics[cell[1]].flag, products.get(cell, "")) for cell in reduction.sums}
    evaluation = Evaluation(
        judged(estimates, flags, request.metrics, request.on_low_ess),
        reduction.samples,
        diagnostics,
        reduction.user_ids if user_ids is None else user_ids,
        request.confidence_level,
        request.propensity,
        provenance={
            "ties": request.ties,
            "missing": request.missing,
            "on_low_ess": request.on_low_ess,
            "candidates": reduction.candidates,
        },
        definitions=(request.metrics, request.estimators),
        extent=extent,
        counted=_counted(reduction, request.depth),
    )
    return evaluation.with_intervals(request.interval, rng=request.rng)


def _warn_about_left_out(extent: Extent) -> None:
    """Warn where more than a tenth of the positives, and ten of them, have no propensity."""
    total = extent.n_positives + extent.n_without_propensity
    lost = extent.n_without_propensity
    if lost >= 10 and lost > MANY_LEFT_OUT * total:
        warn_user(
            f"{lost:,} of {total:,} test positives ({lost / total:.0%}) have no propensity and are left out "
            "of every estimator: what is estimated is of the others. Of items that training lacks, "
            "unseen='smooth' gives one.",
            DataWarning,
        )


def _counted(reduction: Reduction, depth: int) -> tuple[Count, ...]:
    """Return what was counted of each recommender and of all together."""
    extent, lists = reduction.extent, reduction.given_counts
    of_models = [
        count
        for name in reduction.models
        for count in (
            *(one for one in reduction.counted if one.subject == name),
            *(one.about(name) for one in list_count(lists[name], depth, extent.unit_plural)),
        )
    ]
    n_left_out, n_without = extent.n_left_out, extent.n_without_propensity
    of_all = some(
        Count("users without a list of some model, left out", n_left_out, extent.n_population + n_left_out),
        Count("positives without a propensity, left out", n_without, extent.n_positives + n_without),
    )
    entered = [
        Count("positives that entered", extent.n_positives),
        Count(f"{extent.unit_plural} that entered", extent.n_users),
        *some(Count("users whose queries entered", extent.n_clusters)),
    ]
    together = [one for one in reduction.counted if one.subject == RESULT]
    return (*of_models, *together, *(one.about(RESULT) for one in (*of_all, *entered)))


def _estimates(reduction: Reduction, request: Request) -> dict[tuple[str, str, str], Estimate]:
    """Return (model, metric, estimator) -> estimate, model by model."""
    found = {}
    members = {cell: reduction.members(cell) for cell in reduction.sums}
    for number, model in enumerate(reduction.models):
        counts = reduction.list_counts[model]
        for metric in request.metrics:
            of_lists = list_notes(
                counts,
                metric.cutoff,
                n_left_out=reduction.extent.n_left_out,
                units=reduction.extent.unit_plural,
            )
            for one in request.estimators:
                found[model, metric.label, one.label] = estimate_of(
                    members[metric.label, one.label][number],
                    metric,
                    one,
                    reduction.extent,
                    is_probability=request.is_probability,
                    n_relevant=request.n_relevant_kind,
                    of_lists=of_lists,
                )
    return found
