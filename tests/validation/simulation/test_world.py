"""World: what is promised about relevance, exposure and truth."""

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.validation.simulation import World
from tests.inside.validation import ItemTable, Taste, draw_distinct, uniform_hash


@pytest.fixture(scope="module", name="world")
def small_world():
    return World(n_users=400, n_items=120, mean_relevant=12, rng=1)


def test_every_user_has_its_number_of_distinct_relevant_items(world):
    assert np.array_equal(world.relevant.activity, world.n_relevant)
    assert (np.diff(world.relevant.pair_key) > 0).all()
    assert 1 <= world.n_relevant.min() < world.n_relevant.max() <= 60
    # A wide log-normal law, held in [1, 50]. Its median is 40·exp(−2²/2), its quartiles are 2·.6745 away.
    wide = World(n_users=400, n_items=100, mean_relevant=40, relevant_spread=2, affinity=0, rng=0)
    assert (wide.n_relevant.min(), wide.n_relevant.max()) == (1, 50)
    low, median = np.log(np.quantile(wide.n_relevant, [0.25, 0.5]))
    assert median == pytest.approx(np.log(40) - 2, abs=0.5)  # its standard error is .125
    assert median - low == pytest.approx(2 * 0.6745, abs=0.5)
    assert np.sort(-world.appeal) == pytest.approx(0.8 * np.log(np.arange(1, 121)))
    assert repr(world).startswith("World(n_users=400, n_items=120, mean_relevant=12, relevant_spread=0.5, ")
    assert repr(world).endswith(", gamma=0.0, max_propensity=0.5, selection=0.0, self_selection=0.0)")


def test_the_smallest_world_is_one_user_with_one_of_two_items():
    options = {"mean_relevant": 1, "n_factors": 1, "max_propensity": 1.0, "selection": 1e6, "affinity": 1e6}
    world = World(n_users=1, n_items=2, **options, rng=0)
    assert world.n_relevant.tolist() == [1]
    assert world.item_propensity.tolist() == [1, 1]  # an item that nobody likes counts as liked by one
    assert (len(world.expose(2)), world.recommend([0, 3], length=2, noise=1e6).n_users) == (2, 1)
    few = World(n_users=5, n_items=60, mean_relevant=3, gamma=0.5, rng=0)
    popularity = few.relevant.popularity
    assert (popularity.min(), popularity.max()) == (0, 3)
    assert few.item_propensity == pytest.approx(0.5 * (np.maximum(popularity, 1) / 3) ** 3)


def test_the_same_seed_gives_the_same_world_and_logs(world):
    again = World(n_users=400, n_items=120, mean_relevant=12, rng=1)
    assert np.array_equal(world.relevant.pair_key, again.relevant.pair_key)
    assert np.array_equal(world.split(5).test.pair_key, again.split(5).test.pair_key)
    assert np.array_equal(world.expose(4, 2).value, again.expose(4, 2).value)
    other_world = World(n_users=400, n_items=120, mean_relevant=12, rng=2)
    assert not np.array_equal(world.relevant.item[:50], other_world.relevant.item[:50])


@pytest.mark.parametrize(("gamma", "power"), [(0.5, 3), (-1, 0)])  # η = .75 and 0: a = η/(1 − η)
def test_propensity_is_the_stated_power_of_true_popularity(gamma, power):
    world = World(n_users=300, n_items=60, mean_relevant=8, gamma=gamma, max_propensity=0.8, rng=0)
    popularity = np.maximum(np.bincount(world.relevant.item, minlength=60), 1)
    assert np.allclose(world.propensity.item, 0.8 * (popularity / popularity.max()) ** power, rtol=1e-12)


def test_selection_and_self_selection_enter_the_pair_propensity_as_stated():
    world = World(
        n_users=60, n_items=40, mean_relevant=6, selection=1.5, self_selection=0.7, max_propensity=0.9, rng=3
    )
    user, item = world.relevant.user, world.relevant.item
    cosine = (world.user_factors @ world.item_factors.T)[user, item]
    rating = world.rating_at(user, item)
    expected = world.item_propensity[item] * np.exp(1.5 * (cosine - 1) - 0.7 * (5 - rating))
    assert np.allclose(world.propensity.for_pairs(user, item), expected, rtol=1e-10)
    assert world.propensity.pair.max() <= 0.9
    for name in ("selection", "self_selection"):
        assert World(n_users=9, n_items=9, mean_relevant=2, rng=0, **{name: 1.0}).propensity.item is None


