"""Errors of groups of estimates under any weights, beside sums that are written out user by user."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ipseval.estimators import LinearForm
from tests.inference.worlds import random_ranks
from tests.inside.inference import LinearGroup, standard_errors

FORMS = {
    "per user": {"per_user": True},
    "sum per user": {"per_user": True, "is_sum": True},
    "equal users": {"per_user": False, "users_equal": True},
    "pooled": {"per_user": False},
    "sum": {"per_user": False, "is_sum": True},
}


def written_out(form, contributions, weights):
    """The error, with ψ = N̄/D̄ · dV + V̄ (dN − R dD)/D̄ of units, as in a ratio of three means."""
    ranked = form.ranked
    n_queries, unit = ranked.users.size, ranked.unit(ranked.users)
    numerators, denominators, volumes = [], [], []
    for query in ranked.users:
        mine = ranked.user == query
        own = 1.0 if form.own is None else form.own[mine]
        w, c, count = own * weights[mine], contributions[mine], mine.sum()
        if form.per_user:
            numerators.append((count if form.is_sum else 1) * (w @ c) / w.sum())
            denominators.append(1.0)
        else:
            base = 1 / count if form.users_equal else 1.0
            numerators.append(base * (w @ c))
            denominators.append(base * w.sum())
        volumes.append(float(count) if form.is_sum and not form.per_user else 1.0)
    numerator, denominator = np.array(numerators), np.array(denominators)[:, None]
    volume = np.array(volumes)[:, None]
    ratio = numerator.mean(axis=0) / denominator.mean()
    psi = volume.mean() * (numerator - ratio * denominator) / denominator.mean()
    psi += ratio * (volume - volume.mean())
    added = np.array([psi[unit == one].sum(axis=0) for one in np.unique(unit)])
    added *= len(added) / n_queries
    return np.sqrt((added**2).sum(axis=0) / (len(added) * (len(added) - 1)))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_errors_equal_those_written_out(own, clustered):
    ranks, popularity = random_ranks(3, models=1)
    (ranked,) = ranks.values()
    rng = np.random.default_rng(0)
    if clustered:
        owners = rng.integers(25, size=ranked.n_population)
        ranked = replace(ranked, cluster=owners, cluster_ids=np.arange(25))
    weights = popularity[ranked.item] ** -0.4
    weight_of_own = None
    if own:  # one user has none
        weight_of_own = rng.random(len(ranked)) * (ranked.user != ranked.users[4])
    for options in FORMS.values():
        if own and options["per_user"]:
            continue
        form = LinearForm(ranked, weighted=True, own=weight_of_own, **options)
        contributions = rng.random((len(ranked), 2))
        found = standard_errors(LinearGroup(form, (("m", "c", "e"),) * 2, contributions), weights)
        np.testing.assert_allclose(found, written_out(form, contributions, weights), rtol=1e-12)
