"""Assertions for tests of recommenders, against a stored evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ipseval.errors import DataWarning, InputError, IpsevalError
from ipseval.evaluation import Evaluation
from ipseval.testing._bounds import check_margin
from ipseval.testing._gate import (
    DEFAULT_RELEVANT_SHARE,
    INCONCLUSIVE,
    NOT_WORSE,
    Gate,
    check_gate_options,
    choose_criterion,
    find_changes,
    find_comparable_estimators,
    gate,
)
from ipseval.testing._metric_gates import MetricGates, gate_metrics
from ipseval.testing._rules import Rules
from ipseval.utils.checks import check_real, check_type, warn_user
from ipseval.utils.public import public_function

FAILURE_ADVICE = {
    1: "Check first that the ids are in the order of the split, that the candidate was trained on split.train, and the "
    "line Sanity of print(evaluation). If the loss is accepted, write the baseline anew: pytest --ipseval-update.",
    3: "Check that no test interaction was used in training. If a large gain is real, raise suspicious=.",
    4: "Evaluate more users, pass margin= to tolerate a loss, or strict=False to pass with a warning.",
    5: "Pass a margin above 0, or strict=False to pass with a warning.",
}
MARGIN_ADVICE = (
    "Evaluate more users, pass a larger margin= if you accept such a loss, or none: a pass then excludes a loss of "
    f"{DEFAULT_RELEVANT_SHARE:.0%} of the old value, and every significant loss fails."
)
SIGNIFICANT_ADVICE = (
    "The loss is significant, so strict=False does not pass it either. Evaluate more users to learn whether it is "
    "below the margin, or keep the incumbent."
)
MARGIN_PARTS = 5  # the old value over the margin that is suggested in place of one that is too large
MAX_FIGURES = 8  # lines of a failure, so that the whole of it fits on a screen
ADVICE = "Write it: evaluation.save(path, ranks=False), ipseval evaluate --out, or pytest --ipseval-update."


@public_function
def assert_not_worse(
    evaluation: Evaluation,
    baseline: str | Path,
    *,
    update: bool = False,
    rules: Rules | None = None,
    limits: Mapping[str, float] | None = None,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> None:
    """Raise an `AssertionError` unless the gate passes an evaluation compared with a stored one.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the candidate.
    baseline : str or Path
        File written by `evaluation.save(path, ranks=False)`, or with `update`.
    update : bool, default False
        Write the baseline instead of comparing with it.
    rules : path or {metric: {option: value}}, optional
        Rules of several metrics, as in `gate_metrics`.
    limits : {metric: value}, optional
        Absolute limits, as in `gate_metrics`.
    report : callable, optional
        Function that is called with each decision in one line, whether the gate passes or not; with `update`,
        with the values that were replaced. The pytest fixture prints these lines after the tests.
    **options
        Options of `gate`. They are checked with `update` as well.

    Raises
    ------
    UnknownNameError
        For an option that `gate` does not have.
    AssertionError
        When the gate does not pass: the candidate is worse, suspicious, below a limit, or, unless
        `strict=False`, the gate cannot tell. The message is the decision, the figures and what to do.
    InputError
        When the results are not comparable: other data, options or metric definition.

    Warns
    -----
    DataWarning
        When the gate cannot tell and `strict=False`.

    See Also
    --------
    assert_metric : Require the same numbers.
    gate : The decision as a value.

    Examples
    --------
    A recommender that ranks at random fails the comparison with the stored evaluation:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> stored = evaluate({"model": examples["popular"]}, split, metrics=["recall@10"])
    >>> changed = evaluate({"model": examples["random"]}, split, metrics=["recall@10"])
    >>> with TemporaryDirectory() as folder:
    ...     assert_not_worse(stored, Path(folder) / "model.npz", update=True)
    ...     try:
    ...         assert_not_worse(changed, Path(folder) / "model.npz")
    ...     except AssertionError as error:
    ...         print(str(error).partition(",")[0])
    WORSE by recall@10 (aoa)
    """
    __tracebackhide__ = True  # pytest shows the line of the test only
    try:
        _refuse_model_as_baseline(evaluation, baseline, options)
        check_gate_options(options)
        if update:
            if options.get("margin") is not None:
                check_margin("margin", options["margin"])
            _write_baseline(evaluation, baseline, report, options)
            return
        decision = _decide(evaluation, baseline, rules, limits, options)
    except InputError as error:
        raise error.with_traceback(None) from None  # pytest shows the line of the test only
    if report is not None:
        for line in _list_decisions(decision):
            report(line)
    conclusion = f"{decision.verdict}, compared with {baseline}"
    if not decision.has_passed:
        advice = _advise_on_failure(decision)
        raise AssertionError("\n".join([conclusion, *_list_figures(decision), advice]))
    outcomes = [decision.outcome] if isinstance(decision, Gate) else list(decision.frame["outcome"])
    if any(outcome in INCONCLUSIVE for outcome in outcomes):
        warn_user(conclusion, DataWarning)


def _decide(
    evaluation: Evaluation,
    baseline: str | Path,
    rules: Rules | None,
    limits: Mapping[str, float] | None,
    options: Mapping[str, Any],
) -> Gate | MetricGates:
    """Return the decision on an evaluation compared with a stored one."""
    stored_evaluation = _load_baseline(baseline)
    if rules is None and limits is None:
        return gate(evaluation, stored_evaluation, **options)
    return gate_metrics(evaluation, stored_evaluation, rules=rules, limits=limits, **options)


def _advise_on_failure(decision: Gate | MetricGates) -> str:
    """Return advice for a gate that does not pass."""
    if isinstance(decision, Gate) and decision.outcome == "cannot tell":
        return _advise_on_doubt(decision)
    return FAILURE_ADVICE[decision.exit_code]


def _advise_on_doubt(decision: Gate) -> str:
    """Return advice for a gate that cannot tell, by the margin that was passed."""
    if decision.margin >= decision.old > 0:
        return (
            f"A margin of {decision.margin:.3g} is not below the old value, {decision.old:.3g}, so it tolerates "
            f"every loss. Pass a smaller one, such as margin={decision.old / MARGIN_PARTS:.1g}."
        )
    if decision._is_significantly_worse:
        return SIGNIFICANT_ADVICE
    if decision.margin > 0:
        return MARGIN_ADVICE
    return FAILURE_ADVICE[4]


def _list_decisions(decision: Gate | MetricGates) -> list[str]:
    """Return each decision with its figures in one line."""
    if isinstance(decision, Gate):
        return [decision._describe_figures()]
    return [part._describe_figures() for part in decision.decisions]


def _list_figures(decision: Gate | MetricGates) -> list[str]:
    """Return the lines with the estimates, the smallest visible loss and the users needed behind a decision."""
    if isinstance(decision, Gate):
        estimates, _, *losses = decision.tables().summary
        return [estimates, *losses]
    lines = []
    for row in decision.frame.to_dict("records"):
        figures = f"{row['new']:.4g}"
        if row["requirement"] == NOT_WORSE:
            figures = f"{row['old']:.4g} -> {row['new']:.4g}"
        lines.append(
            f"{row['model']} by {row['metric']} ({row['estimator']}): {figures}, {row['requirement']}: "
            f"{row['outcome']}"
        )
    return lines[:MAX_FIGURES]


@public_function
def assert_metric(
    evaluation: Evaluation,
    baseline: str | Path,
    *,
    metric: str,
    estimator: str | None = None,
    models: str | Iterable[str] | None = None,
    tolerance: float = 1e-9,
    update: bool = False,
    report: Callable[[str], None] | None = None,
) -> None:
    """Raise an `AssertionError` unless every estimate equals the stored one within `tolerance`.

    Use it for a pipeline whose numbers must not change at all, whether for better or for worse.

    Parameters
    ----------
    evaluation : Evaluation
        Evaluation of the recommenders to check.
    baseline : str or Path
        File, as in `assert_not_worse`.
    metric : str
        Label of the metric.
    estimator : str, optional
        Label of the estimator. Default: every estimator that both evaluations contain.
    models : str, iterable of str, or {name here: name in the baseline}, optional
        Default: all recommenders of the evaluation.
    tolerance : float, default 1e-9
        Largest absolute difference of two estimates.
    update : bool, default False
        Write the baseline instead of comparing with it.
    report : callable, optional
        Function that is called, with `update`, with the values that were replaced.

    Raises
    ------
    AssertionError
        When |new − old| exceeds `tolerance`, or one of the estimates is undefined.
    InputError
        When the results are not comparable, or `tolerance` is negative.

    See Also
    --------
    assert_not_worse : Allow for changes that the gate accepts.

    Examples
    --------
    The first call writes the baseline, and the second compares the same numbers with it:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> evaluation = evaluate({"popular": examples["popular"]}, split, metrics=["recall@10"])
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "popular.npz"
    ...     assert_metric(evaluation, path, metric="recall@10", update=True)
    ...     assert_metric(evaluation, path, metric="recall@10", tolerance=1e-9)
    """
    __tracebackhide__ = True
    try:
        tolerance = check_real("tolerance", tolerance, low=0.0, low_open=False)
        if update:
            options = {"metric": metric, "estimator": estimator}
            _write_baseline(evaluation, baseline, report, options)
            return
        changes = _list_changes(evaluation, baseline, metric, estimator, models, tolerance)
    except InputError as error:
        raise error.with_traceback(None) from None  # pytest shows the line of the test only
    if changes:
        raise AssertionError("\n".join([f"not the numbers of {baseline} (within {tolerance:g}):", *changes]))


def _list_changes(
    evaluation: Evaluation,
    baseline: str | Path,
    metric: str,
    estimator: str | None,
    models: str | Iterable[str] | None,
    tolerance: float,
) -> list[str]:
    """Return a line for each estimate that does not equal the stored one."""
    stored_evaluation = _load_baseline(baseline)
    changes = []
    for label in find_comparable_estimators(evaluation, stored_evaluation, metric, estimator):
        for name, stored_name in _pair_names(evaluation, models).items():
            new = evaluation.estimate(name, metric, label)
            old = stored_evaluation.estimate(stored_name, metric, label)
            difference = new.value - old.value
            if not abs(difference) <= tolerance:
                change = f"{old.value!r} -> {new.value!r} ({difference:+.3g})"
                changes.append(f"  {name} {new.metric} {label}: {change}")
    return changes


def _pair_names(evaluation: Evaluation, models: str | Iterable[str] | None) -> dict[str, str]:
    """Return the name in the baseline of each recommender to check."""
    if models is None:
        models = evaluation.models
    if isinstance(models, str):
        models = [models]
    pairs = dict(models) if isinstance(models, dict) else {name: name for name in models}
    for stored_name in pairs.values():
        check_type("models", stored_name, str, " Pass names of recommenders.")
    return pairs


def _refuse_model_as_baseline(
    evaluation: Evaluation, baseline: str | Path, options: Mapping[str, Any]
) -> None:
    """Raise `InputError` for the name of a recommender of the evaluation in place of a path."""
    models = evaluation.models if isinstance(evaluation, Evaluation) else []
    if not isinstance(baseline, str) or baseline not in models or Path(baseline).exists():
        return
    candidate = options.get("candidate", options.get("model"))
    rest = [model for model in models if model != baseline]
    if candidate not in rest:
        candidate = rest[0] if len(rest) == 1 else "…"
    raise InputError(
        f"baseline must be the path of a stored evaluation; got {baseline!r}, a recommender of this evaluation. "
        f"Use assert ipseval.testing.gate(evaluation, candidate={candidate!r}, incumbent={baseline!r}).has_passed."
    )


def _load_baseline(baseline: str | Path) -> Evaluation:
    """Return the stored evaluation."""
    if not Path(baseline).exists():
        raise InputError(f"there is no stored result {baseline}. {ADVICE}")
    return Evaluation.load(baseline)


def _write_baseline(
    evaluation: Evaluation,
    baseline: str | Path,
    report: Callable[[str], None] | None,
    options: Mapping[str, Any],
) -> None:
    """Write the baseline, and report the values that it replaces."""
    line = ""
    if report is not None:
        line = _describe_update(evaluation, baseline, options)
    evaluation.save(baseline, ranks=False)
    if report is not None:
        report(line)


def _describe_update(evaluation: Evaluation, baseline: str | Path, options: Mapping[str, Any]) -> str:
    """Return the old and the new values of a baseline in one line."""
    try:
        metric, estimator = choose_criterion(
            evaluation, evaluation, options.get("metric"), options.get("estimator")
        )
    except InputError:  # such as a metric of which less is better
        return "baseline written"
    names = evaluation.models
    if options.get("candidate") in names:
        names = [options["candidate"]]
    old_evaluation = _load_old_baseline(baseline)
    changes = []
    for name in names:
        change = _describe_change(
            evaluation=evaluation,
            old_evaluation=old_evaluation,
            key=(name, metric, estimator),
            old_key=(options.get("incumbent") or name, metric, estimator),
        )
        if len(names) > 1:
            change = f"{name} {change}"
        changes.append(change)
    line = f"baseline written: {', '.join(changes)}"
    if old_evaluation is not None:
        differences = find_changes(evaluation, old_evaluation, metric, estimator)
        if differences:
            line += f" ({'; '.join(differences)})"
    return line


def _describe_change(
    *,
    evaluation: Evaluation,
    old_evaluation: Evaluation | None,
    key: tuple[str, str, str],
    old_key: tuple[str, str, str],
) -> str:
    """Return the metric with its old value, if there is one, and its new value."""
    _, metric, _ = key
    value = f"{evaluation.estimate(*key).value:.3g}"
    if old_evaluation is None or old_key not in old_evaluation.estimates:
        return f"{metric} {value}"
    return f"{metric} {old_evaluation.estimates[old_key].value:.3g} -> {value}"


def _load_old_baseline(baseline: str | Path) -> Evaluation | None:
    """Return the evaluation that a baseline has before it is written; None without a readable one."""
    if not Path(baseline).exists():
        return None
    try:
        return Evaluation.load(baseline)
    except IpsevalError:
        return None
