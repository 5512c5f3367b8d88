"""Batches on the model: what each call makes of a cache, said without the model's words."""

from __future__ import annotations

from evictable.model import calls
from evictable.model.calls import Call, Loaded, Stored
from evictable.specs.contracts.caches import GONE, ME, chosen, model_cache, view_of_model, whole


def load_of_two(a: int, b: int, i: int, j: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    counts = (a, b)
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    cache = model_cache(counts)
    good = all(key < 2 and counts[key] >= 0 for key in keys)
    call = Call(calls.PREPARE_LOAD, keys, ME)
    if not good:
        return cache.misplaced(call) != ()
    answer = cache.perform(call)
    after = view_of_model(cache)
    pinned = all(cache.ref_cnt[key] == counts[key] + keys.count(key) for key in keys)
    return pinned and answer == Loaded(keys) and cache.misplaced(call) == () and whole(after, 2)


def unload_of_two(a: int, b: int, i: int, j: int, mine: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    counts = (a, b)
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    cache = model_cache(counts, mine=mine)
    good = mine and all(key < 2 and counts[key] >= keys.count(key) for key in keys)
    call = Call(calls.COMPLETE_LOAD, keys, ME)
    if not good:
        return cache.misplaced(call) != ()
    if cache.misplaced(call):
        return False
    idle = list(cache.order.idle_keys())
    cache.perform(call)
    joined = [key for key in dict.fromkeys(keys) if counts[key] == keys.count(key)]
    after = view_of_model(cache)
    return (
        all(cache.ref_cnt[key] == counts[key] - keys.count(key) for key in keys)
        and after[1] == idle + joined
        and whole(after, 2)
    )


def end_of_two_stores(a: int, b: int, i: int, j: int, success: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    counts = (a, b)
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    cache = model_cache(counts)
    good = keys[0] != keys[1] and all(key < 2 and counts[key] == -1 for key in keys)
    call = Call(calls.COMPLETE_STORE, keys, ME, success)
    if not good:
        return cache.misplaced(call) != ()
    if cache.misplaced(call):
        return False
    cache.perform(call)
    after = view_of_model(cache)
    if success:
        return after[1] == list(keys) and after[4] == 0 and whole(after, 2)
    return after[0] == [] and after[4] == 2 and whole(after, 2)


def offer_of_two(a: int, b: int, i: int, j: int, late: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 3 and 0 <= j <= 3
    post: _
    """
    counts = (a, b)
    keys = (chosen(i, 0, 1, 2, 3), chosen(j, 0, 1, 2, 3))
    cache = model_cache(counts, late=late)
    before = view_of_model(cache)
    resident = [key for key in (0, 1) if counts[key] != GONE]
    new = [key for key in dict.fromkeys(keys) if key not in resident]
    candidates = [key for key in ((1, 0) if late else (0, 1)) if counts[key] == 0 and key not in keys]
    need = len(new) - (2 - len(resident))
    answer = cache.perform(Call(calls.PREPARE_STORE, keys, ME))
    after = view_of_model(cache)
    if need > len(candidates):
        return answer is None and after == before
    if not isinstance(answer, Stored):
        return False
    stored = answer.keys_to_store == tuple(new) and all(cache.ref_cnt[key] == -1 for key in new)
    return stored and answer.evicted_keys == tuple(candidates[: max(need, 0)]) and whole(after, 2)


def touch_of_three(a: int, b: int, c: int, i: int, j: int, k: int) -> bool:
    """
    pre: a >= -1 and b >= -1 and c >= -1 and 0 <= i <= 2 and 0 <= j <= 2 and 0 <= k <= 2
    post: _
    """
    counts = (a, b, c)
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2), chosen(k, 0, 1, 2))
    cache = model_cache(counts)
    idle = [key for key in (0, 1, 2) if counts[key] == 0]
    cache.perform(Call(calls.TOUCH, keys, ME))
    moved = [key for key in dict.fromkeys(keys) if key in idle][::-1]
    after = view_of_model(cache)
    return after[1] == [key for key in idle if key not in moved] + moved and whole(after, 3)
