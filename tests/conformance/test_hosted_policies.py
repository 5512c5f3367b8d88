"""Cache policies of strangers, hosted in the built-in manager and in published ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import Run

from evictable.model.calls import Call
from evictable.model.trace import read
from evictable.specs import subjects
from evictable.specs.callers.disciplines import DISCIPLINES
from evictable.specs.errors import UsageError
from evictable.specs.search import CONFORMS, RANDOM, Search, Task
from evictable.specs.session import play
from evictable.specs.subjects.base import Setup, SubjectKind

GOOD = ("strangers:SegmentedLRU", "strangers:LFU", "strangers:LazyHeap")
DEFECTS = {
    "strangers:DemotionLoses": {"no-false-refusal", "progress"},
    "strangers:ReadyIsIdle": {"answer"},
    "strangers:StaleEntryTaken": {"all-or-nothing", "answer", "counters-agree", "progress", "slots-conserved"},
}


def searched(name: str, discipline: str, calls: int) -> Search:
    search = Search(Task(subjects.load(name), Setup(3), "any", discipline))
    search.run((RANDOM,), calls, None)
    return search


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("name", GOOD)
def test_a_good_one_conforms_in_the_built_in_manager(name: str, discipline: str) -> None:
    assert CONFORMS == searched(name, discipline, 800).verdict


@pytest.mark.parametrize("name", DEFECTS)
def test_a_subtle_bug_is_found_in_few_calls(name: str) -> None:
    found = searched(name, "contract", 1000).findings
    assert DEFECTS[name] == set(found)
    assert max(len(finding.counterexample.calls) for finding in found.values()) <= 6


@pytest.mark.release
@pytest.mark.parametrize("version", [pytest.param("0.22.0", marks=pytest.mark.slow), "0.24.0", "0.33.0"])
def test_releases_host_them(version: str, release: Callable[[str], Path]) -> None:
    release(version)
    command = [sys.executable, "play_hosted.py", version, "1000", *GOOD, "strangers:DemotionLoses"]
    played = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True, text=True)
    expected = dict.fromkeys(GOOD, "conforms") | {"strangers:DemotionLoses": "violates"}
    assert expected == json.loads(played.stdout.splitlines()[-1])


@pytest.mark.release
def test_the_replay_command_that_a_report_shows_works(
    evictable: Run, folder: Path, release: Callable[[str], Path]
) -> None:
    release("0.33.0")
    named = ("check", "strangers:ReadyIsIdle", "--host", "vllm==0.33.0")
    evictable(*named, "--engine", "random", "--max-calls", 1000)
    path = next(folder.glob("traces/*pinned-stays.jsonl"))
    done = evictable("replay", path, "--subject", read(path.read_text().splitlines()).head.subject)
    assert 1 == done.returncode
    assert "pinned-stays broken" in done.stdout


FOR_A_RELEASE = """
from vllm.v1.kv_offload.cpu.policies.base import CachePolicy
from strangers import LFU

class Derived(LFU, CachePolicy):
    def __init__(self, cache_capacity):
        CachePolicy.__init__(self, cache_capacity)
        LFU.__init__(self, self.cache_capacity)
"""


@pytest.mark.release
def test_one_that_is_written_for_the_release(evictable: Run, folder: Path, release: Callable[[str], Path]) -> None:
    release("0.33.0")
    (folder / "derived.py").write_text(FOR_A_RELEASE)
    named = ("derived:Derived", "--engine", "random", "--max-calls", 600)
    assert 0 == evictable("check", *named, "--host", "vllm==0.33.0").returncode
    alone = evictable("check", *named)
    assert 2 == alone.returncode
    assert "No module named 'vllm'" in alone.stderr


@pytest.fixture
def lfu() -> SubjectKind:
    return subjects.load("strangers:LFU")


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (Setup(2, "arc"), "strangers:LFU is a policy itself: leave out --policy arc"),
        (Setup(2, tiers=1), "hosted without tiers: leave out --tiers"),
    ],
)
def test_options_that_mean_nothing_to_it(setup: Setup, message: str, lfu: SubjectKind) -> None:
    with pytest.raises(UsageError, match=message):
        lfu.make(setup)


def test_a_trace_shows_what_get_finds(lfu: SubjectKind) -> None:
    sequence = [Call("on_new_request", request="r"), Call("prepare_store", (1, 2), "r"), Call("lookup", (3,), "r")]
    seen = play(lfu, Setup(2), "any", sequence).subject.snapshot(None)
    assert seen is not None
    assert ({1: -1, 2: -1}, None, 2, 0) == (seen.ref_cnt, seen.evictable, seen.num_resident, seen.num_evictable)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("strangers:LFU", "--host", "mutant:x"), "a host is impl, vllm, vllm==0.33.0 or vllm:PATH"),
        (("impl", "--host", "impl"), "--host takes in a cache policy class, package.module:Name"),
        (("strangers:LFU", "--host", "impl", "--level", "policy"), "leave out --host"),
        (("factories:Untouchable", "--host", "impl"), "raised TypeError"),
        (("factories:Opaque@impl",), "raised TypeError"),
        (("strangers:Counter@impl",), "has no method insert, remove, touch, evict; a policy has the methods of"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, evictable: Run) -> None:
    done = evictable("check", *arguments)
    assert 2 == done.returncode
    assert message in done.stderr.splitlines()[-1]
