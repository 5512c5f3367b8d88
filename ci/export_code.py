"""The text of an exported test."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent, wrap
from typing import Any

from attrs import define, evolve, field, frozen

from evictable.model import calls
from evictable.model.calls import Answer, Call, Drained, Key, Loaded, Raised, Stored, describe
from evictable.model.laws import Difference, Law
from evictable.model.lifecycle import IDLE
from evictable.model.snapshot import Snapshot
from evictable.model.trace import Entry, Head
from evictable.specs.errors import UsageError

_WIDTH = 100


@frozen
class Names:
    """What a manager calls its parts in a 0.x release; any name, if it is not known which."""

    minor: int | None

    @property
    def capacity(self) -> str:
        return "num_chunks" if self.minor is None or self.minor >= 30 else "num_blocks"

    def part(self, owner: str, *newest_first: tuple[int, str]) -> str:
        """An expression for the part that has been called so since those releases."""
        if self.minor is None:
            return f"first_of({owner}, {', '.join(_literal(name) for _, name in newest_first)})"
        return f"{owner}.{next(name for since, name in newest_first if self.minor >= since)}"

    def built(self, head: Head) -> dict[str, Any]:
        """The arguments of a vLLM manager."""
        built: dict[str, Any] = {self.capacity: head.capacity, "cache_policy": head.policy}
        if head.events:
            built["enable_events"] = True
        if head.store_threshold > 1:
            built["store_threshold"] = head.store_threshold
            if head.max_tracker_size is not None:
                built["max_tracker_size"] = head.max_tracker_size
        return built


@frozen
class Project:
    """Whose test it is."""

    name: str
    imports: str
    factory: str
    built: Mapping[str, Any]
    names: Names
    context: str
    """A template of the expression for a request."""


@frozen
class Scene:
    """What is played, up to the call that breaks ``law``, and what is right after it."""

    law: Law
    difference: Difference
    head: Head
    entries: Sequence[Entry]
    careless: Sequence[bool]
    """Of the calls before the last: whether a refusal would have been as right as an answer."""
    excused: bool
    """The last call may raise, if it changes nothing."""
    right: Answer
    before: Snapshot
    after: Snapshot
    exact: bool
    """The order of victims is judged."""

    @property
    def raised(self) -> bool:
        return isinstance(self.entries[-1].outcome, Raised)

    @property
    def due(self) -> Snapshot:
        """What must be seen after what the last call came to."""
        return self.before if self.raised and self.excused else self.after


def text_of(project: Project, scene: Scene) -> str:
    """The file. Raises `UsageError` if what is wrong does not show in what a test can see."""
    writer = _Writer(project, scene)
    body = "\n".join(writer.body())  # first: it tells which helpers there must be
    parts = [
        _docstring(project, scene),
        "\n".join(writer.imports()),
        _law(f"{scene.law.id}: {scene.law.sentence}"),
        *writer.helpers(),
        f"def test_{scene.law.id.replace('-', '_')}():\n{indent(body, '    ')}",
    ]
    return "\n\n".join(parts[:3]) + "\n\n\n" + "\n\n\n".join(parts[3:]) + "\n"


def _law(sentence: str) -> str:
    lines = wrap(sentence, _WIDTH - 10, drop_whitespace=False)
    return "LAW = (\n" + "".join(f"    {_literal(line)}\n" for line in lines) + ")"


def _docstring(project: Project, scene: Scene) -> str:
    number = len(scene.entries)
    told = [
        f"{scene.law.id}: {scene.law.sentence}.",
        "",
        f"Seen on {project.name}, in {number} call{'s' if number > 1 else ''}: expected {scene.difference.expected}; "
        f"observed {scene.difference.observed}.",
    ]
    text = "\n".join("\n".join(wrap(line, _WIDTH)) for line in told).replace("\\", "\\\\").replace('"', "'")
    return f'"""{text}\n"""'


@define
class _Writer:
    project: Project
    scene: Scene
    used: dict[str, str] = field(factory=dict)
    """Helpers: name -> text."""
    standard: set[str] = field(factory=set)
    known: dict[str, str] = field(factory=dict)
    """Requests -> variables."""

    def imports(self) -> Iterator[str]:
        if self.standard:
            yield from sorted(self.standard)
            yield ""
        yield self.project.imports

    def helpers(self) -> list[str]:
        own = [] if self.project.context.startswith("ReqContext") else [_REQUEST]
        return [*own, *self.used.values()]

    def need(self, *names: str) -> None:
        for name in names:
            self.used[name] = _HELPERS[name]

    # --- the calls ---

    def body(self) -> Iterator[str]:
        scene = self.scene
        arguments = ", ".join(f"{name}={_literal(value)}" for name, value in self.project.built.items())
        yield f"manager = {self.project.factory}({arguments})"
        if self._counts_events:
            self.need("believed")
            yield "told = []  # what take_events delivered since the last reset"
        for entry, careless in zip(scene.entries, scene.careless, strict=False):
            yield from self._prepared(entry.call)
            yield from self._earlier(entry, careless)
        last = scene.entries[-1]
        yield from self._prepared(last.call)
        yield ""
        yield from self._last(last)

    def _earlier(self, entry: Entry, careless: bool) -> Iterator[str]:
        came_to = describe(entry.outcome).partition("\n")[0][:60]
        line = f"{self._spoken(entry.call)}  # {came_to}" if entry.outcome is not None else self._spoken(entry.call)
        if entry.call.name == calls.RESET_CACHE and self._counts_events:
            line += "\ntold.clear()"
        line = self._struck(entry.call, line)
        if isinstance(entry.outcome, Raised):
            yield f"try:\n{indent(line, '    ')}\nexcept Exception:\n    pass"
            yield "else:\n    return  # what follows depends on it"
        elif careless:
            yield f"try:\n{indent(line, '    ')}\nexcept Exception:\n    return  # refused, which is right, too"
        else:
            yield from line.splitlines()

    def _last(self, entry: Entry) -> Iterator[str]:
        scene = self.scene
        call = entry.call
        answered = self._checks_of_answer(entry)
        state = self._differing()
        if not answered and not state and not (scene.raised and not scene.excused):
            raise UsageError(
                f"{scene.law.id}: what is wrong shows only in the order that is kept inside, or in events that "
                "wait; export a counterexample that goes on to the eviction or the drain"
            )
        if self._whole(entry):
            call = evolve(call, limit=None)  # however many events there are, they must all come
        line = self._spoken(call)
        if answered and call.name in (calls.LOOKUP, calls.PREPARE_STORE, calls.PREPARE_LOAD):
            line = f"answer = {line}"
        if call.name == calls.RESET_CACHE and self._counts_events:
            line += "\ntold.clear()"
        line = self._struck(call, line)
        after = [*answered, *self._checks(state, scene.after)]
        if scene.excused:
            before = self._checks(state or ("ref_cnt", "num_free"), scene.before)
            if before == after:
                self.standard.add("from contextlib import suppress")
                yield f"with suppress(Exception):  # a refusal is right, too\n{indent(line, '    ')}"
                yield from after
                return
            yield f"try:\n{indent(line, '    ')}"
            yield "except Exception:  # a refusal is right, too, if nothing has changed"
            yield indent("\n".join(before), "    ")
            yield "else:\n" + indent("\n".join(after or ["pass"]), "    ")
        elif scene.raised:
            yield f"try:\n{indent(line, '    ')}"
            yield 'except Exception as error:\n    raise AssertionError(f"{LAW}: raised {error!r}") from error'
            yield from after
        else:
            yield line
            yield from after

    def _prepared(self, call: Call) -> Iterator[str]:
        """What must be there before the call: its request, anew where it is announced."""
        request = call.request
        if request is None:
            return
        if request not in self.known or call.name == calls.ON_NEW_REQUEST:
            self.known[request] = self.known.get(request) or self._variable(request)
            yield f"{self.known[request]} = {self.project.context.format(_literal(request))}"
        for key, position in zip(call.keys, call.positions or (), strict=False):
            if position is not None and (self.project.names.minor or 0) >= 31:
                yield f"{self.known[request]}.set_offload_key_position({self._key(key)}, {position})"

    def _variable(self, request: str) -> str:
        name = re.sub(r"\W", "_", request, flags=re.ASCII)
        if not name.isidentifier() or keyword.iskeyword(name) or name in ("manager", "told", "answer", "key"):
            name = f"request_{name}"
        return name if name not in self.known.values() else f"{name}_{len(self.known)}"

    def _spoken(self, call: Call) -> str:
        """The statement that makes the call."""
        keys = "[" + ", ".join(map(self._key, call.keys)) + "]"
        request = self.known.get(call.request or "", "None")
        name = call.name
        if name == calls.LOOKUP:
            return f"manager.lookup({self._key(call.keys[0])}, {request})"
        if name in (calls.ON_NEW_REQUEST, calls.ON_REQUEST_FINISHED):
            minor = self.project.names.minor
            if minor is None:  # a manager of one's own need not have it
                return f'getattr(manager, "{name}", bool)({request})'
            return f"manager.{name}({request})" if minor >= 23 else "pass"
        if name == calls.COMPLETE_STORE:
            return f"manager.{name}({keys}, {request}, success={call.success})"
        if name == calls.TAKE_EVENTS:
            return self._drained(call)
        return f"manager.{name}({keys}, {request})" if name in calls.CALLS_WITH_KEYS else f"manager.{name}()"

    def _drained(self, call: Call) -> str:
        if call.limit is not None:
            self.standard.add("from itertools import islice")
        taken = "manager.take_events()" if call.limit is None else f"islice(manager.take_events(), {call.limit})"
        return f"told.extend({taken})" if self._counts_events else f"list({taken})"

    def _key(self, key: Key) -> str:
        if isinstance(key, str):
            return f'bytes.fromhex("{key}")'
        self.need("key")
        return f"key({key})"

    def _struck(self, call: Call, line: str) -> str:
        return line if call.raises_in is None else f"with {self._fault(call)}:\n{indent(line, '    ')}"

    def _fault(self, call: Call) -> str:
        self.standard.add("from contextlib import contextmanager")
        self.need("raising")
        place = call.raises_in or ""
        if place.startswith("policy."):
            return f"raising(manager._policy, {_literal(place.removeprefix('policy.'))}, at={call.at})"
        chunks = (self.project.names.minor or 30) >= 30
        names = {
            calls.SLOTS_ALLOCATE: "_allocate_chunks" if chunks else "_allocate_blocks",
            calls.SLOTS_FREE: "_free_chunk" if chunks else "_free_block",
        }
        return f"raising(manager, {_literal(names[place])}, at={call.at})"

    # --- what is checked ---

    @property
    def _counts_events(self) -> bool:
        return self.scene.law.id in ("events-replay", "events-once")

    def _differing(self) -> tuple[str, ...]:
        """The aspects of the state in which the subject was not as it must be."""
        seen, due = self.scene.entries[-1].state, self.scene.due
        if seen is None or not self.scene.head.inside:
            return ()
        return tuple(aspect for aspect, value in _ASPECTS.items() if not _same(value(seen), value(due)))

    def _checks(self, aspects: Sequence[str], due: Snapshot) -> list[str]:
        return [self._check(aspect, due) for aspect in aspects]

    def _check(self, aspect: str, due: Snapshot) -> str:
        names = self.project.names
        value = _ASPECTS[aspect](due)
        if names.minor is None:
            self.need("first_of")
        if aspect == "ref_cnt":
            self.need("ref_cnts", "key")
            concerned = dict.fromkeys(key for entry in self.scene.entries for key in entry.call.keys)
            listed = ", ".join(str(key) if isinstance(key, int) else self._key(key) for key in concerned)
            shown = ", ".join(f"{key if isinstance(key, int) else self._key(key)}: {n}" for key, n in value.items())
            return f"assert ref_cnts(manager, {listed}) == {{{shown}}}, LAW"
        if aspect == "evictable":
            listed = names.part(
                "manager._policy", (31, "_evictable"), (30, "evictable_chunks"), (24, "evictable_blocks")
            )
            return f"assert set({listed}) == {self._set(value)}, LAW"
        if aspect == "num_free":
            free = names.part("manager", (30, "_get_num_free_chunks"), (0, "_get_num_free_blocks"))
            return f"assert {free}() == {value}, LAW"
        if aspect == "num_pending":
            counter = names.part("manager", (30, "_num_write_pending_chunks"), (0, "_num_write_pending_blocks"))
        else:
            counter = names.part("manager", (30, "_num_evictable_cache_chunks"), (0, "_num_evictable_cache_blocks"))
        return f"assert {counter} == {value}, LAW"

    def _set(self, keys: Sequence[Key]) -> str:
        return "{" + ", ".join(map(self._key, keys)) + "}" if keys else "set()"

    @staticmethod
    def _whole(entry: Entry) -> bool:
        """Whether a drain came to its end."""
        limit, drained = entry.call.limit, entry.outcome
        return limit is None or (isinstance(drained, Drained) and len(drained.events) < limit)

    def _checks_of_answer(self, entry: Entry) -> list[str]:
        """Where the answer itself is wrong: what is right."""
        scene, right = self.scene, self.scene.right
        if entry.call.name == calls.TAKE_EVENTS:
            if not self._counts_events:
                return []
            ready = [key for key, ref_cnt in scene.after.ref_cnt.items() if ref_cnt >= IDLE]
            return [f"assert believed(told) == {self._set(ready)}, LAW" if self._whole(entry) else "believed(told)"]
        if entry.outcome == right or (scene.raised and scene.excused):
            return []
        if entry.call.name == calls.LOOKUP:
            self.need("name_of")
            return [f"assert name_of(answer) == {_literal(right)}, LAW"]
        if entry.call.name == calls.PREPARE_STORE:
            return self._checks_of_store(right)
        if isinstance(right, Loaded):
            return [f"assert list(answer.block_ids) == {list(right.block_ids)}, LAW"]
        return []

    def _checks_of_store(self, right: Answer) -> list[str]:
        if not isinstance(right, Stored):
            return ["assert answer is None, LAW"]
        number = len(right.keys_to_store)
        checks = [
            "assert answer is not None, LAW",
            f"assert list(answer.keys_to_store) == [{', '.join(map(self._key, right.keys_to_store))}], LAW",
            f"assert len(set(map(int, answer.store_spec.block_ids))) == {number}, LAW",
        ]
        if self.scene.exact:
            checks.append(f"assert set(answer.evicted_keys) == {self._set(right.evicted_keys)}, LAW")
        else:
            checks.append(f"assert len(answer.evicted_keys) == {len(right.evicted_keys)}, LAW")
        return checks


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _same(seen: Any, due: Any) -> bool:
    return seen is None or (set(seen) == set(due) and len(seen) == len(due) if isinstance(due, tuple) else seen == due)


_ASPECTS: Mapping[str, Any] = {
    "ref_cnt": lambda state: state.ref_cnt,
    "evictable": lambda state: None if state.evictable is None else tuple(state.evictable),
    "num_free": lambda state: state.num_free,
    "num_pending": lambda state: state.num_pending,
    "num_evictable": lambda state: state.num_evictable,
}
"""What a test can see of the inside."""

_REQUEST = """class Request:
    def __init__(self, req_id):
        self.req_id = req_id
        self.kv_transfer_params = None"""

_HELPERS = {
    "key": """def key(number):
    return number.to_bytes(8, "big") + bytes(4)  # a hash and the index of a group""",
    "ref_cnts": '''def ref_cnts(manager, *keys):
    """Of the resident ones among the keys: -1 is being stored, 0 idle, more is pinned."""
    found = {k: manager._policy.get(key(k) if isinstance(k, int) else k) for k in keys}
    return {k: block.ref_cnt for k, block in found.items() if block is not None}''',
    "first_of": """def first_of(thing, *names):
    return next(getattr(thing, name) for name in names if hasattr(thing, name))""",
    "name_of": """def name_of(answer):
    return {True: "HIT", False: "MISS", None: "HIT_PENDING"}.get(answer) or answer.name""",
    "believed": '''def believed(told):
    """The keys that a consumer of these events believes to be there."""
    there = set()
    for event in told:
        for one in event.keys:
            if event.removed and one not in there and getattr(event, "metadata_only", False):
                continue
            assert (one in there) == event.removed, LAW  # else it is told twice
            (there.discard if event.removed else there.add)(one)
    return there''',
    "raising": '''@contextmanager
def raising(owner, name, at):
    """Let a method raise at its ``at``-th use, before it acts."""
    method, uses = getattr(owner, name), 0

    def called(*arguments, **named):
        nonlocal uses
        uses += 1
        if uses == at:
            raise RuntimeError(f"{name} fails")
        return method(*arguments, **named)

    setattr(owner, name, called)
    try:
        yield
    finally:
        delattr(owner, name)''',
}
