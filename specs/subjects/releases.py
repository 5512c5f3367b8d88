"""Where a vLLM source tree comes from: a published release, the installed package or a checkout.

A release is taken from its wheel: pip finds and downloads it, the few files that a judge needs are unpacked
once into the cache, and the wheel (hundreds of megabytes) goes away again. Nothing is ever imported here.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from evictable.specs.errors import UsageError

KNOWN_RELEASES: tuple[str, ...] = tuple(f"0.{minor}.0" for minor in range(22, 34))

MANAGER = Path("vllm", "v1", "kv_offload", "cpu", "manager.py")
"""What makes a folder a vLLM tree that can be judged."""

# In these patterns a star crosses slashes. The stand-ins replace whatever else the subtree imports.
_MEMBERS = (
    "vllm/v1/kv_offload/*.py",
    "vllm/v1/kv_hints*.py",
    "vllm/v1/metrics/cache_hit_source.py",
    "vllm/utils/math_utils.py",
    "vllm/distributed/kv_events.py",
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading/*.py",
    "vllm-*.dist-info/licenses/LICENSE",
)

# A tree unpacked by a version of this file that asked for other members is unpacked anew.
_MARKER = ".unpacked"
_MARK = "\n".join(_MEMBERS)

# Only source text is read, so a wheel made for another platform or interpreter serves as well.
_ANOTHER_PLATFORM = (
    *("--platform", "manylinux_2_28_x86_64"),
    *("--implementation", "cp"),
    *("--python-version", "3.12"),
    *("--abi", "abi3"),
)

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?((?:a|b|rc)\d+)?(\.post\d+)?")
_OFFERED = re.compile(r"\(from versions: ([^)]*)\)")
_UNREACHABLE = re.compile(
    r"connection broken|ConnectionError|NewConnectionError|Connection (?:refused|reset|aborted)|Max retries exceeded"
    r"|timed out|Timeout|name resolution|Name or service not known|ProxyError|SSLError|HTTP error|IncompleteRead",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)

_CACHE_REMEDY = "set EVICTABLE_CACHE to a folder with space"


class PipOutcome(NamedTuple):
    """How a run of pip ended."""

    returncode: int
    stderr: str


PipRunner = Callable[[Sequence[str], Path], PipOutcome]
"""Runs pip with these arguments; its temporary files go into that folder."""


def cache_dir() -> Path:
    """The folder for everything that can be fetched again: `$EVICTABLE_CACHE`, or `evictable` in the user's cache."""
    if chosen := os.environ.get("EVICTABLE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "evictable"


def run_pip(arguments: Sequence[str], scratch: Path) -> PipOutcome:
    """Run this interpreter's pip. Its own settings (index, proxy, certificates) apply."""
    # The messages are read, so they must not be translated. pip unpacks below TMPDIR, often a small memory disk.
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )
    return PipOutcome(done.returncode, done.stderr)


def fetch(version: str, report: Callable[[str], None], *, run: PipRunner = run_pip) -> Path:
    """The folder that holds `vllm/` of a published release, fetched and unpacked the first time.

    :param report: gets one line for each thing that makes the caller wait.
    :raises UsageError: no such release, one that is too old, no network, no pip, or no room in the cache.
    """
    release = _normalized(version)
    home = cache_dir() / "releases"
    tree = home / release
    if _is_unpacked(tree):
        return tree
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(
            home / f".{release}.lock", lambda: report(f"waiting for another run that fetches vllm=={release} ...")
        ):
            if not _is_unpacked(tree):
                _fill(tree, release, report, run)
    except BrokenPipeError:
        raise  # whoever read the report went away; the cache is fine
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"vllm=={release}: cannot write to {home} ({reason}); {_CACHE_REMEDY}") from error
    return tree


def cache_key(versions: Sequence[str]) -> str:
    """A name for the cache when it holds these releases as this version of the project unpacks them.

    :raises UsageError: what is not a version, or too old.
    """
    releases = sorted({_normalized(version) for version in versions})
    return f"evictable-releases-{hashlib.sha256('/'.join([_MARK, *releases]).encode()).hexdigest()[:16]}"


def installed() -> tuple[Path, str]:
    """The folder that holds the `vllm` package installed in this interpreter, and its version. Imports nothing.

    :raises UsageError: vllm is not installed, or the installed one has no offload manager.
    """
    other = f"use vllm=={KNOWN_RELEASES[-1]} to judge a published release"
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(f"vllm is not installed here; {other}")
    try:
        version = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    for package in spec.submodule_search_locations or ():
        root = Path(package).parent
        if _is_tree(root):
            return root, version
    raise UsageError(f"the installed vllm (version {version}) has no {MANAGER}; {other}")


