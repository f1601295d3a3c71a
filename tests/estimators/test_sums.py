"""Per-user sums and their moments: values, errors and differences equal numerical derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.estimators import Parts, UserSums
from tests.inside.estimators import Moments, SampleSize

RNG = np.random.default_rng(0)
N = RNG.random(6)
D = RNG.random(6) + 0.5
V = RNG.integers(1, 9, 6).astype(float)
SIZE = np.array([1.0, 3, 2, 1, 1, 4])
USERS = np.arange(6)
SUMS = {
    "ratio": UserSums(USERS, N, D),
    "mean": UserSums(USERS, N, np.ones(6)),
    "volume": UserSums(USERS, N, D, V),
    "root": UserSums(USERS, N, D, root=True),
    "root, which no volume enters": UserSums(USERS, N, D, V, root=True),
    "queries": UserSums(USERS, N, D, size=SIZE),
    "volume of queries": UserSums(USERS, N, D, V, size=SIZE),
}


def value(sums: UserSums, times: np.ndarray) -> float:
    """Return R where user u counts `times[u]` times."""
    ratio = times @ sums.numerator / (times @ sums.denominator)
    size = np.ones(times.size) if sums.size is None else sums.size
    volume = 1.0 if sums.volume is None else times @ sums.volume / (times @ size)
    return float(np.sqrt(ratio) if sums.root else ratio * volume)


def derivative(sums: UserSums) -> np.ndarray:
    """Return n ∂R/∂t_u at t = 1, which is ψ_u, by differences."""
    n = sums.n_users
    step = 1e-5
    differences = [value(sums, 1 + step * unit) - value(sums, 1 - step * unit) for unit in np.eye(n)]
    return n * np.array(differences) / (2 * step)


def error(psi: np.ndarray) -> float:
    return float(np.sqrt(psi @ psi / psi.size / (psi.size - 1)))


@pytest.mark.parametrize("kind", SUMS)
def test_influence_is_the_derivative_with_respect_to_how_often_a_user_counts(kind):
    sums = SUMS[kind]
    assert sums.value() == pytest.approx(value(sums, np.ones(6)), rel=1e-14)
    np.testing.assert_allclose(sums.influence(), derivative(sums), rtol=1e-7, atol=1e-9)
    assert sums.standard_error() == pytest.approx(error(derivative(sums)), rel=1e-7)


@pytest.mark.parametrize("kind", ["ratio", "mean", "volume", "root"])
def test_moments_answer_as_the_sums_of_users_do(kind):
    other_sums = UserSums(USERS, D, N + 1, V[::-1] if kind == "volume" else None, root=kind == "root")
    first_member, second_member = Moments.from_user_sums([SUMS[kind], other_sums]).members()
    for member, sums in ((first_member, SUMS[kind]), (second_member, other_sums)):
        assert member.value() == pytest.approx(sums.value(), rel=1e-14)
        assert member.standard_error() == pytest.approx(error(derivative(sums)), rel=1e-7)
        assert (member.n_users, member.n_undefined) == (6, 0)
    paired = error(derivative(SUMS[kind]) - derivative(other_sums))
    for first, second in ((first_member, second_member), (SUMS[kind], other_sums)):
        member, n, rounding = first.paired_error(second)
        assert (member, n) == (pytest.approx(paired, rel=1e-7), 6)
        assert 0 < rounding < 1e-12
    covariance = Moments.from_user_sums([SUMS[kind], other_sums]).covariance()
    psi = np.array([derivative(SUMS[kind]), derivative(other_sums)])
    np.testing.assert_allclose(covariance, psi @ psi.T / 30, rtol=1e-7)


@pytest.mark.parametrize("cut", [0, 1, 3, 6])
def test_merged_moments_of_parts_equal_the_moments_of_all_users(cut):
    def part(users: slice, n_undefined: int) -> Moments:
        sums = [UserSums(USERS[users], values[users], D[users], V[users], n_undefined) for values in (N, D)]
        return Moments.from_user_sums(sums)

    all_users = part(slice(None), 5)
    merged = part(slice(cut), 3).merge(part(slice(cut, None), 2))
    assert (merged.n, merged.n_undefined) == (6, 5)
    np.testing.assert_allclose(merged.mean, all_users.mean, rtol=1e-14)
    np.testing.assert_allclose(merged.scatter, all_users.scatter, rtol=1e-13, atol=1e-14)
    assert all_users.equals(part(slice(None), 0))
    assert not all_users.equals(part(slice(5), 0))
    two_users, three_users = (
        Moments.from_user_sums([undefined(np.ones(n), np.ones(n))]) for n in (2, 3)
    )  # of one mean and scatter
    assert (two_users.equals(three_users), three_users.equals(two_users), two_users.equals(two_users)) == (
        False,
        False,
        True,
    )
    assert repr(all_users) == "Moments(6 users, 2 models)"
    assert repr(all_users.members()[0]) == "MergedSums(6 users)"
    # Of two users 0 and 1 the variance is 1/2, and that of their mean half of it.
    varied = Moments.from_columns(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]))
    assert (varied.covariance().tolist(), varied.n_undefined, varied.root) == ([[0.25]], 0, False)
    # Of a value that all users share nothing varies, not even with one that is undefined.
    constant = Moments.from_columns(np.array([[1.0], [1], [1], [0], [0], [1]]) * np.ones(2))
    np.testing.assert_array_equal(constant.covariance(), [[0, 0], [0, np.nan]])


def test_merging_empty_moments_gives_empty_moments():
    empty = Moments.from_user_sums([UserSums(USERS[:0], N[:0], D[:0])] * 2)
    merged = empty.merge(empty)
    assert (merged.n, merged.mean.tolist(), merged.scatter.tolist()) == (0, [0.0] * 6, [[0.0] * 6] * 6)
    assert np.isnan([member.value() for member in merged.members()]).all()
    assert np.isnan(merged.covariance()).all()


def undefined(numerator, denominator, **options) -> UserSums:
    numerator, denominator = np.array(numerator, dtype=float), np.array(denominator, dtype=float)
    return UserSums(np.arange(numerator.size), numerator, denominator, **options)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("sums", "expected", "std_error"),
    [
        (undefined([], []), np.nan, np.nan),
        (undefined([0, 0], [0, 0]), np.nan, np.nan),
        (undefined([1, 2], [1, -1]), np.nan, np.nan),  # weights that cancel
        (undefined([3], [2]), 1.5, np.nan),  # one user
        (undefined([1, 1], [1, 1]), 1.0, 0.0),  # no user moves it
        (undefined([0, 0], [1, 1], root=True), 0.0, np.nan),  # a root has no derivative at 0
        (undefined([0.25, 0.25], [0.5, 0.5]), 0.5, 0.0),  # a total of 1 is as good as any other
        # ψ = N − 1/2 = ∓1/2, SE = √(1/2 / 2); of the root, ψ/(2·√½), SE = ½/√2.
        (undefined([0, 1], [1, 1]), 0.5, 0.5),
        (undefined([0, 1], [1, 1], root=True), 0.5**0.5, 0.5 / 2**0.5),
    ],
)
def test_values_and_errors_of_degenerate_sums(sums, expected, std_error, merged):
    evaluated = Moments.from_user_sums([sums]).members()[0] if merged else sums
    assert evaluated.value() == pytest.approx(expected, nan_ok=True)
    assert evaluated.standard_error() == pytest.approx(std_error, nan_ok=True)
    if not merged:
        assert sums.influence().size == sums.n_users


def test_users_of_one_model_only_have_no_influence_on_the_other():
    # A reads users 0 and 1, B users 1 and 2; ψ over the three: A 3/2·(−½, ½, 0), B 3/2·(0, −1, 1).
    first = UserSums(np.array([0, 1]), np.array([0.0, 1.0]), np.ones(2))
    second = UserSums(np.array([1, 2]), np.array([0.0, 2.0]), np.ones(2))
    psi = 1.5 * np.array([-0.5, 0.5 + 1, -1])
    standard_error, n, rounding = first.paired_error(second)
    assert (standard_error, n) == (pytest.approx(error(psi)), 3)
    # Squared terms of N, D and V: 1 + 2/4 + 2/4 of A and 4 + 2 + 2 of B, each (3/2)² times.
    assert rounding == pytest.approx(16 * 2.0**-52 * np.sqrt(1.5**2 * (2 + 8) / 3), rel=1e-9, abs=0)
    assert second.paired_error(first)[0] == pytest.approx(standard_error)
    empty = UserSums(np.arange(0), np.zeros(0), np.zeros(0))
    assert first.paired_error(empty)[:2] == (pytest.approx(0.5), 2)
    assert np.isnan(empty.paired_error(empty)[0])
    assert empty.paired_error(empty)[1:] == (0, 0.0)
    assert [part.size for part in empty.effects()] == [0, 0]
    single_user = UserSums(USERS[:1], N[:1], D[:1])
    assert single_user.paired_error(single_user)[:2] == (0.0, 1)  # nothing differs, however few there are
    # N = 3 and D = 2: the terms N/D, R D/D and R are 3/2, in each of both.
    three = undefined([3], [2])
    rounding = 16 * 2.0**-52 * np.sqrt(6 * 1.5**2)
    for sums in (three, Moments.from_user_sums([three]).members()[0]):
        assert sums.paired_error(sums)[2] == pytest.approx(rounding, rel=1e-9, abs=0)
    assert np.isnan(Moments.from_user_sums([three]).covariance()).all()


def test_a_difference_below_rounding_has_error_zero():
    rounded = UserSums(USERS, N * (1 + 2e-16), D)
    assert SUMS["ratio"].paired_error(rounded)[0] == 0.0
    # 16 units in the last place of the root mean square of (N_u V̄/D̄, R D_u V̄/D̄, R V_u).
    ratio = N.sum() / D.sum()
    for volume in (np.ones(6), V):
        sums = UserSums(USERS, N, D, volume)
        terms = np.array([N * volume.mean(), ratio * D * volume.mean(), ratio * volume * D.mean()]) / D.mean()
        expected = 16 * 2.0**-52 * np.sqrt(2 * np.mean(np.sum(terms**2, axis=0)))
        for evaluated in (sums, Moments.from_user_sums([sums, sums]).members()[0]):
            assert evaluated.paired_error(evaluated) == (0.0, 6, pytest.approx(expected, rel=1e-9, abs=0))
    shifted = UserSums(USERS, N + 1e-9 * USERS, D)
    assert SUMS["ratio"].paired_error(shifted)[0] > 1e-11
    zero_sums = undefined([0, 0], [0, 0])
    assert zero_sums.paired_error(zero_sums)[2] == 0.0


def test_a_value_that_all_users_share_has_no_error():
    weights = np.array([0.1, 0.7, 1 / 3, 2.3, 0.9, 1e-3])
    for share in (5 / 34, 50 / 7):
        constant = UserSums(USERS, share * weights, weights)
        assert np.abs(constant.influence()).max() > 0  # rounding alone
        for evaluated in (constant, Moments.from_user_sums([constant, constant]).members()[0]):
            assert evaluated.standard_error() == 0.0
        assert not Moments.from_user_sums([constant, constant]).covariance().any()
    varied = UserSums(USERS, 5 / 34 * weights * (1 + 1e-9 * USERS), weights)
    assert 1e-12 < varied.standard_error() < 1e-8


@pytest.mark.parametrize("volume", [None, V])
def test_rounding_is_the_same_in_sums_and_in_their_moments(volume):
    # A value that all users share has no scatter: what is left of it is rounding of the value itself.
    for shift in (0.0, 2e-16, -4e-16, 1e-6):
        last = np.append(np.ones(5), 1 + shift)
        pair = [UserSums(USERS, value, np.ones(6), volume) for value in (0.63 * last, np.full(6, 0.9))]
        merged = Moments.from_user_sums([sums.select_users(USERS < 2) for sums in pair])
        merged = merged.merge(Moments.from_user_sums([sums.select_users(USERS >= 2) for sums in pair]))
        first_member, second_member = merged.members()
        errors = first_member.paired_error(second_member)[0], pair[0].paired_error(pair[1])[0]
        assert [error_value == 0 for error_value in errors] == [abs(shift) < 1e-9 and volume is None] * 2
        assert errors[0] == pytest.approx(errors[1], rel=1e-7)


def test_paired_moments_are_of_one_evaluation():
    first_members, second_members = (
        Moments.from_user_sums([SUMS["ratio"], sums]).members() for sums in (SUMS["mean"], SUMS["root"])
    )
    assert first_members[0].paired_error(first_members[0])[0] == 0.0
    with pytest.raises(InputError, match="both recommenders in one evaluation"):
        first_members[0].paired_error(second_members[1])
    with pytest.raises(InputError, match=r"\(of 6, 5 users\)"):
        Moments.from_user_sums([SUMS["ratio"], UserSums(USERS[1:], N[1:], D[1:])])


def test_users_with_an_undefined_value_are_excluded_and_counted():
    numerator = np.array([1.0, np.nan, 3.0, np.nan])
    sums = UserSums.from_values(
        np.array([4, 5, 6, 7]), numerator, np.arange(4.0), 10 * np.arange(4.0), root=True
    )
    assert (sums.n_undefined, sums.n_users, sums.root) == (2, 2, True)
    columns = [column.tolist() for column in (sums.users, sums.numerator, sums.denominator, sums.volume)]
    assert columns == [[4, 6], [1, 3], [0, 2], [0, 20]]
    assert repr(sums) == "UserSums(2 users, 2 left out)"
    unit_sums = UserSums.from_values(np.array([4]), np.array([2.0]))
    assert (unit_sums.denominator.tolist(), unit_sums.volume, unit_sums.root, repr(unit_sums)) == (
        [1.0], None, False, "UserSums(1 user)",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["ratio", "volume", "root", "queries", "volume of queries"])
def test_remapped_selected_and_concatenated_sums_keep_the_values_of_their_users(kind):
    sums = SUMS[kind]
    codes = np.array([5, 3, 9, 0, 1, 7])
    remapped = sums.remap_users(codes)
    assert remapped.users.tolist() == sorted(codes)
    assert remapped.value() == pytest.approx(sums.value(), rel=1e-14)
    np.testing.assert_allclose(remapped.influence()[np.searchsorted(remapped.users, codes)], sums.influence())
    is_selected = np.array([True, False, True, True, False, True])
    selected_sums = sums.select_users(is_selected)
    assert selected_sums.users.tolist() == [0, 2, 3, 5]
    assert (selected_sums.root, selected_sums.n_undefined) == (sums.root, 0)
    assert selected_sums.value() == pytest.approx(value(sums, is_selected.astype(float)), rel=1e-14)
    joint_sums = sums.concatenate(sums, 6)
    assert joint_sums.users.tolist() == list(range(12))
    assert joint_sums.value() == pytest.approx(sums.value(), rel=1e-14)
    np.testing.assert_allclose(joint_sums.influence(), np.tile(sums.influence(), 2), rtol=1e-12, atol=1e-13)
    times = np.array([2.0, 0, 1, 3, 1, 1])
    assert sums.resampled(times).value() == pytest.approx(value(sums, times), rel=1e-14)
    assert sums.select_users(np.zeros(6, dtype=bool)).without_size().n_users == 0
    without_size = sums.without_size()
    assert without_size.size is None
    assert without_size.value() == pytest.approx(sums.value(), rel=1e-14)
    np.testing.assert_allclose(without_size.influence(), sums.influence(), rtol=1e-12, atol=1e-13)


def test_joined_sums_add_up_users_left_out_and_keep_a_volume_only_where_both_have_one():
    first, second = (UserSums(USERS, N, D, n_undefined=n, root=True) for n in (2, 5))
    assert (first.concatenate(second, 6).n_undefined, first.concatenate(second, 6).root) == (7, True)
    assert SUMS["ratio"].concatenate(SUMS["volume"], 6).volume is None
    assert SUMS["volume"].concatenate(SUMS["ratio"], 6).volume is None


def test_the_value_of_each_user_is_its_own_ratio_or_the_root_of_it():
    for root, expected in ((True, [0.5, 3.0, np.nan]), (False, [0.25, 9.0, np.nan])):
        sums = undefined([1, 9, 1], [4, 1, 0], root=root)
        np.testing.assert_array_equal(sums.user_estimates(), expected)
    negative = undefined([1], [-2])  # weights below 0, as of a reward model
    assert (negative.user_estimates().tolist(), negative.value()) == ([-0.5], -0.5)


def test_a_sample_size_counts_positives_and_users_and_adds_up():
    first = SampleSize(np.array([2, 1, 0, 1]), 3, 4)
    second = SampleSize(np.array([1, 2]), 1, 1)
    assert (first.n_positives, first.n_users, first.n_population) == (4, 2, 4)
    assert (first.counts.tolist(), first.median_positives) == ([1, 3], 2.0)
    assert SampleSize(np.array([0, 2, 1, 0, 1])).median_positives == 1.5
    assert np.isnan(SampleSize(np.array([1])).median_positives)
    union = first.merge(second)
    assert union.users_by_n_positives.tolist() == [3, 3, 0, 1]
    assert union.users_by_n_positives.tolist() == second.merge(first).users_by_n_positives.tolist()
    assert (union.n_without_propensity, union.n_left_out, union.n_clusters) == (4, 5, 0)
    assert (first.unit, first.unit_plural, first.units) == ("user", "users", "2 users")
    assert repr(first) == "SampleSize(4 positives of 2 users)"
    queries = SampleSize(np.array([0, 3]), n_clusters=2)
    assert (queries.unit, queries.unit_plural) == ("query", "queries")
    assert queries.units == "3 queries of 2 users"
    assert (queries.n_without_propensity, queries.n_left_out, queries.n_clusters) == (0, 0, 2)
    two_parts = queries.merge(SampleSize(np.array([1, 0, 2]), n_clusters=1))
    assert (two_parts.units, two_parts.n_clusters) == ("5 queries of 3 users", 3)


def test_the_total_of_parts_is_a_weighted_mean_times_the_mean_volume():
    weight = np.array([1.0, 3.0, 8.0])
    parts = np.array([1.0, 0.5, np.nan])
    assert Parts(weight / 100, parts).total() == pytest.approx((1 * 1 + 3 * 0.5) / 4)
    assert Parts(weight, parts).total() == (1 * 1 + 3 * 0.5) / 4
    assert Parts(weight, parts, USERS[:2], np.array([2.0, 4.0])).total() == 2.5 / 4 * 3
    assert np.isnan(Parts(weight, np.full(3, np.nan)).total())
    assert np.isnan(Parts(np.zeros(3), parts).total())
    assert np.isnan(Parts(-weight, parts).total())


# Fitted weights -------------------------------------------------------------------------------------------

DRIFT = np.array([0.1, -0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3, -0.4])  # of nine users, six of whom are evaluated
FITTED = {kind: replace(SUMS[kind], propensity_influence=DRIFT) for kind in ("ratio", "mean")}


def test_users_move_a_ratio_by_their_own_values_and_through_the_weights():
    users, effects = FITTED["ratio"].effects()
    expected = np.append(derivative(SUMS["ratio"]) / 6, [0.3, -0.4])
    expected[:2] += [0.1, -0.2]
    assert users.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    np.testing.assert_allclose(effects, expected, rtol=1e-7, atol=1e-9)
    standard_error = FITTED["ratio"].standard_error()
    assert standard_error == pytest.approx(np.sqrt(6 / 5 * (expected @ expected)), rel=1e-7)


def test_equal_effects_of_fitted_weights_cancel_in_the_error_of_a_difference():
    ratio_sums = SUMS["ratio"]
    mean_sums = SUMS["mean"]
    known_error = ratio_sums.paired_error(mean_sums)[0]
    assert FITTED["ratio"].paired_error(FITTED["mean"])[0] == pytest.approx(known_error)
    differences = derivative(ratio_sums) / 6 - derivative(mean_sums) / 6
    differences = np.append(differences + DRIFT[:6], [0.3, -0.4])
    standard_error, n, _ = FITTED["ratio"].paired_error(mean_sums)
    assert (standard_error, n) == (pytest.approx(np.sqrt(6 / 5 * (differences @ differences)), rel=1e-7), 6)


def test_propensity_influences_follow_users_through_codes_and_partitions():
    codes = np.array([8, 7, 6, 5, 4, 3, 2, 1, 0])
    remapped = FITTED["ratio"].remap_users(codes)
    assert remapped.standard_error() == pytest.approx(FITTED["ratio"].standard_error())
    assert remapped.propensity_influence.tolist() == DRIFT[::-1].tolist()
    joint_sums = FITTED["mean"].concatenate(FITTED["mean"], 9)
    assert joint_sums.effects()[0].tolist() == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17]
    with pytest.raises(InputError, match="moments do not hold the error of fitted weights"):
        Moments.from_user_sums([FITTED["ratio"]])
