"""Jobs and their processes. The worker is a fake: a few lines of Python that may misbehave."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evictable.ci import jobs
from evictable.ci.jobs import Inconclusive, run_job, run_jobs
from evictable.specs.errors import UsageError

Record = Mapping[str, Any]
Records = list[tuple[int, Record]]

HEAD = """
import json, os, signal, sys, threading

def say(kind, **more):
    print(json.dumps({"kind": kind, **more}), flush=True)

def hang():
    threading.Event().wait()
"""
JOB = "job = json.load(sys.stdin)\n"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a worker of a script, to which `say`, `hang` and the `job` are known."""

    def make(script: str, *, reads: bool = True) -> None:
        monkeypatch.setattr(jobs, "WORKER", (sys.executable, "-c", HEAD + (JOB if reads else "") + script))

    return make


def run(*payloads: Record, **options: Any) -> Records:
    records: Records = []
    run_jobs(payloads, lambda index, record: records.append((index, record)), **options)
    return records


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def crash(records: Records) -> str:
    """What the last record says, of a crash."""
    _, last = records[-1]
    assert "crash" == last["kind"]
    return last["message"]


def test_records_come_with_the_index_of_their_job(worker: Callable[..., None]) -> None:
    worker('say("progress"); say("result", name=job["name"])')
    assert [
        (0, {"kind": "start"}),
        (0, {"kind": "progress"}),
        (0, {"kind": "result", "name": "a"}),
        (1, {"kind": "start"}),
        (1, {"kind": "progress"}),
        (1, {"kind": "result", "name": "b"}),
    ] == run({"name": "a"}, {"name": "b"}, parallel=1)


def test_several_run_at_the_same_time(worker: Callable[..., None], tmp_path: Path) -> None:
    worker('for pipe, mode in job["steps"]: open(pipe, mode).close()\nsay("result")')
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    os.mkfifo(there)
    os.mkfifo(back)
    # Each waits for the other to open the same pipe.
    records = run({"steps": [(there, "w"), (back, "r")]}, {"steps": [(there, "r"), (back, "w")]}, parallel=2)
    assert [0, 1] == sorted(index for index, record in records if record["kind"] == "result")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("os._exit(0)", "the process of the subject ended with 0: it said nothing"),
        ("sys.exit('no memory')", "the process of the subject ended with 1: no memory"),
        ("raise MemoryError('all\\ngone')", "the process of the subject ended with 1: gone"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "the process of the subject was ended by signal 9 (Killed): it said nothing",
        ),
        (
            'os.write(1, b\'{"kind": "res\'); os._exit(3)',
            "the process of the subject ended with 3: it said nothing",
        ),
    ],
)
def test_a_process_that_dies_is_a_crash(script: str, message: str, worker: Callable[..., None]) -> None:
    worker(script)
    assert message == crash(run({}))


def test_a_death_after_the_result_is_none(worker: Callable[..., None]) -> None:
    worker('say("result"); os._exit(1)')
    assert [(0, {"kind": "start"}), (0, {"kind": "result"})] == run({})


def test_a_process_that_does_not_read_its_job_is_a_crash(worker: Callable[..., None]) -> None:
    worker("sys.exit('no such module')", reads=False)
    assert "the process of the subject ended with 1: no such module" == crash(run({"filling": "x" * 10**6}))


def test_a_silent_process_is_ended_and_the_others_go_on(worker: Callable[..., None]) -> None:
    worker('say("progress", process=os.getpid()); say("result") if job["good"] else hang()')
    records = run({"good": False}, {"good": True}, parallel=1, silence=2.0)
    assert ["start", "progress", "crash", "start", "progress", "result"] == [record["kind"] for _, record in records]
    assert "the subject gave no sign of life and was ended" == records[2][1]["message"]
    assert gone(records[1][1]["process"])


def test_a_process_that_leaves_a_child_behind_holds_nobody_up(worker: Callable[..., None]) -> None:
    # The child keeps the output open, so that its end never comes.
    worker('child = os.fork() or hang(); say("result", child=child)')
    (_, result) = run({}, silence=1.0)
    assert "result" == result[1]["kind"]
    os.kill(result[1]["child"], signal.SIGKILL)


def test_how_a_process_ended_is_told_though_a_child_of_it_goes_on(
    worker: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "HEARD", 0.3)
    worker('child = os.fork() or hang(); say("progress", child=child); os._exit(3)')
    records = run({}, silence=20.0)
    os.kill(records[1][1]["child"], signal.SIGKILL)
    assert crash(records[2:]).startswith("the process of the subject ended with 3")


def test_an_interruption_leaves_no_process_behind(worker: Callable[..., None]) -> None:
    worker('say("progress", process=os.getpid()); hang()')
    processes = []

    def on_record(index: int, record: Record) -> None:
        if record["kind"] == "progress":
            processes.append(record["process"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([{}, {}], on_record, parallel=2)
    assert [True] == [gone(process) for process in processes]


def test_one_job_returns_its_result_and_reports_progress(worker: Callable[..., None]) -> None:
    worker('say("progress", calls=3); say("result", rate=0.5)')
    progress: list[Record] = []
    assert {"kind": "result", "rate": 0.5} == run_job({}, progress.append)
    assert [{"kind": "progress", "calls": 3}] == progress


@pytest.mark.parametrize(
    ("script", "error"),
    [('say("error", message="no such file")', UsageError), ("sys.exit('no such file')", Inconclusive)],
)
def test_one_job_raises_what_went_wrong(script: str, error: type[Exception], worker: Callable[..., None]) -> None:
    worker(script)
    with pytest.raises(error, match="no such file"):
        run_job({})


def test_what_no_law_explains_is_told_with_the_calls_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    without_laws = "import sys; from evictable.specs import judge, worker; judge.LAWS = (); sys.exit(worker.main())"
    monkeypatch.setattr(jobs, "WORKER", (sys.executable, "-c", without_laws))
    head = '{"evictable_trace": 1, "capacity": 2}'
    called = (
        '{"call": "prepare_store", "request": "r1", "keys": [0, 1]}',
        '{"call": "lookup", "request": "r1", "keys": [0]}',
    )
    payload = {"job": "replay", "subject": "mutant:hit-while-pending", "profile": "auto", "traces": [[head, *called]]}
    _, last = run(payload)[-1]
    assert "unexplained" == last["kind"]
    assert last["message"].startswith("call 2: no law says what is wrong, report this to evictable: lookup(0")
    assert ["prepare_store", "lookup"] == [json.loads(line)["call"] for line in last["trace"][1:]]
    with pytest.raises(Inconclusive, match="no law says what is wrong"):
        run_job(payload)