def test_pairs_are_observed_with_the_frequency_of_their_propensity(world):
    n_logs = 100
    counts = np.zeros(len(world.relevant))
    rng = np.random.default_rng(0)
    for _ in range(n_logs):
        counts += np.isin(world.relevant.pair_key, world.observe(rng).pair_key)
    p = world.relevant_propensity
    z = (counts.sum() / n_logs - p.sum()) / np.sqrt((p * (1 - p)).sum() / n_logs)
    assert abs(z) < 4
    head = p > 0.2
    z = (counts[head].sum() / n_logs - p[head].sum()) / np.sqrt((p * (1 - p))[head].sum() / n_logs)
    assert abs(z) < 4


def test_test_positives_are_observed_with_the_known_propensity_given_the_training_log(world):
    train_pairs, expected, seen, variance = 0, 0.0, 0, 0.0
    rng = np.random.default_rng(7)
    for _ in range(60):
        split = world.split(rng)
        not_in_train = ~np.isin(world.relevant.pair_key, split.train.pair_key)
        p = world.relevant_propensity[not_in_train]
        expected += p.sum()
        variance += (p * (1 - p)).sum()
        seen += len(split.test)
        train_pairs += len(split.train)
    assert abs(seen - expected) < 4 * np.sqrt(variance)
    assert seen < train_pairs  # what training shows cannot be seen again


def test_affinity_makes_relevant_items_suit_their_user(world):
    relevant = world.affinity_at(world.relevant.user, world.relevant.item).mean()
    assert relevant > 4 * 0.35 / np.sqrt(len(world.relevant))  # a random pair has mean 0 and sd 1/sqrt(8)
    indifferent = World(n_users=400, n_items=120, mean_relevant=12, affinity=0, popularity_skew=0, rng=1)
    mean_affinity = indifferent.affinity_at(indifferent.relevant.user, indifferent.relevant.item).mean()
    assert abs(mean_affinity) < 0.03


def test_ratings_are_four_or_five_exactly_where_relevant_and_random_exposure_is_uniform(world):
    exposed = world.expose(30, rng=4)
    liked = np.isin(exposed.pair_key, world.relevant.pair_key)
    assert set(exposed.value[liked]) == {4.0, 5.0}
    assert set(exposed.value[~liked]) == {1.0, 2.0, 3.0}
    assert np.array_equal(exposed.activity, np.full(400, 30))
    chance = world.n_relevant.sum() / (400 * 120)
    assert abs(liked.mean() - chance) < 4 * np.sqrt(chance / 12000)
    per_item = 400 * 30 / 120
    assert np.abs(exposed.popularity - per_item).max() < 5 * np.sqrt(per_item)
    assert (np.diff(exposed.pair_key) > 0).all()


def test_ratings_rise_with_affinity():
    world = World(n_users=40, n_items=30, mean_relevant=10, n_factors=1, affinity=0.5, rng=0)
    user, item = np.divmod(np.arange(1200), 30)
    suits = world.affinity_at(user, item)  # 1 or −1, as there is one factor
    relevant, rating = np.isin(user * 30 + item, world.relevant.pair_key), world.rating_at(user, item)
    ratings = [
        set(rating[(suits == sign) & (relevant == liked)]) for sign in (-1, 1) for liked in (False, True)
    ]
    assert ratings == [{1, 2}, {4}, {2, 3}, {5}]
    square = World(n_users=300, n_items=300, mean_relevant=1, rng=0)
    for sign in (1, -1):  # of a vector and itself, which is 1 but for rounding
        vars(square).update(item_factors=sign * square.user_factors)
        affinity = square.affinity_at(np.arange(300), np.arange(300))
        assert (sign * affinity).max() == 1


