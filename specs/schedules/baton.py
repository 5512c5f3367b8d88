"""Two real threads that take turns as a schedule says, switching at lines or at bytecode instructions.

A baton goes round: only the thread that holds it runs, and at each point of the subject's code it keeps it or hands it
on. The points come from `sys.settrace`, so that the code runs as it is. The same schedule on an equal subject makes
the same run.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

from attrs import define, field, frozen

LINE = "line"
OPCODE = "opcode"
GRAINS = (LINE, OPCODE)

PATIENCE = 20.0
"""Seconds for one run. It takes milliseconds, unless a thread waits for something that the baton does not know of."""

# These touch nothing but the frame's own variables and what cannot change, so that it makes no difference whether the
# other thread acts before or after them: a switch there would be the same as one at the next instruction that matters.
_PRIVATE = """
BUILD_LIST BUILD_MAP BUILD_STRING BUILD_TUPLE CACHE COPY COPY_FREE_VARS EXTENDED_ARG IS_OP JUMP_BACKWARD
JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD KW_NAMES LIST_APPEND LOAD_CLOSURE LOAD_CONST LOAD_FAST LOAD_FAST_AND_CLEAR
LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_GLOBAL MAKE_CELL MAKE_FUNCTION NOP POP_EXCEPT POP_JUMP_BACKWARD_IF_NONE
POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_IF_NONE
POP_JUMP_IF_NOT_NONE POP_TOP PRECALL PUSH_EXC_INFO PUSH_NULL RERAISE RESUME RETURN_CONST RETURN_GENERATOR RETURN_VALUE
STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST SWAP
"""
_OURS = ("evictable.specs", "evictable.model")


class Stuck(Exception):
    """A thread waited for something that the baton does not know of, so that the run did not end."""


class NotTheSame(Exception):
    """A schedule met another run than the one that it was made from: the subject does not repeat itself."""


class _Abandoned(BaseException):
    """Unwinds the threads of a run that cannot go on."""


@frozen
class Decision:
    """A place where the baton could go one way or another."""

    chosen: int
    others: tuple[int, ...]
    preempts: bool
    """Whether another choice would have stopped a thread that could run on."""


@frozen
class Switch:
    """A thread stopped there, and another went on."""

    thread: int
    where: str


Schedule = tuple[tuple[int, int], ...]
"""(number of the decision, thread) where it is not the thread that has the baton that goes on, in order."""


@define
class Baton:
    """One run of some threads under a schedule. Used once."""

    schedule: Schedule = ()
    grain: str = LINE
    decisions: list[Decision] = field(factory=list)
    switches: list[Switch] = field(factory=list)
    deadlock: bool = False
    _wanted: dict[int, int] = field(init=False)
    _turns: list[Any] = field(factory=list)
    _done: list[bool] = field(factory=list)
    _blocked: list[object | None] = field(factory=list)
    _end: Any = field(init=False)
    _current: int = -1
    _where: tuple[CodeType, int] | str = ""
    _crash: BaseException | None = None

    def __attrs_post_init__(self) -> None:
        self._wanted = dict(self.schedule)
        self._end = _taken()

    def run(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Run the bodies, each in a thread, until all have ended or none can go on.

        Raises `Stuck`, `NotTheSame`, and what a body raises.
        """
        self._turns = [_taken() for _ in bodies]
        self._done = [False] * len(bodies)
        self._blocked = [None] * len(bodies)
        threads = [threading.Thread(target=self._body, args=one, daemon=True) for one in enumerate(bodies)]
        for thread in threads:
            thread.start()
        first = self._choose(None)
        if first is not None:
            self._current = first
            self._turns[first].release()
        if not self._end.acquire(timeout=PATIENCE):
            raise Stuck(
                f"a thread did not come to its next point within {PATIENCE:g} s after {self._place() or 'its start'}"
            )
        for thread in threads:
            thread.join(PATIENCE)
        if self._crash is not None:
            raise self._crash

    # --- what the threads say, while they hold the baton ---

    def point(self, where: tuple[CodeType, int] | str) -> None:
        """Another thread may go on here."""
        if self._over:
            return
        self._where = where
        me = self._current
        following = self._choose(me)
        if following != me:
            self._hand_over(me, following)

    def wait_for(self, what: object, where: str) -> None:
        """Go on only when `freed` was told of ``what``."""
        if self._over:
            raise _Abandoned
        self._where = where
        me = self._current
        self._blocked[me] = what
        self._hand_over(me, self._choose(me))

    def freed(self, what: object) -> None:
        for thread, blocking in enumerate(self._blocked):
            if blocking is what:
                self._blocked[thread] = None

    # --- the machinery ---

    @property
    def _over(self) -> bool:
        return self.deadlock or self._crash is not None

    def _choose(self, me: int | None) -> int | None:
        """Who goes on; ``None`` if nobody can."""
        able = [thread for thread, done in enumerate(self._done) if not done and self._blocked[thread] is None]
        if not able:
            return None
        chosen = me if me in able else able[0]
        if len(able) > 1:
            preempts = me in able
            number = len(self.decisions)
            wanted = self._wanted.get(number, chosen)
            if wanted not in able:
                self._crash = NotTheSame(f"decision {number} is between {able}, not for {wanted}")
                raise _Abandoned
            chosen = wanted
            others = tuple(thread for thread in able if thread != chosen)
            self.decisions.append(Decision(chosen, others, preempts))
        return chosen

    def _hand_over(self, me: int, following: int | None) -> None:
        self.switches.append(Switch(me, self._place()))
        if following is None:  # nobody can go on: every thread unwinds
            self.deadlock = True
            raise _Abandoned
        self._current, self._where = following, ""
        self._turns[following].release()
        self._turns[me].acquire()
        if self._over:
            raise _Abandoned

    def _body(self, me: int, body: Callable[[], None]) -> None:
        self._turns[me].acquire()
        try:
            if not self._over:
                self._trace()
                body()
        except _Abandoned:
            pass
        except BaseException as error:
            self._crash = self._crash or error
        finally:
            sys.settrace(None)
        self._ended(me)

    def _ended(self, me: int) -> None:
        self._done[me] = True
        if all(self._done):
            self._end.release()
            return
        following = None if self._over else self._choose(me)
        if following is None:
            self.deadlock = self.deadlock or self._crash is None
            following = self._done.index(False)  # to unwind it
        self.switches.append(Switch(me, ""))
        self._current, self._where = following, ""
        self._turns[following].release()

    def _trace(self) -> None:
        frame = sys._getframe()
        frame.f_trace_opcodes = self.grain == OPCODE  # from 3.12 on no frame is asked unless one wants it beforehand
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        points = _points(frame)
        if points is None:
            return None
        if self.grain == OPCODE:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False

            def at_opcode(frame: FrameType, event: str, arg: Any) -> Any:
                if event == OPCODE and frame.f_lasti in points:
                    self.point((frame.f_code, frame.f_lineno))
                return at_opcode

            return at_opcode
        return self._at_line

    def _at_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == LINE:
            self.point((frame.f_code, frame.f_lineno))
        return self._at_line

    def _place(self) -> str:
        return self._where if isinstance(self._where, str) else f"{self._where[0].co_filename}:{self._where[1]}"


def _taken() -> Any:
    lock = threading.Lock()
    lock.acquire()
    return lock


_known: dict[CodeType, frozenset[int] | None] = {}


def _points(frame: FrameType) -> frozenset[int] | None:
    """Where in the code of ``frame`` a switch can make a difference; ``None`` if it is not the subject's."""
    code = frame.f_code
    if code not in _known:
        _known[code] = _points_of(code) if _is_subject(str(frame.f_globals.get("__name__", ""))) else None
    return _known[code]


def _is_subject(module: str) -> bool:
    """Whatever is neither the standard library's nor what judges: its calls count as one step each."""
    if module.startswith(_OURS):
        return False
    return module.partition(".")[0] not in sys.stdlib_module_names


def _points_of(code: CodeType) -> frozenset[int]:
    private = _PRIVATE.split()
    return frozenset(one.offset for one in dis.get_instructions(code) if one.opname not in private)
