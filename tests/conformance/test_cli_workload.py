"""`evictable workload` as a user meets it: a request trace in the Mooncake format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commandline import Run, on_terminal

REQUESTS = ([0, 1], [0, 1], [0, 2], [3, 4, 5])

# What two slots make of it, worked out by hand.
# Without delay: 0 and 1 are stored (5 calls), both loaded (7), 0 loaded while 2 takes the slot of 1 (9); of 3, 4 and
# 5 only what the cache can hold is offered, and takes the slots of 0 and 2 (5).
AT_ONCE = {"calls": 5 + 7 + 9 + 5, "hit_rate": 3 / 9, "stored": 5, "evicted": 3, "refusals": 0}
# With completions one request late: when the second request asks for 0, it is still being stored, so that nothing is
# read (4 calls and 5); the third is as before (7); the fourth is refused, for 0 is being read and 2 stored (6).
ONE_LATE = {"calls": 4 + 5 + 7 + 6, "hit_rate": 1 / 9, "stored": 3, "evicted": 1, "refusals": 1}


@pytest.fixture
def workload(folder: Path) -> Path:
    lines = [json.dumps({"timestamp": at, "input_length": 9, "hash_ids": keys}) for at, keys in enumerate(REQUESTS)]
    path = folder / "w.jsonl"
    path.write_text("\n\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("delay", "figures"), [(0, AT_ONCE), (1, ONE_LATE)])
@pytest.mark.parametrize(("more", "verdict"), [((), "conforms"), (("--bare",), "not judged")])
def test_figures(
    delay: int,
    figures: dict[str, float],
    more: tuple[str, ...],
    verdict: str,
    evictable: Run,
    workload: Path,
    folder: Path,
) -> None:
    done = evictable("workload", workload, "--capacity", 2, "--delay", delay, *more, "--json", "r.json")
    assert 0 == done.returncode
    assert (
        f"hit rate {figures['hit_rate']:.4f}, stored {figures['stored']}, evicted {figures['evicted']}, "
        f"refusals {figures['refusals']}: {verdict}"
    ) == done.stdout.splitlines()[-1]
    assert "impl: 4 requests, capacity 2\n" == done.stderr
    content = json.loads((folder / "r.json").read_text())
    assert ["results"] == list(content)
    (row,) = content["results"]
    for name in ("seconds", "cpu_seconds", "calls_per_second"):
        assert 0 <= row.pop(name)
    assert {
        "subject": "impl",
        "policy": "lru",
        "profile": "lru-evictable",
        "capacity": 2,
        "requests": 4,
        **figures,
        "verdict": verdict,
        "broken": [],
        "broken_at": None,
    } == row


def test_a_factory_with_a_defect_is_told(evictable: Run, workload: Path, folder: Path) -> None:
    done = evictable("workload", workload, "--subject", "factories:Sharing", "--capacity", 2, "--json", "r.json")
    assert 1 == done.returncode
    lines = done.stdout.splitlines()
    assert lines[1].endswith(": violates")
    assert [
        "at call 3: prepare_store([0, 1], request=r1)",
        "answer broken: lookups, keys to store, block ids (fresh, not in use, one each) and evicted keys are what the "
        "state says",
        "  expected  store [0, 1] in slots [0, 1], evicting []",
        "  observed  store [0, 1] in slots [0, 0], evicting []",
        "  record    evictable workload w.jsonl --subject factories:Sharing --capacity 2 --policy lru --delay 8 "
        "--record recorded.jsonl",
        "  shrink    evictable shrink recorded.jsonl -o short.jsonl",
    ] == [line.replace(str(workload), "w.jsonl") for line in lines[2:]]
    (row,) = json.loads((folder / "r.json").read_text())["results"]
    assert ("violates", 3, ["answer"]) == (row["verdict"], row["calls"], [broken["law"] for broken in row["broken"]])


def test_bare_finds_nothing(evictable: Run, workload: Path) -> None:
    arguments = ("--subject", "factories:Sharing", "--capacity", 2, "--bare")
    assert 0 == evictable("workload", workload, *arguments).returncode


@pytest.mark.parametrize(
    "line",
    [
        "timestamp",
        "[1]",
        "{}",
        '{"hash_ids": 3}',
        '{"hash_ids": [-1]}',
        '{"hash_ids": [true]}',
        '{"hash_ids": [1.0]}',
        f'{{"hash_ids": [{2**64}]}}',
    ],
)
def test_a_line_that_is_no_request(line: str, evictable: Run, workload: Path) -> None:
    workload.write_text('{"hash_ids": [0]}\n\n' + line + "\n")
    done = evictable("workload", "w.jsonl", "--capacity", 2)
    assert 2 == done.returncode
    assert "" == done.stdout
    assert (
        "evictable: w.jsonl:3: not a request of the Mooncake format; expected "
        '{"timestamp": ..., "hash_ids": [0, 1, ...]}'
    ) == done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "w.jsonl: holds no request; give a request trace in the Mooncake format"),
        (b"\x7fELF\xff\xfe\n", "w.jsonl: cannot be read ('utf-8' codec can't decode byte 0xff in position 4: "),
    ],
)
def test_a_file_without_requests(content: bytes, message: str, evictable: Run, workload: Path) -> None:
    workload.write_bytes(content)
    done = evictable("workload", "w.jsonl", "--capacity", 2)
    assert 2 == done.returncode
    assert done.stderr.splitlines()[-1].startswith(f"evictable: {message}")


def test_a_terminal_gets_a_bar(workload: Path, folder: Path) -> None:
    code, shown, printed = on_terminal(folder, "workload", workload, "--capacity", 2, both=False)
    assert 0 == code
    assert re.search(r"\d/4.*requests, [\d,]+ calls", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown))
    assert "\x1b" not in printed


def test_a_subject_without_events_is_not_asked_for_any(evictable: Run, folder: Path) -> None:
    # A consumer takes the events after every 16 requests.
    (folder / "w.jsonl").write_text("".join(json.dumps({"hash_ids": [key]}) + "\n" for key in range(20)))
    run = ("workload", "w.jsonl", "--capacity", 2, "--delay", 0)
    calls = 20 * 5
    for subject, made in (("impl", calls + 1), ("factories:Quiet", calls)):
        done = evictable(*run, "--subject", subject)
        assert 0 == done.returncode
        assert f" 20 requests, {made} calls in " in done.stdout
