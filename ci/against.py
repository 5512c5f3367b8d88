"""What another subject, a baseline, breaks by the calls that a campaign has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from evictable.ci.jobs import run_jobs
from evictable.specs.campaign.findings import Finding
from evictable.specs.campaign.places import POLICY


def broken_there(findings: Sequence[Finding], baseline: str, profile: str, say: Callable[[str], None]) -> list[Finding]:
    """Those whose law the same calls break on ``baseline``. Where it cannot be played, that is said of it."""
    jobs = list(_jobs(findings, baseline, profile))
    found: list[Finding] = []

    def on_record(index: int, record: Mapping[str, Any]) -> None:
        _, asked = jobs[index]
        if record["kind"] == "result":
            played = record.get("replays", [record])
            found.extend(
                one
                for one, came in zip(asked, played, strict=True)
                if any(broken["law"] == one.law for broken in came["broken"])
            )
        elif record["kind"] in ("error", "crash", "hang", "unexplained"):
            say(f"baseline {baseline}: nothing is expected at {asked[0].place.name}: {record['message']}")

    run_jobs([payload for payload, _ in jobs], on_record)
    return found


def _jobs(
    findings: Sequence[Finding], baseline: str, profile: str
) -> Iterator[tuple[Mapping[str, Any], Sequence[Finding]]]:
    """One for each place; at policy level one for each trace."""
    what = {"subject": baseline, "profile": profile}
    at: dict[Any, list[Finding]] = {}
    for one in findings:
        if one.place.level == POLICY:
            yield {"job": "replay-policy", "trace": one.trace, **what}, [one]
        else:
            at.setdefault(one.place, []).append(one)
    for found in at.values():
        yield {"job": "replay", "traces": [one.trace for one in found], **what}, found
