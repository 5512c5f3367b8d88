"""The laws. Each is data: an id that never changes, a sentence, and a predicate that returns a difference.

A predicate looks at one `Step`: a call, what came of it, and the state before and after as the model has it
and as the subject shows it. It returns ``None`` if the law holds or does not apply, else a `Difference`.
The sentences are those of README.md in this folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from attrs import field, fields, frozen

from evictable.model import calls
from evictable.model.breach import Breach
from evictable.model.calls import Call, Drained, Gauges, Key, Loaded, Outcome, Raised, Stored, describe
from evictable.model.lifecycle import PENDING, abort_store, begin_store, commit_store, evict, pin, reachable, unpin
from evictable.model.lifecycle import Step as LifeCycleStep
from evictable.model.manager import StorePlan
from evictable.model.snapshot import Snapshot, left_out


@frozen
class Difference:
    """What a law demands, what was seen instead, and the keys concerned."""

    expected: str
    observed: str
    keys: tuple[Key, ...] = ()


@frozen
class Step:
    """All that a law may look at."""

    call: Call
    misplaced: tuple[int, ...]
    """Places in ``call.keys`` that a careful caller would not have named."""
    may_refuse: bool
    """A careful caller would not have made this call at all."""
    outcome: Outcome
    expected: Outcome
    """The right answer, the misplaced keys left out; under freedom of choice, the one that follows ``outcome``."""
    before: Snapshot
    """The model's state before (agreeing with the subject's), of the keys concerned or in full."""
    after: Snapshot
    """The model's state after, likewise."""
    seen: Snapshot | None
    """The subject's state after; ``None`` if it does not show its inside."""
    order_before: Any
    events_before: int | None
    """The subject's order and number of undrained events before the call, where it shows them."""
    order_after: Any
    """The model's order after it: some profiles let a refusal move the order."""
    plan: StorePlan | None
    """Of ``prepare_store``."""
    at_rest_before: bool
    at_rest_after: bool
    order_is_exact: bool
    capacity: int
    may_have_moved: frozenset[Key] = frozenset()
    """Keys that a failing call may leave elsewhere in the order: its own, of a policy that restores no order."""
    tiers: int = 0
    """How many tiers are below the manager."""
    concerned: frozenset[Key] = frozenset()
    """Keys that tiers were busy with during the call."""
    breaches: tuple[Breach, ...] = ()
    """What was wrong with the events, or between manager and tiers."""

    @property
    def refused(self) -> bool:
        return isinstance(self.outcome, Raised) or (self.call.name == calls.PREPARE_STORE and self.outcome is None)

    def named_well(self) -> Counter[Key]:
        """How often each key is named where a careful caller may name it."""
        return Counter(key for place, key in enumerate(self.call.keys) if place not in self.misplaced)


Predicate = Callable[[Step], Difference | None]


@frozen
class Law:
    """A law: its stable id, its sentence, its predicate, and when it is put to the test at all."""

    id: str
    sentence: str
    check: Predicate = field(repr=False)
    why: str
    """What goes wrong where it is broken."""
    needs_inside: bool = False
    """It can only be judged of a subject that shows its inside."""
    needs_mistakes: bool = False
    """Only a careless caller can put it to the test."""
    needs_tiers: bool = False
    """It can only be judged of a manager with tiers below it."""

    def can_be_tested(self, *, careless: bool, tiers: bool) -> bool:
        """Whether careless or other callers, with or without tiers, put it to the test at all."""
        return (careless or not self.needs_mistakes) and (tiers or not self.needs_tiers)


# --- after every call -----------------------------------------------------------------------------


def evictable_iff_idle(step: Step) -> Difference | None:
    seen = step.seen
    if seen is None or seen.evictable is None:
        return None
    idle = {key for key, ref_cnt in seen.ref_cnt.items() if ref_cnt == 0}
    listed = set(seen.evictable)
    if idle == listed and len(seen.evictable) == len(listed):
        return None
    wrong = _sorted(idle ^ listed) or _sorted(listed)
    return Difference(f"evictable: {_sorted(idle)}", f"evictable: {list(seen.evictable)}", wrong)


