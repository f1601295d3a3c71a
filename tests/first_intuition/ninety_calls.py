"""Ninety first calls, written after the README alone, with objects that people of six libraries hold.

A call is a `Call`. Either it works, and where it returns an evaluation, `same_as` is a longer call that has the
same estimates. Or its error holds `words`, and `instead` is the call that a reader types next, which works.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A first call: it works, or an error leads to the call `instead`.

    `is_mistake`: its author knows that it is wrong, such as factors in the wrong order, and expects an error.
    """

    text: str
    words: str = ""
    instead: str = ""
    same_as: str = ""
    is_mistake: bool = False


R10 = "metrics=['recall@10']"
N10 = "metrics=['ndcg@10']"
FACTORS = "{'ALS': (user_factors, item_factors)}"
BY_SPLIT = f"ipseval.evaluate({FACTORS}, ipseval.Split.from_frames(train, test), {R10})"
BY_PRODUCT = f"ipseval.evaluate({{'ALS': product}}, ipseval.Split.from_frames(train, test), {R10})"
BY_LISTS = f"ipseval.evaluate({{'ALS': ipseval.Lists((top, top_scores))}}, train=train, test=test, {R10})"
IMPLICIT = [
    Call(f"ipseval.evaluate({FACTORS}, train=train, test=test, propensity='power-law:gamma=0', {R10})"),
    Call(
        "ipseval.evaluate((user_factors, item_factors), train, test, k=10)",
        'metrics=["recall@10"]',
        f"ipseval.evaluate((user_factors, item_factors), train, test, {R10})",
    ),
    Call(f"ipseval.evaluate(product, train, test, {R10})", same_as=BY_PRODUCT),
    Call(
        f"ipseval.evaluate({FACTORS}, ipseval.Split(train, test), {R10})",
        "Split.from_frames(train, test)",
        BY_SPLIT,
    ),
    Call("ipseval.split_random(train + test, test_fraction=0.2, rng=0).train.shape"),
    Call(f"ipseval.evaluate({FACTORS}, train=train, test=test, {R10})", same_as=BY_SPLIT),
    Call(f"ipseval.evaluate({{'ALS': loaded}}, train=train, test=test, {R10})", same_as=BY_SPLIT),
    Call(f"ipseval.evaluate({{'ALS': (top, top_scores)}}, train=train, test=test, {R10})", same_as=BY_LISTS),
    Call(f"ipseval.evaluate({{'ALS': top}}, train=train, test=test, {R10})", same_as=BY_LISTS),
    Call(
        f"ipseval.evaluate({{'ALS': (item_factors, user_factors)}}, train=train, test=test, {R10})",
        "Pass (user_factors, item_factors) in this order",
        BY_SPLIT,
        is_mistake=True,
    ),
    Call(
        f"ipseval.evaluate({FACTORS}, train=train.T, test=test.T, {R10})",
        "train=train.T, test=test.T",
        f"ipseval.evaluate({FACTORS}, train=train.T.T, test=test.T.T, {R10})",
        is_mistake=True,
    ),
    Call(
        "ipseval.propensity.power_law(popularity, gamma=0.5)",
        "ipseval.PowerLawPropensity",
        "ipseval.PowerLawPropensity(gamma=0.5)",
    ),
    Call(
        "ipseval.fit_gamma(train)",
        "fit_gamma(split.train.popularity, recommendations)",
        "ipseval.fit_gamma(popularity, np.arange(1, 61) * 3, n_lists=400)",
        is_mistake=True,
    ),
    Call(f"ipseval.evaluate({FACTORS}, train=train * 41, test=test, {R10})", same_as=BY_SPLIT),
    Call(
        "cli('evaluate --train train.csv --test test.csv --user-factors u.npy --item-factors i.npy')",
        "--model NAME=scores.npy",
        "cli('evaluate --train train.csv --test test.csv --users users.csv --items items.csv --model A=scores.npy')",
    ),
]

