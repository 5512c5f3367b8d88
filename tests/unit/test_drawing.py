"""The drawing of a trace: what is drawn, and that the wrong cell is the wrong one."""

from __future__ import annotations

import pytest
from traces_to_draw import drawn, drawn_policy, foreign, state, stored, tiered_entries, wrong_keys

from evictable.model.trace import Stream
from evictable.specs.drawing.draw import draw
from evictable.specs.drawing.drawing import (
    ANSWER,
    COUNTERS,
    EVICTABLE,
    SLOTS,
    BrokenLaw,
    Cell,
    Counter,
    Job,
    Slot,
)
from evictable.specs.errors import UsageError


@pytest.mark.parametrize("wrong", [7, 8])
def test_the_marked_cell_is_where_subject_and_model_part(wrong: int) -> None:
    drawing = drawn(foreign(7, 8, wrong=wrong))
    assert [(4, wrong)] == wrong_keys(drawing)
    assert ["owner-completes"] == [one.law for one in drawing.broken]


def test_a_changed_state_moves_the_mark() -> None:
    entries = foreign(7, 8, wrong=7)
    entries[1]["state"] = state({7: 0, 8: 1}, [7])  # wrong already: nobody has pinned 8
    assert [(2, 8)] == wrong_keys(drawn(entries))


def test_a_run_that_is_right_has_no_mark() -> None:
    drawing = drawn(stored(7, 8))
    assert ([], ()) == (wrong_keys(drawing), drawing.broken)
    assert not any(step.is_wrong for step in drawing.steps)


def test_a_cell_tells_before_and_after_and_what_is_right() -> None:
    assert Cell(7, before=1, after=0, right=1, wrong=True) == drawn(foreign(7, 8, wrong=7)).steps[-1].cells[0]


def test_a_list_that_lacks_an_idle_key_is_marked() -> None:
    entries = stored(7, 8)
    entries[-1]["state"]["evictable"] = [7]
    step = drawn(entries).steps[-1]
    assert frozenset({EVICTABLE}) == step.wrong
    assert ((7,), (7, 8)) == (step.evictable.listed, step.evictable.right)


def test_a_wrong_answer_is_marked() -> None:
    entries = [*stored(7), {"call": "lookup", "request": "r1", "keys": [7], "returns": "MISS"}]
    drawing = drawn(entries)
    assert (frozenset({ANSWER}), []) == (drawing.steps[-1].wrong, wrong_keys(drawing))


def test_a_lost_slot_is_marked_and_named() -> None:
    entries = stored(7)
    entries[-1] |= {"success": False, "state": state({}, []) | {"free": [], "handed_out": 1}}
    step = drawn(entries).steps[-1]
    assert SLOTS in step.wrong
    assert Slot(0, (), "lost", ()) == step.slots[0]


def test_a_wrong_counter_is_marked_with_what_is_right() -> None:
    entries = stored(7)
    entries[-1]["state"] |= {"num_resident": 1, "num_evictable": 2, "num_pending": 0}
    step = drawn(entries).steps[-1]
    assert COUNTERS in step.wrong
    assert (Counter("num_evictable", 2, 1),) == step.wrong_counters
    assert () == drawn(entries[:1]).steps[-1].wrong_counters
    assert ["num_resident", "num_evictable", "num_pending"] == [one.name for one in step.counters]


def test_a_slot_names_who_uses_it_by_right() -> None:
    step = drawn(foreign(7, 8, wrong=7)).steps[-1]
    assert [("r1 reads 7",), ("r1 reads 8",)] == [slot.owners for slot in step.slots]


def test_what_a_careful_caller_would_not_name_is_said() -> None:
    assert ["", "", "", "r2 has no load of 7 in flight"] == [
        step.careless for step in drawn(foreign(7, 8, wrong=7)).steps
    ]


def test_of_a_long_trace_the_last_calls_are_drawn() -> None:
    touches = [{"call": "touch", "request": "r1", "keys": [7], "returns": None}] * 50
    drawing = drawn([*stored(7), *touches], last=10)
    assert (52, 42, list(range(43, 53))) == (drawing.calls, drawing.left_out, [one.number for one in drawing.steps])
    assert Cell(7, before=0, after=0, right=0) == drawing.steps[0].cells[0]