def counters_agree(step: Step) -> Difference | None:
    seen = step.seen
    if isinstance(step.outcome, Gauges) and not same_gauges(step.outcome, step.expected):
        return Difference(describe(step.expected), describe(step.outcome))
    if seen is None:
        return None
    for name, counter, members in (
        ("evictable", seen.num_evictable, _count(step, lambda ref_cnt: ref_cnt == 0)),
        ("write-pending", seen.num_pending, _count(step, lambda ref_cnt: ref_cnt == PENDING)),
    ):
        if counter is not None and counter != members:
            return Difference(f"{name} counter {members}", f"{name} counter {counter}")
    return None


def _count(step: Step, belongs: Callable[[int], bool]) -> int:
    """How many of the subject's blocks belong: counted if all are shown, else reckoned from those shown."""
    assert step.seen is not None
    shown = sum(1 for ref_cnt in step.seen.ref_cnt.values() if belongs(ref_cnt))
    if step.seen.full:
        return shown
    expected_shown = sum(1 for ref_cnt in step.after.ref_cnt.values() if belongs(ref_cnt))
    in_all = step.after.num_evictable if belongs(0) else step.after.num_pending
    assert in_all is not None
    return in_all - expected_shown + shown


def slots_conserved(step: Step) -> Difference | None:
    seen = step.seen
    if seen is None or seen.slots is None:
        return None
    if seen.slots.keys() != seen.ref_cnt.keys():
        apart = _sorted({*seen.slots} ^ {*seen.ref_cnt})
        return Difference(f"a slot for each of {list(seen.ref_cnt)}", f"slots of {list(seen.slots)}", apart)
    taken = sorted(seen.slots.values())
    if len(set(taken)) < len(taken):
        shared = [slot for slot, times in Counter(taken).items() if times > 1]
        return Difference(
            "one block in each slot",
            f"slots {shared} hold several",
            tuple(key for key, slot in seen.slots.items() if slot in shared),
        )
    if not seen.accounts_for_slots() and seen.free is not None and seen.handed_out is not None:
        # What is handed out is said by the subject, and may be any number.
        few = seen.handed_out <= max(step.capacity, len(taken) + len(seen.free))
        given = list(range(seen.handed_out)) if few else f"[0, ..., {seen.handed_out - 1}]"
        return Difference(
            f"slots {given} each taken or free, once",
            f"taken {taken}, free {sorted(seen.free)}",
        )
    resident = len(seen.ref_cnt) if seen.full and seen.num_resident is None else seen.num_resident
    if seen.num_free is not None and resident is not None and step.capacity != seen.num_free + resident:
        return Difference(f"{step.capacity} slots, taken or free", f"{resident} taken and {seen.num_free} free")
    return None


def ref_floor(step: Step) -> Difference | None:
    if step.seen is None:
        return None
    low = {key: ref_cnt for key, ref_cnt in step.seen.ref_cnt.items() if ref_cnt < PENDING}
    return Difference("no ref_cnt below -1", f"ref_cnt {low}", tuple(low)) if low else None


def capacity(step: Step) -> Difference | None:
    if step.seen is None:
        return None
    resident = step.seen.num_resident if step.seen.num_resident is not None else len(step.seen.ref_cnt)
    if resident <= step.capacity:
        return None
    return Difference(f"at most {step.capacity} resident blocks", f"{resident} resident blocks")


# --- of every step --------------------------------------------------------------------------------

_ROWS: dict[str, tuple[LifeCycleStep, ...]] = {
    calls.PREPARE_STORE: (begin_store,),
    calls.PREPARE_LOAD: (pin,),
    calls.COMPLETE_LOAD: (unpin,),
}
_PROMOTES = (calls.LOOKUP, calls.ON_SCHEDULE_END)
"""Calls that make room for what is in a tier: a lookup, and the end of a step, when peers look up."""


