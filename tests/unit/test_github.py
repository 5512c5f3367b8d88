"""What GitHub Actions is told."""

from __future__ import annotations

from test_junit import cell, expectation, violation

from evictable.ci.github import MOST_ANNOTATIONS, annotated, markdown, on_github
from evictable.ci.report import Asked

ASKED = Asked("auto", 7)


def test_a_row_for_each_cell() -> None:
    lines = list(markdown([cell(), cell(violations={"answer": violation("known")})], (), ASKED))
    assert [
        "| impl | lru | contract | 0 | conforms | 300 |  |",
        "| impl | lru | contract | 0 | as expected | 300 | answer (2) expected |",
    ] == lines[4:6]
    assert "<details>" not in "".join(lines)


def test_a_failure_has_its_commands() -> None:
    lines = list(markdown([cell(violations={"answer": violation()})], (), ASKED))
    assert "| impl | lru | contract | 0 | violates | 300 | answer (2) |" in lines
    assert "**`answer`** in 2 calls: lookups are what the state says" in lines
    assert "replay    evictable replay traces/a.jsonl --subject impl" in lines
    assert "search    evictable check impl --policy lru --discipline contract --seed 7" in lines


def test_what_a_subject_says_is_no_markup() -> None:
    lines = list(markdown([cell(subject="a|b*c", problem="<b>")], (), ASKED))
    assert "| a\\|b\\*c | lru | contract | 0 | inconclusive | 300 |  |" in lines
    assert "**No verdict** on a\\|b\\*c lru contract: \\<b\\>" in lines


def test_a_stale_entry_is_in_the_summary() -> None:
    (line,) = (one for one in markdown([cell()], [expectation(strict=True)], ASKED) if "stale" in one)
    assert "stale: a.jsonl no longer breaks answer on impl; take the entry out of the list" == line


def test_annotations_are_escaped() -> None:
    broken = cell(subject="a:b,c", violations={"answer": violation(observed="5%")})
    (line,) = annotated([broken], (), ASKED)
    assert (
        "::error title=answer broken by a%3Ab%2Cc lru contract::lookups are what the state says; expected [0]; "
        "observed 5%25%0Aevictable replay traces/a.jsonl --subject a:b,c"
    ) == line


def test_what_is_known_is_not_annotated() -> None:
    known = cell(violations={"answer": violation("known")})
    warning, notice = annotated([known, cell()], [expectation(strict=True), expectation(strict=False)], ASKED)
    assert warning.startswith("::warning title=stale%3A a.jsonl no longer breaks answer on impl::known")
    assert notice.startswith("::notice title=not strict%3A ")


def test_no_more_than_are_shown() -> None:
    lines = list(annotated([cell(problem="it hung")] * 12, (), ASKED))
    assert "::warning title=no verdict on impl lru contract::it hung" == lines[0]
    assert (MOST_ANNOTATIONS + 1, "2 more are in the summary") == (len(lines), lines[-1])


def test_where_it_is_told() -> None:
    assert [True, False] == [on_github({"GITHUB_ACTIONS": "true"}), on_github({})]
