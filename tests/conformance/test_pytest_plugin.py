"""The pytest plugin as projects use it: an option, or classes to inherit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commandline import SCRIPT

pytest_plugins = ["pytester"]

CALLS = "--evictable-max-calls=400"
HEAVY = ("hypothesis", "z3", "crosshair", "rich", "evictable.specs", "evictable.model", "evictable.impl")
LAWS_OF_CONTRACT = 16


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project's folder, with managers and policies."""
    for name in ("factories.py", "strangers.py"):
        shutil.copy(Path(__file__).parent / name, pytester.path)
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)  # these tests may themselves run in a worker of xdist
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-rs", *arguments)


def test_nothing_heavy_is_loaded_without_the_option(project: pytest.Pytester) -> None:
    project.makepyfile(test_one="def test_one(): pass")
    project.makeconftest(
        "import pathlib, sys\ndef pytest_unconfigure():\n    pathlib.Path('loaded').write_text('\\n'.join(sys.modules))"
    )
    assert 0 == run(project, "-p", "no:hypothesispytest").ret  # which loads Hypothesis
    loaded = set((project.path / "loaded").read_text().splitlines())
    assert "evictable.ci.pytest_plugin" in loaded
    assert set() == loaded & set(HEAVY)


def test_a_subject_that_conforms(project: pytest.Pytester) -> None:
    done = run(project, "--evictable-subject=factories:Good", CALLS)
    assert 0 == done.ret
    done.assert_outcomes(passed=LAWS_OF_CONTRACT - 1 + 1, skipped=1)  # and the search; the order of `any` is not judged
    done.stdout.fnmatch_lines(["*not exercised in 40? calls (no order is judged under the profile any: *"])


def test_a_subject_that_does_not(project: pytest.Pytester) -> None:
    (project.path / "processes").mkdir()
    named = ("--evictable-subject=factories:Leaking", CALLS, "--evictable-trace-dir=found", "--junitxml=r.xml")
    done = run(project, *named)
    assert 1 == done.ret
    assert 1 == len(list((project.path / "processes").iterdir()))
    failed = {
        case.get("name"): case.find("failure").text
        for case in ElementTree.parse(project.path / "r.xml").iter("testcase")
        if case.find("failure") is not None
    }
    assert {"slots-conserved", "drains"} == set(failed)
    text = failed["drains"]
    assert text.startswith("drains broken by factories:Leaking lru contract: when every transfer has completed, ")
    assert "complete_store([0], request=r1, success=False)" in text
    (command,) = re.findall(r"replay    (evictable .*)", text)
    replayed = [str(SCRIPT), *shlex.split(command)[1:]]
    assert 1 == subprocess.run(replayed, cwd=project.path, capture_output=True, check=False).returncode


def test_one_search_for_each_discipline_also_with_xdist(project: pytest.Pytester) -> None:
    (project.path / "processes").mkdir()
    done = run(
        project,
        *("--evictable-subject=factories:Good", "--evictable-discipline=all", "--evictable-max-calls=2"),
        *("-n2", "--dist=loadscope"),
    )
    assert (3, 3) == (done.parseoutcomes()["failed"], len(list((project.path / "processes").iterdir())))


