"""`plan_exposure`: expected precision by size of an exposure experiment, and the allocation of its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction._allocation import (
    DESIGNS,
    allocate_again,
    allocate_to_new_users,
    check_allocation,
)
from ipseval.correction._posterior import POOLING_SIZE
from ipseval.correction._result import Correction, count_exposed_users
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import (
    as_generator,
    check_bool,
    check_choice,
    check_fraction,
    check_models,
    check_positive_int,
    check_type,
    warn_user,
)
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray, RngLike

DEFAULT_SHARE = 0.05  # of randomly shown pairs that are positive, where there is no pilot
REGRET_LEVEL = 0.9
N_DRAWS = 20_000

# Eigenvalues of a covariance are rounding up to this share of the largest one, or of the total variance before
# the experiment.
ROUNDING = 1e-9

DEFAULT_USERS = (25, 100, 400)
DEFAULT_ITEMS = (10, 20, 50)
DEFAULT_ALLOCATED_USERS = 100
DEFAULT_SLOTS = 20
PLAN_COLUMNS = (
    "metric",
    "n_users",
    "n_items",
    "n_positives",
    "half_width",
    "half_width_random",
    "smallest_difference",
    "regret_90",
)


@public_function
def plan_exposure(
    correction: Correction | None = None,
    *,
    n_users: int | Sequence[int] | None = None,
    n_items: int | Sequence[int] | None = None,
    positive_share: float | None = None,
    power: float = 0.8,
    design: Literal["uniform", "lists"] | None = None,
    models: Mapping[str, Any] | None = None,
    split: Split | None = None,
    depth: int = 10,
    previous: pd.DataFrame | None = None,
    same_users: bool = False,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Compute the expected precision of an exposure experiment by its size, or allocate pairs to users.

    Without `design` the result is the expected precision of `correct` after an experiment with uniform slots.
    With `design` it is the allocation of the experiment: which items are shown to which users, with the
    probability of each pair to be shown.

    Parameters
    ----------
    correction : Correction, optional
        A correction from the log alone, or with random exposure as a pilot, to which the experiment adds
        users. Required without `design`.
    n_users, n_items : int or sequence of int, optional
        Numbers of users, and of items shown to every user. Without `design` each combination is a row;
        default: (25, 100, 400) and (10, 20, 50). These are users in all: the users of a pilot count, so 200
        users after a pilot of 50 are 150 further ones, to whom `n_items` are shown. The smallest number is
        that of the pilot, whose row states the present precision, and the default is 25, 100 and 400 users
        more. With `design` one number each; default: 100 and 20.
    positive_share : float, optional
        Share of randomly shown pairs that are positive, in (0, 1]. Default: the share in the pilot, or 0.05
        with a `DataWarning` where there is none. Used without `design`.
    power : float, default 0.8
        Probability to detect the smallest difference. Used without `design`.
    design : {"uniform", "lists"}, optional
        Draw of the items. "uniform": all from the items outside training; "lists": half of them from the
        union of the first `depth` items of all models, and the rest from all remaining items.
    models : mapping, optional
        Name -> scorer, trained model or lists, as in `evaluate`. Required for design="lists".
    split : Split, optional
        Split on which the models were trained; training items are not shown. Required with `design`.
    depth : int, default 10
        Length of the lists: the largest cutoff of the metrics.
    previous : DataFrame, optional
        Allocation to which a batch is added.
    same_users : bool, default False
        Whether the batch is a further draw for the users of `previous`, with the same lists. Default: it is
        for new users.
    rng : int, Generator or None, default None
        Random seed of the users and items that are drawn. A further batch with the same seed has other draws.
    compute : ComputeOptions
        Threads, memory, engine, and whether a progress bar is shown.

    Returns
    -------
    DataFrame
        Without `design`, one row per metric, n_users and n_items, with

        * n_positives: expected number of random-exposure positives, with those of the pilot;
        * half_width: half the width of the interval of the bias-corrected estimate, mean over recommenders;
        * half_width_random: half the width of the interval of the random sample alone; NaN without a positive;
        * smallest_difference: difference of two recommenders that is detected with probability `power`,
          median over pairs;
        * regret_90: 90th percentile of the regret of choosing the recommender with the highest estimate after
          the experiment, over its possible results and the true values that are plausible at present. In
          contrast, `expected_regret` of `correction.order` is the mean regret of choosing a recommender now,
          without further users.

        With `design`, one row per pair to show, in random order for each user: user, item, batch,
        inclusion_probability; and the numbers from which the probability follows: is_listed, n_slots,
        n_listed, n_candidates, n_draws (batches in which slots of the user were drawn).

    Raises
    ------
    InputError
        When a number or a share is out of range, when `n_users` is below the number of users of the pilot,
        when an argument that is required is missing, and when the lists of a further batch of the same users
        differ from those of `previous`.

    See Also
    --------
    correct : Bias-corrected estimates, with or without random exposure.
    RandomExposure.from_frame : Read the answers to an allocation.

    Notes
    -----
    The further users have h = users × items × share positives, whose mean has covariance Σ(h). V is the
    covariance of the values of the recommenders at present: given the prior, the log, the reference values
    and the pilot. The values are treated as normally distributed. After the experiment, the best linear
    estimate has the error covariance V − V(V + Σ)⁺V, and before it, the estimate itself has the covariance
    V(V + Σ)⁺V. Both add up to V, so no plan is less precise than the present estimates. To the variance of a
    sample, that of half a hit more is added once: with a pilot, V contains it, and Σ does not.

    The random sample alone pools the s effective positives of the pilot, whose mean has covariance Σ₀, with
    the h further ones: (s² Σ₀ + h² Σ)/(s + h)².

    A user has n items outside training, of which L are listed. Of m slots, first b = min(⌊m/2⌋, L) are drawn
    without replacement from the listed items, then a = m − b from the remaining n − b items. The inclusion
    probability is π = b/L + (1 − b/L) · a/(n − b) for a listed item, and a/(n − b) for each remaining item.
    After further draws for the same users it is π = 1 − Π(1 − π_batch), provided that the lists were fixed
    before any answer was seen. Estimates have weights 1/π, so they are unbiased for every recommender, listed
    or not. Metrics of the first `depth` items gain precision; metrics of the whole ranking (atop, auc) lose
    some of it, because fewer slots are left for the remaining items.

    Examples
    --------
    >>> from ipseval.validation.simulation import World
    >>> world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {"popular": examples["popular"], "appeal": examples["appeal"]}
    >>> allocation = plan_exposure(
    ...     design="lists", models=models, split=split, n_users=50, n_items=20, rng=3)
    >>> allocation.groupby("is_listed")["inclusion_probability"].mean().round(2).to_dict()
    {False: 0.15, True: 0.91}

    The precision of two experiments, planned from a correction that reads the log alone:

    >>> from ipseval import correct, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> correction = correct(world.example_models(split, rng=2), split, metrics=["recall@10"], rng=3)
    >>> plan = plan_exposure(correction, n_users=[25, 400], n_items=[20], positive_share=0.05)
    >>> plan[["n_users", "n_items", "n_positives", "half_width", "smallest_difference"]].round(2)
       n_users  n_items  n_positives  half_width  smallest_difference
    0       25       20         25.0        0.13                 0.21
    1      400       20        400.0        0.04                 0.07
    """
    if design is not None:
        return _allocate(
            design,
            models=models,
            split=split,
            n_users=n_users,
            n_items=n_items,
            depth=depth,
            previous=previous,
            same_users=same_users,
            rng=rng,
            compute=compute,
        )
    check_type("correction", correction, Correction, " Pass the result of ipseval.correct, or a design.")
    assert isinstance(correction, Correction)
    if positive_share is None:
        positive_share = _estimate_positive_share(correction)
    check_fraction("positive_share", positive_share, high_open=False)
    check_fraction("power", power)
    n_pilot_users = count_exposed_users(correction.random_exposure, correction.sample)
    default_users = [n_pilot_users + n_further for n_further in DEFAULT_USERS]
    sizes = []
    for n_exposed, n_shown in product(_as_sizes(n_users, default_users), _as_sizes(n_items, DEFAULT_ITEMS)):
        sizes.append((check_positive_int("n_users", n_exposed), check_positive_int("n_items", n_shown)))
    _check_pilot_included(sizes, n_pilot_users)
    experiments = _plan_experiments(correction, sizes, n_pilot_users, positive_share)

    n_models = len(correction.models)
    mean = correction.posterior.total_mean
    covariance = correction.posterior.total_covariance
    draws = np.random.default_rng(0).standard_normal((2, N_DRAWS, n_models))
    z_interval = float(ndtri((1 + correction.confidence_level) / 2))
    z_detection = z_interval + float(ndtri(power))
    rows = []
    for number, metric in enumerate(correction.path.metrics):
        cells = slice(number * n_models, (number + 1) * n_models)
        for experiment in experiments:
            metric_covariance = experiment.covariance[cells, cells]
            half_width = np.sqrt(np.diag(metric_covariance)).mean()
            half_width_random = np.sqrt(np.diag(experiment.sample_covariance)[cells]).mean()
            regret = _regret_percentile(mean[cells], covariance[cells, cells], metric_covariance, draws)
            rows.append(
                {
                    "metric": metric.label,
                    "n_users": experiment.n_users,
                    "n_items": experiment.n_items,
                    "n_positives": experiment.n_positives,
                    "half_width": z_interval * float(half_width),
                    "half_width_random": z_interval * float(half_width_random),
                    "smallest_difference": z_detection * _median_error_of_differences(metric_covariance),
                    "regret_90": regret,
                }
            )
    return pd.DataFrame(rows, columns=list(PLAN_COLUMNS))


