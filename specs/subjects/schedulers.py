"""How a scheduler step turns lookups into a load: the part of vLLM's scheduler that decides what a HIT is worth.

A request's prompt is cut into chunks, and every KV-cache group has a key for each of them. A full-attention group
needs all chunks up to the length that is loaded, a sliding-window group only the last few before it; the step finds
the longest length that all groups can serve. What is asked, in which order, and what becomes of the answers differs
between releases, so a release is driven by its own code.

Every step sees the request anew: nothing of it is on the GPU, and no load of another request delays it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from attrs import frozen

from evictable.model.calls import HIT, HIT_PENDING, LOOKUP_ANSWERS, MISS, RETRY, Key

if TYPE_CHECKING:
    from evictable.specs.subjects.standins import VllmModules


@frozen
class Group:
    """One KV-cache group of a request."""

    keys: tuple[Key, ...]
    """One key a chunk, in the order of the prompt; all groups of a request have equally many."""
    window: int | None = None
    """Sliding window in chunks, at least 1; ``None`` is full attention."""


Lookup = Callable[[Key], str]
"""Asks the manager on behalf of the request: MISS, HIT, HIT_PENDING or RETRY."""

Touch = Callable[[tuple[Key, ...]], None]


class Scheduling(Protocol):
    """What a scheduler does for a waiting request in one step."""

    @property
    def faithful(self) -> bool:
        """Whether this is the code of the subject's own release."""

    def __call__(self, groups: Sequence[Group], lookup: Lookup, touch: Touch) -> tuple[Key, ...] | None:
        """The keys that the scheduler would load now, in its order; () if none; None if it asks again next step.

        Up to 0.30 it touches keys of the request after the lookups, one batch a group.
        """


class Reference:
    """What vLLM 0.30 and later do (without the touch), for managers that come without a scheduler."""

    faithful = False

    def __call__(self, groups: Sequence[Group], lookup: Lookup, touch: Touch) -> tuple[Key, ...] | None:
        length = _common_length(groups, lookup)
        return None if length is None else tuple(key for group in groups for key in _needed(group, length))


def _common_length(groups: Sequence[Group], lookup: Lookup) -> int | None:
    """The longest length, in chunks, that all groups serve; ``None`` if something that is pending may count."""
    full, windows = _order(groups)
    everyone = full + windows
    length = len(groups[0].keys) if groups else 0
    before = 0
    deferred = False
    asked = everyone
    while asked:
        again: tuple[int, ...] = ()
        seen_window = False
        for group in (groups[number] for number in asked):
            keys = group.keys[:length]
            served = _prefix(keys, lookup) if group.window is None else _window_end(keys, group.window, lookup)
            if served is None:
                deferred = True
            else:
                length = min(length, served)
            if length == 0:
                return 0
            if length < before:
                if deferred:  # what is pending may lie beyond the new length
                    deferred, again = False, everyone
                elif seen_window and not again:  # a window that ended further right says nothing of this length
                    again = windows
            before = length
            seen_window |= group.window is not None
        asked = again
    return None if deferred else length