def test_lists_contain_distinct_items_and_popular_items_by_the_power_law():
    world = World(n_users=3000, n_items=50, mean_relevant=5, gamma=0.8, rng=0)
    popularity = np.arange(50)
    lists = world.recommend(popularity, length=1, n_lists=40000, rng=1)
    chance = np.maximum(popularity, 0.5) ** 0.8  # an item that was never observed counts as half observed
    chance /= chance.sum()
    deviation = (lists.popularity - 40000 * chance) / np.sqrt(40000 * chance)
    assert np.abs(deviation).max() < 4.5
    assert (lists.n_users, world.recommend(popularity, length=1, n_lists=7, rng=1).n_users) == (40000, 7)
    longer = world.recommend(popularity, length=10, rng=1)
    assert np.unique(longer.pair_key).size == len(longer) == 30000
    assert longer.value[:10].tolist() == list(range(1, 11))
    # Equally popular items differ by their effect alone, the spread of 50 of which is known to a tenth.
    noisy = world.recommend(np.full(50, 3), length=1, n_lists=20000, noise=1.0, rng=2)
    assert np.log(noisy.popularity).std() == pytest.approx(1, abs=0.4)


def test_example_models_have_the_factors_in_their_names(world):
    split = world.split(3)
    models = world.example_models(split, rng=0)
    none = (np.zeros((400, 1)), np.zeros((120, 1)))
    exact = {
        "taste": (2.0 * world.user_factors, world.item_factors, world.appeal),
        "niche": (2.0 * world.user_factors, world.item_factors),
        "appeal": (*none, world.appeal),
    }
    for name, parts in exact.items():
        assert all(
            np.array_equal(actual, expected) for actual, expected in zip(models[name], parts, strict=True)
        )
    assert [np.any(actual) for actual in models["popular"]] == [False, False, True]
    assert np.floor(models["popular"][2]).tolist() == split.train.popularity.tolist()  # ties are broken
    for noisy, plain in zip(models["noisy"][:2], exact["niche"], strict=True):
        # Of 960 draws and more: the relative standard error of a standard deviation is 1/√1920.
        assert (noisy - plain).std() == pytest.approx(0.5, rel=0.1)
    assert np.array_equal(models["noisy"][2], world.appeal)
    assert [actual.shape[1] for actual in models["random"]] == [2, 2]
    for wrong_split in ("a split", World(n_users=400, n_items=121, rng=0, mean_relevant=1).split(0)):
        with pytest.raises(InputError, match="must be one of this world, 400 × 120; got"):
            world.example_models(wrong_split)
    for wrong in (({}, ["atop"]), (models, [])):
        with pytest.raises(InputError, match=r"^models and metrics must not be empty\.$"):
            world.truth(*wrong, split)


