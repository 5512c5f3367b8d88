"""Commands that show more than a search can, or whether a search would notice."""

from __future__ import annotations

from pathlib import Path

import click

from evictable.ci.commands.shared import EVERY_POLICY, EXIT_CODES, JSON, PROFILE, known_profile
from evictable.specs.errors import UsageError


@click.command(epilog=EXIT_CODES)
@click.argument("subject", default="impl")
@click.option("--full", is_flag=True, help="Larger bounds: half an hour instead of a few minutes.")
@click.option(
    "--engine",
    type=click.Choice(["exhaustive", "z3", "crosshair", "all"]),
    default="all",
    show_default=True,
    help="Every state of a small world; proofs for any number of keys and slots; contracts.",
)
@JSON
def prove(subject: str, full: bool, engine: str, json_path: Path | None) -> int:
    """Show that the model keeps its laws and that SUBJECT follows it, each theorem with its bound.

    SUBJECT: impl (the default), or what `check` takes. Exit code 1 if a theorem is refuted, 3 if one is undecided.

    \b
    Example:
      evictable prove impl --engine z3
    """
    from evictable.ci.prove import run_prove

    return run_prove(subject, full, None if engine == "all" else engine, json_path)


@click.command(epilog=EXIT_CODES)
@click.argument("name", nargs=-1)
@click.option(
    "--engine",
    "engines",
    type=click.Choice(["random", "exhaustive", "z3", "crosshair", "all"]),
    multiple=True,
    default=("random",),
    show_default=True,
    help="May be given several times. A random walk; every call in every state of small worlds; proofs; contracts.",
)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Hunt the mutants of a TOML file: [[mutant]] with name, sentence, module, old, new and laws.",
)
@click.option(
    "--max-calls", type=click.IntRange(min=1), metavar="N", help="In a random walk, for each. Default: 200,000."
)
@click.option(
    "--generated",
    is_flag=True,
    help="Hunt every edit that an operator can make of manager, blocks and policies; NAME is then such a module.",
)
@click.option(
    "--subject",
    default="impl",
    show_default=True,
    help="Whose mutants: vllm==0.24.0 and vllm==0.33.0 have some, too, which are put into the live manager.",
)
@JSON
def mutants(
    name: tuple[str, ...],
    engines: tuple[str, ...],
    path: Path | None,
    max_calls: int | None,
    generated: bool,
    subject: str,
    json_path: Path | None,
) -> int:
    """Does every seeded defect still come to light? Hunt NAME..., by default all of the built-in managers.

    For each mutant and engine: what refutes it, in how many calls, how soon; or why the engine does not speak of
    it. Exit code 1 if one is alive that an engine covers, 3 if no engine covers any. A time-out refutes nothing.

    \b
    Example:
      evictable mutants touch-forwards --engine all
    """
    from evictable.ci.mutants import Options, run_mutants
    from evictable.specs.mutants.hunt import MAX_CALLS

    return run_mutants(Options(name, engines, path, generated, subject, max_calls or MAX_CALLS, json_path))


@click.command(epilog=EXIT_CODES)
@click.argument("subject", default="impl")
@EVERY_POLICY
@PROFILE
@click.option(
    "--lock",
    type=click.Choice(["own", "external", "none"]),
    default="own",
    show_default=True,
    help="Held around each call: the manager's, one of ours, or none.",
)
@click.option(
    "--grain",
    type=click.Choice(["line", "opcode"]),
    help="Where threads switch. Default: line; without a lock opcode.",
)
@click.option(
    "--preemptions", type=click.IntRange(min=0), metavar="N", help="At most. Default: any number; without a lock 2."
)
@click.option(
    "--pair", "pair", multiple=True, metavar="A,B", help="Only these, such as prepare_load,touch. Default: all."
)
@click.option("--outside", multiple=True, metavar="CALL", help="Made without the lock, to see that this is noticed.")
@click.option(
    "--max-time",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="For each policy, shared out among the pairs; what is cut off twice is inconclusive.",
)
@JSON
def schedules(
    subject: str,
    policy: str,
    profile: str,
    lock: str,
    grain: str | None,
    preemptions: int | None,
    pair: tuple[str, ...],
    outside: tuple[str, ...],
    max_time: float,
    json_path: Path | None,
) -> int:
    """Interleave every pair of calls of two threads on SUBJECT: is each schedule like some order of the two calls?

    SUBJECT: impl (the default), or what `check` takes.

    \b
    Example:
      evictable schedules --lock none --policy lru --pair prepare_load,prepare_load
    """
    from evictable.ci.schedules import Options, pair_of, run_schedules
    from evictable.specs.schedules.pairs import NAMES
    from evictable.specs.subjects.vllm import POLICIES

    known_profile(profile)
    for name in outside:
        if name not in NAMES:
            raise UsageError(f"--outside {name}: no call that is paired; known: {', '.join(NAMES)}")
    unlocked = lock == "none" or bool(outside)
    options = Options(
        subject=subject,
        policies=POLICIES if policy == "all" else (policy,),
        profile=profile,
        lock=lock,
        grain=grain or ("opcode" if unlocked else "line"),
        preemptions=2 if preemptions is None and unlocked else preemptions,
        pairs=tuple(map(pair_of, pair)),
        outside=outside,
        max_time=max_time,
    )
    return run_schedules(options, json_path)
