"""`evictable check` as a user meets it: verdicts, exit codes, counterexamples, results for programs."""

from __future__ import annotations

import json
import os
import re
import shlex
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


def test_of_too_little_no_verdict_is_made(evictable: Run, folder: Path) -> None:
    done = evictable("check", "impl", "--max-calls", 1, "--json", "r.json")
    assert 3 == done.returncode
    rows = "begin store, commit store, pin an idle block, unpin for the last time, evict"
    problem = f"too little was tried (pinned-stays, progress, {rows} not exercised): search longer"
    assert f"no verdict on impl lru contract: {problem}" in done.stdout.splitlines()
    assert "1 inconclusive" == done.stdout.splitlines()[-1]
    (result,) = results(folder / "r.json")
    assert ("inconclusive", problem) == (result["verdict"], result["problem"])


@pytest.mark.parametrize(("discipline", "calls"), [("contract", 300), ("careless", 1000)])
def test_a_factory_without_events_conforms_and_is_not_asked_for_any(
    discipline: str, calls: int, evictable: Run, folder: Path
) -> None:
    few = ("--discipline", discipline, "--max-calls", calls, "--json", "r.json")
    assert 0 == evictable("check", "factories:Quiet", *few).returncode
    (result,) = results(folder / "r.json")
    assert {"events-replay", "events-once"} == {law for law in result["not_exercised"] if law.startswith("events")}


def test_a_fixed_capacity_is_the_only_one_tried(evictable: Run) -> None:
    assert 0 == evictable("check", "factories:three_slots", "--capacity", 3, *FEW).returncode


