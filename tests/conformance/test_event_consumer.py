"""A consumer that knows nothing but the self-describing events knows what is in the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice

from hypothesis import given, settings
from hypothesis import strategies as st

from evictable.impl import (
    BlockPayload,
    BlockRemoved,
    BlockStored,
    CPUOffloadingManager,
    LookupResult,
    OffloadKey,
    ReqContext,
    SelfDescribingEvents,
    get_offload_block_hash,
    get_offload_group_idx,
    make_offload_key,
)

GROUPS = (0, 1)
CHAIN = tuple(bytes([n]) for n in range(3))
"""Block hashes of one prompt, the first token's first. Both groups cache it."""
KEYS = tuple(make_offload_key(block_hash, group) for block_hash in CHAIN for group in GROUPS)
BLOCK_SIZE = 2

Place = tuple[str | None, int | None, bytes]
"""Medium, group, block hash."""


def payload_of(key: OffloadKey, length: int) -> BlockPayload:
    """A chunk of `length` blocks of the chain, or fewer at its start, that ends with the key's block.

    The same key is stored with chunks of any length, which a tracker must not take for each other, and chunks of
    neighbouring keys share blocks.
    """
    end = CHAIN.index(get_offload_block_hash(key)) + 1
    start = max(end - length, 0)
    return BlockPayload(
        block_hashes=CHAIN[start:end],
        parent_block_hash=CHAIN[start - 1] if start else None,
        token_ids=tuple(range(start * BLOCK_SIZE, end * BLOCK_SIZE)),
        block_size=BLOCK_SIZE,
        group_idx=get_offload_group_idx(key),
        kv_cache_spec_kind="full_attention",
    )


class Consumer:
    """Rebuilds the cache from the stream. A block that several keys hold is there until all of them are gone."""

    def __init__(self) -> None:
        self.holders: Counter[Place] = Counter()
        self.parents: dict[Place, bytes | None] = {}
        self.tokens: dict[Place, tuple[int, ...]] = {}

    def take(self, records: Iterable[BlockStored | BlockRemoved]) -> None:
        for record in records:
            places = [(record.medium, record.group_idx, block_hash) for block_hash in record.block_hashes]
            if isinstance(record, BlockStored):
                self._store(record, places)
            else:
                self._remove(places)

    def _store(self, record: BlockStored, places: list[Place]) -> None:
        parent = record.parent_block_hash
        for number, place in enumerate(places):
            self.holders[place] += 1
            self.parents[place] = parent
            self.tokens[place] = record.token_ids[number * record.block_size :][: record.block_size]
            parent = place[2]

    def _remove(self, places: list[Place]) -> None:
        for place in places:
            self.holders[place] -= 1
            if not self.holders[place]:
                del self.holders[place], self.parents[place], self.tokens[place]


class Server:
    """Drives a manager and its tracker as a connector does, and knows the payload of every ready key."""

    def __init__(self, capacity: int, policy: str) -> None:
        self.manager = CPUOffloadingManager(capacity, policy, enable_events=True)
        self.tracker = SelfDescribingEvents()
        self.consumer = Consumer()
        self.storing: dict[OffloadKey, tuple[ReqContext, BlockPayload]] = {}
        self.loading: list[tuple[ReqContext, OffloadKey]] = []
        self.ready: dict[OffloadKey, BlockPayload] = {}
        self.num_requests = 0

    def store(self, keys: list[OffloadKey], length: int, success: bool | None) -> None:
        """`success` None leaves the stores in flight."""
        request = self._request()
        output = self.manager.prepare_store(keys, request)
        if output is None:
            return
        for key in output.evicted_keys:
            del self.ready[key]
        for key in output.keys_to_store:
            payload = payload_of(key, length)
            self.tracker.record_store(key, payload)
            self.storing[key] = (request, payload)
        if success is not None:
            self.end_store(output.keys_to_store, success)

    def end_store(self, keys: list[OffloadKey], success: bool) -> None:
        """End those of the keys' stores that are in flight, by one completion for each request."""
        ended: dict[str, list[OffloadKey]] = {}
        for key in keys:
            if key in self.storing:
                request, payload = self.storing.pop(key)
                ended.setdefault(request.req_id, []).append(key)
                if success:
                    self.ready[key] = payload
        for req_id, batch in ended.items():
            self.manager.complete_store(batch, ReqContext(req_id), success)
            if not success:
                self.tracker.record_failure(batch)

    def load(self, keys: list[OffloadKey]) -> None:
        request = self._request()
        hits = [key for key in keys if self.manager.lookup(key, request) is LookupResult.HIT]
        self.manager.touch(hits, request)
        self.manager.prepare_load(hits, request)
        self.loading += [(request, key) for key in hits]

    def end_load(self) -> None:
        for request, key in self.loading:
            self.manager.complete_load([key], request)
        self.loading.clear()

    def drain(self, limit: int | None) -> None:
        self.consumer.take(islice(self.tracker.take_events(self.manager.take_events()), limit))

    def reset(self) -> None:
        self.manager.reset_cache()
        self.tracker.reset()
        self.consumer = Consumer()
        self.storing.clear()
        self.loading.clear()
        self.ready.clear()

    def check(self) -> None:
        """After a full drain: the consumer holds what the manager does, and the tracker nothing else."""
        self.drain(None)
        request = self._request()
        ready = {key for key in KEYS if self.manager.lookup(key, request) is LookupResult.HIT}
        expected = Consumer()
        for key in ready:
            payload = self.ready[key]
            for number, block_hash in enumerate(payload.block_hashes):
                place = ("CPU", payload.group_idx, block_hash)
                expected.holders[place] += 1
                position = CHAIN.index(block_hash)
                expected.parents[place] = CHAIN[position - 1] if position else None
                expected.tokens[place] = payload.token_ids[number * BLOCK_SIZE :][:BLOCK_SIZE]
        assert set(self.ready) == ready
        assert vars(expected) == vars(self.consumer)
        held = {key: len(payloads) for key, payloads in self.tracker._payloads.items()}
        assert dict.fromkeys([*ready, *self.storing], 1) == held

    def _request(self) -> ReqContext:
        self.num_requests += 1
        return ReqContext(f"r{self.num_requests}")


SOME_KEYS = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
STORE = st.tuples(st.just("store"), SOME_KEYS, st.integers(1, 3), st.sampled_from([True, True, False, None]))
OTHERS = st.one_of(
    st.tuples(st.just("end_store"), SOME_KEYS, st.booleans()),
    st.tuples(st.just("load"), SOME_KEYS),
    st.tuples(st.just("end_load")),
    st.tuples(st.just("drain"), st.integers(1, 3)),
    st.tuples(st.just("check")),
    st.tuples(st.just("reset")),
)
RUNS = st.lists(st.tuples(STORE, STORE, OTHERS), min_size=4, max_size=16)
"""Two offers for every other step, so that caches fill up and keys come back."""


@settings(max_examples=300, deadline=None)
@given(capacity=st.integers(2, 4), policy=st.sampled_from(["lru", "arc"]), runs=RUNS)
def test_the_consumer_rebuilds_the_cache_from_the_stream_alone(
    capacity: int, policy: str, runs: list[tuple[tuple[object, ...], ...]]
) -> None:
    server = Server(capacity, policy)
    for name, *arguments in chain.from_iterable(runs):
        getattr(server, str(name))(*arguments)
    server.check()