def test_truth_equals_brute_force_over_all_relevant_items_outside_training():
    world = World(n_users=30, n_items=50, mean_relevant=12, rng=1)
    split = world.split(3)
    models = world.example_models(split, rng=0)
    models = {name: models[name] for name in ("noisy", "popular")}
    table = world.truth(models, ("recall@10", "atop", "auc", "rr"), split).set_index(["model", "metric"])
    factors, items, bias = models["noisy"]
    scores = factors @ items.T + bias
    recall, atop, reciprocal, auc, sizes, pairs = [], [], [], [], [], []
    for u in range(world.n_users):
        train = set(split.train.item[split.train.user == u])
        relevant = [i for i in world.relevant.item[world.relevant.user == u] if i not in train]
        if not relevant:
            continue
        pool = [i for i in range(50) if i not in train]
        rank = {i: 1 + sum(scores[u, j] > scores[u, i] for j in pool) for i in relevant}
        recall.append(np.mean([r <= 10 for r in rank.values()]))
        atop.append(np.mean([(len(pool) - r) / (len(pool) - 1) for r in rank.values()]))
        reciprocal.append(1 / min(rank.values()))
        other_items = [j for j in pool if j not in rank]
        auc.append(np.mean([[scores[u, i] > scores[u, j] for j in other_items] for i in relevant]))
        sizes.append(len(relevant))
        pairs.append(len(relevant) * len(other_items))
    assert table.loc[("noisy", "recall@10"), "ideal"] == pytest.approx(np.mean(recall), abs=1e-12)
    assert table.loc[("noisy", "atop"), "ideal"] == pytest.approx(np.mean(atop), abs=1e-12)
    assert table.loc[("noisy", "auc"), "ideal"] == pytest.approx(np.mean(auc), abs=1e-12)
    assert table.loc[("noisy", "rr"), "ideal"] == pytest.approx(np.mean(reciprocal), abs=1e-12)
    pooled = np.average(recall, weights=sizes)
    assert table.loc[("noisy", "recall@10"), "ideal_pooled"] == pytest.approx(pooled, abs=1e-12)
    pooled = np.average(auc, weights=pairs)
    assert table.loc[("noisy", "auc"), "ideal_pooled"] == pytest.approx(pooled, abs=1e-12)
    assert np.isnan(table.loc[("noisy", "rr"), "ideal_pooled"])
    assert table.loc[("noisy", "rr"), "n_users"] == len(recall)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users must be an integer >= 1"),
        ({"n_items": 1}, "n_items must be an integer >= 2"),
        ({"n_factors": 0}, "n_factors must be an integer >= 1"),
        ({"gamma": 1.0}, r"gamma must be in \[-1, 1\); got 1.0"),
        ({"gamma": -1.1}, r"gamma must be in \[-1, 1\); got -1.1"),
        ({"gamma": float("nan")}, r"gamma must be in"),
        ({"max_propensity": 0.0}, r"max_propensity must be in \(0, 1\]"),
        ({"max_propensity": 1.5}, r"max_propensity must be in \(0, 1\]"),
        ({"mean_relevant": 10.1}, r"mean_relevant must be in \[1, n_items / 2\] = \[1, 10\]; got 10.1"),
        ({"mean_relevant": 0.9}, r"mean_relevant must be in \[1, n_items / 2\]"),
        ({"mean_relevant": np.timedelta64(5, "D")}, r"mean_relevant must be in \[1, n_items / 2\]"),
        ({"gamma": np.timedelta64(0, "D")}, r"gamma must be in \[-1, 1\)"),
        ({"selection": -1}, "selection must be a finite number >= 0"),
        ({"affinity": float("inf")}, "affinity must be a finite number >= 0"),
        ({"affinity": 1_000_000.5}, r"affinity must be at most 1e\+06; got 1000000.5"),
    ],
)
def test_impossible_parameters_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        World(**{"n_users": 10, "n_items": 20, "mean_relevant": 3, "rng": 0, **options})


def test_a_scale_that_takes_a_propensity_above_one_is_refused(world):
    with pytest.raises(InputError, match=r"scale must be in \(0, 2\]"):
        world.observe(0, scale=2.1)
    with pytest.raises(InputError, match="got 0"):
        world.observe(0, scale=0)
    top = np.argmax(world.item_propensity)
    assert world.observe(0, scale=2).popularity[top] == world.relevant.popularity[top]  # seen for certain
    assert [world.study(0, scale=scale).propensity for scale in (0.5, 1.5)] == [None, None]
    study = world.study(0)
    assert (study.threshold, study.propensity.is_probability) == (4, True)
    with pytest.raises(InputError, match="n_per_user must be at most n_items = 120"):
        world.expose(121)
    with pytest.raises(InputError, match="length must be at most n_items = 120"):
        world.recommend(world.relevant.popularity, length=121)
    with pytest.raises(InputError, match=r"noise must be at most 1e\+06; got 1000000.5"):
        world.recommend(world.relevant.popularity, length=2, noise=1_000_000.5)


@pytest.mark.slow
def test_a_world_of_a_hundred_thousand_users_and_items_fits_in_memory_and_time():
    world = World(n_users=100_000, n_items=100_000, mean_relevant=30, selection=1.0, rng=0)
    assert np.array_equal(world.relevant.activity, world.n_relevant)
    assert world.relevant_propensity.max() <= 0.5