EASE = "{'EASE': ipseval.baselines.ease(split.train)}"
OPTIONS = f"threshold=4, {R10}"
BY_READ = (
    "ipseval.evaluate({'a': ipseval.Lists(lists, seen='keep')}, ipseval.Split.from_frames(positives(train), "
    f"positives(test)), {R10})"
)
PANDAS = [
    Call("ipseval.split_random(ipseval.read(df, threshold=4), test_fraction=0.2, rng=0)"),
    Call("ipseval.read(df)", "threshold=4", "ipseval.read(df, threshold=4)", is_mistake=True),
    Call("ipseval.read('events.csv', user='visitorid', item='sku', threshold=4)"),
    Call("ipseval.split_time(df)", "split_temporal", "ipseval.split_temporal(df, threshold=4)"),
    Call("log['item_id'].value_counts()", ".to_frame()", "log.to_frame()['item'].value_counts()"),
    Call(f"ipseval.evaluate({EASE}, split, propensity=propensity, {R10}).to_frame()"),
    Call(f"ipseval.evaluate(lists, train=train, test=test, {OPTIONS})", same_as=BY_READ),
    Call(
        "ipseval.compare({'a': lists, 'b': lists}, train, test)",
        "evaluation.compare()",
        "evaluation.compare()",
    ),
    Call(f"ipseval.evaluate({EASE}, ipseval.split_random(df, rng=0, threshold=4), {R10})"),
    Call(
        f"ipseval.evaluate({{'a': lists}}, train=train.astype({{'item_id': float}}), test=test, {OPTIONS})",
        same_as=BY_READ,
    ),
    Call("evaluation.to_latex()"),
    Call("evaluation.save('result.json')", "Name it result.npz", "evaluation.save('result.npz')"),
    Call("cli('evaluate log.csv --threshold 4 --metrics recall@10 ndcg@10 --gamma 0')"),
    Call(
        "cli('evaluate --train train.csv --test test.csv --recs a.csv b.csv --threshold 4')",
        "--model NAME=FILE",
        "cli('evaluate a.csv b.csv --train train.csv --test test.csv --threshold 4 --unknown candidate')",
    ),
    Call("cli('split log.csv --test-fraction 0.2 --seed 0 --threshold 4 --out splits/')"),
]

POSITIVES = "ipseval.Split.from_frames(positives(train), positives(test))"
BY_FRAMES = f"ipseval.evaluate({{'A': ipseval.Lists(recs)}}, {POSITIVES}, {R10})"
FRAMES = [
    Call(f"ipseval.evaluate({{'A': recs, 'B': recs}}, train=train, test=test, {OPTIONS})"),
    Call(f"ipseval.evaluate(recs, pairs(train), pairs(test), {N10})"),
    Call(f"ipseval.evaluate(both, train=pairs(train), test=pairs(test), {R10})"),
    Call(f"ipseval.evaluate({{'A': recs}}, train=train, test=test, {OPTIONS})", same_as=BY_FRAMES),
    Call(f"ipseval.evaluate({{'A': recs}}, train=weighted(train), test=weighted(test), {R10})"),
    Call(
        "ipseval.evaluate({'A': recs}, train=train, test=test, threshold=4, metrics={'recall': 10})",
        "recall@10",
        BY_FRAMES,
        is_mistake=True,
    ),
    Call(
        "ipseval.evaluate({'A': recs}, train=train, test=test, threshold=4, "
        "metrics=['Recall@10', 'NDCG@10', 'HitRate@10'])"
    ),
    Call("ipseval.evaluate({'A': recs}, train=train, test=test, threshold=4, metrics=['recall@20'])"),
    Call(
        "ipseval.evaluate({'A': recs.drop(columns='score')}, train=train, test=test, threshold=4, "
        "metrics='recall@10')",
        same_as=BY_FRAMES,
    ),
    Call(
        "ipseval.evaluate({'A': recs.sample(frac=1, random_state=0).drop(columns='rank')}, train=train, test=test, "
        f"{OPTIONS})",
        same_as=BY_FRAMES,
    ),
    Call(
        f"ipseval.evaluate({{'A': recs}}, train=train.astype({{'user_id': str}}), test=test, {OPTIONS})",
        "convert them to one type",
        BY_FRAMES,
        is_mistake=True,
    ),
    Call(
        f"ipseval.evaluate({{'A': recs, 'half': recs[recs.user_id < 24]}}, train=train, test=test, {OPTIONS})"
    ),
    Call("evaluation.best", ".leader", "evaluation.leader"),
    Call(
        "cli('compare a.csv b.csv --train train.csv --test test.csv --threshold 4')",
        "ipseval evaluate --train FILE",
        "cli('evaluate a.csv b.csv --train train.csv --test test.csv --threshold 4 --unknown candidate')",
    ),
    Call("cli('gate --baseline a.csv')", "ipseval compare", "cli('compare --help')"),
]

