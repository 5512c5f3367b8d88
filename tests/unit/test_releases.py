"""Finding a vLLM tree: a release in the cache, the installed package, a checkout. pip is a fake here."""

from __future__ import annotations

import fcntl
import fnmatch
import importlib.util
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from evictable.specs.errors import UsageError
from evictable.specs.subjects import releases
from evictable.specs.subjects.releases import PipOutcome

MANAGER = "vllm/v1/kv_offload/cpu/manager.py"
OLD_AND_OTHERS = "0.1.4, 0.21.0, 0.33.0"


class FakePip:
    """Answers each run with the next outcome, or leaves a wheel with these members and succeeds."""

    def __init__(self, *outcomes: PipOutcome | BaseException, members: Sequence[str] = (MANAGER,)) -> None:
        self.outcomes = list(outcomes)
        self.members = members
        self.runs: list[Sequence[str]] = []

    def __call__(self, arguments: Sequence[str], scratch: Path) -> PipOutcome:
        self.runs.append(arguments)
        folder = Path(arguments[arguments.index("--dest") + 1])
        assert scratch in folder.parents
        folder.mkdir(parents=True)
        if self.outcomes:
            outcome = self.outcomes.pop(0)
            (folder / "half.whl.part").write_bytes(b"half")
            if isinstance(outcome, BaseException):
                raise outcome
            folder.joinpath("half.whl.part").unlink()
            folder.rmdir()
            return outcome
        with zipfile.ZipFile(folder / "vllm-0.33.0-cp38-abi3-any.whl", "w") as wheel:
            for member in self.members:
                wheel.writestr(member, f"# {member}\n")
        return PipOutcome(0, "")


def failure(*lines: str) -> PipOutcome:
    return PipOutcome(1, "\n".join(lines))


def not_found(offered: str) -> PipOutcome:
    return failure(
        f"ERROR: Could not find a version that satisfies the requirement vllm==0.33.0 (from versions: {offered})",
        "ERROR: No matching distribution found for vllm==0.33.0",
    )


RETRYING = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/vllm/"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own: the folder that releases go into."""
    monkeypatch.setenv("EVICTABLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "releases"


def silent(line: str) -> None:
    pass


def visible(folder: Path) -> list[str]:
    """What is in the cache besides lock files."""
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.endswith(".lock"))