def plackett_luce_pairs(weight):
    """P(first = a, second = b) = w_a / W · w_b / (W − w_a), by definition."""
    total = weight.sum()
    law = np.outer(weight / total, weight) / (total - weight)[:, None]
    np.fill_diagonal(law, 0)
    return law


@pytest.mark.parametrize("affinity", [0.0, 1.5])
@pytest.mark.parametrize(("n", "rounds"), [(8000, 40), (1500, 1), (1500, 0)])  # by rejection; with the rest
def test_ordered_pairs_follow_the_plackett_luce_law(affinity, n, rounds, monkeypatch):
    monkeypatch.setattr("ipseval.validation.simulation._sampling.MAX_ROUNDS", rounds)
    monkeypatch.setattr("ipseval.validation.simulation._sampling.BLOCK_ENTRIES", 4 * 500)
    weight = np.array([5.0, 2.0, 1.0, 0.5])
    item_factors = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]])
    user_factors = np.tile([1.0, 0.0], (n, 1))
    row, item = draw_distinct(
        np.full(n, 2),
        np.log(weight),
        np.random.default_rng(0),
        Taste(user_factors, item_factors, affinity),
    )
    law = plackett_luce_pairs(weight * np.exp(affinity * item_factors[:, 0]))
    first, second = item.reshape(n, 2).T
    counts = np.zeros((4, 4))
    np.add.at(counts, (first, second), 1)
    assert np.array_equal(row, np.repeat(np.arange(n), 2))
    assert np.all(np.abs(counts - n * law) <= 4.5 * np.sqrt(n * law))


def test_drawing_every_item_is_possible_although_some_are_very_rare():
    # Weights span 12 powers of ten, so that the last draws must be completed without rejection.
    log_weight = np.log(10.0) * -np.arange(13)
    row, item = draw_distinct(np.array([13, 0, 5]), log_weight, np.random.default_rng(0))
    assert np.bincount(row, minlength=3).tolist() == [13, 0, 5]
    assert sorted(item[row == 0]) == list(range(13))
    assert np.unique(item[row == 2]).size == 5
    # Weights are known up to a factor, however large they are.
    again = draw_distinct(np.array([13, 0, 5]), log_weight + 1000, np.random.default_rng(0))
    assert np.array_equal(again, (row, item))


@pytest.mark.parametrize("log_weight", [np.zeros(1), np.zeros(13), -np.arange(900.0), np.arange(900.0)])
def test_an_item_of_a_table_is_the_first_whose_cumulative_probability_reaches_a_number(log_weight):
    table = ItemTable.from_weights(log_weight)
    weight = np.exp(log_weight - log_weight.max())
    assert table.first_items.size.bit_count() == 1  # products with a power of two are not rounded
    assert np.allclose(np.diff(table.cdf, prepend=0), weight / weight.sum(), atol=1e-15)
    bounds = np.append(table.cdf[:-1], np.arange(64) / 64)
    numbers = np.concatenate(
        [np.random.default_rng(0).random(500), *(np.nextafter(bounds, end) for end in (0, 1))]
    )
    numbers = np.append(numbers, bounds)
    numbers = numbers[numbers < 1]
    assert np.array_equal(table.find_items(numbers), np.searchsorted(table.cdf, numbers))


def test_hash_is_uniform_and_depends_on_key_and_seed_only():
    values = uniform_hash(np.arange(100_000), 42)
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    assert np.abs(counts - 5000).max() < 4.5 * np.sqrt(5000)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / np.sqrt(1e5)
    assert np.array_equal(uniform_hash(np.array([7, 3]), 42), values[[7, 3]])
    assert not np.any(uniform_hash(np.array([7, 3]), 43) == values[[7, 3]])


def test_the_splitmix_stream_matches_its_published_reference():
    # What Vigna's splitmix64.c gives from state 0 on; ours at key 0 and seeds 0, 1, 2, or a step as key.
    stream = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    for seed, number in enumerate(stream):
        assert uniform_hash(np.array([0]), seed)[0] == (number >> 11) * 2.0**-53
    step = np.array([0x9E3779B97F4A7C15], dtype=np.uint64)
    assert uniform_hash(step, 1)[0] == (stream[2] >> 11) * 2.0**-53
