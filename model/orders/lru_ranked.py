"""vLLM from 0.31 on: each key has a rank, and pinning does not change it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, field

from evictable.model.calls import Key
from evictable.model.orders.ranked import RankedOrder
from evictable.model.requests import Requests


@define
class LruRanked(RankedOrder):
    """vLLM 0.31 and 0.32. The lowest rank goes first.

    A key gets the next rank when its store begins and when it is touched (backwards). A request that finishes
    re-ranks, backwards, every key that it loaded, stored, was refused, or offered while ready.
    """

    name = "lru-ranked"
    by_request = True

    _requests: Requests = field(factory=Requests)

    def announced(self, request: str | None) -> None:
        self._requests.announced(request)

    def placed(self, request: str | None, keys: Sequence[Key], positions: Sequence[int | None] | None) -> None:
        self._requests.place(request, keys, positions)

    def offered(self, request: str | None, offer: Sequence[Key], new: Collection[Key], ready: Collection[Key]) -> None:
        self._seen(request, self._requests.see(request, (key for key in offer if key in new or key in ready), ready))

    def inserted(self, key: Key, request: str | None = None) -> None:
        self._rank_inserted(key, request)
        self._requests.inserted(request, key)

    def loaded(self, request: str | None, keys: Sequence[Key]) -> None:
        self._seen(request, self._requests.see(request, keys, keys))

    def finished(self, request: str | None) -> None:
        record = self._requests.finished(request)
        if record is not None:
            self.touched(self._requests.in_prefix_order(request, record))

    def cleared(self) -> None:
        RankedOrder.cleared(self)
        self._requests.cleared()

    def _rank_inserted(self, key: Key, request: str | None) -> None:
        self._rank_last(key)

    def _seen(self, request: str | None, first: Sequence[Key]) -> None:
        """The request uses keys that it had not used before."""


@define
class LruRankedRequest(LruRanked):
    """vLLM 0.33: keys with token positions share the rank of their request until it finishes, tails lowest.

    A key's rank is then (rank of the request, minus position), which a first use never lowers. Keys without
    positions rank as in `LruRanked`. Ties are broken by the bytes of the key.
    """

    name = "lru-ranked-request"

    _request_ranks: dict[str | None, int] = field(factory=dict)

    def announced(self, request: str | None) -> None:
        LruRanked.announced(self, request)
        self._request_ranks.pop(request, None)

    def cleared(self) -> None:
        LruRanked.cleared(self)
        self._request_ranks.clear()

    def _rank_inserted(self, key: Key, request: str | None) -> None:
        position = self._requests.position(request, key)
        if position is None:
            LruRanked._rank_inserted(self, key, request)
        else:
            self._keys.rank(key, (self._rank_of(request), -position))

    def _seen(self, request: str | None, first: Sequence[Key]) -> None:
        if not first:
            return
        request_rank = self._rank_of(request)
        for key in first:
            position = self._requests.position(request, key)
            if position is not None and key in self._keys.ranks:
                rank = (request_rank, -position)
                if self._keys.ranks[key] < rank:
                    self._keys.rank(key, rank)

    def _rank_of(self, request: str | None) -> int:
        if request not in self._request_ranks:
            self._request_ranks[request] = self._next_rank()
        return self._request_ranks[request]
