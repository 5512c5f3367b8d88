"""`evictable fetch`: releases into the cache, or a key for a CI system's cache of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from evictable.specs import subjects
from evictable.specs.subjects import releases

_RELEASE = re.compile(r"vllm==([^@]+)$")


def run_fetch(names: Sequence[str], *, key_only: bool) -> int:
    """Print a folder for each release, or the key; 0. Raises `UsageError` for what cannot be fetched."""
    versions = [found[1] for name in names if (found := _RELEASE.search(name))]
    if key_only:
        click.echo(releases.cache_key(versions))
        return 0
    for name in names:
        subjects.prepare(name, lambda line: click.echo(line, err=True))
    for version in dict.fromkeys(versions):
        click.echo(releases.fetch(version, lambda line: None))
    return 0
