"""Files of impressions, runs with judgements, and triples: layouts made here, read and evaluated."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest

from ipseval.errors import DataWarning, InputError
from ipseval.evaluation.slates import evaluate_slates, read_mind, read_trec

MIND = (
    "1\tU87243\t11/10/2019 11:30:54 AM\tN8668 N39081\tN78206-0 N26368-1 N7578-0\n"
    "2\tU598644\t11/12/2019 1:45:29 PM\t\tN47996-0 N82719-1\n"
    "5\tU87243\t11/13/2019 9:29:08 AM\tN8668 N39081 N26368\tN1-1 N2-1\n"
)
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq1 0 d3 2\nq2 0 d1 1\nq3 0 d9 1\nq2 0 d5 -2\n"
RUN = (
    "q1 Q0 d2 1 9.5 bm25\nq1 Q0 d1 2 8.0 bm25\nq1 Q0 d7 3 7.5 bm25\nq2 Q0 d1 1 3.0 bm25\nq4 Q0 d1 1 1 bm25\n"
)
MARCO = "q1\td1\t1\nq1\td3\t2\nq2\td4\t1\n"


def test_impressions_in_the_layout_of_mind(tmp_path):
    path = tmp_path / "behaviors.tsv"
    path.write_text(MIND)
    frame = read_mind(path)
    assert list(frame.columns) == ["query", "user", "item", "label", "position", "time", "history"]
    assert frame["query"].tolist() == ["1"] * 3 + ["2"] * 2 + ["5"] * 2
    assert frame["item"].tolist()[:3] == ["N78206", "N26368", "N7578"]
    assert frame["label"].tolist() == [0, 1, 0, 0, 1, 1, 1]
    assert frame["position"].tolist() == [1, 2, 3, 1, 2, 1, 2]
    assert frame["history"].tolist()[0] == "N8668 N39081"
    assert frame["history"].tolist()[3] == ""
    evaluation = evaluate_slates(
        {"as shown": -frame["position"]}, frame, metrics=["rr", "auc"], estimators=["aoa"]
    )
    # Ranks 2 of 3, 2 of 2, and two positives alone, which have no auc.
    assert evaluation.estimate("as shown", "rr", "aoa").value == (1 / 2 + 1 / 2 + 1) / 3
    assert evaluation.estimate("as shown", "auc", "aoa").value == (1 / 2 + 0) / 2
    assert evaluation.estimate("as shown", "rr", "aoa").sums.n_users == 2
    path.write_text('1\t"U1\tnow\tNA\tN1-1\n2\t"U1\tnow\tnull\tN1-1\n')
    quoted = read_mind(path)
    assert (quoted["user"].tolist(), quoted["history"].tolist()) == (['"U1', '"U1'], ["NA", "null"])
    with gzip.open(tmp_path / "behaviors.tsv.gz", "wt") as stream:
        stream.write(MIND)
    pd.testing.assert_frame_equal(read_mind(tmp_path / "behaviors.tsv.gz"), frame)


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
@pytest.mark.filterwarnings("ignore:every list of")
def test_runs_and_judgements_in_the_layouts_of_trec_and_ms_marco(tmp_path):
    for name, text in (("qrels", QRELS), ("bm25", RUN), ("marco", MARCO)):
        (tmp_path / name).write_text(text)
    with pytest.warns(DataWarning) as caught:
        pool, scores = read_trec(tmp_path / "qrels", {name: tmp_path / name for name in ("bm25", "marco")})
    assert [str(warning.message) for warning in caught] == [
        "left out: 1 query that no run has ('q3').",
        "left out: 1 query that nobody judged ('q4').",
    ]
    assert pool.to_numpy().tolist() == [
        *(["q1", "d1", 1.0], ["q1", "d2", 0.0], ["q1", "d3", 2.0], ["q1", "d7", 0.0]),
        *(["q2", "d1", 1.0], ["q2", "d4", 0.0], ["q2", "d5", 0.0]),
    ]
    assert scores["marco"].to_numpy().tolist() == [["q1", "d1", -1], ["q1", "d3", -2], ["q2", "d4", -1]]
    options = {"unscored": "miss", "estimators": ["aoa"]}
    evaluation = evaluate_slates(scores, pool, metrics=["mrr@10", "recall@2", "recall@10"], **options)
    values = evaluation.frame.set_index(["metric", "model"])["estimate"]
    assert values["rr@10", "bm25"] == (1 / 2 + 1) / 2
    assert values["rr@10", "marco"] == (1 + 0) / 2  # q2: the only item retrieved is not relevant
    assert values["recall@2", "bm25"] == (1 / 2 + 1) / 2
    assert values["recall@10", "marco"] == (1 + 0) / 2
    pytrec_eval = pytest.importorskip("pytrec_eval")
    judgements = {
        q: {i: int(g) for i, g in zip(rows["item"], rows["label"], strict=True)}
        for q, rows in pool.groupby("query")
    }
    for name, run in scores.items():
        lists = {q: dict(zip(rows["item"], rows["score"], strict=True)) for q, rows in run.groupby("query")}
        trec_values = pytrec_eval.RelevanceEvaluator(judgements, {"recip_rank", "ndcg_cut_10"}).evaluate(
            lists
        )
        for label, measure in (("rr@10", "recip_rank"), ("ndcg(gain=linear)@10", "ndcg_cut_10")):
            got = evaluate_slates({name: run}, pool, metrics=[label], **options).per_user(name, label, "aoa")
            assert got.to_dict() == pytest.approx(
                {q: values[measure] for q, values in trec_values.items()}, abs=1e-12
            )


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_mind, MIND.replace("N2-1", "N2"), r"line 3: 1 of 7 items have no label.*item-1 or item-0"),
        (
            read_mind,
            "1\tU1\tnow\t\tN1-1 N2-0\n2\tU1\tnow\t\tN1 N2-1\n3\tU1\tnow\t\t-1 N3-2\n",
            "line 2: 3 of 6 items have no label",
        ),
        (read_mind, "1\tU1\tnow\tN1\t\n", "line 1: 0 of 0 items have no label"),
        (read_mind, "1\tU1\tnow\tN1-1\n", "has 4 columns; expected impression id, user, time"),
        (read_mind, "", "cannot be read as a table"),
    ],
)
def test_files_of_another_layout_are_refused_in_words(read, text: str, words: str, tmp_path):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read(path)


def test_runs_of_another_layout_are_refused_in_words(tmp_path):
    for name, text in (("qrels", QRELS), ("run", RUN)):
        (tmp_path / name).write_text(text)
    cases = [
        ("qrels", "q1 d1 1\n", "has 3 columns; expected query, iteration, item, relevance"),
        ("qrels", "q1 0 d1 yes\n", "line 1: 'yes' is not a valid relevance"),
        (
            "qrels",
            "q1 0 a 1\nq1 0 b no\nq1 0 c inf\n",
            "line 2: 'no' is not a valid relevance; 2 of 3 lines have none",
        ),
        ("run", RUN + "q1 Q0 d2 4 1 x\nq1 Q0 d2 5 1 x\n", "2 lines with an item of its query again.*line 6"),
        ("qrels", "q9 0 d1 1\n", "no query of the runs is judged"),
        ("run", "q1 d1\n", "has 2 columns; expected query, Q0, item, rank, score, tag"),
        ("run", RUN + "q1 Q0 d2 4 1.0 bm25\n", "1 line with an item of its query again.*line 6"),
        ("qrels", QRELS + "q1 0 d2 1\n", "1 line with an item of its query again.*line 7"),
    ]
    for name, text, words in cases:
        second = tmp_path / f"other {name}"
        second.write_text(text)
        paths = {"qrels": tmp_path / "qrels", "run": tmp_path / "run"} | {name: second}
        with pytest.raises(InputError, match=words):
            read_trec(paths["qrels"], {"run": paths["run"]})
    with pytest.raises(InputError, match=r"must be an existing file\. Check the path\."):
        read_mind(tmp_path / "missing.tsv")