def _made_room(step: Step, key: Key) -> bool:
    """Whether a promotion may have evicted ``key``: one that said so, or one that took another than it should have."""
    if not step.tiers or step.call.name not in _PROMOTES:
        return False
    return key not in step.after.ref_cnt or _breach(step, "evict-order") is not None


def legal_step(step: Step) -> Difference | None:
    seen = step.seen
    if seen is None or step.call.name == calls.RESET_CACHE:
        return _survivors_of_reset(step)
    named = Counter(step.call.keys)
    rows = _ROWS.get(step.call.name, ())
    if step.call.name == calls.COMPLETE_STORE:
        rows = (commit_store,) if step.call.success else (abort_store,)
    for key in {**step.before.ref_cnt, **seen.ref_cnt}:
        before, after = step.before.ref_cnt.get(key), seen.ref_cnt.get(key)
        if before == after or key in step.concerned:  # of those `pin-has-job` speaks
            continue
        allowed = reachable(before, rows if key in named else (), named[key])
        if step.call.name == calls.PREPARE_STORE or _made_room(step, key):
            allowed += reachable(before, (evict,), 1)
        if after not in allowed:
            return Difference(
                f"ref_cnt of {key}: {' or '.join(map(_ref, allowed))}", f"{_ref(before)} became {_ref(after)}", (key,)
            )
    for key in (
        () if step.refused else named.keys() - step.concerned
    ):  # a call that answers has taken its rows for every key, not for some
        after, right = seen.ref_cnt.get(key), step.after.ref_cnt.get(key)
        if after != right and right in reachable(after, rows, named[key]):
            return Difference(f"ref_cnt of {key}: {_ref(right)}", f"stopped short at {_ref(after)}", (key,))
    was, now = step.before.slots or {}, seen.slots or {}
    for key, slot in was.items():  # no row gives a block another slot; of those in use `pinned-stays` says so
        if key in step.concerned:
            continue
        if (step.before.ref_cnt[key] == 0 or key in named) and now.get(key, slot) != slot:
            return Difference(f"{key} keeps slot {slot}", f"{key} is in slot {now[key]}", (key,))
    return None


def _survivors_of_reset(step: Step) -> Difference | None:
    if step.seen is None or step.refused or not step.seen.ref_cnt:
        return None
    return Difference("nothing resident after a reset", f"ref_cnt {dict(step.seen.ref_cnt)}", tuple(step.seen.ref_cnt))


def pinned_stays(step: Step) -> Difference | None:
    seen = step.seen
    if step.call.name == calls.RESET_CACHE:
        return None
    if isinstance(step.outcome, Stored):
        used = [key for key in step.outcome.evicted_keys if step.before.ref_cnt.get(key, 0) != 0]
        if used:
            return Difference("only idle blocks are evicted", f"{used} in use and evicted", tuple(used))
    if seen is None or seen.slots is None or step.before.slots is None:
        return None
    completed = step.named_well() if step.call.name == calls.COMPLETE_STORE else Counter()
    for key, slot in step.before.slots.items():
        ref_cnt = step.before.ref_cnt[key]
        if ref_cnt == 0 or key in completed or (key in step.concerned and key not in step.after.ref_cnt):
            continue
        if key not in seen.slots:
            return Difference(f"{key} (ref_cnt {ref_cnt}) keeps its slot", f"{key} is gone", (key,))
        if seen.slots[key] != slot:
            return Difference(
                f"{key} (ref_cnt {ref_cnt}) keeps slot {slot}",
                f"{key} is in slot {seen.slots[key]}",
                (key,),
            )
    return None


def offer_protected(step: Step) -> Difference | None:
    if step.call.name != calls.PREPARE_STORE:
        return None
    gone = (
        [key for key in step.outcome.evicted_keys if key in step.call.keys] if isinstance(step.outcome, Stored) else []
    )
    if step.seen is not None:
        offered = dict.fromkeys(step.call.keys)
        gone += [
            key for key in offered if key in step.before.ref_cnt and key not in step.seen.ref_cnt and key not in gone
        ]
    return Difference("no key of the offer is evicted", f"{gone} evicted", tuple(gone)) if gone else None


