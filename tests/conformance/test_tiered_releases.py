"""The releases' own managers of tiers above scripted ones: cascade, promotion, peers, resets.

What a release does is told as a reader of a log would see it: who said what to whom. A process holds one release
only, so each runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys
from pathlib import Path
from evictable.model import calls
from evictable.model.calls import Call
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.vllm import from_tree

kind = from_tree("it", Path(sys.argv[1]))

class Run:
    def __init__(self, capacity, tiers, policy="lru", **setup):
        self.subject = kind.make(Setup(capacity, policy, tiers=tiers, **setup))
        self.lines = []

    def __call__(self, name, *keys, **more):
        request = None if name in calls.IN_TIERS or name == "on_schedule_end" else "r"
        call = Call(name, keys, **{"request": request, **more})
        try:
            answer = str(self.subject.perform(call))
        except Exception as error:
            answer = type(error).__name__
        self.lines.append([answer, *map(str, self.subject.exchanges())])
        return self

    def all(self):
        state = self.subject.snapshot(None)
        return {"said": self.lines, "ref_cnt": [[key, n] for key, n in sorted(state.ref_cnt.items())]}

def cascade(policy):
    run = Run(2, 1, policy)("on_new_request")
    run("prepare_store", 1, 2)("complete_store", 1, 2)("finish_job", 1, 2, job=0)("on_schedule_end")
    return run("lookup", 1)("on_request_finished").all()

def promotion(policy):
    run = Run(2, 2, policy)("on_new_request")("fill_tier", 1, 2, 3, tier=1)("delay_tier", 4, tier=0)
    run("lookup", 1)("lookup", 2)("lookup", 3)("lookup", 4)("on_schedule_end")("lookup", 1)
    return run("finish_job", 1, job=0)("on_schedule_end")("lookup", 1)("lookup", 4).all()

def peers(policy):
    run = Run(3, 2, policy)("on_new_request")("prepare_store", 1, 2)("complete_store", 1, 2)
    run("peer_lookup", 1, 9, tier=1, request="p")("on_schedule_end")
    return run("finish_job", 1, job=2)("on_schedule_end").all()

def reset(policy):
    run = Run(2, 1, policy)("on_new_request")("fill_tier", 2, 3, tier=0)("prepare_store", 1)("complete_store", 1)
    return run("lookup", 2)("reset_cache", success=False)("lookup", 3)("lookup", 1).all()

def whole_requests(policy):
    run = Run(2, 2, policy, request_level=(1,))("on_new_request")("prepare_store", 1)("complete_store", 1)
    return run("prepare_store", 1)("prepare_store", 1, 2).all()

def faults(policy):
    run = Run(2, 2, policy)("on_new_request")("prepare_store", 1)
    return run("complete_store", 1, raises_in="submit_store", at=2).all()

def figures(policy):
    run = Run(2, 1, policy)("on_new_request")("prepare_store", 1)("take_events")("get_stats")
    return run.all()

scenarios = (cascade, promotion, peers, reset, whole_requests, faults, figures)
answer = {policy: {one.__name__: one(policy) for one in scenarios} for policy in ("lru", "arc")}
print(json.dumps(answer))
"""


def told_by(root: Path) -> Mapping[str, Mapping[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root)], capture_output=True, text=True, check=False, timeout=60
    )
    assert 0 == done.returncode, done.stderr
    assert "" == done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


NEWER = ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
"""A promotion has begun: HIT_PENDING, before that RETRY. And it can succeed in part."""
WITH_PEERS = ("0.26.0", "0.27.0", *NEWER)
WITH_RESETS = ("0.24.0", "0.25.0", *WITH_PEERS)


def cascade(release: str) -> Any:
    finished = ["tier 0 is told that r has finished"]
    said = [
        ["None"],
        ["store [1, 2] in slots [0, 1], evicting []"],
        ["None", "tier 0 gets job 0 of r: store [1, 2] from slots [0, 1]"],
        ["None"],
        ["None"],  # it has polled already in this step
        ["HIT", "tier 0 reports job 0: done"],
        ["None", *(finished if release != "0.22.0" else ())],
    ]
    return {"said": said, "ref_cnt": [[1, 0], [2, 0]]}