def test_known_releases() -> None:
    assert "0.22.0" == releases.KNOWN_RELEASES[0]
    assert "0.33.0" == releases.KNOWN_RELEASES[-1]
    assert 12 == len(releases.KNOWN_RELEASES)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"EVICTABLE_CACHE": "/chosen", "XDG_CACHE_HOME": "/xdg"}, Path("/chosen")),
        ({"EVICTABLE_CACHE": "~/chosen"}, Path("/home/somebody/chosen")),
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/evictable")),
        ({"XDG_CACHE_HOME": ""}, Path("/home/somebody/.cache/evictable")),
        ({}, Path("/home/somebody/.cache/evictable")),
    ],
)
def test_cache_dir(environment: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVICTABLE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/somebody", **environment}.items():
        monkeypatch.setenv(name, value)
    assert expected == releases.cache_dir()


def test_fetch_unpacks_the_needed_members_only(cache: Path) -> None:
    needed = [
        MANAGER,
        "vllm/v1/kv_offload/__init__.py",
        "vllm/v1/kv_offload/tiering/p2p/session/client.py",
        "vllm/v1/kv_hints/protocol.py",
        "vllm/v1/metrics/cache_hit_source.py",
        "vllm/utils/math_utils.py",
        "vllm/distributed/kv_events.py",
        "vllm/distributed/kv_transfer/kv_connector/v1/offloading/metrics.py",
    ]
    others = ["vllm/__init__.py", "vllm/_C.abi3.so", "vllm/v1/kv_offload/kernel.so", "vllm/v1/request.py"]
    report: list[str] = []

    tree = releases.fetch("0.33.0", report.append, run=FakePip(members=needed + others))

    assert cache / "0.33.0" == tree
    assert sorted(needed) == sorted(str(file.relative_to(tree)) for file in tree.rglob("*.py"))
    assert not list(tree.rglob("*.so"))
    assert ["0.33.0"] == visible(cache)
    assert "fetching vllm==0.33.0 (a wheel of about 300 MB, once) ..." == report[0]
    assert report[1].startswith("unpacked vllm==0.33.0 in ")
    assert 2 == len(report)


def test_fetch_downloads_once(cache: Path) -> None:
    first = releases.fetch("0.33.0", silent, run=FakePip())
    report: list[str] = []
    pip = FakePip(AssertionError("pip must not run"))
    assert first == releases.fetch("0.33.0", report.append, run=pip)
    assert first == releases.fetch("0.33", report.append, run=pip)
    assert [] == report


def test_fetch_unpacks_anew_what_was_unpacked_for_other_needs(cache: Path) -> None:
    tree = releases.fetch("0.33.0", silent, run=FakePip())
    (tree / ".unpacked").write_text("only/these.py")
    (tree / "leftover.py").touch()
    assert tree == releases.fetch("0.33.0", silent, run=FakePip())
    assert not (tree / "leftover.py").exists()
    assert ["0.33.0"] == visible(cache)


def test_fetch_takes_a_wheel_of_another_platform(cache: Path) -> None:
    pip = FakePip(not_found("none"))
    assert cache / "0.33.0" == releases.fetch("0.33.0", silent, run=pip)
    assert [False, True] == ["--platform" in run for run in pip.runs]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (
            [not_found(OLD_AND_OTHERS)] * 2,
            "vllm==0.99.0: no such release on the package index; known: 0.22.0 to 0.33.0",
        ),
        (  # the index answered in the end, so it is not the network
            [failure(RETRYING, not_found(OLD_AND_OTHERS).stderr)],
            "vllm==0.99.0: no such release on the package index; known: 0.22.0 to 0.33.0",
        ),
        ([failure(RETRYING, not_found("none").stderr)], "vllm==0.99.0: the package index does not answer; *network*"),
        ([not_found("none")] * 2, "vllm==0.99.0: the package index does not answer; *network*"),
        (
            [failure("ReadTimeoutError: HTTPSConnectionPool(host='files', port=443): Read timed out.")],
            "vllm==0.99.0: the package index does not answer; *network*",
        ),
        (
            [failure("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device")],
            "vllm==0.99.0: no space left for the download; set EVICTABLE_CACHE to a folder with space",
        ),
        ([failure("/usr/bin/python3: No module named pip")], "vllm==0.99.0: pip is missing; run `*-m ensurepip`*"),
        (
            [failure("WARNING: careful", "ERROR: Something else.", "")],
            "vllm==0.99.0: pip could not download it (Something else.); see *",
        ),
        ([failure()], "vllm==0.99.0: pip could not download it (it printed nothing); see *"),
        ([PermissionError(13, "Permission denied")], "*cannot write to *(Permission denied); set EVICTABLE_CACHE*"),
    ],
)
def test_fetch_says_what_went_wrong(outcomes: list[PipOutcome | BaseException], expected: str, cache: Path) -> None:
    pip = FakePip(*outcomes)
    with pytest.raises(UsageError) as caught:
        releases.fetch("0.99.0", silent, run=pip)
    message = str(caught.value)
    assert fnmatch.fnmatchcase(message, expected), message
    assert "\n" not in message
    assert [] == pip.outcomes
    assert [] == visible(cache)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("abc", "vllm==abc: not a version; write for example vllm==0.33.0"),
        ("", "vllm==: not a version; write for example vllm==0.33.0"),
        ("0.33.0; rm", "vllm==0.33.0; rm: not a version; write for example vllm==0.33.0"),
        ("../0.33.0", "vllm==../0.33.0: not a version; write for example vllm==0.33.0"),
        ("0.21.0", "vllm==0.21.0: releases before 0.22.0 cannot be judged; known: 0.22.0 to 0.33.0"),
        ("0.9", "vllm==0.9.0: releases before 0.22.0 cannot be judged; known: 0.22.0 to 0.33.0"),
    ],
)
def test_fetch_refuses_before_asking_the_index(version: str, expected: str, cache: Path) -> None:
    pip = FakePip(AssertionError("pip must not run"))
    with pytest.raises(UsageError) as caught:
        releases.fetch(version, silent, run=pip)
    assert expected == str(caught.value)


@pytest.mark.parametrize("version", ["0.22.0", "0.33.1", "0.34.0rc1", "0.22.0.post1", "1.0.0"])
def test_fetch_tries_what_may_exist(version: str, cache: Path) -> None:
    assert cache / version == releases.fetch(version, silent, run=FakePip())


def test_fetch_refuses_a_wheel_without_a_manager(cache: Path) -> None:
    with pytest.raises(UsageError, match=r"^vllm==0\.40\.0: its wheel has no vllm/v1/kv_offload/cpu/manager\.py"):
        releases.fetch("0.40.0", silent, run=FakePip(members=["vllm/v1/kv_offload/base.py"]))
    assert [] == visible(cache)


def test_fetch_refuses_a_damaged_wheel(cache: Path) -> None:
    def pip(arguments: Sequence[str], scratch: Path) -> PipOutcome:
        folder = Path(arguments[arguments.index("--dest") + 1])
        folder.mkdir()
        (folder / "vllm.whl").write_bytes(b"not a zip file")
        return PipOutcome(0, "")

    with pytest.raises(UsageError, match=r"^vllm==0\.33\.0: the download is damaged \(.*\); run it again$"):
        releases.fetch("0.33.0", silent, run=pip)
    assert [] == visible(cache)


def test_fetch_refuses_a_download_without_a_wheel(cache: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^vllm==0\.33\.0: pip left no wheel; try `.* -m pip download vllm==0\.33\.0`$"
    ):
        releases.fetch("0.33.0", silent, run=lambda arguments, scratch: PipOutcome(0, ""))
    assert [] == visible(cache)