def _as_sizes(sizes: int | Sequence[int] | None, default: Sequence[int]) -> Sequence[int]:
    """Return the planned sizes as a sequence."""
    if sizes is None:
        return default
    if np.iterable(sizes):
        return list(sizes)
    return (sizes,)


def _as_one_size(name: str, sizes: int | Sequence[int] | None, default: int) -> int:
    """Return the size of an allocation, or raise `InputError` for several sizes."""
    size: object = default
    if sizes is not None:
        size = sizes
    if isinstance(sizes, Sequence) and len(sizes) == 1:
        size = sizes[0]
    if isinstance(size, Sequence):
        raise InputError(
            f"must be one number with a design, which allocates one experiment; got {list(size)}. Pass one of "
            "them.",
            argument=name,
        )
    return check_positive_int(name, size)


def _seed_batch(rng: RngLike, batch: int) -> np.random.Generator:
    """Return the generator of a batch; batches with the same seed have different draws."""
    generator = as_generator(rng)
    if batch > 1 and not isinstance(rng, np.random.Generator):
        return generator.spawn(batch)[-1]
    return generator


def _allocate(
    design: str,
    *,
    models: Mapping[str, Any] | None,
    split: Split | None,
    n_users: int | Sequence[int] | None,
    n_items: int | Sequence[int] | None,
    depth: int,
    previous: pd.DataFrame | None,
    same_users: bool,
    rng: RngLike,
    compute: ComputeOptions,
) -> pd.DataFrame:
    """Return the allocation of an experiment, after a check of the arguments."""
    check_choice("design", design, DESIGNS)
    if split is None:
        raise InputError("design requires split. Pass the split on which the models were trained.")
    check_type("split", split, Split, " Make it with split_random or Split.from_frames.")
    split.check_seen_excluded("the allocation")
    if design == "lists":
        if models is None:
            raise InputError("design='lists' requires models. Pass the recommenders that are compared.")
        check_models(models, "models", "scorer")
    elif models is not None:
        raise InputError("models must be left out with design='uniform', which reads no lists. Remove them.")
    check_positive_int("depth", depth)
    check_bool("same_users", same_users)
    n_slots = _as_one_size("n_items", n_items, DEFAULT_SLOTS)
    batch = 1
    if previous is not None:
        previous = check_allocation(previous)
        batch = int(previous["batch"].max()) + 1
    generator = _seed_batch(rng, batch)
    if not same_users:
        return allocate_to_new_users(
            split,
            models=models,
            depth=depth,
            n_users=_as_one_size("n_users", n_users, DEFAULT_ALLOCATED_USERS),
            n_slots=n_slots,
            previous=previous,
            rng=generator,
            compute=compute,
        )
    if previous is None:
        raise InputError("same_users requires previous. Pass the allocation of the earlier batches.")
    if n_users is not None:
        raise InputError(f"n_users must be left out with same_users; got {n_users!r}. Remove it.")
    return allocate_again(
        split,
        models=models,
        depth=depth,
        n_slots=n_slots,
        previous=previous,
        rng=generator,
        compute=compute,
    )


