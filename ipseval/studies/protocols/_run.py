"""Training and ranking of a study: each model once per split, the ranks stored as soon as they are there."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ipseval._version import __version__
from ipseval.data import Interactions
from ipseval.data.splits import Split, k_core
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.studies.protocols._protocol import Choice, Protocol, Tuned, described
from ipseval.studies.protocols._store import Store, fingerprint, log_fingerprint
from ipseval.utils.artefacts import sha256
from ipseval.utils.checks import check_models, check_positive_int
from ipseval.utils.compute import ComputeOptions
from ipseval.utils.types import FloatArray

FitFunction = Callable[[Interactions], Any]
Advance = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class Ranked:
    """All models ranked on one repeat of one protocol on one log."""

    log: str
    protocol: Protocol
    repeat: int
    split: Split
    ranks: dict[str, RankedPositives]
    warnings: tuple[str, ...]
    tuning: dict[str, dict[str, Any]] = field(default_factory=dict)  # model -> what was chosen, and how


@dataclass(frozen=True, eq=False)
class Plan:
    """What a study computes, and the key of every stored file."""

    # A key is a hash of the library's version, the pairs of the log, the protocol, the seed, the repeat, and
    # the model's name and fit function: a result is found again exactly when it would be computed the same.

    models: Mapping[str, FitFunction | Tuned]
    logs: Mapping[str, Interactions]
    protocols: Sequence[Protocol]
    rng: int
    store: Store
    compute: ComputeOptions

    @cached_property
    def _prints(self) -> tuple[dict[str, str], dict[str, str]]:
        models = {name: fingerprint(fit) for name, fit in self.models.items()}
        return models, {name: log_fingerprint(log) for name, log in self.logs.items()}

    @cached_property
    def _setting_prints(self) -> dict[tuple[str, int], str]:
        return {
            (name, number): fingerprint([fit.with_setting(number), fit.metric])
            for name, fit in self.models.items()
            if isinstance(fit, Tuned)
            for number in range(len(fit.settings))
        }

    def read_functions(self) -> None:
        """Take all fingerprints before a function has run, which may change what it names."""
        _ = self._prints, self._setting_prints

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
        fit = self.models[model]
        if not (isinstance(fit, Tuned) and fit.is_random):
            repeat = protocol.split_number(repeat)
        return self._key(log, protocol, repeat, model, self._prints[0][model])

    def validation_key(self, log: str, protocol: Protocol, repeat: int, model: str, number: int) -> str:
        """Return the key of the values of one setting on the validation part; every repeat shares them."""
        setting = self._setting_prints[model, number]
        return self._key(log, protocol, protocol.split_number(repeat), f"{model}, validation", setting)

    def _key(self, log: str, protocol: Protocol, repeat: int, model: str, print_of_model: str) -> str:
        split, pool = fingerprint(protocol.split_key), fingerprint(protocol.candidates)
        known = self._prints[1][log]
        return sha256(__version__, known, split, pool, str(self.rng), str(repeat), model, print_of_model)


def run(plan: Plan, advance: Advance) -> Iterator[Ranked]:
    """Yield ranks of every protocol and repeat, storing new ones; `advance(n)` counts those there."""
    plan.read_functions()
    for log_name, log in plan.logs.items():
        cores: dict[int | None, Interactions] = {None: log}
        for group in plan.groups(log):
            first = group[0]
            if first.k_core not in cores:
                assert first.k_core is not None  # of None there always is one
                cores = {None: log, first.k_core: k_core(log, first.k_core)}
            for repeat, split in enumerate(first.splits(cores[first.k_core], plan.rng)):
                for model in plan.models:
                    Training(plan, log_name, repeat, split, model).rank_group(group, advance)
                for protocol in group:
                    stored = {
                        model: plan.store.read(plan.key(log_name, protocol, repeat, model), split)
                        for model in plan.models
                    }
                    ranks = {model: ranked for model, (ranked, _) in stored.items()}
                    warned = [text for _, about in stored.values() for text in about["warnings"]]
                    tuning = {
                        model: about["tuning"] for model, (_, about) in stored.items() if about["tuning"]
                    }
                    said = tuple(dict.fromkeys(warned))
                    yield Ranked(log_name, protocol, repeat, split, ranks, said, tuning)


@dataclass(frozen=True, eq=False)
class Training:
    """One model on one split: what is trained, tried and ranked there."""

    plan: Plan
    log: str
    repeat: int
    split: Split
    model: str

    def rank_group(self, group: list[Protocol], advance: Advance) -> None:
        """Store the ranks of the model under every protocol of the group that lacks them."""
        plan = self.plan
        keys = {plan.key(self.log, protocol, self.repeat, self.model): protocol for protocol in group}
        missing = {key: protocol for key, protocol in keys.items() if not plan.store.file(key).exists()}
        advance(len(group) - len(missing))
        if not missing:
            return
        try:
            for key, protocol, scorer, tuning in self._trained(missing):
                # Warnings are stored with the ranks, so that a resumed study reports them too.
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    ranked = self._ranked(scorer, self.split, protocol)
                said = list(dict.fromkeys(str(one.message) for one in caught))
                plan.store.write(key, ranked, self._about(protocol) | {"warnings": said, "tuning": tuning})
                advance(1)
        except SystemExit as error:
            raise InputError(f"model {self.model!r} ended the program (SystemExit: {error}).") from error
        except Exception as error:  # a user's fit function may raise anything; it is passed on with its place
            where = f"{group[0].split_label}, {group[0].core_label}"
            error.add_note(
                f"in the study: model {self.model!r}, log {self.log!r}, {where}, repeat {self.repeat}. What "
                "was ranked before is stored; run the study again to go on."
            )
            raise

    def _about(self, protocol: Protocol) -> dict[str, Any]:
        """Return in words what a stored file holds."""
        where = {
            "log": self.log,
            "model": self.model,
            "protocol": protocol.label,
            "split": protocol.split_key,
        }
        return {**where, "repeat": self.repeat, "rng": self.plan.rng}

    def _ranked(self, scorer: Any, split: Split, protocol: Protocol) -> RankedPositives:
        pool, compute = protocol.candidates, self.plan.compute
        return rank_positives(scorer, split, name=self.model, candidates=pool, compute=compute)

    def _trained(
        self, missing: Mapping[str, Protocol]
    ) -> Iterator[tuple[str, Protocol, Any, dict[str, Any] | None]]:
        """Yield key, protocol, trained scorer, and what was chosen on the validation part, if anything."""
        fit, train = self.plan.models[self.model], self.split.train
        if isinstance(fit, Tuned) and fit.settings:
            yield from self._searched(missing, fit)
            return
        scorer = fit.fit(train, self.split.validation) if isinstance(fit, Tuned) else fit(train)
        for key, protocol in missing.items():
            yield key, protocol, scorer, None

    def _searched(
        self, missing: Mapping[str, Protocol], fit: Tuned
    ) -> Iterator[tuple[str, Protocol, Any, dict[str, Any] | None]]:
        """Try settings on the validation part, each trained once, and yield the best one of each protocol."""
        numbers = fit.draw(self.plan.rng, self.log, self.model, self.repeat).tolist()
        found: dict[str, list[FloatArray]] = {key: [] for key in missing}
        kept: dict[int, Any] = {}
        for number in numbers:
            for key, protocol in missing.items():
                found[key].append(self._validated(protocol, fit, number, kept))
            best = {numbers[int(np.argmax([np.nanmean(one) for one in values]))] for values in found.values()}
            kept = {place: scorer for place, scorer in kept.items() if place in best}
        for key, protocol in missing.items():
            choice = Choice.among(numbers, found[key], zlib.crc32(f"{self.plan.rng} {self.log}".encode()))
            if choice.setting not in kept:
                kept[choice.setting] = fit.with_setting(choice.setting)(self.split.train)
            about = asdict(choice) | {"setting": described(fit.settings[choice.setting])}
            about |= {"metric": fit.metric, "n_settings": len(fit.settings)}
            yield key, protocol, kept[choice.setting], about

    def _validated(self, protocol: Protocol, fit: Tuned, number: int, kept: dict[int, Any]) -> FloatArray:
        """Return the validation metric of each user under a setting, stored or computed and stored."""
        store, split = self.plan.store, self.split
        key = self.plan.validation_key(self.log, protocol, self.repeat, self.model, number)
        if not store.file(key).exists():
            if split.validation is None:
                raise InputError("a tuned recommender needs a validation part, and this split has none.")
            if number not in kept:
                kept[number] = fit.with_setting(number)(split.train)
            inner = Split(split.train, split.validation, description="validation", seen=split.seen)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the test part says the same, and is reported
                ranked = self._ranked(kept[number], inner, protocol)
            about = self._about(protocol) | {"setting": described(fit.settings[number])}
            store.write(key, fit.judge.user_values(ranked), about)
        return store.read_values(key)


def check_inputs(models: Any, logs: Any, protocols: Any, rng: Any) -> None:
    """Raise `InputError` unless the arguments of a study are what it needs."""
    check_models(models, "models", "fit function")
    check_models(logs, "logs", "Interactions")
    wrong = [name for name, fit in models.items() if not (callable(fit) or isinstance(fit, Tuned))]
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
    repeated = sorted({label for place, label in enumerate(labels) if label in labels[:place]})
    if repeated:
        raise InputError(
            f"protocols repeat {'; '.join(repeated)}. Tables could not tell them apart; run two studies, or "
            "set candidates_name."
        )
    _check_tuning([fit for fit in models.values() if isinstance(fit, Tuned)], protocols)
    check_positive_int("rng", rng, minimum=0)  # an interrupted study goes on with the same splits


def _check_tuning(tuned: Sequence[Tuned], protocols: Sequence[Protocol]) -> None:
    without = [one.label for one in protocols if not one.has_validation]
    if tuned and without:
        raise InputError(
            f"a tuned recommender needs a validation part; there is none in {'; '.join(without)}."
        )
    if any(one.needs_time and one.n_repeats > 1 for one in protocols) and not any(
        one.is_random for one in tuned
    ):
        raise InputError(
            "n_repeats has no effect in temporal order, where only the draw of settings differs; use 1, or a "
            "Tuned recommender with a budget below its number of settings."
        )
