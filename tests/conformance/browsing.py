"""A real browser, headless: the system's Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WINDOW = {"width": 1280, "height": 900}
MISSING = "no Chromium: apt-get install chromium, or EVICTABLE_BROWSER=/path/to/it"


def browser_path() -> str | None:
    """The one that ``EVICTABLE_BROWSER`` names, or the first on the path."""
    return os.environ.get("EVICTABLE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@define
class Visit:
    """An open page, and what it did on its own."""

    page: Any
    complaints: list[str] = field(factory=list)
    """Whatever it wrote to the console, or raised."""
    requests: list[str] = field(factory=list)
    """What it asked for beyond itself."""

    @classmethod
    def to(cls, page: Any, path: Path) -> Visit:
        """Opens ``path`` from disk."""
        visit = cls(page)
        page.on("console", lambda message: visit.complaints.append(message.text))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on("request", lambda request: visit.requests.append(request.url))
        address = path.resolve().as_uri()
        page.goto(address)
        visit.requests.remove(address)
        return visit

    @property
    def current(self) -> list[str]:
        """The call that each drawing has as its current one."""
        return self.page.eval_on_selector_all("svg .step.is-current", "all => all.map(one => one.dataset.step)")

    def colour_at(self, x: float, y: float) -> tuple[int, int, int]:
        """Of one pixel of what is seen: red, green, blue."""
        clip = {"x": x, "y": y, "width": 1, "height": 1}
        return pixel(self.page.screenshot(clip=clip))


@contextmanager
def browsing(engine: Any, path: Path, **more: Any) -> Iterator[Visit]:
    """``path`` opened from disk, in a window of its own."""
    context = engine.new_context(viewport=WINDOW, **more)
    yield Visit.to(context.new_page(), path)
    context.close()


def pixel(png: bytes) -> tuple[int, int, int]:
    """The colour of a picture of one pixel. In its first row no filter looks at a neighbour, so its bytes are plain."""
    import struct
    import zlib

    place, data, kind = 8, b"", 2
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        name, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if name == b"IHDR":
            kind = content[9]
        elif name == b"IDAT":
            data += content
        place += length + 12
    assert kind in (2, 6)  # true colour, with or without transparency
    red, green, blue = zlib.decompress(data)[1:4]
    return red, green, blue
