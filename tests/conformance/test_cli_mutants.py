"""`evictable mutants`: a table of what comes of each, and an exit code that a survivor decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from commandline import Run

from evictable.ci.mutants import Hunt, _of_mutant, _Piece
from evictable.specs.mutants.fate import ALIVE, EQUIVALENT, OUTSIDE, REFUTED, Fate
from evictable.specs.mutants.hunts import HAND_MADE
from evictable.specs.mutants.registry import MUTANTS, named

_OLD = "return LookupResult.HIT if block.ref_cnt >= 0 else LookupResult.HIT_PENDING"
_NEW = {
    "survivor": "return LookupResult.HIT if block.ref_cnt > -1 else LookupResult.HIT_PENDING",
    "killer": "import os; os._exit(3)",
    "refuted": "return LookupResult.HIT",
}


def table(name: str) -> str:
    return f"""
[[mutant]]
name = "{name}"
sentence = "a lookup that is written otherwise"
module = "manager"
old = "{_OLD}"
new = "{_NEW[name]}"
laws = ["answer"]
"""


def test_each_engine_that_covers_a_mutant_refutes_it(evictable: Run, folder: Path) -> None:
    names = ("refusal-touches", "no-unmark-when-pinned")
    run = evictable("mutants", *names, "--engine", "random", "--engine", "exhaustive", "--json", "mutants.json")
    assert 0 == run.returncode, run.stderr
    rows = json.loads((folder / "mutants.json").read_text())["results"]
    assert [
        ("refusal-touches", "random", "refuted", "all-or-nothing", 4),
        ("refusal-touches", "exhaustive", "outside", "", None),
        ("no-unmark-when-pinned", "random", "refuted", "evictable-iff-idle", 5),
        ("no-unmark-when-pinned", "exhaustive", "refuted", "evictable-iff-idle", 5),
    ] == [tuple(row[name] for name in ("mutant", "engine", "verdict", "by", "calls")) for row in rows]
    assert "covered by two engines or more: 1 mutants; they agree on 1" in run.stdout


def test_a_survivor_makes_it_fail(evictable: Run, folder: Path) -> None:
    (folder / "mine.toml").write_text(table("survivor") + table("refuted"))
    run = evictable("mutants", "--file", "mine.toml", "--max-calls", "3000")
    assert 1 == run.returncode
    assert "ALIVE under random: survivor (a lookup that is written otherwise): answer was not broken" in run.stdout
    assert "random: 1 refuted, 1 alive" in run.stdout


def test_a_process_that_dies_leaves_its_mutant_alive_and_the_others_to_another(evictable: Run, folder: Path) -> None:
    (folder / "mine.toml").write_text(table("killer") + table("refuted"))
    run = evictable("mutants", "--file", "mine.toml")
    assert 1 == run.returncode
    assert "ALIVE under random: killer (a lookup that is written otherwise): the process of the subject" in run.stdout
    assert "random: 1 refuted, 1 alive" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonesuch",), "unknown mutant 'nonesuch'; such as "),
        (
            ("mark-at-insert", "--file", "mine.toml"),
            "NAME and --file do not go together: each says which mutants to hunt",
        ),
        (("--generated", "--subject", "vllm==0.24.0"), "--generated and --subject do not go together"),
        (("--generated", "--engine", "z3"), "--generated takes no --engine"),
        (("--subject", "nobody:at_all"), "there are no mutants of nobody:at_all; known: impl, vllm==0.24.0"),
        (("--file", "none.toml"), "none.toml: cannot be read"),
        (("--file", "mine.toml"), "mine.toml: lacks 'mutant'; write [[mutant]] tables"),
    ],
)
def test_bad_input_is_one_line(evictable: Run, folder: Path, arguments: tuple[str, ...], said: str) -> None:
    (folder / "mine.toml").write_text("")
    run = evictable("mutants", *arguments)
    assert (2, 1) == (run.returncode, len(run.stderr.splitlines()))
    assert said in run.stderr


def hunted_live(run: Run, folder: Path, version: str, *names: str) -> list[dict[str, Any]]:
    done = run("mutants", *names, "--subject", f"vllm=={version}", "--json", "mutants.json")
    rows: list[dict[str, Any]] = json.loads((folder / "mutants.json").read_text())["results"]
    assert {0: {REFUTED}}.get(done.returncode) == {row["verdict"] for row in rows}, done.stdout
    return rows


@pytest.mark.release
@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
def test_a_mutant_of_a_release_is_refuted(
    version: str, evictable: Run, folder: Path, release: Callable[[str], Path]
) -> None:
    release(version)
    rows = hunted_live(evictable, folder, version, "no-mark-when-stored", "nothing-protected")
    assert [("evictable-iff-idle", 3), ("offer-protected", 4)] == [(row["by"], row["calls"]) for row in rows]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
def test_every_mutant_of_a_release_is_refuted_as_it_says(
    version: str, evictable: Run, folder: Path, release: Callable[[str], Path]
) -> None:
    release(version)
    rows = hunted_live(evictable, folder, version)
    assert 25 <= len(rows)
    assert [] == [(row["mutant"], row["by"]) for row in rows if row["by"] not in row["laws"]]


def hunted(**verdicts: str) -> Hunt:
    fates = {(MUTANTS[0].name, engine): Fate(engine, verdict) for engine, verdict in verdicts.items()}
    return Hunt([_of_mutant(MUTANTS[0])], tuple(verdicts), fates=fates)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ({"random": REFUTED, "z3": OUTSIDE}, 0),
        ({"random": REFUTED, "z3": ALIVE}, 1),
        ({"random": OUTSIDE, "z3": OUTSIDE}, 3),
    ],
)
def test_the_exit_code(verdicts: dict[str, str], code: int) -> None:
    assert code == hunted(**verdicts).exit_code


def test_what_is_said_to_be_equivalent_is_stale_when_it_is_refuted() -> None:
    hunt = hunted(random=REFUTED)
    hunt.excused = {MUTANTS[0].name: "nobody could notice"}
    assert (1, [MUTANTS[0].name]) == (hunt.exit_code, hunt.stale)


def test_a_survivor_that_is_equivalent_is_no_failure_alone() -> None:
    hunt = Hunt([_of_mutant(one) for one in MUTANTS[:2]], ("random",), excused={MUTANTS[0].name: "the same"})
    piece = _Piece("random", list(hunt.targets))
    for mutant, verdict in zip(MUTANTS, (ALIVE, REFUTED), strict=False):
        hunt._take(piece, {"kind": "fate", "mutant": mutant.name, "fate": asdict(Fate("random", verdict))})
    assert (0, EQUIVALENT) == (hunt.exit_code, hunt.fates[MUTANTS[0].name, "random"].verdict)


def test_engines_that_disagree_are_told() -> None:
    assert [MUTANTS[0].name] == hunted(random=REFUTED, z3=ALIVE).at_odds
    assert [] == hunted(random=REFUTED, z3=OUTSIDE).at_odds


def test_a_mutant_that_hangs_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evictable.ci.mutants.SILENCE", 2.0)
    hanging = evolve(named("touch-forgotten"), name="hangs", new="\n        while True:\n            pass")
    job = {"source": HAND_MADE, "subject": "impl", "max_calls": 1_000}
    hunt = Hunt([_of_mutant(hanging)], ("random",), job)
    assert 1 == hunt.run()
    assert "the subject gave no sign of life and was ended" == hunt.fates["hangs", "random"].note
