"""Mutants that no hand made: every edit of the manager, of its blocks and of its policies that an operator can make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import frozen

from evictable.specs.mutants.build import source_of
from evictable.specs.mutants.mutant import Mutant
from evictable.specs.mutants.operators import edits

MODULES = ("blocks", "manager", "policies.arc", "policies.base", "policies.factory", "policies.lru", "pool")


@frozen
class Generated:
    """An edit, and the mutant that it makes."""

    place: str
    """Module, function, operator, the text before and after; with a number if that is there several times."""
    line: int
    mutant: Mutant


def generated(modules: tuple[str, ...] = MODULES) -> Iterator[Generated]:
    """All of them, module by module and line by line."""
    for module in modules:
        source = source_of(module)
        seen: Counter[str] = Counter()
        for edit in edits(source):
            place = f"{module}:{edit.function}: {edit.operator}: {edit.old} -> {edit.new}"
            seen[place] += 1
            place += f" #{seen[place]}" if seen[place] > 1 else ""
            name = f"generated-{module.replace('.', '-')}-{sum(seen.values())}"
            yield Generated(
                place, edit.line, Mutant(name, place, module, source, edit.source, ("answer",), kind="generated")
            )