def test_a_defect_is_shown_even_if_no_smaller_cache_can_be_built(evictable: Run) -> None:
    done = evictable("check", "factories:three_slots_sharing", "--capacity", 3, *FEW)
    assert 1 == done.returncode
    assert "  2 calls, capacity 3, profile any, events off; found by " in done.stdout


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
        "exercise": dict,
    }
    for result in (good, bad):
        assert kinds == {name: type(value) for name, value in result.items()}
        assert 300 <= result["steps"] < 400
    fixed = ("subject", "policy", "profile", "discipline", "tiers", "verdict")
    assert ["impl", "lru", "lru-evictable", "contract", 0, "conforms"] == [good[name] for name in fixed]
    assert ["factories:Sharing", "lru", "any", "contract", 0, "violates"] == [bad[name] for name in fixed]
    assert [] == good["violations"]
    assert [] == good["not_exercised"]

    (violation,) = bad["violations"]
    seconds = violation["found_after"].pop("seconds")
    steps = violation["found_after"].pop("steps")
    assert {
        "law": "answer",
        "sentence": "lookups, keys to store, block ids (fresh, not in use, one each) and evicted keys are what the "
        "state says",
        "expected": "store [0, 1] in slots [0, 1], evicting []",
        "observed": "store [0, 1] in slots [0, 0], evicting []",
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


def test_the_command_to_replay_names_the_profile_that_was_asked_for(evictable: Run) -> None:
    done = evictable("check", "impl", "--profile", "lru-scan", "--engine", "random", "--max-calls", 2000)
    (line,) = re.findall(r"^  replay    evictable (.*)$", done.stdout, re.M)
    command = shlex.split(line)
    path = "traces/impl-lru-contract-evict-order.jsonl"
    assert ["replay", path, "--subject", "impl", "--profile", "lru-scan"] == command
    again = evictable(*command)
    assert 1 == again.returncode
    assert "evict-order broken: " in again.stdout
    assert 0 == evictable(*command[:-2]).returncode


def test_calls_that_break_several_laws_are_shown_once(evictable: Run, folder: Path) -> None:
    lines = [line.rstrip() for line in evictable("check", "factories:Leaking", *FEW).stdout.splitlines()]
    assert [
        "drains broken by factories:Leaking lru contract: when every transfer has completed, every resident block is "
        "evictable and no slot is lost",
        "slots-conserved broken by factories:Leaking lru contract: slots of resident blocks and free slots are "
        "disjoint, without repeats, and together are all slots handed out so far",
    ] == lines[1:3]
    assert [
        "#  call                                            answer                               ref_cnt  evictable",
        "1  on_new_request(request=r1)                      None                                 -        []",
        "2  prepare_store([0], request=r1)                  store [0] in slots [0], evicting []  0:-1     []",
        "3  complete_store([0], request=r1, success=False)  None                                 -        []",
        "  expected  drains: no slot lost",
        "  observed  drains: 1 slots neither taken nor free",
        "  expected  slots-conserved: slots [0] each taken or free, once",
        "  observed  slots-conserved: taken [], free []",
        "  replay    evictable replay traces/factories-Leaking-lru-contract-drains.jsonl --subject factories:Leaking",
        "",
    ] == lines[4:14]
    assert 1 == sum(line.startswith("#") for line in lines)
    # Programs get each law with a trace of its own.
    traces = {path.name: path.read_text().splitlines() for path in (folder / "traces").iterdir()}
    assert {f"factories-Leaking-lru-contract-{law}.jsonl" for law in ("drains", "slots-conserved")} == set(traces)
    first, second = traces.values()
    assert first[1:] == second[1:]


@pytest.mark.parametrize(
    ("arguments", "built"),
    [
        (("factories:Sharing",), "2 calls, capacity 2, profile any"),
        (("factories:QuietSharing",), "2 calls, capacity 2, profile any, events off"),
        (
            ("factories:Sharing", "--store-threshold", 2, "--max-tracker-size", 5),
            "3 calls, capacity 2, profile any, store threshold 2 with a tracker of 2",
        ),
    ],
)
def test_a_counterexample_tells_how_its_subject_was_built(
    arguments: tuple[object, ...], built: str, evictable: Run
) -> None:
    done = evictable("check", *arguments, "--engine", "random", "--max-calls", 1000)
    assert [built] == re.findall(r"^  (.*); found by random after .*$", done.stdout, re.M)


def test_states_are_the_model_s_where_the_subject_shows_none(evictable: Run) -> None:
    done = evictable("check", "factories:opaque_sharing", *FEW)
    path = "traces/factories-opaque_sharing-lru-contract-answer.jsonl"
    heading = r"^#  call +answer +ref_cnt \(of the model\) +evictable \(of the model\) *$"
    assert re.search(heading, done.stdout, re.M)
    assert re.search(heading, evictable("replay", path).stdout, re.M)
    assert "of the model" not in evictable("replay", path, "--subject", "factories:Sharing").stdout


# --- below the table ------------------------------------------------------------------------------


def test_what_is_not_judged_is_told(evictable: Run) -> None:
    subjects = ("factories:opaque_good", "factories:Good", "impl")
    *lines, last = evictable("check", *subjects, "--discipline", "all", *FEW).stdout.splitlines()
    nothing = "factories:opaque_good: nothing that it calls can be made to raise: a manager keeps its policy in _policy"
    assert [f"left out: factories:opaque_good lru hostile: {nothing}"] == [
        line.partition(" and its events")[0] for line in lines if line.startswith("left out")
    ]
    assert [
        "factories:opaque_good is judged by its answers only: its inside is not built like vLLM's",
        *(
            f"the order of factories:{name} lru {discipline} is not judged: name its profile with --profile"
            for name in ("opaque_good", "Good")
            for discipline in ("contract", "careless", "hostile")
            if (name, discipline) != ("opaque_good", "hostile")
        ),
    ] == lines[-6:]
    assert "8 conform" == last


def test_what_a_raise_broke_is_told_where_it_shows_in_a_later_call(evictable: Run) -> None:
    done = evictable("check", "factories:opaque_leaking", "--discipline", "hostile", *FEW)
    assert re.search(r"^prepare_store +policy\.\w+ .*no-false-refusal \(\d\)", done.stdout, re.M)
    assert "what a raise broke shows in a later call: of each law one place is named" in done.stdout


def test_with_a_profile_the_order_is_judged(evictable: Run) -> None:
    done = evictable("check", "factories:Good", "--profile", "lru-evictable", *FEW)
    assert 0 == done.returncode
    assert "not judged" not in done.stdout


def test_the_last_line_is_the_sum(evictable: Run) -> None:
    subjects = ("factories:Good", "factories:Sharing", "factories:Leaving", "impl")
    done = evictable("check", *subjects, *FEW)
    assert "2 conform, 1 violate, 1 inconclusive" == done.stdout.splitlines()[-1]


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
