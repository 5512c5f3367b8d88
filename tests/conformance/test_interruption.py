"""Ctrl-C: what was found is shown and written, and no process is left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commandline import SCRIPT

Start = Callable[..., subprocess.Popen[str]]
Send = Callable[[subprocess.Popen[str], int], None]


def to_process(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)


def to_group(process: subprocess.Popen[str], number: int) -> None:
    os.killpg(process.pid, number)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start the command in a group of its own; it is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [SCRIPT, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=folder,
            start_new_session=True,
            # A shell may have us ignore it, and we would hand that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def processes(folder: Path) -> Callable[[], list[int]]:
    """The ids of the processes that have imported a subject."""
    (folder / "processes").mkdir()
    return lambda: [int(path.name) for path in (folder / "processes").iterdir()]


@pytest.fixture
def hanging(folder: Path) -> Callable[[], int]:
    """Waits until a subject hangs in a call, and returns the id of its process."""
    os.mkfifo(folder / "hanging")

    def wait() -> int:
        pipe = os.open(folder / "hanging", os.O_RDONLY | os.O_NONBLOCK)
        assert select.select([pipe], [], [], 60)[0], "no subject was called"
        said = os.read(pipe, 100)
        os.close(pipe)
        return int(said)

    return wait


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def until(process: subprocess.Popen[str], text: str) -> None:
    """Read what the command tells until it has told ``text``."""
    assert process.stderr is not None
    assert any(text in line for line in process.stderr), f"never said: {text}"


@pytest.mark.parametrize(
    ("send", "number"), [(to_process, signal.SIGINT), (to_group, signal.SIGINT), (to_process, signal.SIGTERM)]
)
def test_a_check_shows_and_writes_what_was_found(
    send: Send, number: int, start: Start, folder: Path, processes: Callable[[], list[int]]
) -> None:
    process = start("check", "factories:Sharing", "--engine", "random", "--max-time", 600, "--json", "r.json")
    until(process, "answer broken, shortest so far: 2 calls")
    send(process, number)
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "Traceback" not in err
    assert "2  prepare_store([0, 1], request=r1)  " in out
    assert "broken by factories:Sharing lru contract (calls): answer (2)" in out
    assert "interrupted: this is what was found so far" == out.splitlines()[-1]
    (result,) = json.loads((folder / "r.json").read_text())["results"]
    (violation,) = result["violations"]
    assert 3 == len((folder / violation["trace"]).read_text().splitlines())
    (worker,) = processes()
    assert not alive(worker)


def test_a_check_that_has_found_nothing_yet_has_no_verdict(
    start: Start, folder: Path, hanging: Callable[[], int]
) -> None:
    process = start("check", "factories:Hanging", "--max-time", 600, "--json", "r.json")
    worker = hanging()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "interrupted: this is what was found so far" == out.splitlines()[-1]
    assert "inconclusive" == json.loads((folder / "r.json").read_text())["results"][0]["verdict"]
    assert not alive(worker)


@pytest.mark.parametrize("send", [to_process, to_group])
@pytest.mark.parametrize("command", ["replay", "workload"])
def test_a_single_run_ends_with_one_line(
    command: str, send: Send, start: Start, folder: Path, hanging: Callable[[], int]
) -> None:
    (folder / "replay").write_text(
        '{"evictable_trace": 1, "capacity": 2}\n{"call": "prepare_store", "request": "r1", "keys": [0]}\n'
    )
    (folder / "workload").write_text('{"hash_ids": [0, 1]}\n')
    more = ("--capacity", 2) if command == "workload" else ()
    process = start(command, command, "--subject", "factories:Hanging", *more)
    worker = hanging()
    send(process, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "" == out
    assert ["evictable: interrupted"] == [line for line in err.splitlines() if line and "requests" not in line]
    assert not alive(worker)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("schedules", "impl", "--policy", "lru", "--max-time", 600), ": "),
        (("mutants", "--max-calls", 200_000), " of "),
        (("prove",), " of "),
    ],
    ids=lambda arguments: arguments[0] if isinstance(arguments, tuple) else "",
)
def test_a_table_shows_and_writes_the_lines_that_it_has(
    arguments: tuple[object, ...], said: str, start: Start, folder: Path
) -> None:
    process = start(*arguments, "--json", "r.json")
    until(process, said)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert "Traceback" not in err
    assert "interrupted: this is what was found so far" == out.splitlines()[-1]
    assert [] != json.loads((folder / "r.json").read_text())["results"]
