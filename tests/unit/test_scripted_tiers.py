"""Scripted tiers: they do what the caller says, and the log tells what the manager said to them."""

from __future__ import annotations

from abc import abstractmethod
from types import SimpleNamespace
from typing import Any

import pytest

from evictable.impl import LookupResult, ReqContext
from evictable.impl.base import OffloadPolicy
from evictable.impl.tiering.base import JobMetadata, JobResult, SecondaryTierManager
from evictable.model import calls
from evictable.model.calls import Call, Key, key_bytes
from evictable.model.exchanges import (
    Asked,
    PeerAsked,
    PeerClaims,
    PeerFinished,
    Reported,
    Submitted,
    ToldFinished,
    Waited,
)
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.scripted import Script, scripted_tiers

CONTEXT = ReqContext("r")


def made(tiers: int = 1, **setup: Any) -> tuple[Script, list[Any]]:
    script = Script(Setup(4, tiers=tiers, **setup), ReqContext)
    for key in range(9):
        script.table.encode(key)
    script.begin(Call(calls.ON_SCHEDULE_END))
    return script, scripted_tiers(SecondaryTierManager, script, None)


def job(*keys: Key, number: int = 0, promotion: bool = False) -> JobMetadata:
    raw = [key_bytes(key) for key in keys]
    return JobMetadata(100 + number, raw, [10 + place for place in range(len(keys))], promotion, CONTEXT)


def fill(tier: int, *keys: Key) -> Call:
    return Call(calls.FILL_TIER, keys, tier=tier)


def ended(number: int, *keys: Key) -> Call:
    return Call(calls.FINISH_JOB, keys, job=number)


def peer(tier: int, *keys: Key, request: str = "p") -> Call:
    return Call(calls.PEER_LOOKUP, keys, request, tier=tier)


def test_what_a_tier_answers() -> None:
    script, tiers = made(2)
    script.fill(fill(1, 1, 2))
    script.delay(Call(calls.DELAY_TIER, (2, 3), tier=1))
    expected = [LookupResult.MISS, LookupResult.HIT, LookupResult.RETRY, LookupResult.RETRY]
    assert expected == [tiers[1].lookup(key_bytes(key), CONTEXT) for key in range(4)]
    assert [LookupResult.MISS] * 4 == [tiers[0].lookup(key_bytes(key), CONTEXT) for key in range(4)]
    assert Asked(1, 2, calls.RETRY) == script.log[2]
    script.end_step()
    assert LookupResult.HIT is tiers[1].lookup(key_bytes(2), CONTEXT)
    assert LookupResult.MISS is tiers[1].lookup(key_bytes(3), CONTEXT)


def test_a_store_that_is_complete_is_kept() -> None:
    script, (tier,) = made()
    tier.submit_store(job(1, 2))
    assert [Submitted(0, 0, False, (1, 2), (10, 11), "r")] == script.log
    assert [] == list(tier.get_finished_jobs())
    script.finish(ended(0, 2, 1))
    assert [JobResult(100, True)] == list(tier.get_finished_jobs())
    assert Reported(0, 0, (1, 2), True) == script.log[-1]
    assert LookupResult.HIT is tier.lookup(key_bytes(1), CONTEXT)


def test_a_store_that_is_not_complete_is_not() -> None:
    script, (tier,) = made()
    tier.submit_store(job(1, 2))
    script.finish(ended(0, 1))
    assert [JobResult(100, False)] == list(tier.get_finished_jobs())
    assert Reported(0, 0, (), False) == script.log[-1]
    assert LookupResult.MISS is tier.lookup(key_bytes(1), CONTEXT)


@pytest.mark.parametrize(
    ("named", "arrived", "success"),
    [((2, 1), (1, 2), True), ((2, 7), (2,), False), ((), (), False)],
)
def test_a_load_says_which_keys_arrived(named: tuple[Key, ...], arrived: tuple[Key, ...], success: bool) -> None:
    script, (tier,) = made()
    tier.submit_load(job(1, 2, promotion=True))
    script.finish(ended(0, *named))
    keys = None if success else tuple(map(key_bytes, arrived))
    assert [JobResult(100, success, keys)] == list(tier.get_finished_jobs())
    assert Reported(0, 0, arrived, success) == script.log[-1]


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_what_is_not_in_flight_does_not_end(number: int) -> None:
    script, (tier,) = made()
    tier.submit_store(job(1))
    tier.submit_store(job(2))
    script.finish(ended(0, 1))
    script.finish(ended(number, 1, 2))
    assert [100] == [result.job_id for result in tier.get_finished_jobs()]