def evict_order(step: Step) -> Difference | None:
    outcome = step.outcome
    if not isinstance(outcome, Stored):
        return _breach(step, "evict-order")
    victims = outcome.evicted_keys
    if not step.order_is_exact:
        return None
    if not isinstance(step.expected, Stored):
        if not victims:
            return None
        return Difference("None: the order has too few victims outside the offer", f"evicts {list(victims)}", victims)
    right = step.expected.evicted_keys
    if len(victims) != len(right):
        return Difference(f"{len(right)} evicted: {list(right)}", f"{len(victims)} evicted: {list(victims)}", victims)
    if set(victims) == set(right) or not step.order_is_exact:
        return None
    return Difference(f"evicts {list(right)}", f"evicts {list(victims)}", _sorted(set(victims) ^ set(right)))


def no_false_refusal(step: Step) -> Difference | None:
    plan = step.plan
    if step.call.name != calls.PREPARE_STORE or step.outcome is not None or plan is None or not plan.has_room:
        return None
    if step.call.raises_in in calls.MANAGER_FAULTS:
        return None  # something failed: refusing is as good as raising
    if isinstance(step.expected, Stored):
        return Difference(describe(step.expected), "None, although there is room", plan.new)
    # The profile itself gives up: an order that overlooks victims does not make the refusal right.
    room = f"{plan.need} to evict, {plan.available} evictable outside the offer"
    return Difference(f"store {list(plan.new)}: {room}", "None, although there is room", plan.new)


def all_or_nothing(step: Step) -> Difference | None:
    seen, before = step.seen, step.before
    if seen is None or not step.refused:
        return None
    for name, was, now in (
        ("ref_cnt", before.ref_cnt, seen.ref_cnt),
        ("slots", before.slots, seen.slots),
        ("evictable counter", before.num_evictable, seen.num_evictable),
        ("write-pending counter", before.num_pending, seen.num_pending),
        ("free slots", before.num_free, seen.num_free),
        ("undrained events", step.events_before, seen.num_events),
        ("order", _order_to_keep(step), left_out(seen.order, step.may_have_moved) if step.order_is_exact else None),
    ):
        if was is not None and now is not None and was != now:
            return Difference(f"unchanged {name} {_plain(was)}", f"{name} {_plain(now)}", _changed(was, now))
    return None


def _order_to_keep(step: Step) -> Any:
    """The order as it was, unless the profile moved it to where the subject has it."""
    assert step.seen is not None
    seen, after, before = (
        left_out(order, step.may_have_moved) for order in (step.seen.order, step.order_after, step.order_before)
    )
    return None if seen == after else before


def answer(step: Step) -> Difference | None:
    outcome, expected = step.outcome, step.expected
    if (breach := _breach(step, "answer")) is not None:
        return breach
    if isinstance(outcome, Raised):
        if (step.misplaced or step.may_refuse) and outcome.type not in calls.LOST:
            return None
        return Difference(describe(expected), describe(outcome), step.call.keys)
    if isinstance(outcome, (Drained, Gauges)) or isinstance(expected, (Drained, Gauges)):
        return None if type(outcome) is type(expected) else Difference(describe(expected), describe(outcome))
    if isinstance(outcome, Stored) and isinstance(expected, Stored):
        same = outcome.keys_to_store == expected.keys_to_store and set(outcome.evicted_keys) <= set(step.before.ref_cnt)
        if set(outcome.evicted_keys) == set(expected.evicted_keys):
            same = same and outcome.block_ids == expected.block_ids
        else:  # other victims free other slots: `evict-order` judges them
            same = same and len(outcome.keys_to_store) == len(outcome.block_ids) == len(set(outcome.block_ids))
            same = same and len(outcome.evicted_keys) == len(set(outcome.evicted_keys))
            same = same and (step.plan is None or step.plan.need <= len(outcome.evicted_keys))  # else a slot is in use
    elif step.call.name == calls.PREPARE_STORE and outcome is None:
        return None  # a refusal: `no-false-refusal` judges it
    elif isinstance(outcome, Loaded) and step.misplaced:
        same = isinstance(expected, Loaded) and outcome.block_ids == expected.block_ids
    else:
        same = outcome == expected
    if not same:
        return Difference(describe(expected), describe(outcome), step.call.keys)
    return _untold(step, outcome) if isinstance(outcome, Stored) else None


