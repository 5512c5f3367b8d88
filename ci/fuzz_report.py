"""What a campaign tells: in the terminal, as a status, a summary, and for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evictable.ci.report import STYLE_OF_VERDICT, count_calls, replay_command, show_difference, show_trace
from evictable.ci.units import Result
from evictable.model.policy_trace import read_either
from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.campaign.findings import Finding
from evictable.specs.campaign.places import Place
from evictable.specs.campaign.units import Unit
from evictable.specs.errors import UsageError

if TYPE_CHECKING:
    from evictable.ci.fuzz import Campaign


def line(campaign: Campaign) -> str:
    """Where it stands."""
    calls = sum(tally.calls for tally in campaign.tallies.values())
    features = sum(len(tally.features) for tally in campaign.tallies.values())
    problems = sum(sum(tally.problems.values()) for tally in campaign.tallies.values())
    return (
        f"{campaign.seconds:7.0f} s  {len(campaign.done):,} units, {count_calls(calls)}, {features:,} states and "
        f"branches, {campaign.corpus:,} traces in the corpus, {len(campaign.findings.found)} findings, "
        f"{problems} problems"
    )


def live(campaign: Campaign) -> Table:
    """The same as a table, with what is broken below."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("law", "places", "shortest"):
        table.add_column(heading, justify="left" if heading == "law" else "right")
    for law, found in by_law(campaign.findings.in_order).items():
        table.add_row(law, str(len({one.place for one in found})), str(min(one.calls for one in found)))
    table.title, table.title_justify = line(campaign).strip(), "left"
    return table


MOST_TOLD = 3
"""Findings of a law that the terminal shows; the summary has them all."""
_CARE = (CONTRACT, HOSTILE, CARELESS)


def by_law(findings: list[Finding]) -> dict[str, list[Finding]]:
    """Grouped; what careful callers break first, then shortest first."""
    laws: dict[str, list[Finding]] = {}
    for one in sorted(
        findings, key=lambda one: (_CARE.index(one.place.discipline), one.calls, one.law, one.place.name)
    ):
        laws.setdefault(one.law, []).append(one)
    return laws


def show(out: Console, campaign: Campaign) -> None:
    """The report at the end: one drawn counterexample a law, every finding in a line, a row for each place."""
    for found in by_law(campaign.unexpected).values():
        _draw(out, campaign, found[0])
    for law, found in by_law(campaign.findings.in_order).items():
        out.print()
        out.print(f"{law}: {found[0].broken['sentence']}", markup=False)
        for one in found[:MOST_TOLD]:
            out.print(f"  {_told(one)}", markup=False)
            out.print(f"    {replay(campaign, one)}", markup=False, soft_wrap=True)
        if len(found) > MOST_TOLD:
            out.print(f"  and {len(found) - MOST_TOLD} more, in summary.md", markup=False)
    out.print()
    out.print(_table(campaign))
    for text in _remarks(campaign):
        out.print(text, markup=False)
    out.print(line(campaign).strip(), markup=False)
    out.print(f"{_verdict(campaign)}; in {campaign.options.folder}: summary.md, summary.json", markup=False)


def _verdict(campaign: Campaign) -> str:
    known = len(campaign.findings.found) - len(campaign.unexpected)
    words = {
        0: f"{known} findings, all expected" if known else "no finding in what was tried: evidence, not proof",
        1: f"{len(campaign.unexpected)} findings" + (f" and {known} expected" if known else ""),
        2: "a subject cannot be searched, or a file cannot be written",
        3: "inconclusive",
        130: "interrupted",
    }
    return words[campaign.exit_code]


def _draw(out: Console, campaign: Campaign, found: Finding) -> None:
    out.print()
    out.print(f"{found.law} broken by {found.place.name}: {found.broken['sentence']}", markup=False)
    show_trace(out, read_either(found.trace), f"found by unit {found.unit} ({found.engine}, seed {found.seed})")
    show_difference(out, found.broken["expected"], found.broken["observed"])
    out.print(f"  replay    {replay(campaign, found)}", markup=False, soft_wrap=True)