def test_fetch_cleans_up_when_interrupted(cache: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        releases.fetch("0.33.0", silent, run=FakePip(KeyboardInterrupt()))
    assert [] == visible(cache)


def test_fetch_cleans_up_after_a_killed_run(cache: Path) -> None:
    (cache / ".partial-0.33.0-dead" / "wheel").mkdir(parents=True)
    (cache / ".partial-0.32.0-alive").mkdir()
    releases.fetch("0.33.0", silent, run=FakePip())
    assert [".partial-0.32.0-alive", "0.33.0"] == visible(cache)


def test_fetch_says_that_the_cache_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVICTABLE_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cannot write to .*; set EVICTABLE_CACHE to a folder with space$"):
        releases.fetch("0.33.0", silent, run=FakePip())


def test_fetch_leaves_a_broken_report_alone(cache: Path) -> None:
    def gone(line: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        releases.fetch("0.33.0", gone, run=FakePip())
    assert [] == visible(cache)


def test_nothing_appears_before_it_is_complete(cache: Path) -> None:
    seen: list[bool] = []

    def report(line: str) -> None:
        seen.append((cache / "0.33.0").exists())

    class WatchingPip(FakePip):
        def __call__(self, arguments: Sequence[str], scratch: Path) -> PipOutcome:
            outcome = super().__call__(arguments, scratch)
            seen.append((cache / "0.33.0").exists())
            return outcome

    releases.fetch("0.33.0", report, run=WatchingPip())
    assert [False, False, True] == seen


def test_two_runs_at_once_download_once(cache: Path) -> None:
    """A second run that comes while the first one downloads waits, says so, and finds the work done."""
    second: list[Path] = []
    said: list[str] = []
    waiting = threading.Event()

    def told(line: str) -> None:
        said.append(line)
        waiting.set()

    def late_pip(arguments: Sequence[str], scratch: Path) -> PipOutcome:
        raise AssertionError("pip must not run twice")

    late = threading.Thread(target=lambda: second.append(releases.fetch("0.33.0", told, run=late_pip)))

    class SlowPip(FakePip):
        def __call__(self, arguments: Sequence[str], scratch: Path) -> PipOutcome:
            late.start()
            assert waiting.wait(timeout=20)
            return super().__call__(arguments, scratch)

    first = releases.fetch("0.33.0", silent, run=SlowPip())
    late.join(timeout=20)
    assert [first] == second
    assert ["waiting for another run that fetches vllm==0.33.0 ..."] == said


def test_the_lock_goes_away_with_its_process(cache: Path) -> None:
    cache.mkdir(parents=True)
    hold = "import fcntl, os, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); os._exit(0)"
    subprocess.run([sys.executable, "-c", hold, str(cache / ".0.33.0.lock")], check=True)
    report: list[str] = []
    releases.fetch("0.33.0", report.append, run=FakePip())
    assert not any(line.startswith("waiting") for line in report)
    with (cache / ".0.33.0.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_run_pip_reports_failure_and_keeps_its_messages(tmp_path: Path) -> None:
    outcome = releases.run_pip(["no-such-command"], tmp_path)
    assert 0 != outcome.returncode
    assert 'unknown command "no-such-command"' in outcome.stderr


def make_tree(root: Path) -> Path:
    (root / MANAGER).parent.mkdir(parents=True)
    (root / MANAGER).touch()
    return root


@pytest.mark.parametrize("given", ["repo", "repo/vllm", "repo/vllm/../vllm/"])
def test_checkout_takes_the_repository_or_the_package(given: str, tmp_path: Path) -> None:
    assert make_tree(tmp_path / "repo") == releases.checkout(tmp_path / given)


@pytest.mark.parametrize("given", ["elsewhere", "repo/vllm/v1", "repo/docs", "repo/missing"])
def test_checkout_refuses_other_folders(given: str, tmp_path: Path) -> None:
    make_tree(tmp_path / "repo")
    (tmp_path / "repo" / "docs").mkdir()
    with pytest.raises(UsageError, match=r"no vllm/v1/kv_offload/cpu/manager\.py here; give the root"):
        releases.checkout(tmp_path / given)


def finds(place: Path | None) -> Callable[[str], ModuleSpec | None]:
    """A `find_spec` that finds vllm there, or nowhere."""

    def find_spec(name: str) -> ModuleSpec | None:
        if place is None:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec

    return find_spec


def test_installed_finds_vllm_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_tree(tmp_path)
    (site / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    dist_info = site / "vllm-0.33.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n")
    monkeypatch.syspath_prepend(site)
    assert (site, "0.33.0") == releases.installed()
    assert "vllm" not in sys.modules


def test_installed_says_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", finds(None))
    with pytest.raises(UsageError) as caught:
        releases.installed()
    assert "vllm is not installed here; use vllm==0.33.0 to judge a published release" == str(caught.value)


def test_installed_refuses_one_without_a_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", finds(tmp_path / "vllm"))
    with pytest.raises(UsageError, match=r"^the installed vllm \(version .*\) has no vllm/v1/kv_offload"):
        releases.installed()
