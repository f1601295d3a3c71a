"""Members of another package: found by their entry points, checked at the border, refused in one sentence."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import ESTIMATORS, Estimator, UserSums
from ipseval.metrics import METRICS, Definition, Metric
from ipseval.propensity import PROPENSITIES
from tests.inside.ranking import ADAPTERS

F1 = """
from ipseval.metrics import Definition, Metric, metric

class F1(Metric):
    name, kind, takes_cutoff = "f1", "list", "required"
    definition = Definition("2 Σ 1{r ≤ k} / (k + s)", "k + s")

    def _user_values(self, ranked, weights, rule):
        inside = metric(f"recall@{self.cutoff}").contributions(ranked, ties=rule)
        hits = ranked.counts * ranked.mean_by_user(inside, weights)
        return 2 * hits / (self.cutoff + ranked.counts)
"""

TRIMMED = """
import numpy as np
from ipseval.estimators import Estimator, UserSums

class Trimmed(Estimator):  # snips-pooled with the largest weights cut to the quantile 1 - share
    weighting, target = "1/P, the largest ones cut", "pooled"

    def __init__(self, share=0.0):
        self.share, self.label = share, f"trimmed({share:g})"

    def with_parameter(self, text):
        return Trimmed(float(text))

    def weight_positives(self, sample):
        return np.minimum(sample.weights, np.quantile(sample.weights, 1 - self.share))

    def sums(self, sample, metric):
        ranked, weights = sample.ranked, self.weight_positives(sample)
        total = ranked.sum_by_user(weights)
        return UserSums.from_values(ranked.users, total * metric.user_values(ranked, weights, ties=sample.ties), total)
"""

SMOOTHED = """
from ipseval import KnownPropensity

class Smoothed:  # P of an item: ((n + 1) / (largest n + 1)) ** alpha
    def __init__(self, alpha=0.5):
        self.alpha = alpha

    def fit(self, train):
        n = train.popularity
        return KnownPropensity(item=((n + 1) / (n.max() + 1)) ** self.alpha).fit(train)
"""

ADAPTER = """
from ipseval.ranking.adapters import ModelScores

class Model:
    ids, users = ["e", "d", "c", "b", "a"], ["v", "u", "z"]
    items = [[5, 1, 2, 3, 4], [5, 2, 3, 1, 4], [0, 0, 0, 0, 0]]

def describe(model, split):
    import numpy as np
    rows = np.array(model.items, dtype=float)
    return ModelScores("ourlab Model", rows=lambda u: rows[u], user_ids=np.array(model.users, dtype=object),
                       item_ids=np.array(model.ids, dtype=object))
