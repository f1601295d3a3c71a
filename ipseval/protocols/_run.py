"""Training and ranking of a study: each model once per split, each rank stored as soon as it is there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ipseval._compute import ComputeOptions
from ipseval._requests import check_models
from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.interactions import Interactions
from ipseval.protocols._fingerprint import digest, fingerprint, log_fingerprint
from ipseval.protocols._protocol import Protocol
from ipseval.protocols._store import Store
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split, k_core

FitFunction = Callable[[Interactions], Any]


@dataclass(frozen=True, eq=False)
class Ranked:
    """All models ranked on one repeat of one protocol on one log."""

    log: str
    protocol: Protocol
    repeat: int
    split: Split
    ranks: dict[str, RankedPositives]
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a study computes, and the key of every stored file.

    A key is a hash of the library's version, the pairs of the log, the protocol, the seed, the repeat, and
    the model's name and fit function, so that a result is found again exactly when it would be computed again
    in the same way.
    """

    models: Mapping[str, FitFunction]
    logs: Mapping[str, Interactions]
    protocols: Sequence[Protocol]
    rng: int
    store: Store
    compute: ComputeOptions

    @cached_property
    def _prints(self) -> tuple[dict[str, str], dict[str, str]]:
        models = {name: fingerprint(fit) for name, fit in self.models.items()}
        return models, {name: log_fingerprint(log) for name, log in self.logs.items()}

    def protocols_of(self, log: Interactions) -> list[Protocol]:
        """Return the protocols that can be applied to a log: those in time need timestamps."""
        return [one for one in self.protocols if log.timestamp is not None or not one.needs_time]

    def groups(self, log: Interactions) -> list[list[Protocol]]:
        """Return the protocols of a log in groups that share their splits and trained models."""
        groups: dict[str, list[Protocol]] = {}
        for protocol in self.protocols_of(log):
            key = fingerprint([protocol.split_key, protocol.n_repeats])
            groups.setdefault(key, []).append(protocol)
        return list(groups.values())

    def n_ranks(self) -> int:
        """Return the number of rankings of the whole study."""
        return sum(
            protocol.n_repeats * len(self.models)
            for log in self.logs.values()
            for protocol in self.protocols_of(log)
        )

    def key(self, log: str, protocol: Protocol, repeat: int, model: str) -> str:
        """Return the key of one ranking."""
        return digest(
            __version__,
            self._prints[1][log],
            fingerprint(protocol.split_key),
            fingerprint(protocol.candidates),
            str(self.rng),
            str(repeat),
            model,
            self._prints[0][model],
        )

    def about(self, log: str, protocol: Protocol, repeat: int, model: str) -> dict[str, Any]:
        """Return in words what a stored file holds."""
        where = {"log": log, "model": model, "protocol": protocol.label, "split": protocol.split_key}
        return {**where, "repeat": repeat, "rng": self.rng}


def run(plan: Plan, advance: Callable[[int], object]) -> Iterator[Ranked]:
    """Yield the ranks of every protocol and repeat, computing and storing what is not stored.

    `advance(n)` is called for every n rankings that are there.
    """
    for log_name, log in plan.logs.items():
        cores: dict[int | None, Interactions] = {None: log}
        for group in plan.groups(log):
            first = group[0]
            if first.k_core not in cores:
                cores = {None: log, first.k_core: k_core(log, first.k_core or 1)}
            for repeat, split in enumerate(first.splits(cores[first.k_core], plan.rng)):
                for model in plan.models:
                    _rank_group(plan, log_name, group, repeat, split, model, advance)
                for protocol in group:
                    keys = {model: plan.key(log_name, protocol, repeat, model) for model in plan.models}
                    stored = {model: plan.store.read(key, split) for model, key in keys.items()}
                    ranks = {model: ranked for model, (ranked, _) in stored.items()}
                    warned = [text for _, about in stored.values() for text in about["warnings"]]
                    yield Ranked(log_name, protocol, repeat, split, ranks, tuple(dict.fromkeys(warned)))


def _rank_group(
    plan: Plan,
    log: str,
    group: list[Protocol],
    repeat: int,
    split: Split,
    model: str,
    advance: Callable[[int], object],
) -> None:
    """Train one model and store its ranks under every protocol of the group that lacks them."""
    keys = {plan.key(log, protocol, repeat, model): protocol for protocol in group}
    missing = {key: protocol for key, protocol in keys.items() if not plan.store.has(key)}
    advance(len(group) - len(missing))
    if not missing:
        return
    try:
        scorer = plan.models[model](split.train)
        for key, protocol in missing.items():
            # Warnings are stored with the ranks, so that a resumed study reports them too.
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                ranked = rank_positives(
                    scorer, split, name=model, candidates=protocol.candidates, compute=plan.compute
                )
            about = plan.about(log, protocol, repeat, model)
            about["warnings"] = list(dict.fromkeys(str(one.message) for one in caught))
            plan.store.write(key, ranked, about)
            advance(1)
    except SystemExit as error:
        raise InputError(f"model {model!r} ended the program (SystemExit: {error}).") from error
    except Exception as error:  # a user's fit function may raise anything; it is passed on with its place
        error.add_note(
            f"in the study: model {model!r}, log {log!r}, {_first_label(group)}, repeat {repeat}. What was "
            "ranked before is stored; run the study again to go on."
        )
        raise


def _first_label(group: list[Protocol]) -> str:
    """Return split and filter of a group, for messages."""
    return f"{group[0].split_label}, {group[0].core_label}"


def check_inputs(models: Any, logs: Any, protocols: Any, rng: Any) -> None:
    """Raise `InputError` unless the arguments of a study are what it needs."""
    check_models(models, "models", "fit function")
    check_models(logs, "logs", "Interactions")
    wrong = [name for name, fit in models.items() if not callable(fit)]
    if wrong:
        raise InputError(
            f"models must be functions that take training interactions and return a scorer; "
            f"{', '.join(map(repr, wrong))} cannot be called."
        )
    if len(models) < 2:
        raise InputError("an order needs at least two models.")
    wrong = [name for name, log in logs.items() if not isinstance(log, Interactions)]
    if wrong:
        raise InputError(
            f"logs must be Interactions; {', '.join(map(repr, wrong))}: use Interactions.from_frame."
        )
    if not protocols or not all(isinstance(one, Protocol) for one in protocols):
        raise InputError("protocols must be a list of Protocol, for example protocols.grid().")
    labels = [one.label for one in protocols]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise InputError(
            f"protocols repeat {'; '.join(repeated)}. Tables could not tell them apart; run two studies, or "
            "set candidates_name."
        )
    if isinstance(rng, bool) or not isinstance(rng, int) or rng < 0:
        raise InputError(
            "rng must be an integer >= 0, so that an interrupted study can go on with the same splits; got "
            f"{rng!r}."
        )
