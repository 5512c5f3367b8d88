"""What becomes of a search's result in the test of a law: passed, skipped with the reason, or failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evictable.ci.cells import Cell, Violation
from evictable.ci.conformance import SEARCH, Case, cases, searched, settle

HEAD = '{"evictable_trace": 1, "capacity": 1, "profile": "any"}'
BEGIN = [{"kind": "start"}, {"kind": "loaded", "profile": "any", "inside": True}]
END = {
    "kind": "result",
    "verdict": "conforms",
    "steps": 7,
    "seconds": 1.0,
    "untouched": [],
    "not_exercised": ["drains"],
}
FINDING = {
    "kind": "finding",
    "law": "answer",
    "broken": {"sentence": "so it is", "expected": "this", "observed": "that"},
    "engine": "random",
    "found_after": {"steps": 1, "seconds": 0.1},
    "trace": [HEAD, '{"call": "reset_cache", "returns": null}'],
}


def cell_of(*records: Any) -> Cell:
    cell = Cell("m:f", "lru", "contract")
    for record in (*BEGIN, *records):
        cell.take(record)
    return cell


def outcome(cell: Cell, law: str) -> str:
    try:
        settle(cell, law, "auto")
    except (pytest.skip.Exception, pytest.fail.Exception) as ended:
        return f"{type(ended).__name__}: {str(ended).splitlines()[0]}"
    return "passed"


CRASH = {"kind": "crash", "message": "it died"}
LEFT_OUT = {"kind": "left out", "message": "nothing to strike"}
TOO_LITTLE = {**END, "verdict": "inconclusive", "untouched": ["evict"]}
SHORT = "too little was tried (evict not exercised): search longer"


@pytest.mark.parametrize(
    ("records", "law", "expected"),
    [
        ([END], "answer", "passed"),
        ([END], SEARCH, "passed"),
        ([END], "drains", "Skipped: not exercised in 7 calls"),
        ([FINDING, END], "capacity", "passed"),
        ([FINDING, END], "answer", "Failed: answer broken by m:f lru contract: so it is"),
        ([FINDING, CRASH], "answer", "Failed: answer broken by m:f lru contract: so it is"),
        ([FINDING, CRASH], "capacity", "Skipped: no verdict: it died"),
        ([], "answer", "Skipped: no verdict: the search did not end"),
        ([CRASH], "answer", "Skipped: no verdict: it died"),
        ([CRASH], SEARCH, "Failed: no verdict on m:f lru contract: it died"),
        ([TOO_LITTLE], "answer", f"Skipped: no verdict: {SHORT}"),
        ([TOO_LITTLE], SEARCH, f"Failed: no verdict on m:f lru contract: {SHORT}"),
        ([LEFT_OUT], "answer", "Skipped: left out: nothing to strike"),
        ([LEFT_OUT], SEARCH, "Skipped: left out: nothing to strike"),
    ],
)
def test_the_test_of_a_law(records: list[Any], law: str, expected: str) -> None:
    assert expected == outcome(cell_of(*records), law)


def test_under_any_profile_no_order_is_judged() -> None:
    cell = cell_of({**END, "not_exercised": ["evict-order"]})
    expected = "Skipped: not exercised in 7 calls (no order is judged under the profile any: name another)"
    assert expected == outcome(cell, "evict-order")


def test_only_careless_callers_can_complete_what_is_not_theirs() -> None:
    assert [False, True, False] == [
        Case(discipline, "owner-completes") in cases(discipline) for discipline in ("contract", "careless", "hostile")
    ]


def config(folder: Path) -> Any:
    return SimpleNamespace(stash=pytest.Stash(), getoption=lambda name: str(folder))


def test_a_search_is_run_once_and_what_it_found_is_written(tmp_path: Path) -> None:
    options, runs = config(tmp_path), []

    def run() -> Cell:
        runs.append(1)
        return cell_of(FINDING, END)

    found = [searched(options, "key", run).violations["answer"].path for _ in range(2)]
    path = tmp_path / "m-f-lru-contract-answer.jsonl"
    assert ([path, path], [1]) == (found, runs)
    assert Violation.of(FINDING).lines == path.read_text().splitlines()


def test_where_nothing_can_be_written_what_was_found_is_told(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.warns(UserWarning, match="cannot be written"):
        cell = searched(config(tmp_path / "a file"), "key", lambda: cell_of(FINDING, END))
    assert "Failed: answer broken by m:f lru contract: so it is" == outcome(cell, "answer")


def test_the_calls_of_one_that_hung_are_written(tmp_path: Path) -> None:
    hung = {"kind": "hang", "message": "it hung", "trace": [HEAD]}
    cell = searched(config(tmp_path), "key", lambda: cell_of(hung))
    path = tmp_path / "m-f-lru-contract-hang.jsonl"
    assert (f"it hung; the calls are in {path}", f"{HEAD}\n") == (cell.problem, path.read_text())