def test_a_result_is_logged_when_it_is_taken() -> None:
    script, (tier,) = made()
    for number in (0, 1):
        tier.submit_store(job(number, number=number))
        script.finish(ended(number, number))
    script.begin(Call(calls.LOOKUP, (1,)))
    assert JobResult(100, True) == next(iter(tier.get_finished_jobs()))
    assert [Reported(0, 0, (0,), True)] == script.log
    assert [JobResult(101, True)] == list(tier.get_finished_jobs())


def test_a_method_raises_at_the_use_that_the_call_names() -> None:
    script, tiers = made(2)
    script.begin(Call(calls.COMPLETE_STORE, (1,), "r", raises_in="submit_store", at=2))
    tiers[0].submit_load(job(1, promotion=True))
    tiers[0].submit_store(job(1))
    with pytest.raises(RuntimeError, match="submit_store of tier 1 fails"):
        tiers[1].submit_store(job(1))
    tiers[1].submit_store(job(1))
    assert [False, False, True, False] == [exchange.raised for exchange in script.log]
    assert [0, 1, 2, 3] == [exchange.job for exchange in script.log]
    script.finish(ended(2, 1))
    assert [] == list(tiers[1].get_finished_jobs())
    script.begin(Call(calls.COMPLETE_STORE, (1,), "r"))
    tiers[0].submit_store(job(1))


@pytest.mark.parametrize(
    ("call", "success"),
    [(Call(calls.RESET_CACHE), True), (Call(calls.RESET_CACHE, success=False), False), (fill(0), True)],
)
def test_draining_ends_what_is_in_flight(call: Call, success: bool) -> None:
    script, tiers = made(2)
    tiers[0].submit_store(job(1))
    tiers[0].submit_store(job(2))
    tiers[1].submit_store(job(3))
    tiers[0].submit_load(job(4, 5, promotion=True))
    script.finish(ended(0, 1))
    script.begin(call)
    tiers[0].drain_jobs()
    assert [Waited(0, ((1, (2,)), (3, (4, 5))) if success else ((1, ()), (3, ())))] == script.log
    assert [True, success, success] == [result.success for result in tiers[0].get_finished_jobs()]
    script.begin(call)
    tiers[0].drain_jobs()
    assert [Waited(0, ())] == script.log


