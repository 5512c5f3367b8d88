"""`evictable export`: a test of the other project, which fails where the law is broken and passes where it is kept."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from commandline import Run

import evictable.impl
from evictable.ci.export import project_of, scene_of
from evictable.ci.export_code import text_of
from evictable.ci.jobs import run_job
from evictable.model.trace import read

HERE = Path(__file__).parent


def call(name: str, *keys: int, request: str | None = "r1", **more: Any) -> Mapping[str, Any]:
    record = {"call": name, "request": request, "keys": list(keys), **more}
    return record if request is not None else {"call": name, **more}


def trace(*entries: Mapping[str, Any], capacity: int = 2, law: str | None = None) -> list[str]:
    """The calls alone: a run on a subject adds what they came to."""
    head = {"evictable_trace": 1, "capacity": capacity, "policy": "lru", "law": law}
    return [json.dumps(one) for one in ({name: value for name, value in head.items() if value is not None}, *entries)]


def store(*keys: int, **more: Any) -> Mapping[str, Any]:
    return call("prepare_store", *keys, **more)


def done(*keys: int, success: bool = True, **more: Any) -> Mapping[str, Any]:
    return call("complete_store", *keys, success=success, **more)


FOREIGN = trace(store(0), done(0, request="r2"), law="owner-completes")
HALF_PINNED = trace(store(0), done(0), call("prepare_load", 0, 1), law="all-or-nothing")
RESET = call("reset_cache", request=None)
DRAIN = call("take_events", request=None)
SCENES = {
    "foreign": FOREIGN,
    "foreign-abort": trace(store(0), done(0, success=False, request="r2")),
    "half-pinned": HALF_PINNED,
    "half-unpinned": trace(store(0, 1), done(0, 1), call("prepare_load", 0), call("complete_load", 0, 1)),
    "twice-in-an-offer": trace(store(0, 0)),
    "told-after-a-reset": trace(store(0), done(0), RESET, DRAIN),
    "dropped-drain": trace(store(0, 1), done(0), done(1), {**DRAIN, "limit": 1}, DRAIN),
    "insert-raises": trace({**store(0), "raises_in": "policy.insert"}),
    "free-raises": trace(store(0), {**done(0, success=False), "raises_in": "slots.free"}),
}


def recorded(subject: str, scenes: Mapping[str, list[str]]) -> dict[str, str]:
    """The exported text of each scene, as ``subject`` answers it."""
    job = {"job": "replay", "subject": subject, "profile": "auto", "traces": list(scenes.values()), "path": sys.path}
    traces = [read(played["trace"]) for played in run_job(job)["replays"]]
    return {name: text_of(project_of(one), scene_of(Path(name), one)) for name, one in zip(scenes, traces, strict=True)}


@pytest.fixture
def vllm_is_impl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the names of vLLM's modules there is the built-in manager, which keeps all laws (and 0.24's names)."""
    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.cpu"):
        package: Any = ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    for name in ("vllm.v1.kv_offload.base", "vllm.v1.kv_offload.cpu.manager"):
        monkeypatch.setitem(sys.modules, name, evictable.impl)


@pytest.mark.release
def test_it_fails_on_the_release_and_passes_where_the_law_is_kept(
    tmp_path: Path, release: Callable[[str], Path], vllm_is_impl: None
) -> None:
    release("0.24.0")
    for name, text in recorded("vllm==0.24.0", SCENES).items():
        (tmp_path / f"test_{name}.py").write_text(text)
    files = sorted(tmp_path.iterdir())
    command = [sys.executable, HERE / "play_exported.py", "0.24.0", *files]
    outcomes = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])
    assert {f"test_{name}.py": "law" for name in SCENES} == outcomes
    for path in files:
        names = runpy.run_path(str(path))
        (test,) = (value for name, value in names.items() if name.startswith("test_"))
        assert test() is None


PATCHES = """
from evictable.specs.subjects import releases, standins

standins.load(releases.fetch("0.33.0", print))

import pytest
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager


@pytest.fixture(autouse=True)
def patched(monkeypatch, request):
    if not request.config.getoption("patched"):
        return
    prepare_store, complete_store = CPUOffloadingManager.prepare_store, CPUOffloadingManager.complete_store
    prepare_load, owners = CPUOffloadingManager.prepare_load, {}

    def remembering(self, keys, req_context):
        output = prepare_store(self, keys, req_context)
        owners.update((key, req_context.req_id) for key in output.keys_to_store)
        return output

    def only_its_own(self, keys, req_context, success=True):
        complete_store(self, [key for key in keys if owners[key] == req_context.req_id], req_context, success)

    def whole_or_not_at_all(self, keys, req_context):
        for key in keys:
            assert self._policy.get(key) is not None
        return prepare_load(self, keys, req_context)

    monkeypatch.setattr(CPUOffloadingManager, "prepare_store", remembering)
    monkeypatch.setattr(CPUOffloadingManager, "complete_store", only_its_own)
    monkeypatch.setattr(CPUOffloadingManager, "prepare_load", whole_or_not_at_all)


def pytest_addoption(parser):
    parser.addoption("--patched", action="store_true")
"""