def _check_pilot_included(sizes: Sequence[tuple[int, int]], n_pilot_users: int) -> None:
    """Raise `InputError` for a number of users in all that is below the number of users of the pilot."""
    for n_users, _ in sizes:
        if n_users < n_pilot_users:
            raise InputError(
                f"must be at least {n_pilot_users}, because the users of the pilot count; got {n_users}. For "
                f"{n_users} further users, pass {n_pilot_users + n_users}.",
                argument="n_users",
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Experiment:
    """A planned experiment, with its expected precision.

    Attributes
    ----------
    n_users, n_items : int
        Users in all, with those of the pilot, and items shown to each of the further ones.
    n_positives : float
        Expected number of random-exposure positives, with those of the pilot.
    sample_covariance : (n_cells, n_cells) array
        Covariance of the mean over these positives; NaN without any.
    covariance : (n_cells, n_cells) array
        Covariance of the bias-corrected estimates, V − V(V + Σ)⁺V.
    """

    n_users: int
    n_items: int
    n_positives: float
    sample_covariance: FloatArray
    covariance: FloatArray


def _plan_experiments(
    correction: Correction, sizes: Sequence[tuple[int, int]], n_pilot_users: int, positive_share: float
) -> list[_Experiment]:
    """Return the expected precision of experiments with (users, items) of these sizes."""
    present_covariance = correction.posterior.total_covariance
    experiments = []
    for n_users, n_items in sizes:
        n_further_positives = (n_users - n_pilot_users) * n_items * positive_share
        covariance = present_covariance
        noise = np.zeros_like(present_covariance)
        if n_further_positives > 0:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
                noise = _expected_noise(correction, n_further_positives, n_items * positive_share)
            if not np.isfinite(noise).all():
                raise InputError(
                    f"{positive_share:g} is too small: the variance of {n_further_positives:g} expected "
                    "positives is not a finite number.",
                    argument="positive_share",
                )
            covariance = _condition_covariance(present_covariance, noise)
        n_pilot_positives = 0 if correction.sample is None else correction.sample.n_positives
        experiments.append(
            _Experiment(
                n_users=n_users,
                n_items=n_items,
                n_positives=n_pilot_positives + n_further_positives,
                sample_covariance=_pool_with_pilot(correction, noise, n_further_positives),
                covariance=covariance,
            )
        )
    return experiments


def _pool_with_pilot(correction: Correction, noise: FloatArray, n_further_positives: float) -> FloatArray:
    """Return the covariance of the mean over the positives of the pilot and over the further ones."""
    sample = correction.sample
    path = correction.path
    if sample is None:
        return noise if n_further_positives > 0 else np.full_like(noise, np.nan)
    pilot_share = sample.size / (sample.size + n_further_positives)
    pilot_covariance = sample.interval_covariance(path) - sample.half_hit(path)
    pooled = pilot_share**2 * pilot_covariance + (1 - pilot_share) ** 2 * noise
    sizes = sample.cell_sizes(path) + n_further_positives
    return np.asarray(pooled + path.half_hit(0) / np.outer(sizes + 1, sizes + 1))


def _condition_covariance(covariance: FloatArray, noise: FloatArray) -> FloatArray:
    """Return V − V(V + Σ)⁺V."""
    # Recommenders with equal ranks, and opposite ones, make V + Σ singular up to rounding, which its inverse
    # would amplify.
    inverse = np.linalg.pinv(covariance + noise, rtol=ROUNDING, hermitian=True)
    return np.asarray(covariance - covariance @ inverse @ covariance)


def _median_error_of_differences(covariance: FloatArray) -> float:
    """Return the median standard error of the differences of two recommenders; NaN for a single one."""
    variance = np.diag(covariance)
    first, second = np.triu_indices(len(variance), 1)
    if not first.size:
        return float("nan")
    differences = variance[first] + variance[second] - 2 * covariance[first, second]
    return float(np.median(np.sqrt(np.maximum(differences, 0))))


def _regret_percentile(
    mean: FloatArray, covariance: FloatArray, planned_covariance: FloatArray, draws: FloatArray
) -> float:
    """Return the 90th percentile of the regret of choosing the recommender with the highest estimate.

    The estimate E[θ | exposure] has the covariance `covariance − planned_covariance`.
    """
    rounding = ROUNDING * float(np.trace(covariance))
    estimate = mean + draws[0] @ _symmetric_root(covariance - planned_covariance, rounding)
    truth = estimate + draws[1] @ _symmetric_root(planned_covariance, rounding)
    choice = estimate.argmax(axis=1)[:, None]
    choice_value = np.take_along_axis(truth, choice, axis=1)[:, 0]
    return float(np.quantile(truth.max(axis=1) - choice_value, REGRET_LEVEL))


def _symmetric_root(covariance: FloatArray, rounding: float) -> FloatArray:
    """Return the symmetric root of a covariance; eigenvalues in [−rounding, 0] are 0."""
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    assert eigenvalues.min() >= -rounding, f"not a covariance: it has the eigenvalue {eigenvalues.min():g}"
    return np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0)) @ eigenvectors.T)


