"""A manager in another process: how hands are shaken, and what becomes of a call that is not answered."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evictable.model import calls
from evictable.model.calls import Call, Raised
from evictable.model.trace import TraceError
from evictable.model.trace_stdio import Hello, hello_record, read_hello
from evictable.specs.errors import UsageError
from evictable.specs.session import Session, outcome_of
from evictable.specs.shrink import Shrinker
from evictable.specs.subjects import prepare
from evictable.specs.subjects.base import Setup, SubjectKind
from evictable.specs.subjects.stdio import Hung, StdioSubject, from_command

CHILD = Path(__file__).resolve().parents[1] / "misbehaving_child.py"
LOOKUP = Call(calls.LOOKUP, (7,), "r1")
BEFORE = Call(calls.LOOKUP, (1,), "r1")


def command(way: str) -> str:
    return f"stdio:{shlex.quote(sys.executable)} -S {shlex.quote(str(CHILD))} {way}"


@contextmanager
def child(way: str) -> Iterator[tuple[SubjectKind, StdioSubject]]:
    kind = from_command(command(way))
    subject = kind.make(Setup(2))
    assert isinstance(subject, StdioSubject)
    try:
        yield kind, subject
    finally:
        subject._host.close()


@pytest.mark.parametrize(
    ("way", "problem"),
    [
        ("no-start", "does not shake hands (the process ended with 1: RuntimeError: no such file); it must answer"),
        ("no-greeting", "does not shake hands (line 1: not a JSON object"),
        ("no-version", 'does not shake hands (line 1: the answer to the head line has no "evictable_stdio": 1)'),
        ("no-such-version", '(line 1: "evictable_stdio" is 2; this release speaks 1)'),
        ("no-patience", '(line 1: "patience" is 3600; it is in seconds, up to 15)'),
        ("no-policy", "cannot be constructed (lru, capacity 1): there is no policy"),
    ],
)
def test_no_handshake_is_one_line(way: str, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        from_command(command(way))
    assert problem in str(error.value)
    assert 1 == len(str(error.value).splitlines())


def test_silence_is_no_handshake() -> None:
    with pytest.raises(UsageError, match=r"does not shake hands \(no answer in 0\.1 s\)"):
        from_command(command("no-answer"), starting=0.1)


def test_one_process_serves_one_manager_after_another() -> None:
    kind = from_command(command("no-second"))
    with pytest.raises(UsageError, match=r"does not construct another manager \(the process ended with 0\)"):
        kind.make(Setup(1))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("stdio:", "names no command"),
        ("stdio:  ", "names no command"),
        ("stdio:'half", "No closing quotation"),
        ("stdio:no-such-program --x", "there is no program no-such-program"),
    ],
)
def test_no_command_is_one_line(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        prepare(name, print)


@pytest.mark.parametrize(
    ("way", "type_", "message"),
    [
        ("crash", "ManagerDied", "the process ended with 1: IndexError: pop from empty list"),
        ("kill", "ManagerDied", "the process was ended by signal 9"),
        ("garbage", "BadAnswer", "not a JSON object"),
        ("empty", "BadAnswer", 'neither "returns" nor "raises" in {}'),
        ("wrong", "BadAnswer", "a lookup returns HIT, HIT_PENDING, MISS, RETRY"),
        ("stateless", "BadAnswer", 'no "state", though the answer to the head line had one'),
        ("raise", "KeyError", "7"),
    ],
)
def test_what_a_call_comes_to(way: str, type_: str, message: str) -> None:
    with child(way) as (_, subject):
        outcome = outcome_of(subject, LOOKUP)
    assert isinstance(outcome, Raised)
    assert type_ == outcome.type
    assert message in outcome.message


def test_what_is_said_unasked_is_no_answer_to_the_next_call() -> None:
    with child("twice") as (_, subject):
        assert calls.MISS == subject.perform(LOOKUP)
        outcome = outcome_of(subject, BEFORE)
    assert isinstance(outcome, Raised)
    assert "without being asked" in outcome.message


def test_a_hang_carries_the_calls_and_is_no_exception_of_the_manager() -> None:
    with child("hang") as (_, subject):
        subject.perform(BEFORE)
        with pytest.raises(Hung, match=r"lookup\(7, request=r1\) did not come back: no answer in 0\.3 s") as hung:
            outcome_of(subject, LOOKUP)
        with pytest.raises(Hung):
            outcome_of(subject, BEFORE)
    assert (BEFORE, LOOKUP) == hung.value.made


def test_standard_error_does_not_block() -> None:
    with child("noisy") as (_, subject):
        assert calls.MISS == subject.perform(LOOKUP)


def test_a_line_may_be_longer_than_a_pipe_holds() -> None:
    with child("well") as (_, subject):
        assert subject.perform(Call(calls.TOUCH, tuple(range(100_000)), "r1")) is None


def test_after_a_crash_there_is_a_new_process() -> None:
    with child("crash") as (kind, subject):
        outcome_of(subject, LOOKUP)
        assert isinstance(outcome_of(subject, BEFORE), Raised)
        assert calls.MISS == kind.make(Setup(2)).perform(BEFORE)


def test_a_subject_is_brought_back_when_another_was_constructed() -> None:
    with child("hang") as (kind, subject):
        subject.perform(BEFORE)
        kind.make(Setup(1)).perform(BEFORE)
        with pytest.raises(Hung) as hung:
            subject.perform(LOOKUP)
    assert (BEFORE, LOOKUP) == hung.value.made


@pytest.mark.parametrize("way", ["crash", "garbage"])
def test_a_manager_that_dies_has_refused_nothing(way: str) -> None:
    """A careless caller may be refused; a lookup of a request that was not announced is careless."""
    kind = from_command(command(way))
    session = Session.begin(kind, Setup(2), "any")
    assert session.judge.model.may_refuse(LOOKUP)
    session.step(LOOKUP)
    assert ["answer"] == [broken.law.id for broken in session.broken]


def test_a_crash_is_shrunk_like_any_broken_law() -> None:
    announced = [Call(calls.ON_NEW_REQUEST, request=request) for request in ("r1", "r2")]
    made = [*announced, BEFORE, Call(calls.TOUCH, (1, 7), "r2"), BEFORE, LOOKUP, BEFORE]
    found = Shrinker(from_command(command("crash")), "any", "contract", "answer").shrink(Setup(3), made)
    assert found is not None
    assert (calls.ON_NEW_REQUEST, calls.LOOKUP) == tuple(call.name for call in found.calls)
    assert "IndexError: pop from empty list" in found.difference_of().difference.observed


def test_a_refusal_of_a_careless_call_is_right() -> None:
    kind = from_command(command("raise"))
    session = Session.begin(kind, Setup(2), "any")
    session.step(LOOKUP)
    assert () == session.broken


def test_a_hello_is_read_as_it_is_written() -> None:
    hello = Hello("lru.js", "1", "arc", events=False, tickets=True, admission="lookups")
    assert hello == read_hello(hello_record(hello))


@pytest.mark.parametrize("more", [{"profile": 1}, {"admission": "guess"}, {"state": {}}, {"patience": True}])
def test_a_bad_hello_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(TraceError):
        read_hello({"evictable_stdio": 1, **more})