@pytest.fixture
def reports(tmp_path: Path, evictable: Run, release: Callable[[str], Path]) -> Path:
    """A folder with the tests of two defects of vLLM 0.33.0, made by the command."""
    release("0.33.0")
    (tmp_path / "conftest.py").write_text(PATCHES)
    for name, lines in (("foreign", FOREIGN), ("half_pinned", HALF_PINNED)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        exported = ("export", f"{name}.jsonl", "--pytest", "--subject", "vllm==0.33.0", "-o", f"test_{name}.py")
        done = evictable(*exported)
        assert 0 == done.returncode
        assert done.stdout.startswith(
            f"written to test_{name}.py, a test of vllm==0.33.0: pytest runs it where that can"
        )
    return tmp_path


@pytest.mark.release
def test_two_defects_of_a_release_and_of_a_patched_one(reports: Path) -> None:
    def ran(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more]
        return subprocess.run(command, cwd=reports, capture_output=True, text=True, check=False)

    broken = ran()
    assert (1, True) == (broken.returncode, "2 failed" in broken.stdout)
    assert "AssertionError: owner-completes: a completion changes only blocks that the same request" in broken.stdout
    assert "AssertionError: all-or-nothing: a call that answers None or raises leaves every ref_cnt" in broken.stdout
    kept = ran("--patched")
    assert (0, True) == (kept.returncode, "2 passed" in kept.stdout)
    assert {"contextlib", "vllm"} == set(imports(reports / "test_foreign.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)


@pytest.mark.parametrize(
    ("subject", "scene", "law"),
    [
        ("factories:Leaking", trace(store(0), done(0, success=False)), "slots-conserved"),
        ("factories:Sharing", trace(store(0, 1)), "answer"),
        ("factories:opaque_forgetful", trace(store(0), done(0), call("prepare_load", 0), call("complete_load", 0),
                                             store(1, 2)), "no-false-refusal"),
    ],
)  # fmt: skip
def test_a_manager_of_ones_own(subject: str, scene: list[str], law: str, tmp_path: Path) -> None:
    (text,) = recorded(subject, {"one": scene}).values()
    path = tmp_path / "test_one.py"
    path.write_text(text)
    names = runpy.run_path(str(path))
    with pytest.raises(AssertionError, match=f"^{law}: "):
        names["test_" + law.replace("-", "_")]()
    assert {"factories"} == set(imports(path))


def test_it_can_be_read() -> None:
    scene = trace({"call": "on_new_request", "request": "r1"}, store(0, 1), store(2), capacity=3)
    (text,) = recorded("factories:Sharing", {"one": scene}).values()
    assert (
        text.partition("\n\n\ndef test_answer")[2]
        == """():
    manager = Sharing(num_blocks=3, cache_policy="lru", enable_events=True)
    r1 = Request("r1")
    getattr(manager, "on_new_request", bool)(r1)

    answer = manager.prepare_store([key(0), key(1)], r1)
    assert answer is not None, LAW
    assert list(answer.keys_to_store) == [key(0), key(1)], LAW
    assert len(set(map(int, answer.store_spec.block_ids))) == 2, LAW
    assert len(answer.evicted_keys) == 0, LAW
"""
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (trace(store(0)), "has no recorded answer; replay the calls on a subject with --subject"),
        (trace({**RESET, "returns": None}), "breaks no law; export a counterexample, or name a --subject"),
        (trace({**store(0), "ticket": 1}), "uses tickets, which no other project has"),
        (trace({**store(0), "raises_in": "events.append"}), "makes events.append raise; only faults of policies and"),
        (['{"evictable_trace": 1, "capacity": 1, "tiers": 1}'], "has tiers, which only our own stand-ins can play"),
        (["{}"], "this is not a trace"),
    ],
)
def test_bad_input_is_one_line(lines: list[str], message: str, at_once: Run, folder: Path) -> None:
    (folder / "t.jsonl").write_text("\n".join(lines))
    ended = at_once("export", "t.jsonl", "--pytest")
    assert 2 == ended.returncode
    assert message in ended.stderr
    assert 1 == len(ended.stderr.splitlines())