def _untold(step: Step, outcome: Stored) -> Difference | None:
    """Where the right words are not what the subject did: another slot was taken, another block is gone."""
    seen = step.seen
    if seen is None:
        return None
    for key, block_id in zip(outcome.keys_to_store, outcome.block_ids, strict=True):
        slot = block_id if seen.slots is None else seen.slots.get(key)
        if slot != block_id:
            return Difference(f"{key} in slot {block_id}, as answered", f"{key} in slot {slot}", (key,))
    gone, told = {key for key in step.before.ref_cnt if key not in seen.ref_cnt}, set(outcome.evicted_keys)
    if gone != told:
        return Difference(f"evicted, as answered: {_sorted(told)}", f"evicted: {_sorted(gone)}", _sorted(gone ^ told))
    return None


def owner_completes(step: Step) -> Difference | None:
    seen = step.seen
    if seen is None or step.call.name not in calls.COMPLETIONS or not step.misplaced:
        return None
    foreign = dict.fromkeys(step.call.keys[place] for place in step.misplaced)
    kept = step.before if isinstance(step.outcome, Raised) else step.after
    for key in foreign:
        right, now = kept.ref_cnt.get(key), seen.ref_cnt.get(key)
        if right != now:
            return Difference(
                f"{step.call.request} has no such transfer of {key} in flight: its ref_cnt is {_ref(right)}",
                f"its ref_cnt is {_ref(now)}",
                (key,),
            )
    return None


# --- of the event stream --------------------------------------------------------------------------


def events_replay(step: Step) -> Difference | None:
    return _breach(step, "events-replay")


def events_once(step: Step) -> Difference | None:
    return _breach(step, "events-once")


# --- in the long run ------------------------------------------------------------------------------


def drains(step: Step) -> Difference | None:
    seen = step.seen
    if not step.at_rest_after or seen is None or step.call.name not in calls.COMPLETIONS:
        return None
    stuck = [key for key, ref_cnt in seen.ref_cnt.items() if ref_cnt != 0]
    if stuck:
        return Difference("no transfer is in flight: every block idle", f"{stuck} in use for ever", tuple(stuck))
    if seen.evictable is not None and set(seen.evictable) != set(seen.ref_cnt):
        return Difference("no transfer is in flight: every block evictable", f"evictable: {list(seen.evictable)}")
    if seen.num_free is not None and seen.num_resident is not None:
        lost = step.capacity - seen.num_free - seen.num_resident
        if lost > 0:
            return Difference("no slot lost", f"{lost} slots neither taken nor free")
    return None


def progress(step: Step) -> Difference | None:
    if step.call.name != calls.PREPARE_STORE or not step.at_rest_before or not step.refused or step.misplaced:
        return None
    plan = step.plan
    if plan is None or len(plan.new) != len(step.call.keys) or len(plan.new) > step.capacity or step.may_refuse:
        return None
    return Difference(
        f"no transfer is in flight: {len(plan.new)} new keys fit in {step.capacity} slots", describe(step.outcome)
    )


# --- with tiers -----------------------------------------------------------------------------------


def pin_has_job(step: Step) -> Difference | None:
    breach = _breach(step, "pin-has-job")
    if breach is not None or step.seen is None:
        return breach
    for key in _sorted(set(step.concerned)):
        right, now = step.after.ref_cnt.get(key), step.seen.ref_cnt.get(key)
        if right != now:
            return Difference(
                f"ref_cnt of {key}, by the jobs and loads that there are: {_ref(right)}", f"{_ref(now)}", (key,)
            )
        said, slot = (step.after.slots or {}).get(key), (step.seen.slots or {}).get(key)
        if None not in (said, slot) and said != slot:
            return Difference(f"{key} in slot {said}, as its job has it", f"{key} is in slot {slot}", (key,))
    return None