def checkout(path: str | os.PathLike[str]) -> Path:
    """The folder that holds `vllm/` of a source checkout, given the repository or its `vllm` folder.

    :raises UsageError: there is no offload manager.
    """
    given = Path(path).expanduser().resolve()
    for root in (given, given.parent):
        if _is_tree(root) and (root == given or given.name == "vllm"):
            return root
    raise UsageError(f"{path}: no {MANAGER} here; give the root of a vLLM checkout, or its vllm folder")


def _is_tree(root: Path) -> bool:
    return (root / MANAGER).is_file()


def _is_unpacked(tree: Path) -> bool:
    try:
        return (tree / _MARKER).read_text() == _MARK
    except OSError:
        return False


def _normalized(version: str) -> str:
    parts = _VERSION.fullmatch(version)
    if parts is None:
        raise UsageError(f"vllm=={version}: not a version; write for example vllm=={KNOWN_RELEASES[-1]}")
    major, minor, patch, pre, post = parts.groups()
    release = f"{int(major)}.{int(minor)}.{int(patch or 0)}{pre or ''}{post or ''}"
    if (int(major), int(minor)) < (0, 22):
        raise UsageError(f"vllm=={release}: releases before {KNOWN_RELEASES[0]} cannot be judged; {_known()}")
    return release


def _known() -> str:
    return f"known: {KNOWN_RELEASES[0]} to {KNOWN_RELEASES[-1]}"


@contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock that goes away with the process, however it ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fill(tree: Path, release: str, report: Callable[[str], None], run: PipRunner) -> None:
    """Make `tree` appear in one step, complete. The caller holds the lock of this release."""
    prefix = f".partial-{release}-"
    for leftover in tree.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)  # of a killed run: nobody else works on this release now
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=tree.parent))
    try:
        started = time.monotonic()
        report(f"fetching vllm=={release} (a wheel of about 300 MB, once) ...")
        unpacked = work / "tree"
        _unpack(_download(release, work, run), unpacked, release)
        if tree.exists():
            tree.rename(work / "outdated")
        unpacked.rename(tree)
        report(f"unpacked vllm=={release} in {time.monotonic() - started:.0f} s")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(release: str, work: Path, run: PipRunner) -> Path:
    folder = work / "wheel"
    call = ["download", "--quiet", "--no-input", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"]
    call += ["--dest", str(folder)]
    outcome = run([*call, f"vllm=={release}"], work)
    if outcome.returncode and _OFFERED.search(outcome.stderr) and not _UNREACHABLE.search(outcome.stderr):
        outcome = run([*call, *_ANOTHER_PLATFORM, f"vllm=={release}"], work)
    if outcome.returncode:
        raise UsageError(f"vllm=={release}: {_why(outcome.stderr)}")
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise UsageError(f"vllm=={release}: pip left no wheel; try `{sys.executable} -m pip download vllm=={release}`")
    return wheels[0]


def _why(stderr: str) -> str:
    """What a failed download means, and what to do, from what pip printed."""
    if "No module named pip" in stderr:
        return f"pip is missing; run `{sys.executable} -m ensurepip`, or use vllm:PATH (a checkout)"
    if _NO_SPACE.search(stderr):
        return f"no space left for the download; {_CACHE_REMEDY}"
    offered = _OFFERED.search(stderr)
    # An index that did answer names what it has, even if it had to be asked twice.
    if offered and offered[1].strip() not in ("", "none"):
        return f"no such release on the package index; {_known()}"
    if offered or _UNREACHABLE.search(stderr):
        return "the package index does not answer; check the network and pip's settings, or use vllm:PATH (a checkout)"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["it printed nothing"]
    return f"pip could not download it ({errors[-1].removeprefix('ERROR: ')}); see `{sys.executable} -m pip download`"


def _unpack(wheel: Path, tree: Path, release: str) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if any(fnmatch.fnmatchcase(name, p) for p in _MEMBERS)]
            archive.extractall(tree, names)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UsageError(f"vllm=={release}: the download is damaged ({error}); run it again") from error
    if not _is_tree(tree):
        raise UsageError(f"vllm=={release}: its wheel has no {MANAGER}, so this version cannot judge it; {_known()}")
    (tree / _MARKER).write_text(_MARK)
