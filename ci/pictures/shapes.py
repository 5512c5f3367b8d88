"""SVG shapes, put down one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from attrs import define, field

CHARACTER = 7.3
"""Pixels that a character of the monospaced 12-pixel font takes."""
_NOT_IN_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
_NOT_IN_XML |= dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")


@define
class Pen:
    """Collects shapes. ``prefix`` begins every id."""

    prefix: str = ""
    _open: list[ElementTree.Element] = field(factory=lambda: [ElementTree.Element("g")])

    def element(self, tag: str, attributes: Mapping[str, Any]) -> ElementTree.Element:
        return ElementTree.Element(tag, {name: plain(str(value)) for name, value in attributes.items()})

    def put(self, tag: str, attributes: Mapping[str, Any], text: str = "", title: str = "") -> None:
        made = self.element(tag, attributes)
        made.text = plain(text) or None
        if title:
            ElementTree.SubElement(made, "title").text = plain(title)
        self._open[-1].append(made)

    def text(self, x: float, y: float, text: str, kind: str, *, anchor: str = "start") -> None:
        attributes = {"x": _number(x), "y": _number(y), "class": kind}
        self.put("text", attributes if anchor == "start" else attributes | {"text-anchor": anchor}, text)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        *,
        title: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        place = {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}
        self.put("rect", {"class": kind, **place, **(data or {})}, title=title)

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str, **more: Any) -> None:
        place = dict(zip(("x1", "y1", "x2", "y2"), map(_number, (*start, *end)), strict=True))
        self.put("line", {"class": kind, **place, **more})

    @contextmanager
    def group(self, kind: str, attributes: Mapping[str, Any]) -> Iterator[None]:
        made = self.element("g", {"class": kind, **attributes})
        self._open[-1].append(made)
        self._open.append(made)
        yield
        self._open.pop()

    def root(self, width: float, height: float, title: str, description: str) -> ElementTree.Element:
        """The ``svg`` element with everything in it, labelled for screen readers."""
        ids = f"{self.prefix}title", f"{self.prefix}desc"
        size = {
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"0 0 {_number(width)} {_number(height)}",
        }
        svg = self.element(
            "svg",
            {"xmlns": "http://www.w3.org/2000/svg", "class": "drawing", "role": "img", **size}
            | {"aria-labelledby": " ".join(ids)},
        )
        for tag, name, text in (("title", ids[0], title), ("desc", ids[1], description)):
            ElementTree.SubElement(svg, tag, {"id": name}).text = plain(text)
        svg.extend(self._open[0])
        return svg


def definitions() -> ElementTree.Element:
    """The hatching of what is being stored, and the head of an arrow: once a page, for the style sheet names them."""
    made = ElementTree.Element("defs")
    hatch = ElementTree.SubElement(
        made,
        "pattern",
        {"id": "hatch", "width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
        | {"patternTransform": "rotate(45)"},
    )
    ElementTree.SubElement(hatch, "rect", {"class": "hatch-ground", "width": "6", "height": "6"})
    ElementTree.SubElement(hatch, "rect", {"class": "hatch-line", "width": "2", "height": "6"})
    head = ElementTree.SubElement(
        made,
        "marker",
        {"id": "head", "viewBox": "0 0 8 8", "refX": "7", "refY": "4", "markerWidth": "8", "markerHeight": "8"}
        | {"orient": "auto"},
    )
    ElementTree.SubElement(head, "path", {"class": "arrow-head", "d": "M0 0 L8 4 L0 8 z"})
    return made


def plain(text: str) -> str:
    """Text that may stand in XML: what may not is replaced."""
    return text.translate(_NOT_IN_XML)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