"""

ENTRY_POINTS = """
[ipseval.metrics]
f1 = ourlab.f1:F1
broken = ourlab.nothing:Broken
other_name = ourlab.f1:F1
[ipseval.estimators]
trimmed = ourlab.trimmed:Trimmed
[ipseval.propensities]
smoothed = ourlab.smoothed:Smoothed
[ipseval.adapters]
ourlab = ourlab.adapter:describe
"""


def installed(folder: Path, name: str, entry_points: str, **modules: str) -> None:
    """Lay a package and its metadata into a folder, as an installer does."""
    about = folder / f"{name}-1.0.dist-info"
    for made in (folder / name, about):
        made.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, source in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(source, encoding="utf-8")


@pytest.fixture(autouse=True)
def _registries_as_before():
    kept = [(one, dict(one)) for one in (METRICS, ESTIMATORS, PROPENSITIES, ADAPTERS)]
    yield
    for registry, members in kept:
        registry.clear()
        registry.update(members)


@pytest.fixture(name="ourlab")
def ourlab_package(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    sources = {"f1": F1, "trimmed": TRIMMED, "smoothed": SMOOTHED, "adapter": ADAPTER}
    installed(folder, "ourlab", ENTRY_POINTS, **sources)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [module for module in sys.modules if module.partition(".")[0] == "ourlab"]:
        del sys.modules[name]


# Popularity in training: e 2, b 1, others 0. With alpha = 1, 1/P is 3 for a and c, 3/2 for b.
# The model ranks a first and b last of the four candidates of u, and c third of those of v.
TRAIN = pd.DataFrame({"user": ["u", "v", "z"], "item": ["e", "e", "b"]})
TEST = pd.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "c"]})
LABELS = {"metrics": ["f1@2"], "low_ess": "ignore"}


def the_split():
    return ipseval.Split.from_frames(TRAIN, TEST, users=["u", "v", "z"], items=list("abcde"))


# f1@2 plain: u 2·1/(2 + 2), v 0. Weighted: u 2·(2·3/4.5)/(2 + 2) = 2/3 with weight 4.5, v 0 with 3.
# With all weights cut to 3/2 u has 1/2 with weight 3, v 0 with 3/2.
EXPECTED = {"aoa": 0.25, "snips-pooled": 0.4, "trimmed(0)": 0.4, "trimmed(1)": 1 / 3}
ASKED = ["aoa", "snips-pooled", "trimmed", "trimmed(1)"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_metric_an_estimator_a_propensity_and_an_adapter_of_another_package_are_found_by_their_names(
    ourlab,
):
    model = importlib.import_module("ourlab.adapter").Model()
    evaluation = ipseval.evaluate(
        {"m": model}, the_split(), propensity="smoothed:alpha=1", estimators=ASKED, **LABELS
    )
    frame = evaluation.frame.set_index("estimator")
    assert frame["estimate"].to_dict() == pytest.approx(EXPECTED)
    assert set(frame["metric"]) == {"f1@2"}
    evaluation.save(ourlab / "found.npz")
    pd.testing.assert_frame_equal(ipseval.Evaluation.load(ourlab / "found.npz").frame, evaluation.frame)


def test_the_command_line_finds_them_too(ourlab, monkeypatch, capsys):
    monkeypatch.chdir(ourlab)
    assert main(["evaluate", "--list-metrics"]) == 0
    assert re.search(r"^f1 +of ourlab 1\.0$", capsys.readouterr().out, flags=re.MULTILINE)
    TRAIN.to_csv("train.csv", index=False)
    TEST.to_csv("test.csv", index=False)
    lists = pd.DataFrame({"user": list("uuvv"), "item": list("acab"), "rank": [1, 2] * 2})
    lists.to_csv("lists.csv", index=False)
    command = "evaluate --train train.csv --test test.csv --model m=lists.csv --metrics f1@2 --format csv"
    command += f" --propensity smoothed:alpha=1 --estimators {','.join(ASKED)} --low-ess ignore --quiet"
    assert main(command.split()) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    place = rows[0].index("estimate")
    assert {row[2]: float(row[place]) for row in rows[1:]} == pytest.approx(EXPECTED)


def test_a_package_is_loaded_only_when_its_name_is_asked_for(ourlab):
    assert ipseval.metric("recall@5").label == "recall@5"
    with pytest.raises(
        UnknownNameError, match=r"unknown metric 'f11'. Did you mean 'f1'\? Choices:.*other_name"
    ):
        ipseval.metric("f11@5")
    assert "ourlab" not in sys.modules
    assert ipseval.metric("F1@5").label == "f1@5"
    assert "ourlab.f1" in sys.modules
    assert "ourlab.trimmed" not in sys.modules


def test_an_entry_point_that_cannot_be_used_is_refused_with_its_package(ourlab):
    broken = (
        r"the metric 'broken' of the package ourlab 1\.0 cannot be used \(ourlab.nothing:Broken\): ModuleNot"
    )
    with pytest.raises(InputError, match=broken):
        ipseval.metric("broken@5")
    with pytest.raises(
        InputError, match=r"ourlab 1\.0 .*has the name 'f1' and is registered as 'other_name'"
    ):
        ipseval.metric("other_name@5")
    installed(ourlab / "second", "theirlab", "[ipseval.metrics]\nf1 = theirlab:F1\n")
    sys.path.insert(0, str(ourlab / "second"))
    with pytest.raises(
        InputError, match=r"'f1' is offered by theirlab 1\.0 and ourlab 1\.0; uninstall all but one"
    ):
        ipseval.metric("f1@5")


def of_source(source: str, name: str):
    """Return what a source defines under a name."""
    space = {"__name__": "own"}
    exec(source, space)
    return space[name]


def test_registered_members_have_labels_and_a_taken_name_is_refused():
    kind = of_source(F1, "F1")
    assert ipseval.register(kind) is kind
    assert isinstance(ipseval.metric("f1@3"), kind)
    ipseval.register(of_source(F1, "F1"))  # the cell of a notebook, run again
    ipseval.register(of_source(TRIMMED, "Trimmed"))
    ipseval.register(of_source(SMOOTHED, "Smoothed"), name="mine")
    for taken in ("recall", "map"):
        named = type("Own", (kind,), {"name": taken})
        with pytest.raises(InputError, match=f"the metric '{taken}' is there already; choose another name"):
            ipseval.register(named)
    with pytest.raises(InputError, match="the metric 'f1' is there already"):
        ipseval.register(type("Other", (kind,), {}))
    for taken in ("ipw", "aoa", "SNIPS"):
        one = of_source(TRIMMED, "Trimmed")()
        one.label = taken
        with pytest.raises(InputError, match=r"there already|both must be equal"):
            ipseval.register(one)
    with pytest.raises(InputError, match="adapter 'torch' is there already"):
        ipseval.register(lambda model, split: None, name="torch")


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        (3, {}, "register takes a class of metrics, an estimator, .* got an int"),
        (
            type("Half", (Metric,), {"name": "half"}),
            {},
            "Half does not define kind, definition, _user_values",
        ),
        (of_source(SMOOTHED, "Smoothed"), {}, r"model needs a name: ipseval.register\(Smoothed, name=…\)"),
        (of_source(SMOOTHED, "Smoothed"), {"name": "a b"}, "letters, digits and hyphens; got 'a b'"),
        (of_source(SMOOTHED, "Smoothed")(), {"name": "own"}, r"a class with fit\(train\) -> Propensity"),
        (len, {"name": "a.b"}, "has the name of a top-level module, such as 'sklearn'; got 'a.b'"),
        (of_source(F1, "F1"), {"name": "f2"}, "F1 has the name 'f1' and is registered as 'f2'"),
    ],
)
def test_what_is_no_member_is_refused(given, options, text):
    with pytest.raises(InputError, match=text):
        ipseval.register(given, **options)


class Scaled(Metric):
    """Σwc of the positives at rank 1, which grows with the weights."""

    name, kind = "scaled", "list"
    definition = Definition("Σ w 1{r = 1}", "1")

    def _user_values(self, ranked, weights, rule):
        ones = np.ones(len(ranked)) if weights is None else weights
        return ranked.sum_by_user(ones * (ranked.n_above == 0))


class Never:
    """A model that must not be ranked."""

    def block(self, users):
        raise AssertionError("ranked before it was checked")


def evaluated(metric, estimator, model=None):
    return ipseval.evaluate(
        {"m": Never() if model is None else model},
        the_split(),
        propensity=ipseval.KnownPropensity(item=np.full(5, 0.5)),
        metrics=[metric],
        estimators=[estimator],
        low_ess="ignore",
    )


def test_a_metric_that_changes_with_constant_weights_is_refused_before_the_ranking():
    # Made-up ranks: two of three users have a positive at rank 1, so 2/3 without weights and 4/3 with 2.
    text = r"scaled changes with constant weights \(.*1\.333 .*of 2, 0\.6667 without\); divide by the sum"
    with pytest.raises(InputError, match=text):
        evaluated(Scaled(), "snips-global")
    with pytest.raises(InputError, match=text):
        ipseval.metric(ipseval.register(Scaled)())
    with pytest.raises(InputError, match=text):
        ipseval.metric("scaled")


def test_a_metric_that_reads_data_of_its_own_is_not_refused_for_a_made_up_sample():
    class Priced(Scaled):
        name, price = "priced", np.ones(2)

        def _user_values(self, ranked, weights, rule):
            return ranked.mean_by_user(self.price[ranked.item], weights)

    assert ipseval.metric(Priced()).label == "priced"


def test_a_metric_without_an_unbiased_form_claims_none_and_ips_refuses_it_before_the_ranking():
    f1 = of_source(F1, "F1")(2)
    assert not f1.has_unbiased
    ips = [line for line in ipseval.estimators.card(f1).splitlines() if line.split()[0] == "ips"]
    assert ips == ["    ips          plug-in: no guarantee (it has no unbiased form)"]
    assert "exactly unbiased" not in ipseval.estimators.card(f1)
    with pytest.raises(
        InputError, match=r"ips needs an unbiased form and f1@2 has none. Define its _unbiased"
    ):
        evaluated(f1, "ips")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_estimator_is_told_which_method_it_lacks():
    class Plain(Estimator):
        label = "plain"

        def weight_positives(self, sample):
            return sample.weights

        def sums(self, sample, metric):
            return UserSums.from_values(
                sample.ranked.users, metric.user_values(sample.ranked, sample.weights)
            )

    scores = np.random.default_rng(0).normal(size=(3, 5))
    evaluation = ipseval.evaluate(
        {"m": scores, "n": -scores},
        the_split(),
        propensity=ipseval.KnownPropensity(item=np.full(5, 0.5)),
        metrics=["recall@2"],
        estimators=[Plain()],
        low_ess="ignore",
    )
    assert set(evaluation.bounds([2.0])["note"]) == {"no bounds: plain does not implement linear_form()"}
    text = r"plain does not implement parts\(\), so its estimate cannot be decomposed\."
    with pytest.raises(InputError, match=text):
        evaluation.decomposition("recall@2", weighted=Plain())


@pytest.mark.parametrize(("leaves", "high"), [(False, False), (True, True)])
def test_the_interval_of_an_estimator_that_leaves_the_range_is_not_kept_within_it(leaves, high):
    class Total(Estimator):  # the mean of three values, of which one exceeds 1
        label = "total"
        weighted = False
        can_exceed_range = leaves

        def weight_positives(self, sample):
            return np.ones(len(sample.ranked))

        def sums(self, sample, metric):
            values = np.array([0.8, 0.8, 1.1])
            return UserSums.from_values(np.arange(3), values)

    evaluation = ipseval.evaluate(
        {"m": np.random.default_rng(0).normal(size=(3, 5))},
        the_split(),
        metrics=["recall@2"],
        estimators=[Total()],
        low_ess="ignore",
    )
    # SE = √(Σ(v − 0.9)²/(3·2)) = 0.1, so that the normal interval ends at 0.9 + 1.96 · 0.1.
    assert (evaluation.frame["ci_high"].item() > 1) is high
    if high:
        assert evaluation.frame["ci_high"].item() == pytest.approx(1.095996, abs=1e-6)
