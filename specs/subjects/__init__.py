"""Who is judged. `prepare` makes a subject available, `load` brings it into this process.

Two steps, because a process may hold one vLLM tree only: the command line prepares all subjects, and a process
of its own loads each.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import evolve

from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import SubjectKind

_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HOSTED = re.compile(rf"({_FACTORY.pattern})@(.+)", re.DOTALL)
_MUTANT = "mutant:"
_STDIO = "stdio:"
_HELP = (
    "a subject is impl, impl:linked, mutant:NAME, mutant:NAME@vllm==0.33.0, vllm, vllm==0.33.0, "
    "vllm:PATH (a source checkout), package.module:factory (or a cache policy class), package.module:Policy@HOST "
    "or stdio:COMMAND"
)


def hosted(policy: str, host: str) -> str:
    """The subject that the cache policy ``package.module:Name`` is in the manager of ``host``.

    Raises `UsageError` if it is no such name.
    """
    if not _FACTORY.fullmatch(policy) or policy.startswith("vllm:"):
        raise UsageError(f"{policy}: --host takes in a cache policy class, package.module:Name")
    return f"{policy}@{host}"


def prepare(name: str, report: Callable[[str], None]) -> str:
    """Fetch what ``name`` needs, once, telling ``report`` of progress. Returns the name in its normal form.

    Raises `UsageError` if there is no such subject.
    """
    from evictable.specs.subjects import releases

    if name in ("impl", "impl:linked"):
        return name
    if name.startswith(_MUTANT) and "@" in name:
        from evictable.specs.mutants.releases import of_release

        seeded, _, release = name.removeprefix(_MUTANT).partition("@")
        release = prepare(release, report)
        (live,) = of_release(release, (seeded,))
        report(f"{name}: {live.sentence}")
        return f"{_MUTANT}{seeded}@{release}"
    if name.startswith(_MUTANT):
        from evictable.specs.mutants import registry

        mutant = registry.named(name.removeprefix(_MUTANT))
        report(f"{name}: {mutant.sentence}; noticed with {mutant.options}")
        return name
    if name.startswith(_STDIO):
        from evictable.specs.subjects.stdio import words_of

        words_of(name)
        return name
    if name.startswith("vllm=="):
        return f"vllm=={releases.fetch(name.removeprefix('vllm=='), report).name}"
    if name == "vllm":
        releases.installed()
    elif name.startswith("vllm:"):
        releases.checkout(name.removeprefix("vllm:"))
    elif guest := _HOSTED.fullmatch(name):
        return f"{guest[1]}@{prepare(_host(name, guest[2]), report)}"
    elif not _FACTORY.fullmatch(name):
        raise UsageError(f"unknown subject {name!r}: {_HELP}")
    return name


def is_linked(name: str) -> bool:
    """Whether it is the built-in manager on flat lists, or a mutant of that."""
    if name.startswith(_MUTANT) and "@" not in name:
        from evictable.specs.mutants import registry

        return registry.named(name.removeprefix(_MUTANT)).is_linked
    return name == "impl:linked"


def load(name: str) -> SubjectKind:
    """Bring a prepared subject into this process. Raises `UsageError` if it cannot be loaded."""
    if name == "impl":
        from evictable.specs.subjects.builtin import BUILT_IN

        return BUILT_IN
    if name == "impl:linked":
        from evictable.specs.subjects.linked import LINKED

        return LINKED
    if name.startswith(_MUTANT) and "@" in name:
        from evictable.specs.mutants.hunt_live import patched
        from evictable.specs.mutants.releases import of_release

        seeded, _, release = name.removeprefix(_MUTANT).partition("@")
        (live,) = of_release(release, (seeded,))
        return evolve(patched(load(release), live), name=name)
    if name.startswith(_MUTANT):
        from evictable.specs.mutants import build, registry
        from evictable.specs.subjects import builtin, linked

        mutant = registry.named(name.removeprefix(_MUTANT))
        kind_of = linked.kind_of if mutant.is_linked else builtin.kind_of
        return kind_of(name, build.build(mutant))
    if name.startswith(_STDIO):
        from evictable.specs.subjects.stdio import from_command

        return from_command(name)
    if name == "vllm" or name.startswith(("vllm==", "vllm:")):
        from evictable.specs.subjects import releases
        from evictable.specs.subjects.vllm import from_tree

        if name == "vllm":
            # Not by its version: a build from source may call itself anything.
            return from_tree(name, releases.installed()[0])
        if name.startswith("vllm:"):
            return from_tree(name, releases.checkout(name.removeprefix("vllm:")))
        version = name.removeprefix("vllm==")
        return from_tree(name, releases.fetch(version, lambda line: None), version)
    if guest := _HOSTED.fullmatch(name):
        from evictable.specs.subjects.hosts import hosted_by

        return hosted_by(_host(name, guest[2]), guest[1], name)
    if _FACTORY.fullmatch(name):
        from evictable.specs.subjects.factory import from_factory

        return from_factory(name)
    raise UsageError(f"unknown subject {name!r}: {_HELP}")


def _host(name: str, host: str) -> str:
    if host in ("impl", "vllm") or host.startswith(("vllm==", "vllm:")):
        return host
    raise UsageError(f"{name}: a host is impl, vllm, vllm==0.33.0 or vllm:PATH")