def test_a_wrong_call_far_back_is_drawn_with_its_keys() -> None:
    touches = [{"call": "touch", "request": "r1", "keys": [7], "returns": None}] * 50
    entries = [*stored(7, 8), *touches, {"call": "lookup", "request": "r1", "keys": [8], "returns": "MISS"}]
    drawing = drawn([*entries, *touches], last=3)
    assert (53, (7, 8), frozenset({ANSWER})) == (drawing.calls, drawing.keys, drawing.steps[-1].wrong)


def test_a_subject_that_shows_nothing_is_drawn_as_the_model_has_it() -> None:
    entries = [{name: value for name, value in entry.items() if name != "state"} for entry in stored(7)]
    drawing = drawn(entries, inside=False)
    assert (False, 0, True) == (
        drawing.inside,
        drawing.steps[-1].cells[0].after,
        drawing.steps[-1].evictable.of_model,
    )


def test_what_a_search_told_is_drawn_to_the_end() -> None:
    """Also where the judge of the recording meets another law before."""
    entries = [*foreign(7, 8, wrong=7), {"call": "touch", "request": "r1", "keys": [8], "returns": None}]
    drawing = drawn(entries, told=(BrokenLaw("answer", "s", "e", "o"),))
    assert ([1, 2, 3, 4, 5], {ANSWER}) == ([step.number for step in drawing.steps], drawing.steps[-1].wrong)


def test_a_call_without_an_answer_cannot_be_drawn() -> None:
    with pytest.raises(UsageError, match="no recorded answer"):
        drawn([{"call": "touch", "request": "r1", "keys": [7]}])


def test_a_trace_is_read_twice_and_not_held() -> None:
    lines = ['{"evictable_trace": 1, "capacity": 1, "profile": "any"}']
    lines += ['{"call": "reset_cache", "returns": null}'] * 300
    read: list[int] = []

    def entries():
        read.append(0)
        for entry in Stream.of(lines):
            read[-1] += 1
            yield entry

    drawing = draw(Stream.of(lines).head, entries, "any", last=2)
    assert (2, [300, 300]) == (len(drawing.steps), read)


def test_a_drawing_ends_at_the_first_broken_law() -> None:
    assert 4 == drawn([*foreign(7, 8, wrong=7), *stored(7)]).calls


def test_a_job_is_an_arrow_from_its_submission_to_its_end() -> None:
    job = Job(0, 0, True, (7,), (0,), "r1", submitted=4, ended=5, moved=(7,), reported=6)
    drawing = drawn(tiered_entries(), tiers=1)
    assert ((job,), "done", ()) == (drawing.jobs, drawing.jobs[0].result, drawing.broken)


@pytest.mark.parametrize(("moved", "result"), [([], "failed"), ([7], "done")])
def test_what_a_job_moved_is_its_result(moved: list[int], result: str) -> None:
    entries = tiered_entries()
    entries[4]["keys"] = moved
    entries[5]["exchanges"][0] |= {"keys": moved, "success": bool(moved)}
    assert result == drawn(entries, tiers=1).jobs[0].result


def test_a_job_is_under_way_until_it_ends() -> None:
    assert "under way" == drawn(tiered_entries()[:4], tiers=1).jobs[0].result


def test_jobs_that_were_over_before_the_first_drawn_call_are_left_out() -> None:
    touches = [{"call": "touch", "request": "r1", "keys": [7], "returns": None}] * 5
    assert () == drawn([*tiered_entries(), *touches], tiers=1, last=3).jobs


def policy_entries(listed: list[int]) -> list[dict]:
    return [
        {
            "call": "insert",
            "key": 3,
            "ref_cnt": -1,
            "returns": None,
            "state": {"blocks": [[3, 1, -1]], "evictable": []},
        },
        {"call": "mark_evictable", "key": 4, "returns": None}
        | {"state": {"blocks": [[3, 1, -1]], "evictable": listed}},
    ]


def test_a_trace_at_policy_level_is_drawn() -> None:
    drawing = drawn_policy(policy_entries([4]))
    assert (["mismatch/mark-absent"], {EVICTABLE}) == (
        [one.law for one in drawing.broken],
        drawing.steps[-1].wrong,
    )


def test_a_policy_that_ignores_the_mark_is_right() -> None:
    assert () == drawn_policy(policy_entries([])).broken
