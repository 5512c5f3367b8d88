"""Commands about counterexamples and laws: shorter, drawn, in words, as a test."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from evictable.ci.commands.shared import EXIT_CODES, PROFILE, SUBJECT_HELP, known_profile


@click.command(epilog=EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--subject", help=f"{SUBJECT_HELP}. Default: the recorded one.")
@PROFILE
@click.option("--law", metavar="ID", help="The law to break. Default: the recorded one, or the first broken.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the shortest trace there.")
def shrink(trace: Path, subject: str | None, profile: str, law: str | None, output: Path | None) -> int:
    """Make a failing TRACE as short as it gets: of a check, a workload or the monitor, also of thousands of calls.

    Every candidate is played on a fresh subject. At the end each call and each key is left out once more, by itself:
    that the law then holds is what "no call and no key can be left out" means.

    \b
    Example:
      evictable shrink traces/X.jsonl -o short.jsonl
    """
    from evictable.ci.shrink import run_shrink

    known_profile(profile)
    return run_shrink(trace, subject, profile, law, output)


@click.command(epilog=EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write the picture there, for an issue.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page there, to step through.")
@click.option(
    "--last",
    type=click.IntRange(min=1, max=400),
    default=40,
    show_default=True,
    metavar="N",
    help="Calls that are drawn, at most: the last.",
)
@click.option("--subject", help=f"Whose answers to draw: {SUBJECT_HELP}. Default: the recorded ones.")
@PROFILE
def show(trace: Path, svg: Path | None, html: Path | None, last: int, subject: str | None, profile: str) -> int:
    """Draw TRACE up to its first broken law: calls down the page, keys across, what is wrong marked.

    In the terminal, or with --svg or --html in a file.

    \b
    Example:
      evictable show traces/X.jsonl --svg picture.svg
    """
    from evictable.ci.show import run_show

    known_profile(profile)
    return run_show(trace, profile, svg, html, subject=subject, last=last)


def _laws_and_files(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """What a shell offers for LAW|TRACE."""
    from evictable.model.laws import LAWS

    offered = [CompletionItem(law.id, help=law.sentence) for law in LAWS if law.id.startswith(begun)]
    return offered or [CompletionItem(begun, type="file")]


@click.command(epilog=EXIT_CODES)
@click.argument("what", metavar="LAW|TRACE", shell_complete=_laws_and_files)
@click.option("--subject", help=f"Of a trace, whose answers: {SUBJECT_HELP}. Default: the recorded ones.")
def explain(what: str, subject: str | None) -> int:
    """Say in words what a LAW demands and why; or what happened in a TRACE, call by call, and why the last is wrong.

    \b
    Example:
      evictable explain owner-completes
    """
    from evictable.ci.explain import run_explain

    return run_explain(what, subject)


@click.command()
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE", help="Write them there instead.")
def laws(json_path: Path | None) -> int:
    """Print every law: its sentence, why it matters, and the real defects that it has caught.

    \b
    Example:
      evictable laws --json laws.json
    """
    from evictable.ci.explain import run_laws

    return run_laws(json_path)


@click.command(epilog=EXIT_CODES)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--pytest", "as_pytest", is_flag=True, required=True, help="As a test that pytest runs.")
@click.option("--subject", help=f"Whose answers count: {SUBJECT_HELP}. Default: the recorded ones.")
@click.option("-o", "output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
def export(trace: Path, as_pytest: bool, subject: str | None, output: Path | None) -> int:
    """Make a test of the other project out of TRACE: it imports nothing of ours, and fails with the broken law.

    \b
    Example:
      evictable export traces/X.jsonl --pytest -o test_it.py
    """
    from evictable.ci.export import run_export

    return run_export(trace, subject, output)
