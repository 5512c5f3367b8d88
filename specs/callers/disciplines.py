"""What a caller promises. What a violation is worth depends on it.

A record of promises follows a run call by call and says of a call not yet made whether it would break one.
Every caller asks it, and so does the shrinker: a shorter sequence that cheats proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import define, field

from evictable.model import calls
from evictable.model.calls import Call, Drained, Key, Outcome, Raised, Stored
from evictable.model.exchanges import Exchange, Reported, Reserved

CONTRACT = "contract"
CARELESS = "careless"
HOSTILE = "hostile"
DISCIPLINES = (CONTRACT, CARELESS, HOSTILE)
"""What the caller promises: everything; nothing; everything, but what the manager calls may raise."""

Transfer = tuple[str | None, Key]
"""Whose it is (`Call.owner`), and of which key."""


@define
class Promises:
    """Follows the calls of one run. Knows nothing but what was called and what was answered."""

    events: bool = True
    tiers: int = 0
    live: set[str | None] = field(factory=set)
    finished: set[str | None] = field(factory=set)
    stores: set[Transfer] = field(factory=set)
    loads: Counter[Transfer] = field(factory=Counter)
    stale_stores: set[Transfer] = field(factory=set)
    """Prepared before a reset and not yet reported."""
    stale_loads: Counter[Transfer] = field(factory=Counter)
    hits: set[Key] = field(factory=set)
    """Keys whose latest lookup was HIT, with nothing since that could have taken them away."""
    undrained: bool = False
    tickets: dict[str | None, tuple[str | None, int]] = field(factory=dict)
    """Owner -> request and number, of the tickets that were given."""
    peers: set[str | None] = field(factory=set)
    """Requests of peers: they have had their turn, or wait for it."""

    def breach(self, call: Call, discipline: str) -> str | None:
        """Which promise ``call`` would break, in words; ``None`` if it keeps them all."""
        if call.raises_in is not None and discipline != HOSTILE:
            return f"{call.raises_in} raises"
        if call.name in calls.WITH_TIERS and not self.tiers:
            return "there are no tiers"
        return (
            self._confused(call)
            or self._ambiguous(call)
            or (self._breach_of_contract(call) if discipline != CARELESS else None)
        )

    def observe(self, call: Call, outcome: Outcome, exchanges: Sequence[Exchange] = ()) -> None:
        """``call`` came to ``outcome``, and ``exchanges`` is what manager and tiers said meanwhile."""
        for exchange in exchanges:  # what tiers bring and what goes for it is announced, too
            self.undrained |= isinstance(exchange, (Reserved, Reported))
        if isinstance(outcome, Raised):
            return
        name, request, owner = call.name, call.request, call.owner
        if call.ticket is not None and name not in calls.COMPLETIONS and outcome is not None:
            self.tickets[owner] = request, call.ticket
        if name == calls.LOOKUP:
            if outcome == calls.HIT:
                self.hits.add(call.keys[0])
            else:
                self.hits.discard(call.keys[0])
        elif name == calls.PREPARE_STORE:
            self.hits.clear()
            if isinstance(outcome, Stored):
                self.stores.update((owner, key) for key in outcome.keys_to_store)
                self.undrained |= bool(outcome.evicted_keys)
        elif name == calls.COMPLETE_STORE:
            if not call.success:
                self.hits.clear()
            for key in call.keys:
                self.stores.discard((owner, key))
                self.stale_stores.discard((owner, key))
            self.undrained = True
        elif name == calls.PREPARE_LOAD:
            self.loads.update((owner, key) for key in call.keys)
        elif name == calls.COMPLETE_LOAD:
            for key in call.keys:
                _take_one(self.loads if (owner, key) in self.loads else self.stale_loads, (owner, key))
        elif name == calls.ON_NEW_REQUEST:
            self.live.add(request)
        elif name == calls.ON_REQUEST_FINISHED:
            self.live.discard(request)
            self.finished.add(request)
        elif name == calls.TAKE_EVENTS:
            if isinstance(outcome, Drained) and (call.limit is None or len(outcome.events) < call.limit):
                self.undrained = False
        elif name == calls.RESET_CACHE:
            self.stale_stores |= self.stores
            self.stale_loads += self.loads
            self.stores.clear()
            self.loads.clear()
            self.hits.clear()
            self.undrained = False
        elif name == calls.ON_SCHEDULE_END:
            self.hits.clear()
        elif name == calls.PEER_LOOKUP:
            self.peers.add(request)

    def completion(self, name: str, owner: str | None, keys: Sequence[Key], *, success: bool = True) -> Call:
        """The call that ends transfers of ``owner``."""
        request, ticket = self.tickets.get(owner, (owner, None))
        return Call(name, tuple(keys), request, success=success, ticket=ticket)

    def _confused(self, call: Call) -> str | None:
        """Tickets are numbered once each, and who uses them always does: others could not be told apart."""
        if call.ticket is None:
            if call.name in calls.TRANSFERS and any(request == call.request for request, _ in self.tickets.values()):
                return f"{call.request} uses tickets"
        elif call.name in calls.COMPLETIONS:
            if call.ticket not in [number for _, number in self.tickets.values()]:
                return f"there is no ticket {call.ticket}"
        elif call.ticket in [number for _, number in self.tickets.values()]:
            return f"ticket {call.ticket} was given before"
        return None

    def _ambiguous(self, call: Call) -> str | None:
        """No two live or stale transfers of one request and key: without tickets nobody could tell them apart."""
        request = call.owner
        if call.name == calls.PREPARE_STORE:
            twice = [key for key in call.keys if (request, key) in self.stale_stores]
            return f"{request} has not reported its store of {twice} from before the reset" if twice else None
        if call.name == calls.PREPARE_LOAD:
            twice = [key for key in call.keys if (request, key) in self.loads or (request, key) in self.stale_loads]
            return f"{request} has a load of {twice} in flight" if twice else None
        return None

    def _breach_of_contract(self, call: Call) -> str | None:
        name, request, keys = call.name, call.request, call.keys
        if name == calls.ON_NEW_REQUEST:
            known = request in self.live or request in self.finished or request in self.peers
            return f"{request} is not a fresh id" if known else None
        if name == calls.PEER_LOOKUP:
            known = request in self.live or request in self.finished or request in self.peers
            return f"{request} is not a fresh id" if known else _repeated(keys)
        if name in calls.COMPLETIONS:
            if self.tiers and not keys:
                return "a completion of nothing"  # above tiers it is counted, not only what it completes
            transfers = self.stores if name == calls.COMPLETE_STORE else self.loads
            return next(
                (f"{call.owner} has no transfer of {key}" for key in keys if (call.owner, key) not in transfers), None
            ) or (_repeated(keys))
        if name == calls.TAKE_EVENTS:
            return "a drain is dropped half way" if call.limit is not None else None
        if name == calls.RESET_CACHE:
            if self.stores or self.loads or self.stale_stores or self.stale_loads:
                return "a reset with transfers in flight"
            return "a reset with events undrained" if self.events and self.undrained else None
        if name in calls.CALLS_WITH_REQUEST and request not in self.live:
            if request not in self.finished:
                return f"{request} was not announced"
            return f"{request} is finished" if name != calls.TOUCH else _repeated(keys)
        if name == calls.PREPARE_LOAD:
            missing = [key for key in keys if key not in self.hits]
            if missing:
                return f"the latest lookup of {missing} was not a HIT that still holds"
        return _repeated(keys)

    @property
    def at_rest(self) -> bool:
        return not (self.stores or self.loads)


def _repeated(keys: tuple[Key, ...]) -> str | None:
    return None if len(set(keys)) == len(keys) else "a key twice in one call"


def _take_one(transfers: Counter[Transfer], transfer: Transfer) -> None:
    if transfers[transfer] > 1:
        transfers[transfer] -= 1
    else:
        del transfers[transfer]
