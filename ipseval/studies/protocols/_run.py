"""Training and ranking of a study: each model once per split, with the ranks stored as soon as they exist."""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
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
from ipseval.studies.protocols._protocol import Choice, Protocol, Tuned, format_setting
from ipseval.studies.protocols._store import Store, fingerprint, fingerprint_log
from ipseval.utils.artefacts import sha256
from ipseval.utils.checks import check_models, check_positive_int
from ipseval.utils.compute import ComputeOptions
from ipseval.utils.types import FloatArray

FitFunction = Callable[[Interactions], Any]
Advance = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class RankedProtocol:
    """All models ranked on one repeat of one protocol on one log."""

    log: str
    protocol: Protocol
    repeat: int
    split: Split
    ranks: dict[str, RankedPositives]
    warnings: tuple[str, ...]
    tuning: dict[str, dict[str, object]] = field(default_factory=dict)  # model -> the chosen setting


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained scorer for one protocol, with the setting chosen on the validation part, if any."""

    key: str
    protocol: Protocol
    scorer: object
    tuning: dict[str, object] | None


@dataclass(frozen=True, eq=False)
class Plan:
    """Inputs of a study, and the key of every stored file.

    A key is a hash of the library's version, the pairs of the log, the protocol, the seed, the repeat, and
    the model's name and fit function: a result is found again exactly when it would be computed the same.
    """

    models: Mapping[str, FitFunction | Tuned]
    logs: Mapping[str, Interactions]
    protocols: Sequence[Protocol]
    rng: int
    store: Store
    compute: ComputeOptions

    @cached_property
    def _model_fingerprints(self) -> dict[str, str]:
        """Fingerprint of each fit function."""
        fingerprints: dict[str, str] = {}
        for name, fit in self.models.items():
            fingerprints[name] = fingerprint(fit)

        return fingerprints

    @cached_property
    def _log_fingerprints(self) -> dict[str, str]:
        """Fingerprint of each log."""
        fingerprints: dict[str, str] = {}
        for name, log in self.logs.items():
            fingerprints[name] = fingerprint_log(log)

        return fingerprints

    @cached_property
    def _setting_fingerprints(self) -> dict[tuple[str, int], str]:
        """Fingerprint of each setting of the tuned models, by model and number of the setting."""
        fingerprints = {}
        for name, fit in self.models.items():
            if isinstance(fit, Tuned):
                for number in range(len(fit.settings)):
                    fingerprints[name, number] = fingerprint([fit.with_setting(number), fit.metric])
        return fingerprints

    def compute_fingerprints(self) -> None:
        """Compute all fingerprints before a function is called, which may change the objects it refers to."""
        _ = self._model_fingerprints
        _ = self._log_fingerprints
        _ = self._setting_fingerprints

    def list_protocols(self, log: Interactions) -> list[Protocol]:
        """Return the protocols that can be applied to a log: those in time need timestamps."""
        if log.timestamp is not None:
            return list(self.protocols)
        possible_protocols: list[Protocol] = []
        for protocol in self.protocols:
            if not protocol.needs_time:
                possible_protocols.append(protocol)

        return possible_protocols

    def group_protocols(self, log: Interactions) -> list[list[Protocol]]:
        """Return the protocols of a log in groups that share their splits and trained models."""
        groups: dict[str, list[Protocol]] = {}
        for protocol in self.list_protocols(log):
            key = fingerprint([protocol.split_key, protocol.n_repeats])
            groups.setdefault(key, []).append(protocol)
        return list(groups.values())

    def count_rankings(self) -> int:
        """Return the number of rankings of the whole study."""
        n_rankings = 0
        for log in self.logs.values():
            for protocol in self.list_protocols(log):
                n_rankings += protocol.n_repeats * len(self.models)
        return n_rankings

    def ranking_key(self, log: str, protocol: Protocol, repeat: int, model: str) -> str:
        """Return the key of one ranking."""
        fit = self.models[model]
        if not (isinstance(fit, Tuned) and fit.is_random):
            repeat = protocol.split_number(repeat)
        return self._hash_key(log, protocol, repeat, model, self._model_fingerprints[model])

    def validation_key(self, log: str, protocol: Protocol, repeat: int, model: str, number: int) -> str:
        """Return the key of the values of one setting on the validation part; every repeat shares them."""
        repeat = protocol.split_number(repeat)
        setting_fingerprint = self._setting_fingerprints[model, number]
        return self._hash_key(log, protocol, repeat, f"{model}, validation", setting_fingerprint)

    def _hash_key(self, log: str, protocol: Protocol, repeat: int, name: str, model_fingerprint: str) -> str:
        """Return the hash of everything that determines a stored file."""
        return sha256(
            __version__,
            self._log_fingerprints[log],
            fingerprint(protocol.split_key),
            fingerprint(protocol.candidates),
            str(self.rng),
            str(repeat),
            name,
            model_fingerprint,
        )


def run_plan(plan: Plan, advance: Advance) -> Iterator[RankedProtocol]:
    """Yield the ranks of every protocol and repeat, and store new ones.

    `advance(n)` is called with the number of rankings that were stored or found.
    """
    plan.compute_fingerprints()
    for log_name, log in plan.logs.items():
        cores: dict[int | None, Interactions] = {None: log}
        for group in plan.group_protocols(log):
            first = group[0]
            if first.k_core is not None and first.k_core not in cores:
                cores = {None: log, first.k_core: k_core(log, first.k_core)}
            for repeat, split in enumerate(first.splits(cores[first.k_core], plan.rng)):
                for model in plan.models:
                    training = Training(plan=plan, log=log_name, repeat=repeat, split=split, model=model)
                    training.rank_group(group, advance)
                for protocol in group:
                    yield _read_ranks(plan, log_name, protocol, repeat, split)


def _read_ranks(plan: Plan, log: str, protocol: Protocol, repeat: int, split: Split) -> RankedProtocol:
    """Return the stored ranks of all models on one repeat of a protocol."""
    ranks = {}
    tuning = {}
    messages: list[str] = []
    for model in plan.models:
        key = plan.ranking_key(log, protocol, repeat, model)
        ranks[model], description = plan.store.read(key, split)
        messages.extend(description["warnings"])
        if description["tuning"]:
            tuning[model] = description["tuning"]
    return RankedProtocol(
        log=log,
        protocol=protocol,
        repeat=repeat,
        split=split,
        ranks=ranks,
        warnings=tuple(dict.fromkeys(messages)),
        tuning=tuning,
    )


@dataclass(frozen=True, eq=False)
class Training:
    """One model on one split: its training, the choice of its setting, and its ranks."""

    plan: Plan
    log: str
    repeat: int
    split: Split
    model: str

    def rank_group(self, group: list[Protocol], advance: Advance) -> None:
        """Store the missing ranks of the model under every protocol of the group."""
        store = self.plan.store
        missing: dict[str, Protocol] = {}
        for protocol in group:
            key = self.plan.ranking_key(self.log, protocol, self.repeat, self.model)
            if not store.file(key).exists():
                missing[key] = protocol
        advance(len(group) - len(missing))
        if not missing:
            return
        try:
            for trained in self._train(missing):
                self._rank_and_store(trained)
                advance(1)
        except SystemExit as error:
            raise InputError(f"model {self.model!r} ended the program (SystemExit: {error}).") from error
        except Exception as error:  # a user's fit function may raise anything; its context is added
            split_and_filter = f"{group[0].split_label}, {group[0].core_label}"
            error.add_note(
                f"in the study: model {self.model!r}, log {self.log!r}, {split_and_filter}, repeat "
                f"{self.repeat}. The rankings so far are stored; run the study again to go on."
            )
            raise

    def _rank_and_store(self, trained_model: TrainedModel) -> None:
        """Rank the test positives and store the ranks.

        Warnings are stored with the ranks, so that a resumed study reports them too.
        """
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            ranked = self._rank(trained_model.scorer, self.split, trained_model.protocol)
        messages = dict.fromkeys(str(warning.message) for warning in caught_warnings)
        description = self._describe(trained_model.protocol)
        description["warnings"] = list(messages)
        description["tuning"] = trained_model.tuning
        self.plan.store.write(trained_model.key, ranked, description)

    def _describe(self, protocol: Protocol) -> dict[str, object]:
        """Return the readable description of a stored file."""
        return {
            "log": self.log,
            "model": self.model,
            "protocol": protocol.label,
            "split": protocol.split_key,
            "repeat": self.repeat,
            "rng": self.plan.rng,
        }

    def _rank(self, scorer: object, split: Split, protocol: Protocol) -> RankedPositives:
        """Return the ranks of the test positives of a split among the candidates of a protocol."""
        return rank_positives(
            scorer,
            split,
            name=self.model,
            candidates=protocol.candidates,
            compute=self.plan.compute,
        )

    def _train(self, missing: Mapping[str, Protocol]) -> Iterator[TrainedModel]:
        """Yield the trained model of each protocol, given by key."""
        fit = self.plan.models[self.model]
        if isinstance(fit, Tuned):
            if fit.settings:
                yield from self._tune(missing, fit)
                return
            scorer = fit.fit(self.split.train, self.split.validation)
        else:
            scorer = fit(self.split.train)
        for key, protocol in missing.items():
            yield TrainedModel(key=key, protocol=protocol, scorer=scorer, tuning=None)

    def _tune(self, missing: Mapping[str, Protocol], fit: Tuned) -> Iterator[TrainedModel]:
        """Try settings on the validation part, each trained once, and yield the best one of each protocol."""
        numbers = fit.draw(self.plan.rng, self.log, self.model, self.repeat).tolist()
        values_by_key: dict[str, list[FloatArray]] = {key: [] for key in missing}
        scorers: dict[int, object] = {}  # of the settings that are best so far for some protocol
        for number in numbers:
            for key, protocol in missing.items():
                values_by_key[key].append(self._validate_setting(protocol, fit, number, scorers))
            best_numbers = set()
            for values in values_by_key.values():
                best_numbers.add(numbers[_argmax_of_means(values)])

            scorers = {number: scorer for number, scorer in scorers.items() if number in best_numbers}
        seed = zlib.crc32(f"{self.plan.rng} {self.log}".encode())
        for key, protocol in missing.items():
            choice = Choice.from_values(numbers, values_by_key[key], seed)
            if choice.setting not in scorers:
                scorers[choice.setting] = fit.with_setting(choice.setting)(self.split.train)
            tuning = {
                **asdict(choice),
                "setting": format_setting(fit.settings[choice.setting]),
                "metric": fit.metric,
                "n_settings": len(fit.settings),
            }
            yield TrainedModel(key=key, protocol=protocol, scorer=scorers[choice.setting], tuning=tuning)

    def _validate_setting(
        self, protocol: Protocol, fit: Tuned, number: int, scorers: dict[int, object]
    ) -> FloatArray:
        """Return the validation metric of each user under a setting, stored or computed and stored.

        The scorer of the setting is taken from `scorers`, or trained and added to them.
        """
        store = self.plan.store
        split = self.split
        key = self.plan.validation_key(self.log, protocol, self.repeat, self.model, number)
        if not store.file(key).exists():
            if split.validation is None:
                raise InputError("a tuned recommender needs a validation part, and this split has none.")
            if number not in scorers:
                scorers[number] = fit.with_setting(number)(split.train)
            validation_split = Split(split.train, split.validation, description="validation", seen=split.seen)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the test part gives the same warnings, which are reported
                ranked = self._rank(scorers[number], validation_split, protocol)
            description = self._describe(protocol)
            description["setting"] = format_setting(fit.settings[number])
            store.write(key, fit.judge.user_values(ranked), description)
        return store.read_values(key)


def _argmax_of_means(values: Sequence[FloatArray]) -> int:
    """Return the index of the setting with the largest mean over users with a value."""
    return int(np.argmax([np.nanmean(user_values) for user_values in values]))


def check_inputs(models: Any, logs: Any, protocols: Any, rng: Any) -> None:
    """Raise `InputError` for arguments that a study cannot use."""
    check_models(models, "models", "fit function")
    check_models(logs, "logs", "Interactions")
    not_callable = []
    for name, fit in models.items():
        if not callable(fit) and not isinstance(fit, Tuned):
            not_callable.append(name)
    if not_callable:
        raise InputError(
            f"models must be functions that take training interactions and return a scorer; "
            f"{', '.join(map(repr, not_callable))} cannot be called."
        )
    if len(models) < 2:
        raise InputError(
            f"models must contain at least two models to compare; got {len(models)}. Add a model."
        )
    not_logs = []
    for name, log in logs.items():
        if not isinstance(log, Interactions):
            not_logs.append(name)

    if not_logs:
        raise InputError(
            f"logs must be Interactions; {', '.join(map(repr, not_logs))}: use Interactions.from_frame."
        )
    _check_protocols(protocols)
    tuned_models = []
    for fit in models.values():
        if isinstance(fit, Tuned):
            tuned_models.append(fit)

    _check_tuning(tuned_models, protocols)
    check_positive_int("rng", rng, minimum=0)  # a number, so that a study can be resumed with the same splits


def _check_protocols(protocols: Any) -> None:
    """Raise `InputError` unless `protocols` are protocols with different labels."""
    if not protocols or not all(isinstance(protocol, Protocol) for protocol in protocols):
        raise InputError("protocols must be a list of Protocol, for example protocols.grid().")
    counts = Counter(protocol.label for protocol in protocols)
    repeated_labels = sorted(label for label, count in counts.items() if count > 1)
    if repeated_labels:
        raise InputError(
            f"protocols repeat {'; '.join(repeated_labels)}. Tables could not distinguish them; run two "
            "studies, or set candidates_name."
        )


def _check_tuning(tuned_models: Sequence[Tuned], protocols: Sequence[Protocol]) -> None:
    """Raise `InputError` for tuned models without a validation part, and for repeats without an effect."""
    without_validation = []
    for protocol in protocols:
        if not protocol.has_validation:
            without_validation.append(protocol.label)

    if tuned_models and without_validation:
        raise InputError(
            f"a tuned recommender needs a validation part; there is none in {'; '.join(without_validation)}."
        )
    has_random_settings = any(fit.is_random for fit in tuned_models)
    repeats_in_time = any(protocol.needs_time and protocol.n_repeats > 1 for protocol in protocols)
    if repeats_in_time and not has_random_settings:
        raise InputError(
            "n_repeats has no effect in temporal order, where only the draw of settings differs; use 1, or a "
            "Tuned recommender with a budget below its number of settings."
        )
