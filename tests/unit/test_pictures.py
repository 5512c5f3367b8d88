"""The renderers: the mark is at its place, and whatever a trace holds is text and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from rich.console import Console
from traces_to_draw import drawn, foreign, stored, tiered_entries

from evictable.ci.pictures.page import Example, VerdictRow, page_of
from evictable.ci.pictures.svg import svg_of
from evictable.ci.pictures.text import show_drawing
from evictable.specs.drawing.drawing import BrokenLaw, Drawing

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x00&amp;'\""


def parts(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(svg_of(drawing))


def box(element: ElementTree.Element) -> tuple[float, float, float, float]:
    return tuple(float(element.get(name, "nan")) for name in ("x", "y", "width", "height"))  # type: ignore[return-value]


def lane_of(drawing: Drawing, number: int, key: int) -> tuple[float, float, float, float]:
    root = parts(drawing)
    return box(root.find(f".//{SVG}g[@data-step='{number}']/{SVG}g[@data-key='{key}']/{SVG}rect"))


def marks(drawing: Drawing, what: str) -> list[tuple[float, float, float, float]]:
    return [box(one) for one in parts(drawing).iter(f"{SVG}rect") if one.get("data-wrong") == what]


@pytest.mark.parametrize("wrong", [7, 8])
def test_the_frame_is_around_the_wrong_cell(wrong: int) -> None:
    drawing = drawn(foreign(7, 8, wrong=wrong))
    (mark,) = marks(drawing, "key")
    lane = lane_of(drawing, 4, wrong)
    assert lane[0] - 3 == mark[0]
    assert lane[1] + 2 == mark[1]


def test_a_picture_of_what_is_right_has_no_frame() -> None:
    drawing = drawn(stored(7, 8))
    assert [] == [place for what in ("key", "answer", "evictable", "inside") for place in marks(drawing, what)]


def test_a_wrong_answer_and_a_wrong_list_are_framed() -> None:
    lookup = {"call": "lookup", "request": "r1", "keys": [7], "returns": "MISS"}
    assert 1 == len(marks(drawn([*stored(7), lookup]), "answer"))
    entries = stored(7, 8)
    entries[-1]["state"]["evictable"] = [7]
    assert 1 == len(marks(drawn(entries), "evictable"))


def test_time_goes_down_and_keys_go_across() -> None:
    drawing = drawn(foreign(7, 8, wrong=7))
    assert lane_of(drawing, 1, 7)[1] + lane_of(drawing, 1, 7)[3] == lane_of(drawing, 2, 7)[1]
    assert lane_of(drawing, 1, 7)[0] < lane_of(drawing, 1, 8)[0]


def test_without_colour_every_state_has_its_number_or_sign() -> None:
    drawing = drawn(foreign(7, 8, wrong=7))
    cells = parts(drawing).findall(f".//{SVG}g[@data-key='7']")
    texts = [[text.text for text in cell.iter(f"{SVG}text")] for cell in cells]
    assert [["· → -1"], ["-1 → 0"], ["0 → 1"], ["1 → 0", "✗ right", "1"]] == texts


def test_a_job_is_an_arrow_between_its_rows() -> None:
    root = parts(drawn(tiered_entries(), tiers=1))
    line = root.find(f".//{SVG}g[@data-job='0']/{SVG}line")
    rows = {g.get("data-step"): box(g.find(f"{SVG}rect")) for g in root.iter(f"{SVG}g") if g.get("data-step")}
    _, submitted, _, height = rows["4"]
    _, ended, _, end_height = rows["5"]
    assert submitted < float(line.get("y1")) < submitted + height
    assert ended < float(line.get("y2")) < ended + end_height
    assert float(line.get("x2")) < float(line.get("x1"))  # up: from the tier to the primary


def test_a_job_from_before_begins_in_the_first_row() -> None:
    root = parts(drawn(tiered_entries(), tiers=1, last=2))
    line = root.find(f".//{SVG}g[@data-job='0']/{SVG}line")
    _, top, _, height = box(root.find(f".//{SVG}g[@data-step='5']/{SVG}rect"))
    assert top < float(line.get("y1")) < top + height


def hostile() -> Drawing:
    entries = foreign(7, 8, wrong=7)
    entries[2] |= {"request": HOSTILE}
    entries[3] |= {"request": HOSTILE + "2"}
    return drawn(entries, subject=HOSTILE, told=(BrokenLaw(HOSTILE, HOSTILE, HOSTILE, HOSTILE),))


def test_a_picture_of_hostile_strings_is_xml_without_scripts() -> None:
    root = parts(hostile())
    assert {"svg", "title", "desc", "style", "defs", "pattern", "marker", "path", "rect", "g", "text"} >= {
        element.tag.removeprefix(SVG) for element in root.iter()
    }
    assert any("<script>" in (element.text or "") for element in root.iter())  # as text


def test_a_page_of_hostile_strings_has_one_script() -> None:
    row = VerdictRow(HOSTILE, "lru", "careless", "any", 0, "violates", 1, 1.0, [HOSTILE], [HOSTILE])
    page = "\n".join(page_of(HOSTILE, [Example(hostile(), HOSTILE, HOSTILE, HOSTILE)], [row], [HOSTILE]))
    assert (1, 0, 0) == (page.count("<script>"), page.count("<img"), page.count("\x1b"))
    assert "script-src 'sha256-" in page


def test_a_page_asks_for_nothing_from_elsewhere() -> None:
    page = "\n".join(page_of("t", [Example(drawn(foreign(7, 8, wrong=7)), "evictable replay x")]))
    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"https?://[^\s\"'<]+", page))
    assert [] == re.findall(r"\b(?:src|href|@import)\b\s*[=(]", page)


def test_a_page_is_made_the_same_twice() -> None:
    assert list(page_of("t", [Example(hostile())])) == list(page_of("t", [Example(hostile())]))


def test_a_page_marks_a_wrong_counter() -> None:
    entries = stored(7)
    entries[-1]["state"] |= {"num_evictable": 2, "num_pending": 0}
    page = "\n".join(page_of("t", [Example(drawn(entries))]))
    assert 1 == page.count("✗ num_evictable <b>2</b>, right 1")
    assert "<span>num_pending <b>0</b></span>" in page


def test_of_several_laws_each_difference_names_its_own() -> None:
    entries = [*stored(7)]
    entries[-1]["state"] |= {"num_evictable": 2, "ref_cnt": {"7": 1}}
    shown = in_terminal(drawn(entries))
    assert "  observed  counters-agree: " in shown
    assert "  expected  counters-agree: " in shown


def in_terminal(drawing: Drawing, encoding: str = "utf-8", width: int = 120) -> str:
    import io

    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    show_drawing(Console(file=stream, width=width, color_system=None), drawing)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_in_the_terminal_the_wrong_cell_says_what_is_right() -> None:
    shown = in_terminal(drawn(foreign(7, 8, wrong=8)))
    assert "✗ right 1" in shown
    assert "slot 1: holds 8; r1 reads 8" in shown


def test_of_a_long_evictable_list_the_first_are_printed() -> None:
    keys = range(20)
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, +8]" in in_terminal(drawn(stored(*keys), capacity=20), width=400)


def test_a_terminal_without_unicode_gets_signs_that_it_has() -> None:
    shown = in_terminal(drawn(foreign(7, 8, wrong=8)), "ascii")
    assert "! right 1" in shown
    assert ".>-1" in shown


def test_what_a_trace_holds_does_not_reach_the_terminal_as_control_signs() -> None:
    assert "\x1b" not in in_terminal(hostile())
