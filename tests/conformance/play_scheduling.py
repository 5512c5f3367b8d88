"""Lets the scheduler of one release work, in a process of its own, and prints what it does.

Takes the subject and cases: of each group the answers to its keys (H, M, P, R) and its window. Keys are numbered from
0, group after group.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

from evictable.model import calls
from evictable.model.calls import HIT, HIT_PENDING, MISS, RETRY, Call, Key
from evictable.specs import subjects
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.schedulers import Group, Reference, Scheduling

ANSWERS = {"H": HIT, "M": MISS, "P": HIT_PENDING, "R": RETRY}
Case = list[tuple[str, int | None]]


def step(scheduling: Scheduling, case: Case) -> dict[str, Any]:
    groups, table = [], []
    for answers, window in case:
        groups.append(Group(tuple(range(len(table), len(table) + len(answers))), window))
        table += [ANSWERS[answer] for answer in answers]
    asked: list[Key] = []
    touched: list[tuple[Key, ...]] = []

    def lookup(key: Key) -> str:
        asked.append(key)
        return table[int(key)]

    return {"loads": scheduling(groups, lookup, touched.append), "asked": asked, "touched": touched}


def random_cases() -> Iterator[Case]:
    choose = random.Random(1)
    for _ in range(600):
        length = choose.randint(1, 6)
        weights = choose.choice([(8, 1, 1, 1), (8, 1, 0, 1), (8, 1, 1, 0), (8, 2, 0, 0), (20, 1, 1, 1)])
        yield [
            ("".join(choose.choices("HMPR", weights, k=length)), choose.choice([None, 1, 2, 3, 4]))
            for _ in range(choose.randint(1, 4))
        ]


def differences(scheduling: Scheduling) -> list[Any]:
    """The random cases in which it asks or loads otherwise than the reference, with both accounts."""
    seen = [(case, step(scheduling, case), step(Reference(), case)) for case in random_cases()]
    return [
        (case, mine, reference)
        for case, mine, reference in seen
        if (mine["loads"], mine["asked"]) != (reference["loads"], reference["asked"])
    ]


FULL, WINDOWED = Group((0, 1, 2)), Group((3, 4, 5), window=2)


def lost(kind: SubjectKind, scheduling: Scheduling) -> list[Any]:
    """Where the manager evicts in the middle of a step what the step then loads: a full primary tier, in the order of
    eviction, and what the tier below has. The full-attention group is resident, the other is anywhere.
    """
    found = []
    for places in product(("nowhere", "primary", "below"), repeat=3):
        below = tuple(key for key, place in zip(WINDOWED.keys, places, strict=True) if place == "below")
        resident = [key for key, place in zip(WINDOWED.keys, places, strict=True) if place == "primary"]
        for order in permutations((*FULL.keys, *resident)) if below else ():
            subject = filled(kind, order, below)
            loads = scheduled(subject, scheduling)
            if loads:
                try:
                    subject.perform(Call(calls.PREPARE_LOAD, loads, "r1"))
                except AssertionError:
                    found.append((order, below))
    return found


def filled(kind: SubjectKind, order: Sequence[Key], below: tuple[Key, ...]) -> Subject:
    subject = kind.make(Setup(len(order), tiers=1))
    subject.perform(Call(calls.ON_NEW_REQUEST, request="r0"))
    for job, key in enumerate(order):
        subject.perform(Call(calls.PREPARE_STORE, (key,), "r0"))
        subject.perform(Call(calls.COMPLETE_STORE, (key,), "r0"))
        subject.perform(Call(calls.FINISH_JOB, job=job))  # its store into the tier fails
        subject.perform(Call(calls.ON_SCHEDULE_END))
    subject.perform(Call(calls.FILL_TIER, below, tier=0))
    subject.perform(Call(calls.ON_NEW_REQUEST, request="r1"))
    return subject


def scheduled(subject: Subject, scheduling: Scheduling) -> tuple[Key, ...] | None:
    return scheduling(
        [FULL, WINDOWED],
        lambda key: str(subject.perform(Call(calls.LOOKUP, (key,), "r1"))),
        lambda keys: None,
    )


if __name__ == "__main__":
    loaded = subjects.load(sys.argv[1])
    scheduling = loaded.scheduling()
    answer = {
        "faithful": scheduling.faithful,
        "cases": [step(scheduling, case) for case in json.loads(sys.argv[2])],
        "differences": differences(scheduling),
        "lost": lost(loaded, scheduling),
    }
    print(json.dumps(answer))
