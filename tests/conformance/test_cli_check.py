"""`evictable check` as a user meets it: verdicts, exit codes, counterexamples, results for programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import Run, on_terminal

FEW = ("--engine", "random", "--max-calls", 300)


def results(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["results"]


# --- verdicts and exit codes ----------------------------------------------------------------------


def test_the_built_in_manager_conforms(evictable: Run) -> None:
    done = evictable("check", "--discipline", "all", *FEW)
    assert 0 == done.returncode
    assert " conforms " in done.stdout


@pytest.mark.parametrize("name", ["Good", "opaque_good"])
def test_a_factory_that_conforms(name: str, evictable: Run) -> None:
    assert 0 == evictable("check", f"factories:{name}", "--discipline", "all", *FEW).returncode


@pytest.mark.parametrize(
    ("name", "law"), [("Sharing", "answer"), ("opaque_sharing", "answer"), ("opaque_forgetful", "no-false-refusal")]
)
def test_a_factory_with_a_defect_is_told(name: str, law: str, evictable: Run) -> None:
    done = evictable("check", f"factories:{name}", *FEW)
    assert 1 == done.returncode
    assert re.search(rf"^broken by factories:{name} lru contract \(calls\): .*\b{law} \(\d+\)", done.stdout, re.M)


def test_without_a_look_inside_the_laws_of_the_inside_are_not_exercised(evictable: Run, folder: Path) -> None:
    evictable("check", "factories:opaque_good", *FEW, "--json", "r.json")
    (result,) = results(folder / "r.json")
    assert {"evictable-iff-idle", "counters-agree", "slots-conserved"} <= set(result["not_exercised"])
    assert not {"answer", "events-once"} & set(result["not_exercised"])


def test_every_subject_gets_its_own_verdict(evictable: Run, folder: Path) -> None:
    done = evictable("check", "factories:Good", "factories:Sharing", "impl", "factories:Good", *FEW, "--json", "r.json")
    assert 1 == done.returncode
    expected = [("factories:Good", "conforms"), ("factories:Sharing", "violates"), ("impl", "conforms")]
    assert expected == [(result["subject"], result["verdict"]) for result in results(folder / "r.json")]


def test_a_subject_that_cannot_be_loaded_does_not_hide_a_defect(evictable: Run) -> None:
    assert 1 == evictable("check", "factories:raising", "factories:Sharing", *FEW).returncode


def test_every_discipline_is_a_row(evictable: Run, folder: Path) -> None:
    evictable("check", "--discipline", "all", *FEW, "--json", "r.json")
    disciplines = [result["discipline"] for result in results(folder / "r.json")]
    assert ["contract", "careless"] == disciplines[:2]


@pytest.mark.release
def test_every_policy_is_a_row(evictable: Run, folder: Path, release: Callable[[str], Path]) -> None:
    release("0.24.0")
    done = evictable("check", "vllm==0.24.0", "--policy", "all", "--capacity", 2, *FEW, "--json", "r.json")
    assert 0 == done.returncode
    assert ["lru", "arc"] == [result["policy"] for result in results(folder / "r.json")]


@pytest.mark.release
def test_a_wrong_profile_is_told_apart(evictable: Run, folder: Path, release: Callable[[str], Path]) -> None:
    release("0.24.0")
    many = ("--engine", "random", "--max-calls", 2000)
    assert 0 == evictable("check", "vllm==0.24.0", *many).returncode
    done = evictable("check", "vllm==0.24.0", "--profile", "lru-scan", *many, "--json", "r.json")
    assert 1 == done.returncode
    (result,) = results(folder / "r.json")
    assert "lru-scan" == result["profile"]
    (violation,) = result["violations"]
    assert "evict-order" == violation["law"]
    assert 8 >= violation["calls"]


def test_a_fixed_capacity_is_the_only_one_tried(evictable: Run) -> None:
    assert 0 == evictable("check", "factories:three_slots", "--capacity", 3, *FEW).returncode


def test_a_defect_is_shown_even_if_no_smaller_cache_can_be_built(evictable: Run) -> None:
    done = evictable("check", "factories:three_slots_sharing", "--capacity", 3, *FEW)
    assert 1 == done.returncode
    assert "  2 calls, capacity 3, profile any; found by " in done.stdout


@pytest.mark.parametrize("engine", ["random", "hypothesis"])
def test_the_engine_that_was_asked_for_is_the_one_that_finds(engine: str, evictable: Run, folder: Path) -> None:
    evictable("check", "factories:Sharing", "--engine", engine, "--max-calls", 300, "--json", "r.json")
    (result,) = results(folder / "r.json")
    assert {engine} == {violation["engine"] for violation in result["violations"]}


def test_a_module_in_the_working_directory_hides_none_of_the_standard_library(evictable: Run, folder: Path) -> None:
    (folder / "json.py").write_text("raise RuntimeError('not this one')")
    assert 0 == evictable("check", *FEW).returncode


# --- results for programs -------------------------------------------------------------------------


def test_json_holds_exactly_these_fields(evictable: Run, folder: Path) -> None:
    evictable("check", "impl", "factories:Sharing", "--seed", 7, *FEW, "--json", "deep/r.json", "--trace-dir", "t")
    content = json.loads((folder / "deep" / "r.json").read_text())
    assert {"evictable", "seed", "results"} == set(content)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", content["evictable"])
    assert 7 == content["seed"]

    good, bad = content["results"]
    kinds = {
        "subject": str,
        "policy": str,
        "profile": str,
        "discipline": str,
        "tiers": int,
        "verdict": str,
        "steps": int,
        "seconds": float,
        "not_exercised": list,
        "violations": list,
    }
    for result in (good, bad):
        assert kinds == {name: type(value) for name, value in result.items()}
        assert 300 <= result["steps"] < 400
    fixed = ("subject", "policy", "profile", "discipline", "tiers", "verdict")
    assert ["impl", "lru", "lru-evictable", "contract", 0, "conforms"] == [good[name] for name in fixed]
    assert ["factories:Sharing", "lru", "any", "contract", 0, "violates"] == [bad[name] for name in fixed]
    assert [] == good["violations"]
    assert ["owner-completes"] == good["not_exercised"]

    (violation,) = bad["violations"]
    seconds = violation["found_after"].pop("seconds")
    steps = violation["found_after"].pop("steps")
    assert {
        "law": "answer",
        "detail": "expected store [0, 1] in slots [0, 1], evicting []; "
        "observed store [0, 1] in slots [0, 0], evicting []",
        "calls": 2,
        "found_after": {},
        "engine": "random",
        "trace": "t/factories-Sharing-lru-contract-answer.jsonl",
    } == violation
    assert 0 < steps <= 300
    assert 0 <= seconds <= bad["seconds"]
    assert 1 + 2 == len((folder / violation["trace"]).read_text().splitlines())


def test_the_same_seed_and_number_of_calls_give_the_same_results(evictable: Run, folder: Path) -> None:
    for name in ("1", "2"):
        # The order of sets of strings must not matter either.
        evictable(
            *("check", "impl", "factories:Sharing", "--discipline", "all", "--seed", 3, "--max-calls", 300),
            *("--json", name, "--trace-dir", f"traces{name}"),
            env={"PYTHONHASHSEED": name},
        )
    first, second = (
        re.sub(r'("seconds": )[\d.e-]+|traces\d', r"\1", (folder / name).read_text()) for name in ("1", "2")
    )
    assert first == second
    traces1, traces2 = (
        {file.name: file.read_text() for file in (folder / name).iterdir()} for name in ("traces1", "traces2")
    )
    assert traces1 == traces2


def test_a_link_and_a_device_stay_what_they_are(evictable: Run, folder: Path) -> None:
    (folder / "link.json").symlink_to("target.json")
    os.mkfifo(folder / "pipe.json")
    reader = os.open(folder / "pipe.json", os.O_RDONLY | os.O_NONBLOCK)
    evictable("check", *FEW, "--json", "link.json")
    evictable("check", *FEW, "--json", "pipe.json")
    assert (folder / "link.json").is_symlink()
    assert ["impl"] == [result["subject"] for result in results(folder / "target.json")]
    assert (folder / "pipe.json").is_fifo()
    assert "impl" == json.loads(os.read(reader, 65536))["results"][0]["subject"]
    os.close(reader)


# --- counterexamples ------------------------------------------------------------------------------


def test_a_counterexample_shows_calls_answers_and_states(evictable: Run) -> None:
    done = evictable("check", "factories:Sharing", *FEW, "--trace-dir", "a b")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    first = lines.index(
        "answer broken by factories:Sharing lru contract: lookups, keys to store, block ids (fresh, not in use, one "
        "each) and evicted keys are what the state says"
    )
    assert re.fullmatch(
        r"  2 calls, capacity 2, profile any; found by random after \d+ calls, \d+\.\d\d s", lines[first + 1]
    )
    assert [
        "#  call                               answer                                     ref_cnt     evictable",
        "1  on_new_request(request=r1)         None                                       -           []",
        "2  prepare_store([0, 1], request=r1)  store [0, 1] in slots [0, 0], evicting []  0:-1  1:-1  []",
        "  expected  store [0, 1] in slots [0, 1], evicting []",
        "  observed  store [0, 1] in slots [0, 0], evicting []",
        "  replay    evictable replay 'a b/factories-Sharing-lru-contract-answer.jsonl' --subject factories:Sharing",
    ] == lines[first + 2 : first + 8]


def test_a_counterexample_is_replayed(evictable: Run) -> None:
    evictable("check", "factories:Sharing", *FEW)
    trace = "traces/factories-Sharing-lru-contract-answer.jsonl"
    for arguments, code in (([], 1), (["--subject", "factories:Sharing"], 1), (["--subject", "impl"], 0)):
        done = evictable("replay", trace, *arguments)
        assert code == done.returncode, arguments
        assert ("answer broken: " in done.stdout) == (code == 1)


# --- logs and terminals ---------------------------------------------------------------------------


def test_a_log_gets_plain_lines(evictable: Run) -> None:
    done = evictable("check", "factories:Sharing", *FEW)
    assert "\x1b" not in done.stdout + done.stderr
    first, *middle, last = done.stderr.splitlines()
    assert "factories:Sharing lru contract: searching" == first
    assert "factories:Sharing lru contract: answer broken, shortest so far: 2 calls" in middle
    assert re.fullmatch(r"factories:Sharing lru contract: violates, 30\d calls in \d+\.\d s", last)


def test_a_terminal_gets_a_live_display(folder: Path) -> None:
    code, shown, printed = on_terminal(folder, "check", "impl", "factories:Sharing", *FEW, both=False)
    assert 1 == code
    assert "calls/s" in shown
    assert "2 done, 0 to go" in shown
    assert "searching" not in shown
    assert "\x1b" not in printed
    assert "broken by factories:Sharing lru contract (calls): answer (2)" in printed


def test_80_columns_are_enough(folder: Path) -> None:
    _, shown, _ = on_terminal(
        folder, "check", "impl", "factories:Sharing", "--engine", "random", "--max-calls", 1500, both=True
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    lines = [line.rstrip() for line in re.split(r"\r?\n|\r", plain)]
    assert [] == [line for line in lines if len(line) > 80 and not line.startswith("  replay ")]
    assert any(re.fullmatch(r"impl +lru +contract +lru-evictable +conforms +1,50\d +[\d,]+", line) for line in lines)
    assert any(re.fullmatch(r"factories:Sharing +lru +contract +any +violates +1,50\d +[\d,]+", line) for line in lines)
    assert "broken by factories:Sharing lru contract (calls): answer (2)" in lines
    assert (
        "  replay    evictable replay traces/factories-Sharing-lru-contract-answer.jsonl --subject factories:Sharing"
        in (lines)
    )


def test_nobody_reads_the_report_to_its_end(evictable: Run, folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = evictable(
        "check",
        "factories:Sharing",
        *FEW,
        "--json",
        "r.json",
        capture_output=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert 1 == done.returncode
    assert "Traceback" not in done.stderr
    assert ["violates"] == [result["verdict"] for result in results(folder / "r.json")]
