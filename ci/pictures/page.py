"""The page of a report: one file, no network, opened from disk."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from xml.etree import ElementTree

from attrs import frozen

from evictable.ci.pictures.jobs import sentence_of
from evictable.ci.pictures.shapes import definitions, plain
from evictable.ci.pictures.svg import notes_of, style_sheet, svg_of
from evictable.ci.pictures.text import words_of_slot
from evictable.specs.drawing.drawing import Drawing


@frozen
class Example:
    """A drawing on the page, with what is said about it."""

    drawing: Drawing
    command: str | None = None
    """What plays its calls again; ``None`` if they are in no file."""
    note: str = ""
    title: str = ""
    """Default: the laws that it breaks."""


@frozen
class VerdictRow:
    """A row of the table of verdicts, ``verdict`` being one of conforms, violates, as expected, inconclusive."""

    subject: str
    policy: str
    discipline: str
    profile: str
    tiers: int
    verdict: str
    calls: int
    seconds: float
    laws: Sequence[str]
    """The broken ones, with the calls of the shortest counterexample."""
    remarks: Sequence[str] = ()

    @property
    def sign(self) -> str:
        return {"conforms": "✓", "violates": "✗", "as expected": "!"}.get(self.verdict, "?")


def page_of(
    title: str, examples: Sequence[Example], verdicts: Sequence[VerdictRow] = (), remarks: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals |= {"words_of_slot": words_of_slot, "sentence_of": sentence_of, "notes_of": notes_of}
    script = _file("page.js")
    pictures = [
        Markup(svg_of(example.drawing, standalone=False, prefix=f"e{place}-")) for place, example in enumerate(examples)
    ]
    text = environment.get_template("page.html").render(
        title=title,
        examples=list(zip(examples, pictures, strict=True)),
        verdicts=verdicts,
        remarks=remarks,
        style=Markup(style_sheet() + _file("page.css")),
        script=Markup(script),
        script_hash=_hash_of(script),
        definitions=Markup(ElementTree.tostring(definitions(), encoding="unicode")),
    )
    yield from plain(text).split("\n")


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash_of(script: str) -> str:
    """By which the page's policy allows this one script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