class Parent:
    """Knows the keys 1 and 2, writes 3, and remembers what it is asked."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.contexts: list[ReqContext] = []
        self.known = {
            key_bytes(1): LookupResult.HIT,
            key_bytes(2): LookupResult.HIT,
            key_bytes(3): LookupResult.HIT_PENDING,
        }

    def hear(self, what: str, context: ReqContext) -> None:
        self.heard.append(what)
        self.contexts.append(context)

    def on_new_request(self, req_context: ReqContext) -> None:
        self.hear("new", req_context)

    def lookup(self, key: bytes, req_context: ReqContext) -> LookupResult:
        self.hear("lookup", req_context)
        return self.known.get(key, LookupResult.MISS)

    def create_store_job(self, keys: Any, req_context: ReqContext) -> JobMetadata:
        self.hear("job", req_context)
        return JobMetadata(7, keys, [4] * len(keys), False, req_context)

    def on_request_finished(self, req_context: ReqContext) -> None:
        self.hear("finished", req_context)


def test_a_peer_claims_what_it_was_told_is_there() -> None:
    script, tiers = made(2)
    script.ask(peer(1, 2, 4, 1))
    tiers[0].serve_external_requests(parent := Parent())
    assert [] == parent.heard
    tiers[1].serve_external_requests(parent)
    assert ["new", "lookup", "lookup", "lookup", "job", "finished"] == parent.heard
    assert {"p"} == {context.req_id for context in parent.contexts}
    asked = [PeerAsked(1, "p", key, answer) for key, answer in ((2, "HIT"), (4, "MISS"), (1, "HIT"))]
    claimed = [PeerClaims(1, "p", (2, 1)), Submitted(1, 0, False, (2, 1), (4, 4), "p")]
    assert [*asked, *claimed, PeerFinished(1, "p")] == script.log
    script.finish(ended(0, 1, 2))
    assert [JobResult(7, True)] == list(tiers[1].get_finished_jobs())
    tiers[1].serve_external_requests(parent)
    assert 6 == len(parent.heard)


def test_a_peer_asks_again_for_what_is_pending_and_goes_when_it_has_all_answers() -> None:
    script, (tier,) = made()
    script.ask(peer(0, 3, 1))
    tier.serve_external_requests(parent := Parent())
    assert ["new", "lookup", "lookup", "job"] == parent.heard
    tier.serve_external_requests(parent)
    assert ["lookup"] == parent.heard[4:]
    parent.known = {key_bytes(3): LookupResult.HIT}
    tier.serve_external_requests(parent)
    assert ["lookup", "job", "finished"] == parent.heard[5:]
    assert 1 == len({id(context) for context in parent.contexts})


def test_a_peer_that_finds_nothing_claims_nothing() -> None:
    script, (tier,) = made()
    script.ask(peer(0, 6, 4))
    script.ask(peer(0, 5, request="q"))
    tier.serve_external_requests(parent := Parent())
    assert ["new", "lookup", "lookup", "finished", "new", "lookup", "finished"] == parent.heard
    assert 3 == sum(isinstance(exchange, PeerAsked) for exchange in script.log)
    assert 5 == len(script.log)


def test_what_the_manager_raises_at_a_peer_comes_through() -> None:
    script, (tier,) = made()
    script.ask(peer(0, 1))
    parent = Parent()
    parent.create_store_job = None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError):
        tier.serve_external_requests(parent)
    assert PeerClaims(0, "p", (1,)) == script.log[-1]
    assert ["new", "lookup"] == parent.heard


def test_a_tier_may_want_whole_requests() -> None:
    script, tiers = made(2, request_level=(1,))
    policies = [tier.on_new_request(CONTEXT).policy for tier in tiers]
    assert [OffloadPolicy.BLOCK_LEVEL, OffloadPolicy.REQUEST_LEVEL] == policies
    assert [] == script.log


def test_a_tier_hears_that_a_request_has_finished() -> None:
    script, tiers = made(2)
    tiers[1].on_request_finished(CONTEXT)
    assert [ToldFinished(1, "r")] == script.log


@pytest.mark.parametrize("tier", [None, -1, 1])
def test_a_tier_that_does_not_exist(tier: int | None) -> None:
    script, _ = made()
    with pytest.raises(UsageError, match="there is no such tier"):
        script.fill(Call(calls.FILL_TIER, (1,), tier=tier))


def test_what_is_reserved_for_promotions_is_logged() -> None:
    script, _ = made()
    answers = iter(
        [
            None,
            SimpleNamespace(
                keys_to_store=[key_bytes(2)],
                evicted_keys=[key_bytes(1)],
                store_spec=SimpleNamespace(block_ids=[3]),
            ),
        ]
    )
    primary = SimpleNamespace(prepare_write=lambda keys, context, **more: next(answers))
    script.watch(primary)
    assert primary.prepare_write([key_bytes(1)], CONTEXT) is None
    assert primary.prepare_write([key_bytes(2)], CONTEXT, keep=()).store_spec.block_ids == [3]
    assert ["no room for [1]", "reserves slots [3] for [2], evicting [1]"] == [str(exchange) for exchange in script.log]


def test_a_base_class_that_wants_more_than_is_known_here() -> None:
    class Demanding(SecondaryTierManager):
        @abstractmethod
        def warm_up(self) -> None: ...

        @abstractmethod
        def cool_down(self) -> None: ...

    with pytest.raises(UsageError, match=r"Demanding: a scripted tier has no method cool_down, warm_up; leave out"):
        scripted_tiers(Demanding, Script(Setup(4, tiers=1), ReqContext), None)