RUNS = "{'a': run_a, 'b': run_b}"
BY_RUN = (
    f"ipseval.evaluate({{'a': ipseval.Lists(run_a, unknown='candidate')}}, train=train, test=qrels, {N10})"
)
RANX = [
    Call(
        "ipseval.evaluate(qrels, run_a, ['ndcg@10', 'recall@10'])",
        "train=train, test=test, metrics=",
        f"ipseval.evaluate({{'a': run_a}}, train=train, test=qrels, {N10})",
        is_mistake=True,
    ),
    Call(f"ipseval.evaluate({RUNS}, train=train, test=qrels, {N10})"),
    Call(f"ipseval.evaluate(run_a, train=train_pairs, test=qrels, {N10})", same_as=BY_RUN),
    Call(f"ipseval.evaluate({{'a': run_a}}, train=train, test=qrels, {N10})", same_as=BY_RUN),
    Call("ipseval.evaluate({'a': run_a}, train=train, test=qrels, metrics=['nDCG@10', 'R@10'])"),
    Call(
        "ipseval.evaluate({'a': run_a}, train=train, test=qrels, metrics=['ndcg_cut_10', 'recall_10'])",
        same_as="ipseval.evaluate({'a': run_a}, train=train, test=qrels, metrics=['ndcg@10', 'recall@10'])",
    ),
    Call(f"ipseval.evaluate({{'a': 'a.run'}}, train='train.tsv', test='qrels.txt', {R10})"),
    Call("ipseval.read('a.run')", "ipseval.read_lists", "ipseval.read_lists('a.run')", is_mistake=True),
    Call("ipseval.read('qrels.txt', threshold=1)"),
    Call(f"ipseval.evaluate({{'a': run_a}}, train=train, test=graded, {N10})"),
    Call(
        f"ipseval.evaluate({RUNS}, train=train, test=qrels, propensity=propensity, {R10})['a']",
        ".frame",
        f"ipseval.evaluate({RUNS}, train=train, test=qrels, propensity=propensity, {R10}).frame",
    ),
    Call(
        f"ipseval.evaluate({{'a': run_a}}, train=train, test=flipped, {R10})",
        "the same ids",
        f"ipseval.evaluate({{'a': run_a}}, train=train, test=qrels, {R10})",
        is_mistake=True,
    ),
    Call(
        "cli('evaluate --train train.tsv --qrels qrels.txt --run a.run')",
        "--test FILE. In place of --run: --model NAME=FILE",
        "cli('evaluate --train train.tsv --test qrels.txt --model a=a.run --metrics ndcg@10 --unknown candidate')",
    ),
    Call(
        "cli('qrels.txt a.run')",
        "ipseval evaluate",
        "cli('evaluate a.run --train train.tsv --test qrels.txt --metrics ndcg@10 --unknown candidate')",
        is_mistake=True,
    ),
    Call(
        "cli('evaluate a.run b.run --train train.tsv --test qrels.txt --metrics ndcg@10 --unknown candidate')"
    ),
]

ONE_EASE = "ipseval.baselines.ease(split.train)"
ATOMIC = [
    Call("ipseval.read('toy.inter', threshold=4)"),
    Call(
        "ipseval.read('toy.inter', rating='rating', threshold=3)",
        "value=",
        "ipseval.read('toy.inter', threshold=3)",
    ),
    Call(
        "ipseval.Split(ipseval.read('train.inter', threshold=4), ipseval.read('test.inter', threshold=4))",
        "Split.from_frames(train, test)",
        "ipseval.Split.from_frames(ipseval.read('train.inter', threshold=4), ipseval.read('test.inter', threshold=4))",
    ),
    Call("ipseval.read('.', threshold=4)", "toy.inter", "ipseval.read('toy.inter', threshold=4)"),
    Call(
        f"ipseval.evaluate({EASE}, split, metrics=['Recall', 'NDCG'], topk=10)",
        'metrics=["recall@10"]',
        f"ipseval.evaluate({EASE}, split, {R10})",
    ),
    Call("ipseval.split_leave_one_out(log)"),
    Call(
        f"ipseval.evaluate({EASE}, split, {R10}, sampled_negatives=20)",
        "candidates=ipseval.SampledCandidates(",
        f"ipseval.evaluate({EASE}, split, {R10}, candidates=ipseval.SampledCandidates(20, rng=0))",
        is_mistake=True,
    ),
    Call(
        f"ipseval.evaluate({{'BPR': padded}}, split, {R10})",
        "Pass scores[1:, 1:]",
        f"ipseval.evaluate({{'BPR': padded[1:, 1:]}}, split, {R10})",
        is_mistake=True,
    ),
    Call("ipseval.read(triples, threshold=4)"),
    Call(f"ipseval.evaluate({{'MF': padded[1:, 1:]}}, split, {R10})"),
    Call(f"ipseval.evaluate([{ONE_EASE}, ipseval.baselines.item_knn(split.train)], split, {R10})"),
    Call("dict(zip(('train', 'test'), ipseval.split_random(log, rng=0), strict=True))"),
    Call("cli('evaluate toy.inter --threshold 4 --metrics recall@10 ndcg@10 --gamma 0 --seed 2020')"),
    Call(
        "cli('evaluate --train train.inter --test test.inter --models ease item_knn --threshold 4 --json')",
        "--format json",
        "cli('evaluate --train train.inter --test test.inter --models ease item_knn --threshold 4 --format json')",
    ),
    Call("cli('fit-gamma toy.inter --threshold 4')", "ipseval fit", "cli('fit --help')"),
]

