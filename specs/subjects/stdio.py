"""A manager in another process, in any language: ``stdio:COMMAND``.

It reads JSON lines and answers each with one. A head line, as a trace begins with, constructs a fresh manager in place
of the one before; its answer is a hello (`evictable.model.trace_stdio`). Every other line is a call, whose answer is
what a trace records of it: ``returns``, or ``raises`` with a ``message``, and ``state`` if the hello had one.

A process that ends in a call, or answers what cannot be read, has broken the law `answer`, whatever was called. One
that does not answer in time may be slow: there is no verdict.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection
from functools import cache

from attrs import define, evolve

from evictable.model.calls import BAD_ANSWER, MANAGER_DIED, Answer, Call, Key, Outcome, Raised
from evictable.model.exchanges import Exchange
from evictable.model.snapshot import Snapshot
from evictable.model.trace import NOT_RECORDED, Head, TraceError, call_record, head_record, read_answer, read_object
from evictable.model.trace_stdio import Hello, read_hello
from evictable.specs.errors import UsageError
from evictable.specs.faults import Faults
from evictable.specs.subjects.base import Setup, Subject, SubjectKind
from evictable.specs.subjects.children import Child, Garbled, Gone, Silent

PREFIX = "stdio:"
PATIENCE = 10.0
"""Seconds after which a call counts as hung, unless the hello says otherwise."""
STARTING = 30.0
"""Seconds that a process may take to start and answer its first line."""
SHOWN = 1024
"""With more slots no state is asked for: it would be told whole after every call."""
POLICIES = ("lru", "arc")

_REMEDY = (
    "it must answer each line of standard input with one line; the first is the head of a trace, "
    'and its answer has "evictable_stdio": 1'
)


class Hung(BaseException):
    """A call was not answered in time. No `Exception`: nothing that the subject raises, so nobody else's to catch."""

    def __init__(self, message: str, setup: Setup, made: tuple[Call, ...]) -> None:
        super().__init__(message)
        self.setup = setup
        self.made = made
        """The calls since construction, the hung one last."""


def words_of(name: str) -> list[str]:
    """The words of the command that ``name``, ``stdio:COMMAND``, names. Raises `UsageError` if there is none."""
    command = name.removeprefix(PREFIX)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{name}: {error}; quote the command as a shell would have it") from None
    if not words:
        raise UsageError(f"{name}: names no command; write stdio:COMMAND, such as 'stdio:node examples/manager.js'")
    if shutil.which(words[0]) is None:
        raise UsageError(f"{name}: there is no program {words[0]}; name one on the PATH, or its file")
    return words


def from_command(name: str, patience: float = PATIENCE, starting: float = STARTING) -> SubjectKind:
    """The subject that the command of ``name`` starts. Raises `UsageError` if it does not shake hands."""
    host = Host(name, words_of(name), patience, starting)
    first = host.introduce()

    def make(setup: Setup) -> Subject:
        if setup.tiers:
            raise UsageError(f"{name}: a manager in another process has no tiers; leave out --tiers")
        return StdioSubject(host, setup)

    return SubjectKind(
        name,
        make,
        profile=lambda policy: host.construct(Setup(1, policy, events=first.events)).profile,
        admission=first.admission,
        events=first.events,
        tickets=first.tickets,
        request_level=False,
        threads=False,
    )