def _order(groups: Sequence[Group]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the full-attention groups, and those of the others, widest window first."""
    widths = [group.window for group in groups]
    windows = [(-width, number) for number, width in enumerate(widths) if width is not None]
    full = tuple(number for number, width in enumerate(widths) if width is None)
    return full, tuple(number for _, number in sorted(windows))


def _prefix(keys: Sequence[Key], lookup: Lookup) -> int | None:
    """How many keys are there before the first MISS; ``None`` if one of them is not ready or not known yet."""
    count, deferred = 0, False
    for key in keys:
        answer = lookup(key)
        if answer == MISS:
            break
        count += 1
        deferred |= answer != HIT  # the others are asked all the same: that is what starts their promotions
    return None if deferred else count


def _window_end(keys: Sequence[Key], window: int, lookup: Lookup) -> int | None:
    """Where the rightmost full window ends, or the keys that the left edge cuts off; ``None`` if it is not ready.

    A gap forgets what is pending to its right, but not a RETRY: that key may yet turn out to be there.
    """
    start, run = len(keys), 0
    pending = deferred = False
    while start and run < window:
        start -= 1
        answer = lookup(keys[start])
        if answer in (HIT, HIT_PENDING):
            run += 1
            pending |= answer == HIT_PENDING
        else:
            run, pending = 0, False
            deferred |= answer == RETRY
    return None if deferred or pending else start + run


def _needed(group: Group, length: int) -> tuple[Key, ...]:
    """The keys of the first ``length`` chunks for which the GPU has a block: not those before the window."""
    return group.keys[_num_null(group, length) : length]


def _num_null(group: Group, length: int) -> int:
    return 0 if group.window is None else max(0, length - group.window)


def scheduling_of(modules: VllmModules) -> Scheduling:
    """The scheduler of a loaded tree; the reference if it cannot be driven, and then it is not ``faithful``."""
    with suppress(Exception):  # whatever a tree that we do not know does otherwise
        driven = ReleaseScheduling(modules)
        if driven(_PROBE, lambda key: HIT, lambda keys: None) == (0, 1, 3):
            return driven
    return Reference()


_PROBE = (Group((0, 1)), Group((2, 3), window=1))
_TOKENS = 4
"""Of a chunk, which is one GPU block."""


class ReleaseScheduling:
    """Drives the scheduler of a loaded tree: lookups, touch, and what it asks to have loaded."""

    faithful = True

    def __init__(self, modules: VllmModules) -> None:
        """Raises `UsageError` if the scheduler cannot be imported."""
        self._module = modules.scheduler
        self._make_key = modules.base.make_offload_key
        results = getattr(modules.base, "LookupResult", None)
        if results is None:  # to 0.24
            self._results = {MISS: False, HIT: True, HIT_PENDING: None, RETRY: None}
        else:
            self._results = {answer: results[answer] for answer in LOOKUP_ANSWERS}

    def __call__(self, groups: Sequence[Group], lookup: Lookup, touch: Touch) -> tuple[Key, ...] | None:
        chunks = len(groups[0].keys) if groups else 0
        hashes = [index.to_bytes(4, "big") for index in range(chunks)]
        keys = {
            self._make_key(name, number): key
            for number, group in enumerate(groups)
            for name, key in zip(hashes, group.keys, strict=True)
        }
        scheduler = self._scheduler(groups, _Manager(keys, self._results, lookup, touch))
        # One token more than the chunks hold: the last token is computed anyhow, and costs no chunk then.
        request = SimpleNamespace(
            request_id="r",
            block_hashes=hashes,
            num_tokens=chunks * _TOKENS + 1,
            num_prompt_tokens=chunks * _TOKENS + 1,
            kv_transfer_params=None,
            kv_hints=None,
            skip_reading_prefix_cache=False,
        )
        if hasattr(scheduler, "on_new_request"):  # from 0.23
            scheduler.on_new_request(request)
        tokens, _ = scheduler.get_num_new_matched_tokens(request, 0)
        if not tokens:
            return None if tokens is None else ()
        try:
            scheduler.update_state_after_alloc(request, _gpu_blocks(groups, tokens // _TOKENS), tokens)
        except _LoadAsked as load:
            return load.keys
        raise RuntimeError(f"{self._module.__name__} found {tokens} tokens and loads nothing")

    def _scheduler(self, groups: Sequence[Group], manager: _Manager) -> Any:
        """A scheduler with what its lookups read and no more: to construct a real one takes half of vLLM."""
        full, windows = _order(groups)
        scheduler = object.__new__(self._module.OffloadingConnectorScheduler)
        vars(scheduler).update(
            manager=manager,
            config=SimpleNamespace(
                kv_group_configs=tuple(self._config(number, group) for number, group in enumerate(groups)),
                block_size_factor=1,  # to 0.25
                blocks_per_chunk=1,
                supports_partial_tail=False,
                sync_load_budget_bytes=0,
            ),
            _lookup_groups=full + windows,
            _sliding_window_groups=windows,
            _mamba_align_size=None,
            _req_status={},
            _blocks_being_loaded=None,  # to 0.25
            _chunks_being_loaded=None,
            _block_id_to_pending_jobs={},
            _current_batch_allocated_block_ids=set(),
            _current_batch_sync_loads=set(),
            _connector_stats=_Mute(),
            _events_tracker=_Mute(),
        )
        return scheduler

    def _config(self, number: int, group: Group) -> Any:
        """A group's description, in the release's own class and words."""
        words = {
            "group_idx": number,
            **dict.fromkeys(("gpu_block_size", "offloaded_block_size"), _TOKENS),  # to 0.25
            **dict.fromkeys(("tokens_per_block", "tokens_per_chunk"), _TOKENS),
            **dict.fromkeys(("hash_block_size_factor", "hashes_per_chunk"), 1),
            **dict.fromkeys(("sliding_window_size_in_blocks", "sliding_window_size_in_chunks"), group.window),
            "kv_event_group_spec": None,
            "kv_cache_spec": self._spec(group),
            "manager_cls": None,
        }
        config = self._module.GroupOffloadConfig
        return config(**{word: value for word, value in words.items() if word in config._fields})

    def _spec(self, group: Group) -> Any:
        if group.window is None:
            return None
        spec = self._module.SlidingWindowSpec()
        spec.sliding_window = group.window * _TOKENS
        spec.extra_retained_tokens = 0
        return spec


class _Manager:
    """Stands for the manager: passes questions on, and ends the step when the load is asked for."""

    lock = nullcontext()

    def __init__(self, keys: Mapping[bytes, Key], results: Mapping[str, Any], lookup: Lookup, touch: Touch) -> None:
        self._keys = keys
        self._results = results
        self._lookup = lookup
        self._touch = touch

    def on_new_request(self, req_context: object) -> object:
        return SimpleNamespace(policy=None)

    def lookup(self, raw: bytes, req_context: object) -> object:
        return self._results[self._lookup(self._keys[raw])]

    def touch(self, raws: Iterable[bytes], req_context: object) -> None:
        self._touch(self._named(raws))

    def prepare_load(self, raws: Iterable[bytes], req_context: object) -> NoReturn:
        raise _LoadAsked(self._named(raws))

    def _named(self, raws: Iterable[bytes]) -> tuple[Key, ...]:
        return tuple([self._keys[raw] for raw in raws])


class _LoadAsked(Exception):
    """The step came to its load. What follows is the transfer, which is none of the manager's business."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        super().__init__(keys)
        self.keys = keys


class _Mute:
    """Statistics and events of the scheduler's own, which nobody reads."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


_NULL = SimpleNamespace(is_null=True, block_hash=None, block_id=0)
_FRESH = SimpleNamespace(is_null=False, block_hash=None, block_id=1)


def _gpu_blocks(groups: Sequence[Group], length: int) -> Any:
    """What the core allocates: a block a chunk, but for chunks that no window reaches any more."""
    nulls = [_num_null(group, length) for group in groups]
    return SimpleNamespace(blocks=tuple([_NULL] * null + [_FRESH] * (length - null) for null in nulls))