def promotion(release: str) -> Any:
    begun = "HIT_PENDING" if release in NEWER else "RETRY"
    found = [
        "tier 0 is asked for {0}: MISS",
        "tier 1 is asked for {0}: HIT",
        "reserves slots [{1}] for [{0}], evicting []",
    ]

    def of(key: int, slot: int) -> list[str]:
        return [begun, *(line.format(key, slot) for line in found)]

    if release in NEWER:
        last, ref_cnt = ["HIT", "tier 1 reports job 0: failed, but for [1]"], [[1, 0]]
    else:
        # None of them has come, so that it is promoted anew, in the slot given back last.
        last, ref_cnt = [begun, "tier 1 reports job 0: failed", *of(1, 1)[1:]], [[1, -1]]
    said = [
        *[["None"]] * 3,
        of(1, 0),
        of(2, 1),
        ["MISS", "tier 0 is asked for 3: MISS", "tier 1 is asked for 3: HIT", "no room for [3]"],
        ["RETRY", "tier 0 is asked for 4: RETRY", "tier 1 is asked for 4: MISS"],
        ["None", "tier 1 gets job 0 of r: load [1, 2] into slots [0, 1]"],
        ["HIT_PENDING"],
        *[["None"]] * 2,
        last,
        ["MISS", "tier 0 is asked for 4: MISS", "tier 1 is asked for 4: MISS"],
    ]
    return {"said": said, "ref_cnt": ref_cnt}


def peers(release: str) -> Any:
    asked = [
        "a peer behind tier 1 asks for 1: HIT",
        "tier 0 is asked for 9: MISS",
        "a peer behind tier 1 asks for 9: MISS",
        "a peer behind tier 1 claims [1]",
        "tier 1 gets job 2 of p: store [1] from slots [0]",
        "p of a peer behind tier 1 has finished",
        "tier 0 is told that p has finished",
    ]
    served = release in WITH_PEERS
    said = [
        ["None"],
        ["store [1, 2] in slots [0, 1], evicting []"],
        ["None", *(f"tier {tier} gets job {tier} of r: store [1, 2] from slots [0, 1]" for tier in (0, 1))],
        ["None"],
        ["None", *(asked if served else ())],
        ["None"],
        ["None", *(["tier 1 reports job 2: done"] if served else ())],
    ]
    return {"said": said, "ref_cnt": [[1, 2], [2, 2]]}


def reset(release: str) -> Any:
    begun = "HIT_PENDING" if release in NEWER else "RETRY"
    before = [
        *[["None"]] * 2,
        ["store [1] in slots [0], evicting []"],
        ["None", "tier 0 gets job 0 of r: store [1] from slots [0]"],
        [begun, "tier 0 is asked for 2: HIT", "reserves slots [1] for [2], evicting []"],
    ]
    if release not in WITH_RESETS:
        nothing = [["None"], ["MISS", "tier 0 is asked for 3: HIT", "no room for [3]"], ["HIT"]]
        return {"said": [*before, *nothing], "ref_cnt": [[1, 1], [2, -1]]}
    after = [
        ["None", "tier 0 is drained: jobs [0] end", "tier 0 reports job 0: failed"],
        [begun, "tier 0 is asked for 3: HIT", "reserves slots [0] for [3], evicting []"],
        ["MISS", "tier 0 is asked for 1: MISS"],
    ]
    return {"said": [*before, *after], "ref_cnt": [[3, -1]]}


def whole_requests(release: str) -> Any:
    def also(job: int) -> list[str]:
        return [f"tier 1 gets job {job} of r: store [1] from slots [0]"] if release != "0.22.0" else []

    said = [
        ["None"],
        ["store [1] in slots [0], evicting []"],
        ["None", *(f"tier {tier} gets job {tier} of r: store [1] from slots [0]" for tier in (0, 1))],
        ["store [] in slots [], evicting []", *also(2)],
        ["store [2] in slots [1], evicting []", *also(3)],
    ]
    return {"said": said, "ref_cnt": [[1, 2 if release == "0.22.0" else 4], [2, -1]]}


def faults(release: str) -> Any:
    submitted = [f"tier {tier} gets job {tier} of r: store [1] from slots [0]" for tier in (0, 1)]
    said = [
        ["None"],
        ["store [1] in slots [0], evicting []"],
        ["RuntimeError", submitted[0], f"{submitted[1]}, and raises"],
    ]
    return {"said": said, "ref_cnt": [[1, 2]]}


@pytest.mark.release
@pytest.mark.parametrize(
    "version",
    [
        version if version in ("0.24.0", "0.29.0", "0.33.0") else pytest.param(version, marks=pytest.mark.slow)
        for version in ("0.22.0", "0.23.0", *WITH_RESETS)
    ],
)
def test_release(version: str, release: Callable[[str], Path]) -> None:
    answer = told_by(release(version))
    for scenario in (cascade, promotion, peers, reset, whole_requests, faults):
        expected = scenario(version)
        for policy, told in answer.items():
            assert (policy, expected) == (policy, told[scenario.__name__]), scenario.__name__
    for told in answer.values():
        assert "events: none" == told["figures"]["said"][-2][0]
        gauges = told["figures"]["said"][-1][0]
        assert ("usage=0.5" in gauges) == (version not in ("0.22.0", "0.23.0", "0.24.0")), gauges