def _estimate_positive_share(correction: Correction) -> float:
    """Return the share of the pilot's pairs that are positive, or the default with a warning."""
    exposure = correction.random_exposure
    if exposure is None or not exposure.positive.any():
        warn_user(
            "positive_share was not given, and there is no pilot with a positive, so "
            f"{DEFAULT_SHARE:.0%} of the randomly shown pairs are assumed to be positive. The plan depends "
            "on this share.",
            DataWarning,
            advice="Pass {positive_share}",
        )
        return DEFAULT_SHARE
    weight = exposure.weight
    if weight is None:
        return float(exposure.positive.mean())
    return float(weight @ exposure.positive / weight.sum())


def _expected_noise(correction: Correction, n_positives: float, user_positives: float) -> FloatArray:
    """Return the covariance of the mean of random positives, `user_positives` per user on average."""
    path = correction.path
    sample = correction.sample
    root = np.sqrt(1 + path.within * user_positives)
    spread = np.tensordot(correction.posterior.grid_mass, path.spread, 1)
    noise = spread * np.outer(root, root) / n_positives
    # The experiment has uniform slots, so that the covariance of a designed pilot does not apply to it.
    is_designed = correction.random_exposure is not None and correction.random_exposure.is_designed
    if sample is not None and not is_designed:
        sample_share = sample.size / (sample.size + POOLING_SIZE)
        noise = (1 - sample_share) * noise + sample_share * sample.sample_covariance * (
            sample.size / n_positives
        )
    if sample is None:
        return np.asarray(noise + path.half_hit(n_positives))
    # The covariance of the pilot contains half a hit more, which is added once.
    return np.asarray(noise)
