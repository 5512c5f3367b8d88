"""What the pages say of files and commands is so."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from evictable.ci.cli import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(target)
    assert [] == lost


def commands(page: Path) -> list[str]:
    """Lines of examples that begin with the name of the program."""
    blocks = re.findall(r"^```(?:sh|bash)?\n(.*?)^```", page.read_text(), re.M | re.S)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("evictable ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_taken(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(line.split(" < ")[0], comments=True)
        assert words[1] in cli.commands, line
        try:
            cli.commands[words[1]].make_context(words[1], words[2:])
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")