def _told(one: Finding) -> str:
    how = "" if one.shrunk else ", not shrunk"
    doubt = "" if one.unrepeatable is None else f"; {one.unrepeatable}"
    known = "" if one.reason is None else f"; expected: {one.reason}"
    return (
        f"{one.place.name}, in {one.shape.rpartition('(')[2].rstrip(')')}: {count_calls(one.calls)}{how}, "
        f"{one.times:,} runs, first by unit {one.unit} ({one.engine}, seed {one.seed}){doubt}{known}"
    )


def replay(campaign: Campaign, found: Finding) -> str:
    """The command that makes its calls again."""
    return replay_command(campaign.path_of(found), found.place.subject, campaign.head["profile"])


def _table(campaign: Campaign) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("place", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for heading in ("units", "calls", "reached", "broken"):
        table.add_column(heading, justify="right", no_wrap=True)
    for place in campaign.places:
        tally, verdict = campaign.tallies[place], campaign.verdict(place)
        broken = len({one.law for (of, _), one in campaign.findings.found.items() if of == place})
        table.add_row(
            Text(place.name),
            Text(verdict, style=STYLE_OF_VERDICT[verdict]),
            f"{tally.units:,}",
            f"{tally.calls:,}",
            f"{len(tally.features):,}",
            str(broken or ""),
        )
    return table


def _remarks(campaign: Campaign) -> Iterator[str]:
    for place in campaign.places:
        tally = campaign.tallies[place]
        if tally.left_out is not None:
            yield f"left out: {place.name}: {tally.left_out}"
        for problem, times in tally.problems.items():
            yield f"problem at {place.name}: {problem}{f' ({times} times)' if times > 1 else ''}"
        if tally.cut:
            yield f"{place.name}: {tally.cut} units were ended by the clock, and need not repeat"
        if tally.worlds:
            yield f"exhaustive search on {place.name}: {'; '.join(tally.worlds)}"
    for place, missing in campaign.untried.items():
        if campaign.tallies[place].units:
            yield f"too little was tried on {place.name} ({', '.join(missing)} not exercised): search longer"
        else:
            yield f"nothing was tried on {place.name}: search longer"
    for one in campaign.stale:
        yield f"stale: {one.path} no longer breaks {one.law} on {one.subject}; take the entry out of the list"


def show_unit(out: Console, unit: Unit, result: Result) -> int:
    """What came of one unit. Exit code 1 if it broke a law, 3 if it had a problem."""
    out.print(f"{unit.name} of {unit.place.name}: {count_calls(result.get('calls', 0))}", markup=False)
    for one in result.get("findings", ()):
        out.print(f"  {one['shape']}: {count_calls(len(one['trace']) - 1)}", markup=False)
    if result.get("problem") is not None:
        out.print(f"  {result['problem']['kind']}: {result['problem']['message']}", markup=False)
    if result.get("findings"):
        return 1
    return 3 if result.get("problem") is not None else 0


# --- files ---


def summary(campaign: Campaign) -> dict[str, Any]:
    """All that was found and tried, for a program."""
    return {
        "evictable": campaign.head["evictable"],
        "seed": campaign.head["seed"],
        "exit_code": campaign.exit_code,
        "units": len(campaign.done),
        "seconds": round(campaign.seconds, 1),
        "results": [_record_of(campaign, place) for place in campaign.places],
        "findings": [
            {**one.record(), "trace": str(campaign.path_of(one)), "replay": replay(campaign, one)}
            for one in campaign.findings.in_order
        ],
    }


def _record_of(campaign: Campaign, place: Place) -> dict[str, Any]:
    tally = campaign.tallies[place]
    return {
        **place.record(),
        "verdict": campaign.verdict(place),
        "units": tally.units,
        "calls": tally.calls,
        "seconds": round(tally.seconds, 1),
        "reached": len(tally.features),
        "untouched": list(campaign.untried.get(place, ())),
        "problems": tally.problems,
        "left_out": tally.left_out,
        "bound": "; ".join(tally.worlds),
    }


def status(campaign: Campaign, state: str) -> dict[str, Any]:
    """Where it stands, for a program."""
    tallies = campaign.tallies.values()
    return {
        "state": state,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(campaign.seconds, 1),
        "max_seconds": campaign.options.max_time,
        "max_units": campaign.options.max_units,
        "workers": campaign.workers,
        "units": len(campaign.done),
        "calls": sum(tally.calls for tally in tallies),
        "reached": sum(len(tally.features) for tally in tallies),
        "corpus": campaign.corpus,
        "problems": sum(sum(tally.problems.values()) for tally in tallies),
        "findings": [
            {"place": one.place.name, "shape": one.shape, "calls": one.calls, "shrunk": one.shrunk}
            for one in campaign.findings.in_order
        ],
    }


def markdown(campaign: Campaign) -> Iterator[str]:
    """For a person who reads what a CI run left."""
    yield f"## evictable fuzz: {_verdict(campaign)}"
    yield ""
    yield line(campaign).strip()
    yield ""
    if campaign.findings.found:
        yield "| law | place | in | calls | found by | replay |"
        yield "|---|---|---|---|---|---|"
    for one in campaign.findings.in_order:
        where = one.place.name + (f" (expected: {one.reason})" if one.reason is not None else "")
        cells = (
            f"`{one.law}`",
            where,
            one.shape.rpartition("(")[2].rstrip(")"),
            str(one.calls),
            f"unit {one.unit}, {one.engine}, seed {one.seed}",
            f"`{replay(campaign, one)}`",
        )
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""
    yield "| place | verdict | units | calls | reached |"
    yield "|---|---|---|---|---|"
    for place in campaign.places:
        tally = campaign.tallies[place]
        shown = place.name.replace("|", "\\|")
        yield f"| {shown} | {campaign.verdict(place)} | {tally.units} | {tally.calls} | {len(tally.features)} |"
    yield ""
    for text in _remarks(campaign):
        yield f"* {text}"


# --- Prometheus ---


def serve_metrics(campaign: Campaign, address: str, port: int) -> int:
    """Answer Prometheus until the process ends, at the port that is returned. Raises `UsageError`."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as error:
        raise UsageError("--metrics-port needs prometheus-client: install evictable[prometheus]") from error

    class Collector:
        def collect(self) -> Iterator[Any]:
            totals = {"calls": 0.0, "problems": 0.0}
            reached = GaugeMetricFamily(
                "evictable_fuzz_reached", "Abstract states and branches that were reached", labels=["place"]
            )
            for place, tally in list(campaign.tallies.items()):
                totals["calls"] += tally.calls
                totals["problems"] += sum(tally.problems.values())
                reached.add_metric([place.name], len(tally.features))
            yield reached
            yield CounterMetricFamily("evictable_fuzz_units", "Units that are done", value=len(campaign.done))
            yield CounterMetricFamily("evictable_fuzz_calls", "Judged calls", value=totals["calls"])
            yield CounterMetricFamily(
                "evictable_fuzz_problems", "Units that crashed, hung or answered nonsense", value=totals["problems"]
            )
            yield GaugeMetricFamily("evictable_fuzz_seconds", "Since the campaign began", value=campaign.seconds)
            yield GaugeMetricFamily("evictable_fuzz_corpus", "Traces in the corpus", value=campaign.corpus)
            found = GaugeMetricFamily("evictable_fuzz_findings", "Ways to break a law", labels=["law", "expected"])
            counts: dict[tuple[str, str], int] = {}
            for one in list(campaign.findings.found.values()):
                key = one.law, "no" if one.reason is None else "yes"
                counts[key] = counts.get(key, 0) + 1
            for labels, count in counts.items():
                found.add_metric(list(labels), count)
            yield found

    registry = CollectorRegistry()
    registry.register(Collector())
    try:
        server, _ = start_http_server(port, address, registry)
    except OSError as error:
        raise UsageError(
            f"--metrics-port {port}: cannot be had at {address} ({error.strerror}); give another"
        ) from error
    return int(server.server_port)
