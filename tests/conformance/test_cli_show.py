"""`evictable show`, `explain`, `laws` and `check --html` as users meet them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from commandline import Run

from evictable.ci.cli import cli
from evictable.ci.found import as_json, found_in, read_found, short_table
from evictable.model.laws import LAW_BY_ID, LAWS

ROOT = Path(__file__).resolve().parents[2]
DRAWN = ROOT / "docs" / "foreign-completion.jsonl"


# --- show -----------------------------------------------------------------------------------------


def test_show_draws_in_the_terminal(at_once: Run) -> None:
    done = at_once("show", DRAWN)
    assert 1 == done.returncode
    assert "owner-completes broken by vllm==0.33.0 lru careless" in done.stdout
    assert "✗ right 1" in done.stdout


def test_the_picture_in_the_readme_is_what_the_command_makes(at_once: Run, folder: Path) -> None:
    at_once("show", DRAWN, "--svg", "picture.svg")
    assert DRAWN.with_suffix(".svg").read_text() == (folder / "picture.svg").read_text()
    assert "docs/foreign-completion.svg" in (ROOT / "README.md").read_text()


@pytest.mark.release
def test_the_picture_in_the_readme_is_of_that_release(release, evictable: Run) -> None:
    release("0.33.0")
    done = evictable("replay", DRAWN, "--subject", "vllm==0.33.0")
    assert 1 == done.returncode
    assert "owner-completes broken" in done.stdout


def test_show_writes_a_page_that_names_the_command(at_once: Run, folder: Path) -> None:
    assert 1 == at_once("show", DRAWN, "--html", "page.html").returncode
    assert f"evictable replay {DRAWN} --subject vllm==0.33.0" in (folder / "page.html").read_text()


def test_a_trace_that_is_right_is_drawn_too(at_once: Run, folder: Path) -> None:
    lines = DRAWN.read_text().splitlines()[:-1]
    (folder / "right.jsonl").write_text("\n".join(lines) + "\n")
    done = at_once("show", "right.jsonl", "--svg", "right.svg")
    assert 0 == done.returncode
    picture = ElementTree.parse(folder / "right.svg")
    assert [] == [one for one in picture.iter() if one.get("data-wrong")]


def test_a_changed_trace_moves_the_wrong_cell(at_once: Run, folder: Path) -> None:
    lines = DRAWN.read_text().splitlines()
    last = json.loads(lines[-1])
    last["request"], last["keys"] = "r1", [8]
    last["state"] |= {"ref_cnt": {"7": 1, "8": 0}, "evictable": [8]}
    (folder / "moved.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    for name, path in (("7", DRAWN), ("8", folder / "moved.jsonl")):
        at_once("show", path, "--svg", "picture.svg")
        groups = ElementTree.parse(folder / "picture.svg").iter("{http://www.w3.org/2000/svg}g")
        wrong = [group.get("data-key") for group in groups if any(one.get("data-wrong") == "key" for one in group)]
        assert [name] == wrong


def test_of_a_long_trace_the_last_calls_are_drawn_and_it_says_so(at_once: Run, folder: Path) -> None:
    head = {"evictable_trace": 1, "capacity": 2, "profile": "any"}
    lines = [json.dumps(head), *['{"call": "reset_cache", "returns": null}'] * 3000]
    (folder / "long.jsonl").write_text("\n".join(lines) + "\n")
    done = at_once("show", "long.jsonl", "--last", "5")
    assert 0 == done.returncode
    assert "only the last 5 of 3,000 calls are drawn" in done.stdout


@pytest.mark.parametrize("command", ["show", "explain"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "absent.jsonl"),
        ("", "line 1: the trace is empty"),
        ("{}", "line 1: this is not a trace"),
        ('{"evictable_trace": 1, "capacity": 1}\n', "holds no call"),
        ('{"evictable_trace": 1, "capacity": 1}\n{"call": "reset_cache"}\n', "no recorded answer"),
        ('{"evictable_trace": 1, "capacity": 1, "profile": "x"}\n{"call": "reset_cache"}\n', "unknown profile 'x'"),
        ('{"evictable_trace": 1, "level": "policy", "capacity": 1}\n{"call": "clear"}\n', "no recorded answer"),
        ("\udcff", "not a text file"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    at_once: Run, folder: Path, command: str, content: str | None, problem: str
) -> None:
    if content is not None:
        (folder / "absent.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = at_once(command, "absent.jsonl")
    assert (2, 1, "") == (done.returncode, done.stderr.count("\n"), done.stdout)
    assert problem in done.stderr


@pytest.mark.parametrize("option", ["--svg", "--html"])
def test_a_full_disk_is_one_line(at_once: Run, option: str) -> None:
    done = at_once("show", DRAWN, option, "/dev/full")
    assert (2, 1) == (done.returncode, done.stderr.count("\n"))
    assert "/dev/full: cannot be written" in done.stderr


HALF_PINNED = Path(__file__).parent / "cases" / "half-pinned.jsonl"


def test_calls_without_answers_are_drawn_on_a_subject(evictable: Run, folder: Path) -> None:
    done = evictable("show", HALF_PINNED, "--subject", "impl")
    assert (0, "") == (done.returncode, done.stderr)
    done = evictable("show", HALF_PINNED, "--subject", "mutant:load-pins-before-it-checks", "--html", "page.html")
    assert 1 == done.returncode
    page = (folder / "page.html").read_text()
    assert 'data-wrong="key"' in page
    assert "--subject mutant:load-pins-before-it-checks" in page


def test_policy_calls_are_explained_on_a_subject(evictable: Run, folder: Path) -> None:
    head = '{"evictable_trace": 1, "level": "policy", "capacity": 1}'
    (folder / "trace.jsonl").write_text(head + '\n{"call": "mark_evictable", "key": 0}\n')
    done = evictable("explain", "trace.jsonl", "--subject", "impl")
    assert 0 == done.returncode
    assert "raises MismatchedMark" in done.stdout


# --- check --html ---------------------------------------------------------------------------------


def test_a_mutant_is_drawn_on_the_page(evictable: Run, folder: Path) -> None:
    done = evictable("check", "mutant:no-unmark-when-pinned", "--max-calls", "3000", "--html", "page.html")
    assert 1 == done.returncode
    page = (folder / "page.html").read_text()
    assert "✗ violates" in page
    assert 'data-wrong="evictable"' in page
    assert "evictable replay traces/" in page


def test_a_page_of_a_pass_says_how_much_was_tried(evictable: Run, folder: Path) -> None:
    assert 0 == evictable("check", "impl", "--max-calls", "2000", "--html", "page.html").returncode
    page = (folder / "page.html").read_text()
    assert "✓ conforms" in page
    assert "evidence, not proof" in page
    assert "exercised on impl lru contract" in page


def test_a_page_that_cannot_be_written_loses_nothing(evictable: Run, folder: Path) -> None:
    done = evictable("check", "mutant:no-unmark-when-pinned", "--max-calls", "3000", "--html", "/dev/full")
    assert 1 == done.returncode
    assert "/dev/full: cannot be written" in done.stderr
    assert "evictable-iff-idle" in done.stdout


# --- laws and explain -----------------------------------------------------------------------------


def test_every_law_says_why_it_matters(at_once: Run, folder: Path) -> None:
    at_once("laws", "--json", "laws.json")
    laws = json.loads((folder / "laws.json").read_text())["results"]
    assert [(law.id, law.sentence, law.why) for law in LAWS] == [
        (one["law"], one["sentence"], one["why"]) for one in laws
    ]
    assert all(one["why"] and one["seeded"] for one in laws)


def test_what_laws_have_caught_is_what_the_tables_show() -> None:
    rows = tuple(found_in((ROOT / "docs" / "found.md").read_text()))
    assert (ROOT / "ci" / "found.json").read_text() == as_json(rows) + "\n"
    assert rows == read_found()


def test_the_short_table_in_the_readme_is_made_of_them() -> None:
    assert "\n".join(short_table(read_found())) in (ROOT / "README.md").read_text()


def test_the_short_table_has_the_fewest_calls() -> None:
    table = (
        "| policy | law | tiers | 0.23 | 0.24 |",
        "|---|---|---|---|---|",
        "| lru | `answer` | 0 | - | 9 |",
        "| arc | `answer` | 0 | - | 4* |",
        "| arc | `answer` | 1 | 12 | - |",
    )
    assert ["| hostile | `answer` |  | 4 |", "| hostile, with tiers | `answer` | 12 |  |"] == short_table(
        tuple(found_in("\n".join(table)))
    )[2:]


def test_found_is_read_from_a_table() -> None:
    table = (
        "| policy | law | 0.23 | 0.24 | 0.25 | 0.33 |",
        "|---|---|---|---|---|---|",
        "| lru | `answer` | - | 3* | 12 | 3 |",
    )
    (row,) = found_in("\n".join(table))
    assert "vLLM 0.24 to 0.25, 0.33, lru hostile: 3 to 12 calls" == str(row)
    assert (("0.24",), "evictable check vllm==0.33.0 --policy lru --discipline hostile") == (row.reached, row.command)


def test_laws_name_releases_and_calls(at_once: Run) -> None:
    assert "caught   vLLM 0.22 to 0.29, arc contract: 8 calls" in at_once("laws").stdout


@pytest.mark.parametrize("law", LAW_BY_ID)
def test_a_law_is_explained_with_a_command_that_shows_it(at_once: Run, law: str) -> None:
    done = at_once("explain", law)
    assert 0 == done.returncode
    command = next(line for line in done.stdout.splitlines() if line.startswith("  see it")).split(None, 2)[2]
    parsed(command)


def test_a_trace_is_explained_call_by_call(at_once: Run) -> None:
    done = at_once("explain", DRAWN)
    assert 1 == done.returncode
    lines = done.stdout.splitlines()
    assert "4. r2 begins to read 8. It is told to read from slots [1]. Block 8: idle (0) -> in use 1 time." in lines
    assert "   No careful caller does that: r2 has no load of 7 in flight." in lines
    assert "The ref_cnt of 7 should be 1, not 0." in lines


def test_what_is_neither_law_nor_trace_is_one_line(at_once: Run) -> None:
    done = at_once("explain", "owner-complete")
    assert (2, 1) == (done.returncode, done.stderr.count("\n"))
    assert "the laws are evictable-iff-idle" in done.stderr


# --- help and completion --------------------------------------------------------------------------


def parsed(example: str) -> None:
    """Raises if the command line does not take it."""
    program, name, *arguments = shlex.split(example.split(" < ")[0])
    assert "evictable" == program
    cli.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("name", list(cli.commands))
def test_the_help_of_every_command_has_an_example_that_it_takes(name: str) -> None:
    text = cli.commands[name].get_help(click.Context(cli.commands[name], info_name=name))
    (example,) = [line.strip() for line in text.splitlines() if line.strip().startswith(f"evictable {name} ")]
    parsed(example)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_completion_script(evictable: Run, shell: str) -> None:
    done = evictable(env={"_EVICTABLE_COMPLETE": f"{shell}_source"})
    assert 0 == done.returncode
    assert "_EVICTABLE_COMPLETE=" + shell + "_complete" in done.stdout


def test_a_shell_is_offered_laws(evictable: Run) -> None:
    words = {"COMP_WORDS": "evictable explain own", "COMP_CWORD": "2", "_EVICTABLE_COMPLETE": "bash_complete"}
    assert "plain,owner-completes\n" == evictable(env=words).stdout
