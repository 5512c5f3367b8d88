"""The GitHub Action: each of its steps that runs something is run here, as the runner would, on a copy of the sources.

What other actions do (keep a cache, an artifact) is not; that they are given what they need is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "ci" / "action" / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
RUN = [name for name, step in STEPS.items() if "run" in step]
INSTALL, CACHE, CHECK = RUN


class Runner:
    """Runs steps in a folder, with an environment and the files that steps write to."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder = folder
        self.inputs = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()} | inputs
        self.files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY")}
        self.environment = {name: str(path) for name, path in self.files.items()}
        self.environment |= {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(folder / "temp")}

    def step(self, name: str, action: Path = ROOT / "ci" / "action") -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        assert "bash" == step["shell"]
        given = {key: self._resolved(value) for key, value in step["env"].items()}
        here = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
        return subprocess.run(
            # So the runner calls bash.
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={**here, **self.environment, **given, "GITHUB_ACTION_PATH": str(action)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def told(self, name: str) -> str:
        path = self.files[name]
        return path.read_text() if path.exists() else ""

    def _resolved(self, value: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: self.inputs[found[1]], value)


@pytest.fixture
def runner(folder: Path) -> Runner:
    return Runner(folder, python=sys.executable, **{"max-time": "1"}, policy="lru")


def cases(folder: Path) -> Mapping[str, str]:
    """What the JUnit file says of each case that is no success."""
    root = Xml.parse(folder / "evictable-results" / "junit.xml").getroot()
    return {str(case.get("name")): case[0].tag for case in root.iter("testcase") if len(case)}


def test_a_subject_that_conforms(runner: Runner) -> None:
    runner.inputs["subject"] = "impl"
    done = runner.step(CHECK)
    assert (0, "") == (done.returncode, done.stderr.partition("evictable:")[2])
    assert "| impl | lru | contract | 0 | conforms |" in runner.told("GITHUB_STEP_SUMMARY")
    assert {} == cases(runner.folder)
    assert "::error" not in done.stdout


def test_a_subject_that_does_not(runner: Runner) -> None:
    runner.inputs["subject"] = "factories:Leaking"
    done = runner.step(CHECK)
    assert 1 == done.returncode
    assert "failure" == cases(runner.folder)["slots-conserved"]
    assert "| factories:Leaking | lru | contract | 0 | violates |" in runner.told("GITHUB_STEP_SUMMARY")
    assert "::error title=slots-conserved broken by factories%3ALeaking lru contract::" in done.stdout
    (trace,) = (runner.folder / "evictable-results" / "traces").glob("*slots-conserved.jsonl")
    assert "replay    evictable replay evictable-results/traces/" in done.stdout
    assert trace.read_text().startswith('{"evictable_trace": 1')


def known(folder: Path, subject: str, law: str, *calls: str) -> None:
    lines = ['{"evictable_trace": 1, "capacity": 2}', '{"call": "on_new_request", "request": "r1"}', *calls]
    (folder / "known.jsonl").write_text("\n".join(lines) + "\n")
    entry = {"subject": subject, "policy": "lru", "discipline": "contract", "law": law, "reason": "we know"}
    text = "".join(f'{name} = "{value}"\n' for name, value in (entry | {"trace": "known.jsonl"}).items())
    (folder / "known.toml").write_text(f"[[expect]]\n{text}")


def test_known_failures(runner: Runner) -> None:
    known(runner.folder, "factories:Sharing", "answer", '{"call": "prepare_store", "request": "r1", "keys": [0, 1]}')
    runner.inputs |= {"subject": "factories:Sharing", "expect": "known.toml"}
    done = runner.step(CHECK)
    assert (0, "skipped") == (done.returncode, cases(runner.folder)["answer"])
    assert "as expected" in runner.told("GITHUB_STEP_SUMMARY")


def test_a_stale_list(runner: Runner) -> None:
    known(runner.folder, "impl", "answer")
    runner.inputs |= {"subject": "impl", "expect": "known.toml"}
    done = runner.step(CHECK)
    assert (3, {"answer": "failure"}) == (done.returncode, cases(runner.folder))
    assert "::warning title=stale%3A known.jsonl no longer breaks answer on impl::we know" in done.stdout


@pytest.mark.parametrize("subject", ["factories:Absent", "vllm==0.1.0"])
def test_a_subject_that_cannot_be_loaded(subject: str, runner: Runner) -> None:
    runner.inputs["subject"] = subject
    done = runner.step(CHECK)
    assert 2 == done.returncode
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("evictable: "))
    assert subject in line
    assert "Traceback" not in done.stderr


def test_several_subjects_and_a_host(runner: Runner) -> None:
    runner.inputs |= {"subject": "impl factories:Good", "host": ""}
    assert 0 == runner.step(CHECK).returncode
    assert {"impl", "factories:Good"} == {
        line.split("|")[1].strip() for line in runner.told("GITHUB_STEP_SUMMARY").splitlines() if "| lru |" in line
    }


def test_what_a_baseline_breaks_does_not_fail(runner: Runner) -> None:
    runner.inputs |= {"subject": "factories:Leaking", "baseline": "factories:Leaking"}
    done = runner.step(CHECK)
    assert (0, "skipped") == (done.returncode, cases(runner.folder)["drains"])
    runner.inputs["baseline"] = "impl"
    assert 1 == runner.step(CHECK).returncode


def test_the_key_of_the_cache_names_the_releases(runner: Runner) -> None:
    keys = []
    for subject, host, baseline in (
        ("impl", "", ""),
        ("vllm==0.33 impl", "", ""),
        ("strangers:Lfu", "vllm==0.33.0", ""),
        ("vllm:.", "", "vllm==0.33.0"),
    ):
        runner.inputs |= {"subject": subject, "host": host, "baseline": baseline}
        done = runner.step(CACHE)
        assert (0, "") == (done.returncode, done.stderr)
        keys.append(runner.told("GITHUB_OUTPUT").splitlines()[-1])
    assert all(re.fullmatch(r"key=evictable-releases-[0-9a-f]{16}", key) for key in keys)
    assert keys[0] != keys[1] == keys[2] == keys[3]
    assert f"EVICTABLE_CACHE={runner.folder}/temp/evictable" in runner.told("GITHUB_ENV").splitlines()


def test_what_the_cache_keeps_is_where_releases_go() -> None:
    kept = STEPS["Keep fetched releases"]["with"]
    assert "${{ runner.temp }}/evictable/releases" == kept["path"]
    assert f"${{{{ steps.{STEPS[CACHE]['id']}.outputs.key }}}}" == kept["key"]


def test_it_installs_itself(runner: Runner, tmp_path: Path) -> None:
    """Into an environment that has the dependencies: what they are is tested with the wheel."""
    venv.create(tmp_path / "venv", with_pip=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    copy = tmp_path / "checkout"
    keep = shutil.ignore_patterns(".git", ".venv", "build", "traces", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=keep)
    runner.inputs["python"] = str(tmp_path / "venv" / "bin" / "python")
    done = runner.step(INSTALL, copy / "ci" / "action")
    assert 0 == done.returncode, done.stderr
    assert (packages / "evictable" / "ci" / "check.py").is_file()