def hit_loads(step: Step) -> Difference | None:
    return _breach(step, "hit-loads")


def tier_drains(step: Step) -> Difference | None:
    breach = _breach(step, "tier-drains")
    if breach is not None or step.seen is None or not step.concerned or not step.at_rest_after:
        return breach
    stuck = tuple(key for key, ref_cnt in step.seen.ref_cnt.items() if ref_cnt != 0)
    return (
        Difference("no job and no transfer is under way: every block idle", f"{stuck} in use", stuck) if stuck else None
    )


def tier_progress(step: Step) -> Difference | None:
    return _breach(step, "tier-progress")


def slot_contents(step: Step) -> Difference | None:
    return _breach(step, "slot-contents")


def _breach(step: Step, law: str) -> Difference | None:
    for breach in step.breaches:
        if breach.law == law:
            return Difference(breach.expected, breach.observed, breach.keys)
    return None


LAWS: tuple[Law, ...] = (
    Law(
        "evictable-iff-idle",
        "a key is in the evictable set if and only if it is resident with ref_cnt == 0",
        evictable_iff_idle,
        why="A block that is idle and not listed is never evicted: capacity lost for good. One that is listed and "
        "in use is given away while somebody reads or writes it.",
        needs_inside=True,
    ),
    Law(
        "counters-agree",
        "the evictable counter equals the size of that set; a write-pending counter equals the number of -1 blocks; "
        "a usage gauge follows from them",
        counters_agree,
        why="Managers decide by the counters, not by counting: one that is off refuses stores that fit, or promises "
        "room that is not there. Operators read the gauges.",
        needs_inside=True,
    ),
    Law(
        "slots-conserved",
        "slots of resident blocks and free slots are disjoint, without repeats, and together are all slots handed "
        "out so far",
        slots_conserved,
        why="A slot that is neither taken nor free is memory lost until a restart; one that is taken twice is "
        "overwritten by somebody else.",
        needs_inside=True,
    ),
    Law(
        "ref-floor",
        "no ref_cnt below -1",
        ref_floor,
        why="A count that runs below -1 says that something was completed more often than prepared: whatever "
        "follows is decided by a number that means nothing.",
        needs_inside=True,
    ),
    Law(
        "capacity",
        "no more resident blocks than slots",
        capacity,
        why="More blocks than slots means that two of them share memory.",
        needs_inside=True,
    ),
    Law(
        "legal-step",
        "each change of a block is a row of the life cycle",
        legal_step,
        why="Every other law rests on the life of a block. A change that is no row of its table, such as idle "
        "without a store, is where wrong data comes from.",
        needs_inside=True,
    ),
    Law(
        "pinned-stays",
        "a block that is pinned or being stored keeps its key and slot until its own completion, or a reset",
        pinned_stays,
        why="A block that goes while a transfer reads or writes its slot hands that memory to somebody else: silent "
        "corruption of a KV cache, and so of what a model answers.",
    ),
    Law(
        "offer-protected",
        "prepare_store never evicts a key of its own offer",
        offer_protected,
        why="Who offers keys will use those that are resident already: to evict one for another of the same offer "
        "gives back what was just promised.",
    ),
    Law(
        "evict-order",
        "the victims are exactly the first unprotected evictable keys in the declared order, and no more than needed",
        evict_order,
        why="Which block goes decides the hit rate. A victim out of turn, or one too many, costs hits that nobody "
        "sees missing.",
    ),
    Law(
        "no-false-refusal",
        "prepare_store answers None only when the new keys outnumber free slots plus evictable keys outside the offer",
        no_false_refusal,
        why="A refused store is work that is done again: the cache stays as it is while there was room.",
    ),
    Law(
        "all-or-nothing",
        "a call that answers None or raises leaves every ref_cnt, slot, counter, the event queue and the order as "
        "they were",
        all_or_nothing,
        why="Nobody is told how much of a refused call was done: a pin that is left behind is never taken back, a "
        "slot never given back.",
        needs_inside=True,
    ),
    Law(
        "answer",
        "lookups, keys to store, block ids (fresh, not in use, one each) and evicted keys are what the state says",
        answer,
        why="Callers act on what they are told: a wrong slot is read or overwritten, an unnamed victim is still "
        "believed to be there.",
    ),
    Law(
        "owner-completes",
        "a completion changes only blocks that the same request prepared and has not completed",
        owner_completes,
        why="A late or repeated report must not end another request's transfer: its block would read as ready "
        "before it was written, or be evicted while it is read.",
        needs_inside=True,
        needs_mistakes=True,
    ),
    Law(
        "events-replay",
        "after a full drain, the set built from the event stream equals the ready resident keys",
        events_replay,
        why="Routers and other caches rebuild from the events who has which block: one that is wrong sends requests "
        "to where their blocks are not.",
    ),
    Law(
        "events-once",
        "each event is delivered exactly once, also when a consumer drops a drain half way",
        events_once,
        why="An event that is lost is never made up for; one that is told twice makes a consumer believe in a block "
        "that is gone again.",
    ),
    Law(
        "drains",
        "when every transfer has completed, every resident block is evictable and no slot is lost",
        drains,
        why="When nobody does anything any more, whatever is still in use will be for ever.",
        needs_inside=True,
    ),
    Law(
        "progress",
        "when every transfer has completed, a store of up to capacity new keys succeeds",
        progress,
        why="A cache at rest that cannot take what fits has stopped working, without an error.",
    ),
    Law(
        "pin-has-job",
        "every pin or reservation taken for a tier belongs to a registered job, and ends with it, also when the tier "
        "fails or raises",
        pin_has_job,
        why="A pin whose job is gone, or never was, has nobody to take it back: the block stays, the slot is lost.",
        needs_tiers=True,
    ),
    Law(
        "hit-loads",
        "keys that lookups of one scheduler step called HIT can be loaded in that step",
        hit_loads,
        why="The scheduler loads what the step called HIT. If it is gone by then the load raises in the scheduler, "
        "or reads somebody else's data.",
        needs_tiers=True,
    ),
    Law(
        "tier-drains",
        "with all jobs completed, in any order and with any failures, nothing stays pinned or reserved, and no "
        "finished request gets a further job",
        tier_drains,
        why="Tiers are slow and fail: if a late or failed job leaves a pin, the primary tier fills up with blocks "
        "that nobody uses.",
        needs_tiers=True,
    ),
    Law(
        "tier-progress",
        "a request whose blocks all exist in some tier and fit the primary is eventually served",
        tier_progress,
        why="Blocks that push each other out for ever keep a request waiting while everything that it needs is there.",
        needs_tiers=True,
    ),
    Law(
        "slot-contents",
        "a slot is written by one transfer at a time, and read only for the key whose data was written there",
        slot_contents,
        why="Two writers of a slot, or a reader of another key's data, is corruption that no counter shows.",
        needs_tiers=True,
    ),
)

LAW_BY_ID = {law.id: law for law in LAWS}


def _sorted(keys: set[Key]) -> tuple[Key, ...]:
    return tuple(sorted(keys, key=lambda key: (isinstance(key, str), key)))


def _ref(ref_cnt: int | None) -> str:
    return "absent" if ref_cnt is None else str(ref_cnt)


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value


def _changed(was: Any, now: Any) -> tuple[Key, ...]:
    if not hasattr(was, "items"):
        return ()
    return tuple(key for key in {**was, **now} if was.get(key) != now.get(key))


def same_gauges(outcome: Gauges, expected: Outcome) -> bool:
    """Whether every metric that the outcome has, and that is certain, is right, rounding apart."""
    if not isinstance(expected, Gauges):
        return False
    for metric in fields(Gauges):
        seen, right = getattr(outcome, metric.name), getattr(expected, metric.name)
        if seen is None or right is None:
            continue
        if seen != right and not (isinstance(right, float) and abs(seen - right) <= 1e-9):
            return False
    return True