BY_MATRIX = f"ipseval.evaluate({{'net': scores}}, train=sparse(x_train), test=sparse(x_test), {R10})"
ARRAYS = [
    Call(
        "ipseval.propensity.from_impressions(impressions)",
        "ImpressionPropensity(log=ipseval.read(impressions))",
        "ipseval.ImpressionPropensity(log=ipseval.read(impressions))",
    ),
    Call(
        "ipseval.evaluate({'uniform': scores}, bandit)",
        "Split.from_frames(train, test)",
        f"ipseval.evaluate({{'uniform': scores}}, train=x_train, test=x_test, {R10})",
        is_mistake=True,
    ),
    Call(
        "ipseval.propensity.impressions(impressions)",
        "ImpressionPropensity(log=ipseval.read(impressions))",
        "ipseval.ImpressionPropensity(log=ipseval.read(impressions))",
    ),
    Call(
        f"ipseval.evaluate({EASE}, split, impressions=impressions, {R10})",
        "propensity=ipseval.ImpressionPropensity(log=ipseval.read(impressions))",
        f"ipseval.evaluate({EASE}, split, propensity=ipseval.ImpressionPropensity(log=ipseval.read(impressions)), "
        f"{R10})",
    ),
    Call("ipseval.read(impressions)"),
    Call(
        "ipseval.propensity.examination(impressions)",
        "ImpressionPropensity(log=ipseval.read(impressions))",
        "ipseval.ImpressionPropensity(log=ipseval.read(impressions))",
    ),
    Call(f"ipseval.evaluate({{'net': scores}}, train=x_train, test=x_test, {R10})", same_as=BY_MATRIX),
    Call(
        f"ipseval.evaluate(scores, train=x_train, test=x_test, propensity=item_propensity, {R10})",
        same_as=f"ipseval.evaluate({{'net': scores}}, train=sparse(x_train), test=sparse(x_test), "
        f"propensity=ipseval.KnownPropensity(item=item_propensity), {R10})",
    ),
    Call(
        f"ipseval.evaluate({{'net': scores}}, train=x_train, test=x_test, propensity=pair_propensity, {R10})",
        same_as=f"ipseval.evaluate({{'net': scores}}, train=sparse(x_train), test=sparse(x_test), "
        f"propensity=ipseval.KnownPropensity(function=lambda u, i: pair_propensity[u, i]), {R10})",
    ),
    Call(
        f"ipseval.evaluate({{'net': scores}}, train=x_train, test=x_test, propensity=x_train.sum(axis=0), {R10})",
        "must be in (0, 1]",
        f"ipseval.evaluate({{'net': scores}}, train=x_train, test=x_test, propensity=item_propensity, {R10})",
        is_mistake=True,
    ),
    Call(f"ipseval.evaluate({{'net': tensor}}, train=x_train, test=x_test, {R10})", same_as=BY_MATRIX),
    Call(f"ipseval.evaluate({{'net': predict}}, train=x_train, test=x_test, {R10})", same_as=BY_MATRIX),
    Call(
        "cli('evaluate clicks.csv --impressions impressions.csv --metrics recall@10')",
        "--propensity impressions",
        "cli('evaluate impressions.csv --propensity impressions --metrics recall@10 --duplicates drop')",
    ),
    Call("cli('evaluate clicks.csv --propensity propensities.csv --metrics recall@10')"),
    Call("cli('doctor')"),
]
