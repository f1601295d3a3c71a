"""Spark ALS: the trained model, and the nested frame that it recommends."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError
from ipseval.ranking import rank_positives

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.DataWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def trained(coat):
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    train = coat.train
    users, items = coat.user_ids[train.user].tolist(), coat.item_ids[train.item].tolist()
    rows = [(user, item, 1.0) for user, item in zip(users, items, strict=True)]
    frame = session.createDataFrame(rows, "user int, item int, rating double")
    yield ALS(rank=4, maxIter=2, implicitPrefs=True, seed=0).fit(frame)
    session.stop()


def test_the_model_ranks_as_the_product_of_its_factors(trained, coat, same_ranks):
    user = {row["id"]: np.array(row["features"]) for row in trained.userFactors.collect()}
    item = {row["id"]: np.array(row["features"]) for row in trained.itemFactors.collect()}
    dense = np.array(
        [
            [user.get(u, np.zeros(4)) @ item[i] if i in item else -np.inf for i in coat.item_ids]
            for u in coat.user_ids
        ]
    )
    scorer = adapt(trained, coat)
    ours = scorer[0] @ scorer[1].T + scorer[2]
    np.testing.assert_allclose(ours, dense, atol=1e-6)
    same_ranks(scorer, dense.astype(np.float32), coat)


def test_its_nested_frame_gives_the_ranks_of_the_model(trained, coat):
    from pyspark.sql import functions

    full = trained.recommendForAllUsers(coat.n_items)
    local = adapt(full, coat)
    assert sorted(local.columns) == ["item", "score", "user"]
    pairs = pd.MultiIndex.from_arrays([coat.user_ids[coat.train.user], coat.item_ids[coat.train.item]])
    kept = local[~pd.MultiIndex.from_frame(local[["user", "item"]]).isin(pairs)]
    from_lists = rank_positives(kept, coat)
    whole = rank_positives(adapt(trained, coat), coat)
    known = np.isin(coat.item_ids[whole.item], kept["item"]) & np.isin(
        coat.user_ids[whole.user], kept["user"]
    )
    np.testing.assert_array_equal(from_lists.n_above[known], whole.n_above[known])
    renamed = full.withColumnRenamed("user", "customer").filter(functions.col("customer") < 3)
    assert set(adapt(renamed, coat)["user"]) <= {1, 2}


def test_other_spark_objects_get_an_error_that_says_what_to_pass(trained, coat):
    with pytest.raises(InputError, match="pass a trained ALSModel, or a frame of lists"):
        adapt(trained.userFactors.groupBy("id"), coat)
