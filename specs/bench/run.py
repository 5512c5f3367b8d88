"""Runs cases: every subject in a process of its own, asked for rounds in an order that is drawn anew each time."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from evictable.specs.bench.sections import Case
from evictable.specs.errors import UsageError
from evictable.specs.subjects.children import Child, Garbled, Gone, Silent

PATIENCE = 300.0
"""Seconds for a round."""
WORKER = (sys.executable, "-P", "-m", "evictable.specs.bench.worker")


class Failed(Exception):
    """A subject could not do what was measured; the message says who, and what it did."""


@frozen
class Taken:
    """What one case came to on one subject, round by round, warm-up left out."""

    numbers: list[Mapping[str, float]] = field(factory=list)
    digests: list[str | None] = field(factory=list)
    """With the warm-up."""
    words: list[Mapping[str, str]] = field(factory=list)


@define
class Bench:
    """The processes. `end` ends them."""

    on_round: Callable[[Case, str, int], None] = lambda case, subject, number: None
    profiles: dict[str, Mapping[str, str]] = field(factory=dict)
    """Of each subject that was loaded: the profile of each policy."""
    _processes: dict[str, Child] = field(factory=dict)
    _random: random.Random = field(factory=lambda: random.Random(11))

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def end(self) -> None:
        for name in list(self._processes):
            self._processes.pop(name).end()

    def run(self, case: Case, subjects: Sequence[str]) -> dict[str, Taken | Failed]:
        """What the case came to on each: a subject that fails is asked no more. Raises `UsageError`."""
        came: dict[str, Taken | Failed] = {name: Taken() for name in case.on(subjects)}
        if not case.fresh:
            for name in came:
                self._try(came, name, case, None)
        for number in range(case.warm_up + case.rounds):
            running = [name for name, taken in came.items() if isinstance(taken, Taken)]
            self._random.shuffle(running)
            for name in running:
                self.on_round(case, name, number)
                self._try(came, name, case, number)
        for name, taken in came.items():
            if isinstance(taken, Taken) and not case.fresh:
                self._ask(name, {"end": True})
        return came

    def _try(self, came: dict[str, Taken | Failed], name: str, case: Case, number: int | None) -> None:
        try:
            if number is None or case.fresh:
                self._ask(name, {"begin": case.trial, **case.arguments})
            if number is not None:
                answer = self._ask(name, {"round": number})
                taken = came[name]
                assert isinstance(taken, Taken)
                taken.digests.append(answer["digest"])
                if number >= case.warm_up:
                    taken.numbers.append(answer["numbers"])
                    taken.words.append(answer["words"])
        except Failed as failure:
            came[name] = failure
        if case.fresh or isinstance(came[name], Failed):
            process = self._processes.pop(name, None)
            if process is not None:
                process.end()

    def _ask(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        process = self._processes.get(name)
        if process is None:
            process = self._processes[name] = self._started(name)
        return self._said(name, process, asked)

    def _started(self, name: str) -> Child:
        # One order of hashes for all: else the tables of one process collide more than those of another.
        process = Child(WORKER, {**os.environ, "PYTHONHASHSEED": "0"})
        self.profiles[name] = self._said(name, process, {"load": name})["profiles"]
        return process

    def _said(self, name: str, process: Child, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(process.ask(json.dumps(asked).encode() + b"\n", PATIENCE))
        except (Gone, Garbled, Silent) as error:
            self._processes.pop(name, None)
            raise Failed(f"{name}: {error}") from error
        if "error" in answer:
            raise UsageError(answer["error"])
        if "failed" in answer:
            raise Failed(f"{name}: {answer['failed']}")
        return answer


def disagreements(
    came: Mapping[str, Taken | Failed], profiles: Mapping[str, Mapping[str, str]], policy: str
) -> list[str]:
    """Pairs of subjects that have one profile under the policy and answered differently, in words."""
    first: dict[str, str] = {}
    found = []
    for name, taken in came.items():
        profile = profiles.get(name, {}).get(policy)
        if profile is None or not isinstance(taken, Taken):
            continue
        other = first.setdefault(profile, name)
        expected = came[other]
        assert isinstance(expected, Taken)
        rounds = zip(expected.digests, taken.digests, strict=False)
        where = next((number for number, (one, two) in enumerate(rounds) if one != two), None)
        if where is not None:
            found.append(f"{name} answers other than {other} from round {where} on, though both are {profile}")
    return found
