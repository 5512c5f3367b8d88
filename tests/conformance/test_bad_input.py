"""What is wrong with the input, the machine or the subject is one line with a remedy, and an exit code that says so."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commandline import Run

from evictable.ci import jobs
from evictable.ci.cli import cli

FEW = ("--engine", "random", "--max-calls", 200)
HEAD = '{"evictable_trace": 1, "capacity": 1}\n'
CALL = '{"call": "prepare_store", "request": "r1", "keys": [0]}\n'


def error(done: Any, code: int = 2) -> str:
    """The one line that a run said before it ended with ``code``, without its first word."""
    assert code == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    word, _, message = line.partition(": ")
    assert "evictable" == word
    return message


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "vlm"), "unknown subject 'vlm': a subject is impl, "),
        (("check", ""), "unknown subject '': a subject is impl, "),
        (("check", "vllm:/no/such/place"), "/no/such/place: no vllm/v1/kv_offload/cpu/manager.py here; give the root"),
        (("check", "vllm==0.3x"), "vllm==0.3x: not a version; write for example vllm==0.33.0"),
        (("check", "vllm==0.21.0"), "vllm==0.21.0: releases before 0.22.0 cannot be judged; known: 0.22.0 to 0.33.0"),
        (("check", "--profile", "fifo"), "unknown profile 'fifo'; known: auto, lru-scan, "),
        (("check", "--policy", "fifo"), "Invalid value for '--policy': 'fifo' is not one of 'lru', 'arc', 'all'. (try"),
        (("check", "--engine", "luck"), "Invalid value for '--engine': 'luck' is not one of "),
        (("check", "--capacity", "0"), "Invalid value for '--capacity': 0 is not in the range x>=1. (try --help)"),
        (("check", "--capacity", "-3"), "Invalid value for '--capacity': -3 is not in the range x>=1. (try --help)"),
        (("check", "--capacity", "many"), "Invalid value for '--capacity': 'many' is not a valid integer range."),
        (("check", "--max-calls", "0"), "Invalid value for '--max-calls': 0 is not in the range x>=1. (try --help)"),
        (("check", "--max-time", "0"), "Invalid value for '--max-time': 0.0 is not in the range x>0. (try --help)"),
        (("check", "--max-time", "-1"), "Invalid value for '--max-time': -1.0 is not in the range x>0. (try --help)"),
        (("check", "--seed", "-1"), "Invalid value for '--seed': -1 is not in the range x>=0. (try --help)"),
        (("chekc",), "No such command 'chekc'."),
        (("replay",), "Missing argument 'TRACE'. (try --help)"),
        (("workload", "file"), "Missing option '--capacity'. (try --help)"),
    ],
)
def test_arguments(arguments: tuple[str, ...], message: str, at_once: Run) -> None:
    assert error(at_once(*arguments)).startswith(message)


def test_an_installed_vllm_that_is_none(at_once: Run) -> None:
    assert "vllm is not installed here; use vllm==0.33.0 to judge a published release" == error(
        at_once("check", "vllm")
    )


@pytest.mark.release
def test_a_release_that_does_not_exist(evictable: Run, folder: Path, release: Callable[[str], Path]) -> None:
    release("0.33.0")
    done = evictable("check", "vllm==0.22.99", env={"EVICTABLE_CACHE": str(folder / "cache")})
    assert 2 == done.returncode
    last = done.stderr.splitlines()[-1]
    assert "evictable: vllm==0.22.99: no such release on the package index; known: 0.22.0 to 0.33.0" == last


@pytest.mark.parametrize("setting", ["PIP_INDEX_URL", "PIP_PROXY"])
def test_without_a_network(setting: str, evictable: Run, folder: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        settings = {"PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0", "EVICTABLE_CACHE": str(folder / "cache")}
        done = evictable("check", "vllm==0.24.0", env={**settings, setting: address})
    assert 2 == done.returncode
    waits, problem = done.stderr.splitlines()
    assert "fetching vllm==0.24.0 (a wheel of about 300 MB, once) ..." == waits
    assert (
        "evictable: vllm==0.24.0: the package index does not answer; check the network and pip's settings, or use "
        "vllm:PATH (a checkout)"
    ) == problem


# --- factories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_module:make",
            "importing no_such_module raised ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("broken:make", "importing broken raised SyntaxError: "),
        ("factories:Godo", "factories has no Godo; name a manager factory that it defines"),
        ("factories:NUMBER", "NUMBER cannot be called; name a manager class or a function that returns one"),
        ("factories:raising", "raising(num_blocks=3) raised RuntimeError: no device is attached"),
        ("factories:without_size", "a manager factory takes num_blocks (or num_chunks), and "),
        ("factories:with_device", "with_device(num_blocks=3) raised TypeError: with_device() missing 1 required "),
        ("factories:nothing", "what it returns (NoneType) has no method lookup, prepare_store, complete_store, "),
        (
            "factories:Untouchable",
            "what it returns (Untouchable) has no method touch; a subject has the methods of vLLM's OffloadingManager",
        ),
    ],
)
def test_a_factory_that_cannot_be_used(name: str, message: str, evictable: Run, folder: Path) -> None:
    (folder / "broken.py").write_text("def make(:\n")
    problem = error(evictable("check", name, "--discipline", "all", *FEW))
    assert problem.removeprefix(f"{name}: ").startswith(message)


@pytest.mark.parametrize(
    ("options", "argument"), [(("--policy", "arc"), "cache_policy"), (("--store-threshold", 2), "store_threshold")]
)
def test_a_factory_that_does_not_take_what_is_wanted(
    options: tuple[object, ...], argument: str, evictable: Run
) -> None:
    problem = error(evictable("check", "factories:three_slots", "--capacity", 3, *options, *FEW))
    assert (
        f"factories:three_slots: takes no {argument}; leave out {options[0]}, or give the factory the argument"
    ) == problem


# --- traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", 'line 1: the trace is empty; its first line is {"evictable_trace": 1, "capacity": ...}'),
        ("\n\n", 'line 2: the trace is empty; its first line is {"evictable_trace": 1, "capacity": ...}'),
        (HEAD, "holds no call; a trace has a head line and one line for each call"),
        ("lookup\n", "line 1: not a JSON object ("),
        ("[1]\n", "line 1: not a JSON object"),
        ("{}\n", 'line 1: this is not a trace, whose first line is {"evictable_trace": 1, "capacity": ...}'),
        ('{"evictable_trace": 2}\n', "line 1: trace version 2; this release reads version 1: upgrade evictable"),
        ('{"evictable_trace": 1}\n', 'line 1: "capacity" is missing'),
        ('{"evictable_trace": 1, "capacity": 0}\n', 'line 1: "capacity" is 0; a cache has at least 1 slot'),
        (HEAD + "\n" + CALL + CALL[:20] + "\n", "line 4: not a JSON object ("),
        (HEAD + '{"call": "evict"}\n', 'line 2: unknown call "evict"; known: on_new_request, lookup, '),
        (HEAD + CALL + '{"call": "touch", "keys": [0]}\n', 'line 3: touch needs a "request"'),
        (HEAD + '{"call": "touch", "request": "r", "keys": [-1]}\n', "line 2: key -1: keys are integers from 0 to "),
        (
            HEAD + '{"call": "touch", "request": "r", "keys": ["0g"]}\n',
            "line 2: key '0g': keys are integers from 0 to ",
        ),
        (HEAD + CALL, "line 2: prepare_store has no recorded answer; replay the calls on a subject with --subject"),
        (b"\x7fELF\x02\x01\x00\xff\xfe", "not a text file; a trace is JSON lines in UTF-8"),
    ],
)
def test_a_trace(content: str | bytes, message: str, at_once: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert error(at_once("replay", "t.jsonl")).startswith(f"t.jsonl: {message}")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.jsonl", "No such file or directory"),
        (".", "Is a directory"),
        ("factories.py/t.jsonl", "Not a directory"),
        ("/proc/self/mem", "Input/output error"),
    ],
)
def test_a_file_that_cannot_be_read(path: str, reason: str, at_once: Run) -> None:
    assert f"{path}: cannot be read ({reason}); give a trace file" == error(at_once("replay", path))
    remedy = "give a request trace in the Mooncake format"
    assert f"{path}: cannot be read ({reason}); {remedy}" == error(at_once("workload", path, "--capacity", 1))


@pytest.mark.parametrize("arguments", [("--profile", "fifo"), ("--subject", "impl", "--profile", "fifo")])
def test_a_profile_that_nobody_knows(arguments: tuple[str, ...], evictable: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text(HEAD + CALL)
    assert error(evictable("replay", "t.jsonl", *arguments)).startswith("unknown profile 'fifo'; known: auto, lru-scan")


def test_a_recorded_profile_that_nobody_knows(at_once: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text(HEAD.replace("}", ', "profile": "fifo"}') + CALL)
    message = "t.jsonl: unknown profile 'fifo'; name one with --profile: lru-scan, "
    assert error(at_once("replay", "t.jsonl")).startswith(message)


# --- places to write to ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("factories.py/r.json", "Not a directory"),
        (".", "Is a directory"),
        ("/dev/full", "No space left on device"),
        ("/proc/r.json", "No such file or directory"),
    ],
)
def test_results_that_cannot_be_written_are_printed_all_the_same(place: str, reason: str, evictable: Run) -> None:
    done = evictable("check", *FEW, "--json", place)
    assert 2 == done.returncode
    assert " conforms " in done.stdout
    last = done.stderr.splitlines()[-1]
    assert f"evictable: {place}: cannot be written ({reason}); name a folder with space to write in" == last


UNMEASURED = {"COVERAGE_PROCESS_START": ""}
"""Coverage would leave its data file cut short."""


def no_file_may_grow() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_on_a_full_disk_a_broken_law_is_shown_and_no_half_file_left(evictable: Run, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = evictable(
        "check", "factories:Sharing", *FEW, "--json", "r.json", env=UNMEASURED, preexec_fn=no_file_may_grow
    )
    assert 1 == done.returncode
    assert "2  prepare_store([0, 1], request=r1)  " in done.stdout
    assert "evictable replay" not in done.stdout
    trace = "traces/factories-Sharing-lru-contract-answer.jsonl"
    assert [
        f"evictable: {path}: cannot be written (File too large); name a folder with space to write in"
        for path in (trace, "r.json")
    ] == done.stderr.splitlines()[-2:]
    left = [path for path in folder.rglob("*") if path.is_file() and path not in before]
    assert [] == [path for path in left if "__pycache__" not in path.parts]


def test_a_folder_for_traces_that_is_none(evictable: Run) -> None:
    done = evictable("check", "factories:Sharing", *FEW, "--trace-dir", "factories.py")
    assert 1 == done.returncode
    assert "2  prepare_store([0, 1], request=r1)  " in done.stdout
    path = "factories.py/factories-Sharing-lru-contract-answer.jsonl"
    last = done.stderr.splitlines()[-1]
    assert f"evictable: {path}: cannot be written (Not a directory); name a folder with space to write in" == last


def test_a_full_disk_keeps_the_old_results(evictable: Run, folder: Path) -> None:
    (folder / "r.json").write_text("old")
    assert 2 == evictable("check", *FEW, "--json", "r.json", env=UNMEASURED, preexec_fn=no_file_may_grow).returncode
    assert "old" == (folder / "r.json").read_text()


def test_a_workload_that_breaks_a_law_says_so_even_if_it_cannot_be_written(evictable: Run, folder: Path) -> None:
    (folder / "w.jsonl").write_text('{"hash_ids": [0, 1]}\n')
    run = partial(evictable, "workload", "w.jsonl", "--capacity", 2, "--json", "factories.py/r.json")
    assert 1 == run("--subject", "factories:Sharing").returncode
    done = run()
    assert 2 == done.returncode
    assert ": conforms\n" in done.stdout


def test_standard_output_that_is_full(evictable: Run, folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = evictable("check", *FEW, "--json", "r.json", capture_output=False, stdout=full, stderr=-1)
    assert 2 == done.returncode
    last = done.stderr.splitlines()[-1]
    assert "evictable: the output cannot be written (No space left on device); give it another place" == last
    assert "conforms" == json.loads((folder / "r.json").read_text())["results"][0]["verdict"]


# --- subjects that misbehave ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Exiting", "the process of the subject ended with 0: it said nothing"),
        ("Leaving", "the process of the subject ended with 1: enough"),
        ("Killed", "the process of the subject was ended by signal 9 (Killed): it said nothing"),
    ],
)
def test_a_subject_whose_process_dies(name: str, problem: str, evictable: Run, folder: Path) -> None:
    done = evictable("check", f"factories:{name}", "impl", *FEW, "--json", "r.json")
    assert 3 == done.returncode
    assert f"no verdict on factories:{name} lru contract: {problem}" in done.stdout.splitlines()
    dead, other = json.loads((folder / "r.json").read_text())["results"]
    assert ("inconclusive", problem) == (dead["verdict"], dead["problem"])
    assert ("conforms", None) == (other["verdict"], other.get("problem"))


@pytest.mark.parametrize("command", ["replay", "workload"])
def test_a_subject_whose_process_dies_in_a_single_run(command: str, evictable: Run, folder: Path) -> None:
    (folder / "replay").write_text(HEAD + CALL)
    (folder / "workload").write_text('{"hash_ids": [0, 1]}\n')
    more = ("--capacity", 2) if command == "workload" else ()
    done = evictable(command, command, "--subject", "factories:Exiting", *more)
    assert 3 == done.returncode
    last = done.stderr.splitlines()[-1]
    assert "evictable: the process of the subject ended with 0: it said nothing" == last


def test_a_subject_that_prints_is_judged_by_what_it_answers(evictable: Run) -> None:
    done = evictable("check", "factories:Printing", *FEW)
    assert 0 == done.returncode
    assert "finding" not in done.stdout
    assert "error stream" not in done.stderr


def test_a_subject_that_hangs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(jobs, "SILENCE", 3.0)
    arguments = ["check", "factories:Hanging", "impl", *map(str, FEW)]
    assert 3 == cli.main(arguments, standalone_mode=False)
    shown = capsys.readouterr().out
    assert "no verdict on factories:Hanging lru contract: the subject gave no sign of life and was ended" in shown
    assert 1 == shown.count(" conforms ")


def test_what_is_no_utf_8_hides_no_verdict(evictable: Run, folder: Path) -> None:
    files = ("--junitxml", "r.xml", "--html", "r.html", "--summary", "r.md", "--json", "r.json")
    run = evictable("check", "factories:Mumbling", *FEW, *files)
    assert (1, True) == (run.returncode, r"half \ud800 a pair\n::error::and \x1b[31m more" in run.stdout)
    assert [] == [line for line in run.stdout.splitlines() if line.startswith("::") or "\x1b" in line]
    assert [True] * 4 == ["half " in (folder / name).read_text() for name in files[1::2]]
