"""Training and ranking of a study: each model once per split, the ranks stored as soon as they are there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ipseval._artefacts import remove_leftovers, writable
from ipseval._codec import load, save
from ipseval._compute import ComputeOptions
from ipseval._provenance import sha256
from ipseval._requests import check_models
from ipseval._version import __version__
from ipseval.errors import InputError
from ipseval.interactions import Interactions
from ipseval.protocols._fingerprint import fingerprint, log_fingerprint
from ipseval.protocols._protocol import Protocol
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split, k_core

FitFunction = Callable[[Interactions], Any]
Advance = Callable[[int], object]
KIND = "ipseval-ranks"
ADVICE = "Delete it and run the study again."


@dataclass(frozen=True)
class Store:
    """A folder of ranks, one file each, keyed by content; many processes and threads may share it."""

    folder: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Store:
        """Return the store in `path`, which is made if needed; leftovers of killed processes are removed."""
        folder = writable(Path(path) / "ranks" / "any").parent
        remove_leftovers(folder)
        return cls(folder)

    def file(self, key: str) -> Path:
        """Return where the ranks of `key` are, or would be."""
        return self.folder / f"{key}.npz"

    def write(self, key: str, ranked: RankedPositives, about: dict[str, Any]) -> None:
        """Store ranks, whole or not at all; `about` says in words what they are."""
        save(self.file(key), KIND, ranked, **about)

    def read(self, key: str, split: Split) -> tuple[RankedPositives, dict[str, Any]]:
        """Return stored ranks of a split and what was said of them; an error when they are of others."""
        ranked, about = load(self.file(key), KIND, ADVICE)
        known = isinstance(ranked, RankedPositives) and all(
            np.array_equal(getattr(ranked, name), getattr(split, name)) for name in ("user_ids", "item_ids")
        )
        if known:
            pair_key = ranked.user * np.int64(split.n_items) + ranked.item
            known = pair_key.size == len(split.test) - ranked.n_not_candidates
            known = known and bool(np.isin(pair_key, split.test.pair_key).all())
        if not known:
            raise InputError(
                f"{self.file(key)} ranks other positives than this split holds: it was made by another "
                "version. Delete it, or give the study another folder."
            )
        return ranked, about


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
        return sha256(
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


def run(plan: Plan, advance: Advance) -> Iterator[Ranked]:
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
                    stored = {
                        model: plan.store.read(plan.key(log_name, protocol, repeat, model), split)
                        for model in plan.models
                    }
                    ranks = {model: ranked for model, (ranked, _) in stored.items()}
                    warned = [text for _, about in stored.values() for text in about["warnings"]]
                    yield Ranked(log_name, protocol, repeat, split, ranks, tuple(dict.fromkeys(warned)))


def _rank_group(
    plan: Plan, log: str, group: list[Protocol], repeat: int, split: Split, model: str, advance: Advance
) -> None:
    """Train one model and store its ranks under every protocol of the group that lacks them."""
    keys = {plan.key(log, protocol, repeat, model): protocol for protocol in group}
    missing = {key: protocol for key, protocol in keys.items() if not plan.store.file(key).exists()}
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
        where = f"{group[0].split_label}, {group[0].core_label}"
        error.add_note(
            f"in the study: model {model!r}, log {log!r}, {where}, repeat {repeat}. What was "
            "ranked before is stored; run the study again to go on."
        )
        raise


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
