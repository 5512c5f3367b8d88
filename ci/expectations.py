"""Known failures: a list of what is expected to break, each with a reason and a trace that shows it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from evictable.ci.cells import Cell, Violation
from evictable.ci.files import file_name, write_text
from evictable.ci.jobs import Inconclusive, run_jobs
from evictable.model.laws import LAW_BY_ID
from evictable.model.trace import Trace, TraceError, read, write
from evictable.specs.callers.disciplines import DISCIPLINES
from evictable.specs.errors import UsageError
from evictable.specs.shrink import fault_of
from evictable.specs.subjects.vllm import POLICIES

_FIELDS = ("subject", "policy", "discipline", "law", "reason", "trace")
_STRICT = "strict"
_FORMAT = (
    "[[expect]] tables with subject, policy, discipline, law, reason and trace (a path, from the file's folder), and "
    "strict = false for one that may be mended"
)


@frozen
class Expectation:
    """A law that a subject is known to break under a policy and a discipline."""

    subject: str
    policy: str
    discipline: str
    law: str
    reason: str
    path: Path
    trace: Trace
    strict: bool = True
    """That its trace conforms is an error: the entry must go. Else it is told, no more."""

    @property
    def cell(self) -> tuple[str, str, str, int]:
        """Where it is expected; how many tiers there are is in the trace."""
        return self.subject, self.policy, self.discipline, self.trace.head.tiers

    @property
    def fault(self) -> str | None:
        """What raises in the last call, where that is how the law is broken."""
        return fault_of(self.trace.calls)


def told_of_stale(one: Expectation) -> str:
    """An entry whose trace conforms, in words."""
    return f"{'stale' if one.strict else 'not strict'}: {one.path} no longer breaks {one.law} on {one.subject}"


def read_expectations(path: Path) -> tuple[Expectation, ...]:
    """The list in a TOML file. Raises `UsageError` for anything that is not as it should be."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); --expect takes a TOML file with {_FORMAT}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error}); write {_FORMAT}") from error
    entries = content.get("expect", [])
    if set(content) - {"expect"} or not isinstance(entries, list):
        raise UsageError(f"{path}: write {_FORMAT}")
    return tuple(_read_one(path, number, entry) for number, entry in enumerate(entries, 1))


def _read_one(path: Path, number: int, entry: Any) -> Expectation:
    where = f"{path}: entry {number}"
    wrong = _wrong_fields(entry)
    if wrong is not None:
        raise UsageError(f"{where}: {wrong}; write {_FORMAT}")
    for name, known in (("law", LAW_BY_ID), ("policy", POLICIES), ("discipline", DISCIPLINES)):
        if entry[name] not in known:
            raise UsageError(f"{where}: unknown {name} {entry[name]!r}; known: {', '.join(known)}")
    if not entry["reason"].strip():
        raise UsageError(f"{where}: give a reason why this failure is accepted")
    trace_path = path.parent / entry["trace"]
    return Expectation(
        entry["subject"],
        entry["policy"],
        entry["discipline"],
        entry["law"],
        entry["reason"],
        trace_path,
        read_trace(trace_path),
        entry.get(_STRICT, True),
    )


def _wrong_fields(entry: Any) -> str | None:
    """What is wrong with the fields of an entry, if anything is."""
    if not isinstance(entry, dict):
        return "not a table"
    for name in _FIELDS:
        if name not in entry:
            return f"no {name}"
        if not isinstance(entry[name], str):
            return f"{name} is not a string"
    if not isinstance(entry.get(_STRICT, True), bool):
        return f"{_STRICT} is neither true nor false"
    unknown = [name for name in entry if name not in (*_FIELDS, _STRICT)]
    return f"unknown {unknown[0]}" if unknown else None


def refuse_another_list(path: Path | None, read: Path | None) -> None:
    """A list that is added to has to be read first. Raises `UsageError`."""
    if path is None:
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file; name one, for a list of known failures")
    if path.exists() and (read is None or path.resolve() != read.resolve()):
        raise UsageError(f"{path} is there: give it as --expect, too, and only what it does not list is added")


def add_expectations(path: Path, found: Iterable[tuple[Cell, Violation]], reason: str) -> int:
    """Add an entry for each to the list in ``path``, which need not be there yet, and tell how many there were.

    Their traces go into a folder beside it that is named like it. Raises `UsageError`.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be added to ({error}); name a list of known failures") from error
    number = 0
    for cell, violation in found:
        trace = _unused(_traces_of(path) / (file_name(*map(str, cell.key[:3]), violation.id) + ".jsonl"))
        write_text(trace, violation.lines)
        values = (*cell.key[:3], violation.law, reason, trace.relative_to(path.parent).as_posix())
        lines += ["", "[[expect]]"] if lines else ["[[expect]]"]
        lines += [f"{name} = {_toml_string(value)}" for name, value in zip(_FIELDS, values, strict=True)]
        number += 1
    if number:
        write_text(path, lines)
    return number


def _traces_of(path: Path) -> Path:
    """The folder of its traces: the file's name without its end, which may have none."""
    return path.with_suffix("") if path.suffix else path.with_name(f"{path.name}-traces")


def _unused(path: Path) -> Path:
    """``path``, or one of that name with a number that is not there yet."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _toml_string(text: str) -> str:
    # The escapes of JSON are among those of TOML.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def replay_expectations(known: Sequence[Expectation], profile: str, on_stale: Callable[[Expectation], None]) -> None:
    """Make the calls of each on its subject again, and tell of those that break no law any more.

    Raises `UsageError` and `Inconclusive` if a subject cannot be loaded, dies or hangs.
    """
    payloads = [
        {"job": "replay", "subject": one.subject, "profile": profile, "traces": [list(write(one.trace))]}
        for one in known
    ]

    def on_record(index: int, record: Mapping[str, Any]) -> None:
        one = known[index]
        if record["kind"] == "result" and not record["replays"][0]["broken"]:
            on_stale(one)
        elif record["kind"] in ("error", "crash", "hang", "unexplained"):
            kind = UsageError if record["kind"] == "error" else Inconclusive
            raise kind(f"{one.path}: cannot be replayed on {one.subject}: {record['message']}")

    run_jobs(payloads, on_record)


def read_trace(path: Path) -> Trace:
    """The trace in a file. Raises `UsageError` naming file and line."""
    try:
        with path.open(encoding="utf-8") as lines:
            return read(lines)
    except TraceError as error:
        raise UsageError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file; a trace is JSON lines in UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a trace file") from error
