"""The page in a real browser: drawn, stepped through by keys, light and dark, and quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import MISSING, WINDOW, Visit, browser_path, browsing

from evictable.ci.cells import Cell, Violation
from evictable.ci.check_page import page_of_check
from evictable.ci.files import write_text
from evictable.ci.show import run_show

ROOT = Path(__file__).resolve().parents[2]
DRAWN = ROOT / "docs" / "foreign-completion.jsonl"


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """A running browser. Without one the tests skip, or fail if EVICTABLE_REQUIRE_BROWSER=1 says so."""
    path = browser_path()
    if path is None:
        (pytest.fail if os.environ.get("EVICTABLE_REQUIRE_BROWSER") == "1" else pytest.skip)(MISSING)
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root there is none
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of one broken law."""
    cell = Cell("vllm==0.33.0", "lru", "careless", "lru-ranked-request", started=True, ended=True)
    broken = ("owner-completes", "a completion changes only its own", "ref_cnt 1", "ref_cnt 0")
    lines = DRAWN.read_text().splitlines()
    cell.violations["owner-completes"] = Violation(*broken, "random", 51, 0.1, lines, path=Path("traces/x.jsonl"))
    path = tmp_path_factory.mktemp("page") / "failing.html"
    write_text(path, page_of_check([cell], "auto"))
    return path


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a pass."""
    cell = Cell("impl", "lru", "contract", "lru-evictable", steps=2000, seconds=1.0, started=True, ended=True)
    cell.verdict_of_search = "conforms"
    path = tmp_path_factory.mktemp("page") / "passing.html"
    write_text(path, page_of_check([cell], "auto"))
    return path


@pytest.fixture(scope="module")
def window(engine: Any) -> Any:
    return engine.new_context(viewport=WINDOW).new_page()


@pytest.fixture
def visit(window: Any, failing: Path) -> Visit:
    """The failing report, opened anew."""
    return Visit.to(window, failing)


def place_of(visit: Visit, selector: str) -> dict[str, float]:
    visit.page.locator(selector).first.scroll_into_view_if_needed()
    return visit.page.locator(selector).first.bounding_box()


def test_the_frame_is_drawn_around_the_wrong_cell(visit: Visit) -> None:
    frame = place_of(visit, "[data-wrong='key']")
    cell = place_of(visit, ".step[data-step='5'] [data-key='7'] .lane")
    assert frame["x"] < cell["x"] < cell["x"] + cell["width"] < frame["x"] + frame["width"]
    assert 0 < frame["height"] <= cell["height"] + 3  # half of its line lies outside


def test_the_frame_is_seen(visit: Visit) -> None:
    """A corner of it has the colour of what is wrong; the same place two cells higher has not."""
    frame = place_of(visit, "[data-wrong='key']")
    red = (0xB3, 0x12, 0x2F)
    assert red == visit.colour_at(round(frame["x"]) + 2, round(frame["y"]) + 2)
    assert red != visit.colour_at(round(frame["x"]) + 2, round(frame["y"]) + 2 - 100)


def test_states_differ_without_colour(engine: Any, failing: Path) -> None:
    """Printed in grey, what is being stored is hatched: a lane with more than one shade."""
    with browsing(engine, failing) as visit:
        lane = place_of(visit, ".step[data-step='1'] [data-key='7'] .lane")
        left, top = round(lane["x"]) + 4, round(lane["y"]) + 26
        assert 1 < len({sum(visit.colour_at(left + step, top)) for step in range(8)})


def test_a_report_is_quiet_and_asks_for_nothing(visit: Visit) -> None:
    visit.page.keyboard.press("k")
    assert ([], []) == (visit.complaints, visit.requests)


def test_a_pass_is_shown_without_a_frame(engine: Any, passing: Path) -> None:
    with browsing(engine, passing) as visit:
        assert "✓ conforms" == visit.page.inner_text(".verdict.conforms")
        assert (0, [], []) == (visit.page.locator("[data-wrong]").count(), visit.complaints, visit.requests)
        assert 5000 < len(visit.page.screenshot())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", "5"),
        ("k", "4"),
        ("kkj", "4"),
        ("jj", "5"),
        ("kkkkkkk", "1"),
        (["ArrowLeft", "ArrowLeft", "ArrowRight"], "4"),
    ],
)
def test_keys_step_anywhere(visit: Visit, keys: list[str], expected: str) -> None:
    for key in keys:
        visit.page.keyboard.press(key)
    assert [expected] == visit.current
    assert f"call {expected} of 5" == visit.page.inner_text(".where")


@pytest.mark.parametrize(
    ("keys", "expected"), [(["Home"], "1"), (["Home", "End"], "5"), (["ArrowUp"], "4"), (["Home", "ArrowDown"], "2")]
)
def test_keys_of_the_page_step_in_a_focused_drawing(visit: Visit, keys: list[str], expected: str) -> None:
    visit.page.keyboard.press("Home")
    assert ["5"] == visit.current  # it was the page that scrolled
    visit.page.focus("figure.steps")
    for key in keys:
        visit.page.keyboard.press(key)
    assert [expected] == visit.current


def test_the_words_and_slots_are_of_the_current_call(visit: Visit) -> None:
    visit.page.keyboard.press("k")
    shown = visit.page.locator(".panel:visible")
    assert (1, "4") == (shown.count(), shown.get_attribute("data-step"))
    assert "r2 begins to read 8" in shown.inner_text()
    assert "r1 reads 7" in shown.locator(".slots").inner_text()


def test_a_click_steps_too(visit: Visit) -> None:
    visit.page.locator(".step[data-step='2'] .row").click()
    visit.page.get_by_role("button", name="next").click()
    assert ["3"] == visit.current


def background(visit: Visit) -> str:
    return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize(("scheme", "expected"), [("light", (255, 255, 255)), ("dark", (20, 24, 31))])
def test_light_and_dark(engine: Any, failing: Path, scheme: str, expected: tuple[int, int, int]) -> None:
    with browsing(engine, failing, color_scheme=scheme) as visit:
        assert expected == visit.colour_at(2, 2)
        assert f"rgb{expected}" == background(visit)


def test_the_command_is_copied(engine: Any, failing: Path) -> None:
    with browsing(engine, failing, permissions=["clipboard-read", "clipboard-write"]) as visit:
        visit.page.click("button.copy")
        visit.page.wait_for_selector("button.copy:text('copied')")
        copied = visit.page.evaluate("navigator.clipboard.readText()")
        assert "evictable replay traces/x.jsonl --subject vllm==0.33.0" == copied


def test_without_scripts_and_on_paper_all_calls_are_told(engine: Any, failing: Path) -> None:
    with browsing(engine, failing, java_script_enabled=False) as visit:
        assert 5 == visit.page.locator(".panel:visible").count()
    with browsing(engine, failing) as visit:
        visit.page.emulate_media(media="print")
        assert (5, 0) == (visit.page.locator(".panel:visible").count(), visit.page.locator("button:visible").count())


def test_a_screen_reader_gets_a_title_and_every_call(visit: Visit) -> None:
    picture = visit.page.get_by_role("img", name="owner-completes broken by vllm==0.33.0 lru careless")
    assert 1 == picture.count()
    assert "Call 4: r2 begins to read 8." in visit.page.locator("svg desc").first.text_content()


PROMOTED = """
{"evictable_trace": 1, "capacity": 1, "profile": "any", "tiers": 1}
{"call": "fill_tier", "tier": 0, "keys": [7], "returns": null}
{"call": "on_new_request", "request": "r1", "returns": null}
{"call": "lookup", "request": "r1", "keys": [7], "returns": "HIT_PENDING", "exchanges": [{"said": "asked", "tier": 0, \
"key": 7, "answer": "HIT"}, {"said": "reserved", "keys": [7], "block_ids": [0], "evicted": []}]}
{"call": "on_schedule_end", "returns": null, "exchanges": [{"said": "submitted", "tier": 0, "job": 0, \
"promotion": true, "keys": [7], "block_ids": [0], "request": "r1"}]}
{"call": "finish_job", "job": 0, "keys": [7], "returns": null}
"""


def test_jobs_are_arrows_on_a_page(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(PROMOTED)
    assert 0 == run_show(tmp_path / "trace.jsonl", "auto", html=tmp_path / "page.html")
    with browsing(engine, tmp_path / "page.html") as visit:
        arrow = place_of(visit, ".job-arrow[data-job='0'] line")
        result = visit.page.get_attribute(".job-arrow", "data-result")
        assert ([], True, "done") == (visit.complaints, arrow["width"] > 100, result)
