"""Spark ALS: the trained model, and the nested frame that it recommends."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import DataWarning, InputError
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # pyspark warns of pandas 3 wherever it makes a frame of pandas.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas >= 3.0.0:FutureWarning"),
]


@pytest.fixture(scope="module")
def pairs(coat):
    """Coat's training pairs as a Spark frame."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the python of the path can be of another version
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    rows = [(user, item, 1.0) for user, item in coat.train.to_frame().to_numpy().tolist()]
    yield session.createDataFrame(rows, "user int, item int, rating double").cache()
    session.stop()


def als():
    from pyspark.ml.recommendation import ALS

    return ALS(rank=4, maxIter=2, implicitPrefs=True, seed=0)


@pytest.fixture(scope="module")
def als_model(pairs):
    return als().fit(pairs)


def collect_factors(frame) -> tuple[list[int], np.ndarray]:
    rows = frame.collect()
    return [row["id"] for row in rows], np.array([row["features"] for row in rows])


def compute_exact(model, split) -> np.ndarray:
    (users, user) = collect_factors(model.userFactors)
    (items, item) = collect_factors(model.itemFactors)
    return checks.align_scores(checks.exact_scores(user, item), users, items, split)


def drop_training(lists: pd.DataFrame, split) -> pd.DataFrame:
    """Return a list without each user's training items: Spark recommends them as well."""
    merged = lists.merge(split.train.to_frame(), on=["user", "item"], how="left", indicator="where")
    return merged[merged["where"] == "left_only"].drop(columns="where")


def test_the_model_ranks_by_the_exact_scores_of_its_factors(als_model, coat):
    exact = compute_exact(als_model, coat)
    checks.assert_same_ranks(als_model, exact, coat)
    (users, user) = collect_factors(als_model.userFactors)
    (items, item) = collect_factors(als_model.itemFactors)
    # Spark's own predictions are in single precision.
    all_pairs = als_model.userFactors.selectExpr("id as user").crossJoin(
        als_model.itemFactors.selectExpr("id as item")
    )
    table = als_model.transform(all_pairs).toPandas().pivot(index="user", columns="item", values="prediction")
    assert (table.dtypes == np.float32).all()
    library_scores = checks.align_scores(table.to_numpy(), table.index, table.columns, coat)
    assert sorted(users) == table.index.tolist()
    assert sorted(items) == table.columns.tolist()
    checks.assert_differs_by_rounding_only(
        exact, library_scores, checks.bound_rounding(user, item).max(), coat
    )


def test_its_nested_frame_gives_the_ranks_of_the_model(als_model, coat):
    from pyspark.sql import functions

    full = als_model.recommendForAllUsers(coat.n_items)
    local = adapt(full, coat)
    assert sorted(local.columns) == ["item", "score", "user"]
    lists = drop_training(local, coat)
    from_lists = rank_positives(lists, coat)
    full_ranks = rank_positives(adapt(als_model, coat), coat)
    is_listed = np.isin(coat.item_ids[full_ranks.item], lists["item"]) & np.isin(
        coat.user_ids[full_ranks.user], lists["user"]
    )
    assert is_listed.mean() > 0.9
    np.testing.assert_array_equal(from_lists.n_above[is_listed], full_ranks.n_above[is_listed])
    renamed = full.withColumnRenamed("user", "customer").filter(functions.col("customer") < 3)
    assert set(adapt(renamed, coat)["user"]) <= {1, 2}


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, als_model, coat):
    checks.assert_shows_both(als_model, checks.OTHER_IDS[case], coat)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (
            "users-as-text",
            r"the column of users has ids of different types \(the lists, int\d+: 1, .*; the split, object: ",
        ),
        (
            "items-as-text",
            r"the column of items has ids of different types \(the lists, int\d+: \d+, .*; the split, object: ",
        ),
    ],
)
def test_lists_of_other_ids_get_an_error_that_shows_both(case, text, als_model, coat):
    lists = drop_training(adapt(als_model.recommendForAllUsers(coat.n_items), coat), coat)
    with pytest.raises(InputError, match=rf"^mine \(top-K lists\): {text}"):
        rank_positives(lists, checks.change_split(checks.OTHER_IDS[case][0], coat), name="mine")


def test_items_of_lists_without_interactions_in_the_split_compete(als_model, coat):
    lists = drop_training(adapt(als_model.recommendForAllUsers(coat.n_items), coat), coat)
    split = checks.change_split(checks.OTHER_IDS["item-of-the-model-only"][0], coat)
    text = (
        r"\d+ of [\d,]+ entries of 'mine' have items without interactions in the split\. These items compete"
    )
    with pytest.warns(DataWarning, match=text):
        rank_positives(lists, split, name="mine")


def test_other_spark_objects_get_an_error_that_says_what_to_pass(als_model, coat):
    with pytest.raises(InputError, match="pass a trained ALSModel, or a frame of lists"):
        adapt(als_model.userFactors.groupBy("id"), coat)
