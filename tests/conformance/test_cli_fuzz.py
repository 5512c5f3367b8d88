"""`evictable fuzz`: campaigns that find, that can be killed, and that no subject can end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from commandline import SCRIPT, Run

from evictable.ci.fuzz import Campaign, Options
from evictable.ci.fuzz_report import serve_metrics
from evictable.specs.campaign.journal import locked
from evictable.specs.campaign.places import MANAGER, places_of
from evictable.specs.campaign.planner import Tally
from evictable.specs.errors import UsageError

ONE_PLACE = (
    *("--policy", "lru", "--discipline", "contract", "--tiers", 0, "--store-threshold", 1, "--level", "manager"),
    *("--unit-calls", 700),
)


def summary(folder: Path, name: str = "campaign") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / name / "summary.json").read_text())
    return read


def found(folder: Path, name: str) -> list[tuple[Any, ...]]:
    """What was found and by which unit, without what depends on the folder."""
    findings = summary(folder, name)["findings"]
    return [(one["subject"], one["shape"], one["calls"], one["times"], one["found_by"]) for one in findings]


def test_a_defect_is_found_shrunk_and_can_be_replayed(evictable: Run, folder: Path) -> None:
    run = evictable("fuzz", "factories:Sharing", *ONE_PLACE, "--max-units", 2, "--json", "r.json")
    assert 1 == run.returncode
    report = summary(folder)
    assert report == json.loads((folder / "r.json").read_text())
    shapes = {one["shape"]: (one["calls"], one["shrunk"]) for one in report["findings"]}
    assert (2, True) == shapes["answer (prepare_store)"]
    (one,) = (one for one in report["findings"] if one["shape"] == "answer (prepare_store)")
    assert {"unit": 0, "engine": "random", "seed": one["found_by"]["seed"]} == one["found_by"]
    assert one["replay"] in run.stdout
    assert one["replay"] in (folder / "campaign" / "summary.md").read_text()
    again = evictable(*one["replay"].split()[1:])
    assert (1, True) == (again.returncode, "answer" in again.stdout)
    assert 1 == evictable("fuzz", "--status-only").returncode
    unit = evictable("fuzz", "--unit", 0)
    assert (1, True) == (unit.returncode, "  answer (prepare_store): " in unit.stdout)


def test_what_a_baseline_breaks_by_the_same_calls_is_expected(evictable: Run, folder: Path) -> None:
    command = ("fuzz", "factories:LeakingAndSharing", *ONE_PLACE, "--max-units", 3)
    same = evictable(*command, "--baseline", "factories:LeakingAndSharing")
    assert 0 == same.returncode
    (result,) = summary(folder)["results"]
    assert "as expected" == result["verdict"]
    assert re.match(r"[1-9]\d* findings, all expected; in ", same.stdout.splitlines()[-1])
    other = evictable("fuzz", "--status-only", "--baseline", "factories:Leaking")
    assert 1 == other.returncode
    (told,) = (line for line in other.stdout.splitlines() if " findings and " in line)
    assert re.match(r"[1-9]\d* findings and [1-9]\d* expected; in ", told)
    assert 1 == evictable("fuzz", "--status-only", "--baseline", "impl").returncode


def test_a_baseline_that_cannot_be_played_excuses_nothing(evictable: Run) -> None:
    run = evictable("fuzz", "factories:Sharing", *ONE_PLACE, "--max-units", 2, "--baseline", "factories:Nothing")
    assert 1 == run.returncode
    assert "baseline factories:Nothing: nothing is expected at factories:Sharing lru contract: " in run.stderr


def test_a_good_manager_conforms_and_the_campaign_goes_on_where_it_was(evictable: Run, folder: Path) -> None:
    assert 0 == evictable("fuzz", "impl", *ONE_PLACE, "--max-units", 1).returncode
    run = evictable("fuzz", "--max-units", 2)
    assert 0 == run.returncode
    assert "1 units are done" in run.stderr
    (result,) = summary(folder)["results"]
    assert ("conforms", 2, 0) == (result["verdict"], result["units"], len(summary(folder)["findings"]))
    journal = folder / "campaign" / "journal.jsonl"
    assert 2 == len(journal.read_text().splitlines())
    journal.write_text(journal.read_text().replace('"place": 0', '"place": 9', 1))
    damaged = evictable("fuzz", "--max-units", 3)
    assert (2, True) == (damaged.returncode, "is of no place in this campaign; give another --dir" in damaged.stderr)


def test_killed_and_taken_up_again_it_has_found_the_same(evictable: Run, folder: Path) -> None:
    command = ("fuzz", "mutant:touch-forwards", *ONE_PLACE, "--max-units", 2, "--workers", 2)
    evictable(*command, "--dir", "whole")
    process = subprocess.Popen(
        [SCRIPT, *map(str, (*command, "--dir", "killed"))], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any("broken" in line for line in process.stderr)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert not (folder / "killed" / "summary.json").exists()
    assert 1 == evictable("fuzz", "--max-units", 2, "--dir", "killed").returncode
    assert found(folder, "whole") == found(folder, "killed")


def test_subjects_that_die_end_no_campaign(evictable: Run, folder: Path) -> None:
    names = [f"factories:{name}" for name in ("Killed", "Greedy", "Sharing")]
    run = evictable("fuzz", *names, *ONE_PLACE, "--max-units", 3, "--memory", 1024)
    assert 1 == run.returncode
    results = [(one["verdict"], *one["problems"]) for one in summary(folder)["results"]]
    assert ("inconclusive", "memory: the subject met the bound of 1024 MiB") == results[1]
    assert results[0][1].startswith("crash: the process of the subject was ended by signal 9")
    assert ("violates",) == results[2]
    assert {names[2]} == {one["subject"] for one in summary(folder)["findings"]}


def test_only_problems_are_inconclusive(evictable: Run) -> None:
    assert 3 == evictable("fuzz", "factories:Exiting", *ONE_PLACE, "--max-units", 1).returncode


def test_what_does_not_repeat_is_kept_and_said_to_be_so(evictable: Run, folder: Path) -> None:
    run = evictable("fuzz", "factories:Fickle", *ONE_PLACE, "--max-units", 1)
    assert 1 == run.returncode
    (one,) = summary(folder)["findings"]
    assert ("answer", False) == (one["law"], one["shrunk"])
    assert "the calls that broke answer break nothing when they are made again" == one["unrepeatable"]


def test_an_expected_failure_is_no_failure_and_a_stale_one_is(evictable: Run, folder: Path) -> None:
    evictable("fuzz", "factories:Leaking", *ONE_PLACE, "--max-units", 1, "--dir", "first")
    entry = '[[expect]]\nsubject = "{}"\npolicy = "lru"\ndiscipline = "contract"\nlaw = "{}"\nreason = "known"\n'
    listed = [
        entry.format("factories:Leaking", one["law"]) + f'trace = "{one["trace"]}"\n'
        for one in summary(folder, "first")["findings"]
    ]
    (folder / "known.toml").write_text("".join(listed))
    command = ("fuzz", "--max-units", 1, "--dir", "first", "--expect", "known.toml")
    assert 0 == evictable(*command).returncode
    assert {"known"} == {one["expected_because"] for one in summary(folder, "first")["findings"]}
    (folder / "known.toml").write_text("".join(listed).replace(":Leaking", ":Good"))
    run = evictable("fuzz", "factories:Good", *ONE_PLACE, "--max-units", 1, "--expect", "known.toml")
    assert 3 == run.returncode
    assert "take the entry out of the list" in run.stdout


def test_bad_input_is_one_line(at_once: Run, folder: Path) -> None:
    cases = [
        (("fuzz",), "campaign: holds no campaign; name a SUBJECT"),
        (("fuzz", "--status-only"), "campaign: holds no campaign; give the --dir of one"),
        (("fuzz", "nobody"), "unknown subject 'nobody'"),
        (("fuzz", "impl", "--for", "soon"), "--for soon: give a time such as 90s"),
        (("fuzz", "impl", "--dask", "x", "--workers", 1), "--workers and --dask do not go together"),
        (("fuzz", "impl", "--level", "policy", "--discipline", "hostile"), "--level policy has no hostile callers"),
    ]
    for arguments, said in cases:
        run = at_once(*arguments)
        assert (2, 1) == (run.returncode, len(run.stderr.splitlines()))
        assert said in run.stderr


def test_a_folder_of_another_campaign_is_refused(at_once: Run, folder: Path) -> None:
    assert 3 == at_once("fuzz", "factories:Exiting", *ONE_PLACE, "--max-units", 1).returncode
    other = at_once("fuzz", "impl", *ONE_PLACE, "--max-units", 1)
    assert (2, True) == (other.returncode, "is a campaign of other subjects" in other.stderr)
    with locked(folder / "campaign"):
        second = at_once("fuzz", "--max-units", 1)
    assert (2, True) == (second.returncode, "another campaign runs there" in second.stderr)
    head = folder / "campaign" / "campaign.json"
    head.write_text(head.read_text().replace('"evictable": "', '"evictable": "9.'))
    newer = at_once("fuzz", "--max-units", 1)
    assert (2, True) == (newer.returncode, "is a campaign of evictable 9." in newer.stderr)
    head.write_text("{}")
    assert "is no campaign's" in at_once("fuzz", "--status-only").stderr


def test_interrupted_it_says_what_was_found(folder: Path) -> None:
    command = ("fuzz", "factories:Sharing", *ONE_PLACE, "--for", "1h", "--workers", 1)
    process = subprocess.Popen(
        [SCRIPT, *map(str, command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert any("broken" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (130, False) == (process.returncode, "Traceback" in err)
    assert "interrupted: this is what was found so far; the same command goes on" == out.splitlines()[-1]
    assert [] != summary(folder)["findings"]
    assert "interrupted" == json.loads((folder / "campaign" / "status.json").read_text())["state"]


@pytest.mark.slow
def test_a_dask_cluster_finds_the_same(evictable: Run, folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    command = ("fuzz", "mutant:touch-forwards", *ONE_PLACE, "--max-units", 6)
    evictable(*command, "--dir", "here")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        run = evictable(*command, "--dir", "there", "--dask", cluster.scheduler_address)
    assert 1 == run.returncode
    assert found(folder, "here") == found(folder, "there")


def test_prometheus_is_answered(folder: Path) -> None:
    campaign = Campaign(Options(places_of(["impl"], ["lru"], ["contract"], [0], [1], [MANAGER]), folder / "c"))
    campaign.tallies = {place: Tally(units=1, calls=7) for place in campaign.options.places}
    campaign.done = {0, 1}
    port = serve_metrics(campaign, "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        told = answer.read().decode()
    assert "evictable_fuzz_units_total 2.0" in told
    assert "evictable_fuzz_calls_total 7.0" in told
    assert 'evictable_fuzz_reached{place="impl lru contract"} 0.0' in told
    with pytest.raises(UsageError, match="give another"):
        serve_metrics(campaign, "127.0.0.1", port)
