"""`evictable show`: a trace, drawn: in the terminal, as SVG for an issue, or as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from evictable.ci.files import write_text
from evictable.ci.jobs import run_job
from evictable.ci.pictures.page import Example, page_of
from evictable.ci.pictures.svg import svg_of
from evictable.ci.pictures.text import show_drawing
from evictable.ci.replay import LONG
from evictable.ci.replay_policy import is_policy_level
from evictable.ci.report import console
from evictable.model.policy_trace import PolicyTrace, read_either, read_policy_trace
from evictable.model.trace import Entry, Stream
from evictable.specs import subjects
from evictable.specs.drawing.draw import LAST, draw
from evictable.specs.drawing.drawing import BrokenLaw, Drawing
from evictable.specs.drawing.policies import draw_policy
from evictable.specs.errors import UsageError
from evictable.specs.long_jobs import opened
from evictable.specs.recorded import profile_of_trace


def run_show(
    path: Path,
    profile: str,
    svg: Path | None = None,
    html: Path | None = None,
    *,
    subject: str | None = None,
    last: int = LAST,
) -> int:
    """Draw the trace in a file, as it was recorded or as ``subject`` answers; 1 if it breaks a law, else 0.

    Raises `UsageError` and `Inconclusive`.
    """
    drawing = drawing_of(path, profile, subject, last)
    if svg is not None:
        write_text(svg, [svg_of(drawing)])
    if html is not None:
        command = shlex.join(["evictable", "replay", str(path), "--subject", subject or _subject_of(path)])
        write_text(html, page_of(f"evictable show {path.name}", [Example(drawing, command)]))
    if svg is None and html is None:
        show_drawing(console(), drawing)
    return 1 if drawing.broken else 0


def drawing_of(path: Path, profile: str = "auto", subject: str | None = None, last: int = LAST) -> Drawing:
    """The drawing of the trace in a file, as recorded or as ``subject`` answers.

    Raises `UsageError` naming file and line, and `Inconclusive` if the subject dies.
    """
    try:
        if subject is not None:
            drawing = _on_subject(path, profile, subject, last)
        else:
            drawing = _of_policy(path, profile, last) if is_policy_level(path) else _of_manager(path, profile, last)
    except UsageError as error:
        # What the file's own reader raises names it already.
        raise error if str(error).startswith(str(path)) else UsageError(f"{path}: {error}") from error
    if not drawing.steps:
        raise UsageError(f"{path}: holds no call; a trace has a head line and one line for each call")
    return drawing


def _on_subject(path: Path, profile: str, subject: str, last: int) -> Drawing:
    name = subjects.prepare(subject, lambda line: console(stderr=True).print(line, markup=False))
    with opened(path) as file:
        lines = [line for line in file if line.strip()]
    if len(lines) > LONG:
        raise UsageError(f"holds more than {LONG:,} calls: `evictable shrink` it on {subject}, and show that")
    if is_policy_level(path):
        played = run_job({"job": "replay-policy", "subject": name, "profile": profile, "trace": lines})
    else:
        job = {"job": "replay", "subject": name, "profile": profile, "traces": [lines]}
        played = run_job(job)["replays"][0]
    told = [BrokenLaw(one["law"], one["sentence"], one["expected"], one["observed"]) for one in played["broken"]]
    return drawing_of_lines(played["trace"], "auto", told, last)


def drawing_of_lines(lines: Sequence[str], profile: str, told: Sequence[BrokenLaw] = (), last: int = LAST) -> Drawing:
    """The drawing of a counterexample, whose last call breaks what is ``told``. Raises `TraceError`, `UsageError`."""
    trace = read_either(lines)
    if isinstance(trace, PolicyTrace):
        return draw_policy(trace, profile_of_trace(trace.head, profile), told=told, last=last)
    return draw(trace.head, lambda: trace.entries, profile_of_trace(trace.head, profile), told=told, last=last)


def _of_manager(path: Path, profile: str, last: int) -> Drawing:
    def entries() -> Iterator[Entry]:
        with opened(path) as lines:
            yield from Stream.of(lines, may_be_cut=True)

    with opened(path) as lines:
        head = Stream.of(lines, may_be_cut=True).head
    return draw(head, entries, profile_of_trace(head, profile), last=last)


def _of_policy(path: Path, profile: str, last: int) -> Drawing:
    with opened(path) as lines:
        trace = read_policy_trace(lines)
    return draw_policy(trace, profile_of_trace(trace.head, profile), last=last)


def _subject_of(path: Path) -> str:
    with opened(path) as lines:
        first = next(line for line in lines if line.strip())
    return read_either([first]).head.subject