@define(eq=False)
class Host:
    """The process: started when it is needed, with one manager at a time."""

    name: str
    words: list[str]
    patience: float
    starting: float
    child: Child | None = None
    guest: StdioSubject | None = None
    """Whose manager lives there."""

    def introduce(self) -> Hello:
        """What the process says of itself, under the first policy that it has."""
        problem: UsageError | None = None
        for policy in POLICIES:
            try:
                return self.construct(Setup(1, policy))
            except UsageError as error:
                problem = problem or error
                if self.child is None:
                    break
        assert problem is not None
        raise problem

    def construct(self, setup: Setup, guest: StdioSubject | None = None) -> Hello:
        """Construct a fresh manager in place of the one before. Raises `UsageError`."""
        head = Head(
            capacity=setup.capacity,
            subject=self.name,
            policy=setup.policy,
            events=setup.events,
            store_threshold=setup.store_threshold,
            max_tracker_size=setup.max_tracker_size if setup.store_threshold > 1 else None,
        )
        starts = self.child is None
        patience = self.starting if starts else self.patience
        self.guest = guest
        try:
            if self.child is None:
                self.child = Child(self.words)
            line = json.dumps(head_record(head) | {"state": setup.capacity <= SHOWN})
            record = read_object(1, self.child.ask(line.encode() + b"\n", patience))
        except OSError as error:
            raise UsageError(f"{self.name}: cannot be started ({error.strerror}); name a program") from error
        except (Gone, Silent, Garbled, TraceError) as error:
            self.close()
            when = "does not shake hands" if starts else "does not construct another manager"
            raise UsageError(f"{self.name}: {when} ({_one_line(error)}); {_REMEDY}") from error
        if "error" in record:
            asked = f"{setup.policy}, capacity {setup.capacity}"
            raise UsageError(f"{self.name}: cannot be constructed ({asked}): {' '.join(str(record['error']).split())}")
        try:
            hello = read_hello(record)
        except TraceError as error:
            self.close()
            raise UsageError(f"{self.name}: does not shake hands ({_one_line(error)}); {_REMEDY}") from error
        self.patience = hello.patience or self.patience
        return hello if setup.capacity <= SHOWN else evolve(hello, state=None)

    def close(self) -> None:
        if self.child is not None:
            self.child.end()
        self.child = None


class StdioSubject:
    """One manager, in another process. If another was constructed since, it is brought back by playing its calls."""

    def __init__(self, host: Host, setup: Setup) -> None:
        self._host = host
        self._setup = setup
        self._made: list[Call] = []
        self._lost: Raised | None = None
        self._hung: Hung | None = None
        self._state = host.construct(setup, self).state
        self._shows = self._state is not None

    @property
    def faults(self) -> Faults:
        return Faults(())

    def exchanges(self) -> tuple[Exchange, ...]:
        return ()

    def perform(self, call: Call) -> Answer:
        if self._hung is not None:
            raise self._hung  # whoever brings a run to its end is told, too
        if self._lost is None and self._host.guest is not self:
            self._host.construct(self._setup, self)
            for made in self._made:
                self._ask(made)
        self._made.append(call)
        outcome = self._lost or self._ask(call)
        if isinstance(outcome, Raised):
            raise _error(outcome.type)(outcome.message)
        return outcome

    def snapshot(self, keys: Collection[Key] | None) -> Snapshot | None:
        if self._state is None or self._lost is not None:
            return None
        return self._state if keys is None else self._state.of(keys)

    def _ask(self, call: Call) -> Outcome:
        host = self._host
        assert host.child is not None
        number = len(self._made)
        try:
            answer = host.child.ask(json.dumps(call_record(call)).encode() + b"\n", host.patience)
            record = read_object(number, answer)
            outcome, state = read_answer(number, call, record)
            if outcome is NOT_RECORDED:
                raise TraceError(number, f'neither "returns" nor "raises" in {answer[:80].decode("utf-8", "replace")}')
            if self._shows and state is None:
                raise TraceError(number, 'no "state", though the answer to the head line had one')
            self._state = state if self._shows else None
        except Silent as error:
            host.child = None
            message = f"{call} did not come back: {error}, as call {number} after construction"
            self._hung = Hung(message, self._setup, tuple(self._made))
            raise self._hung from None
        except Gone as error:
            host.child = None
            self._lost = outcome = Raised(MANAGER_DIED, _one_line(error))
        except (Garbled, TraceError, RecursionError) as error:
            host.close()  # whatever it says next need not be the answer to what is asked next
            self._lost = outcome = Raised(BAD_ANSWER, f"{_one_line(error)}; standard output is for answers only")
        return outcome


@cache
def _error(name: str) -> type[Exception]:
    """What the other process raised, by the name that it has there."""
    return type(name, (Exception,), {})


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