def test_no_verdict_is_no_pass(project: pytest.Pytester) -> None:
    done = run(project, "--evictable-subject=factories:Exiting", CALLS)
    done.assert_outcomes(failed=1, skipped=LAWS_OF_CONTRACT)
    done.stdout.fnmatch_lines(
        ["no verdict on factories:Exiting lru contract: the process of the subject ended with 0*"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--evictable-subject=nonsense"], "ERROR: unknown subject 'nonsense': a subject is impl, *"),
        (["--evictable-subject=impl", "--evictable-profile=x"], "ERROR: --evictable-profile: unknown profile 'x'*"),
        (["--evictable-subject=impl", "--evictable-max-time=0"], "ERROR: --evictable-max-time: 0.0; give a *"),
        (["--evictable-subject=impl", "--evictable-host=impl"], "ERROR: impl: --host takes in a cache policy class*"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, project: pytest.Pytester) -> None:
    done = run(project, *arguments)
    assert pytest.ExitCode.USAGE_ERROR == done.ret
    done.stderr.fnmatch_lines([message])


@pytest.mark.slow
@pytest.mark.release
def test_a_policy_in_a_published_release(project: pytest.Pytester, release: Callable[[str], Path]) -> None:
    release("0.33.0")
    done = run(project, "--evictable-subject=strangers:LFU", "--evictable-host=vllm==0.33.0", CALLS)
    assert (0, 15) == (done.ret, done.parseoutcomes()["passed"])  # the evictable list of a stranger is not read


CLASSES = """
import factories, strangers
from evictable.ci.conformance import ManagerConformance, PolicyConformance

class TestManager(ManagerConformance):
    def make_manager(self, num_blocks, enable_events):
        return factories.Leaking(num_blocks, enable_events=enable_events)

class TestPolicy(PolicyConformance):
    disciplines = ("contract", "hostile")

    def make_policy(self, cache_capacity):
        return strangers.LFU(cache_capacity)
"""


def test_classes_to_inherit(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=CLASSES)
    done = run(project, CALLS)
    assert 1 == done.ret
    assert 2 == done.parseoutcomes()["failed"]
    text = done.stdout.str()
    assert "slots-conserved broken by test_mine.py::TestManager lru contract: slots of resident blocks and " in text
    (command, *_) = re.findall(r"replay    pytest (.*)", text)
    replayed = run(project, *shlex.split(command))
    replayed.assert_outcomes(failed=1)
    replayed.stdout.fnmatch_lines(["*broken: slots of resident blocks and free slots are disjoint*"])


def test_the_replay_command_is_for_where_pytest_was_called(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of tests are from the root of the project, files are not."""
    (project.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    inner = project.mkdir("inner")
    (inner / "test_mine.py").write_text(CLASSES)
    monkeypatch.chdir(inner)
    done = run(project, CALLS, "test_mine.py::TestManager")
    (command, *_) = re.findall(r"replay    pytest (.*)", done.stdout.str())
    assert command.startswith("test_mine.py::TestManager ")
    run(project, *shlex.split(command)).assert_outcomes(failed=1)


WRONG_SETTINGS = {
    "disciplines = 'contract'": "disciplines: 'contract'; give a tuple of contract, careless, hostile",
    "disciplines = ('contract', 'wild')": "disciplines: ('contract', 'wild'); give a tuple of contract, careless, ",
    "disciplines = ()": "disciplines: (); give a tuple of contract, careless, hostile",
    "disciplines = None": "disciplines: None; give a tuple of contract, careless, hostile",
    "profile = 'lru-evictible'": "profile: unknown profile 'lru-evictible'; known: auto, lru-scan, lru-evictable, ",
    "max_calls = 0": "max_calls: 0; give a whole number above 0",
    "max_calls = float('inf')": "max_calls: inf; give a whole number above 0",
    "max_calls = True": "max_calls: True; give a whole number above 0",
    "max_time = '3'": "max_time: '3'; give a number above 0",
}


def test_a_wrong_setting_of_a_class_is_one_line(project: pytest.Pytester) -> None:
    classes = [f"class TestWrong{at}(TestPolicy):\n    {setting}\n" for at, setting in enumerate(WRONG_SETTINGS)]
    project.makepyfile(test_mine="\n".join((CLASSES, *classes)))
    done = run(project, CALLS, "-k", "Wrong")
    assert pytest.ExitCode.INTERRUPTED == done.ret
    told = [line.partition(".")[2] for line in done.stdout.lines if line.startswith("TestWrong")]
    assert len(WRONG_SETTINGS) == len(told)
    for line, message in zip(told, WRONG_SETTINGS.values(), strict=True):
        assert line.startswith(message)
    done.stdout.no_fnmatch_line("*_caller.py:*")


def test_a_trace_that_conforms_passes(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=CLASSES)
    (project.path / "t.jsonl").write_text(
        '{"evictable_trace": 1, "capacity": 2}\n{"call": "prepare_store", "request": "r", "keys": [1]}\n'
    )
    run(project, "test_mine.py::TestPolicy", "--evictable-replay=t.jsonl").assert_outcomes(passed=1)


LOSSY = """
from evictable.ci.conformance import PolicyConformance
import strangers

class Lossy(strangers.LFU):
    def evict(self, n, protected):
        victims = super().evict(n, protected)
        if victims is None:
            self.clear()
        return victims

class TestLossy(PolicyConformance):
    def make_policy(self, cache_capacity):
        return Lossy(cache_capacity)
"""


def test_a_policy_is_asked_by_itself_for_more_than_it_has(project: pytest.Pytester) -> None:
    """No manager does so: in one, this defect cannot show."""
    project.makepyfile(test_lossy=LOSSY)
    done = run(project, CALLS)
    text = done.stdout.str()
    assert (1, 1) == (done.ret, done.parseoutcomes()["failed"])
    assert "all-or-nothing broken by test_lossy.py::TestLossy lru contract at policy level: " in text
    (command,) = re.findall(r"replay    pytest (.*)", text)
    replayed = run(project, *shlex.split(command))
    replayed.assert_outcomes(failed=1)
    replayed.stdout.fnmatch_lines(["*all-or-nothing broken: a call that answers None or raises has changed nothing"])


@pytest.mark.slow
def test_classes_on_several_workers(project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=CLASSES)
    assert 2 == run(project, CALLS, "-n2").parseoutcomes()["failed"]


def test_a_class_that_says_nothing_of_its_manager(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="from evictable.ci.conformance import ManagerConformance\nclass TestIt(ManagerConformance): pass"
    )
    done = run(project, CALLS)
    done.assert_outcomes(failed=1, skipped=LAWS_OF_CONTRACT)
    done.stdout.fnmatch_lines(["*make_manager(self, num_blocks, enable_events) returns a fresh manager"])
