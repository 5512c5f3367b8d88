"""Batches on the built-in manager: it answers as the model does, and leaves the state that the model leaves."""

from __future__ import annotations

from evictable.impl.errors import OffloadError
from evictable.model import calls
from evictable.model.calls import Call, Loaded
from evictable.specs.contracts.caches import (
    ME,
    chosen,
    context,
    events_of_impl,
    gauges_of_impl,
    impl_cache,
    model_cache,
    stored_of_impl,
    view_of_impl,
    view_of_model,
)


def load_of_two(a: int, b: int, i: int, j: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    model, impl = model_cache((a, b)), impl_cache((a, b))
    call = Call(calls.PREPARE_LOAD, keys, ME)
    before = view_of_impl(impl)
    if model.misplaced(call):
        try:
            impl.prepare_load(keys, context())
        except OffloadError:
            return view_of_impl(impl) == before
        return False
    spec = impl.prepare_load(keys, context())
    right = model.perform(call)
    return Loaded(tuple(spec.block_ids)) == right and view_of_impl(impl) == view_of_model(model)


def unload_of_two(a: int, b: int, i: int, j: int, mine: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    model, impl = model_cache((a, b), mine=mine), impl_cache((a, b), mine=mine)
    call = Call(calls.COMPLETE_LOAD, keys, ME)
    before = view_of_impl(impl)
    if model.misplaced(call):
        try:
            impl.complete_load(keys, context())
        except OffloadError:
            return view_of_impl(impl) == before
        return False
    impl.complete_load(keys, context())
    model.perform(call)
    return view_of_impl(impl) == view_of_model(model)


def end_of_two_stores(a: int, b: int, i: int, j: int, success: bool, mine: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    model, impl = model_cache((a, b), mine=mine), impl_cache((a, b), mine=mine)
    call = Call(calls.COMPLETE_STORE, keys, ME, success)
    before = view_of_impl(impl)
    if model.misplaced(call):
        try:
            impl.complete_store(keys, context(), success)
        except OffloadError:
            return view_of_impl(impl) == before and events_of_impl(impl) == []
        return False
    impl.complete_store(keys, context(), success)
    model.perform(call)
    told = [(False, list(keys))] if success else []
    return view_of_impl(impl) == view_of_model(model) and events_of_impl(impl) == told


def offer_of_two(a: int, b: int, i: int, j: int, shape: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 3 and 0 <= j <= 3 and 0 <= shape <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2, 3), chosen(j, 0, 1, 2, 3))
    spare, late = chosen(shape, (0, False), (0, True), (1, False))
    model, impl = model_cache((a, b), spare, late), impl_cache((a, b), spare, late)
    answer = stored_of_impl(impl.prepare_store(keys, context()))
    right = model.perform(Call(calls.PREPARE_STORE, keys, ME), answer)
    told = [(True, list(answer.evicted_keys))] if answer is not None and answer.evicted_keys else []
    return answer == right and view_of_impl(impl) == view_of_model(model) and events_of_impl(impl) == told


def reports_of_two(a: int, b: int, i: int, spare: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 3 and 0 <= spare <= 1
    post: _
    """
    offer, more = (chosen(i, 0, 1, 2, 3), 3), chosen(spare, 0, 1)
    model, impl = model_cache((a, b), more), impl_cache((a, b), more)
    answer = stored_of_impl(impl.prepare_store(offer, context()))
    model.perform(Call(calls.PREPARE_STORE, offer, ME), answer)
    first, again = gauges_of_impl(impl.get_stats()), gauges_of_impl(impl.get_stats())
    ask = Call(calls.GET_STATS)
    return first == model.perform(ask) and again == model.perform(ask)


def lookup_of_one(a: int, b: int, i: int, late: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2
    post: _
    """
    key = chosen(i, 0, 1, 2)
    model, impl = model_cache((a, b), late=late), impl_cache((a, b), late=late)
    answer = impl.lookup(key, context()).name
    return answer == model.perform(Call(calls.LOOKUP, (key,), ME)) and view_of_impl(impl) == view_of_model(model)


def touch_of_two(a: int, b: int, i: int, j: int, late: bool) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2))
    model, impl = model_cache((a, b), late=late), impl_cache((a, b), late=late)
    impl.touch(keys, context())
    model.perform(Call(calls.TOUCH, keys, ME))
    return view_of_impl(impl) == view_of_model(model)


def reset_of_two(a: int, b: int, spare: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= spare <= 1
    post: _
    """
    more = chosen(spare, 0, 1)
    model, impl = model_cache((a, b), more), impl_cache((a, b), more)
    impl.reset_cache()
    model.perform(Call(calls.RESET_CACHE))
    return view_of_impl(impl) == view_of_model(model) and events_of_impl(impl) == []


def load_of_three(a: int, b: int, i: int, j: int, k: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2 and 0 <= k <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2), chosen(k, 0, 1, 2))
    model, impl = model_cache((a, b)), impl_cache((a, b))
    call = Call(calls.PREPARE_LOAD, keys, ME)
    before = view_of_impl(impl)
    if model.misplaced(call):
        try:
            impl.prepare_load(keys, context())
        except OffloadError:
            return view_of_impl(impl) == before
        return False
    spec = impl.prepare_load(keys, context())
    right = model.perform(call)
    return Loaded(tuple(spec.block_ids)) == right and view_of_impl(impl) == view_of_model(model)


def unload_of_three(a: int, b: int, i: int, j: int, k: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and 0 <= i <= 2 and 0 <= j <= 2 and 0 <= k <= 2
    post: _
    """
    keys = (chosen(i, 0, 1, 2), chosen(j, 0, 1, 2), chosen(k, 0, 1, 2))
    model, impl = model_cache((a, b)), impl_cache((a, b))
    call = Call(calls.COMPLETE_LOAD, keys, ME)
    before = view_of_impl(impl)
    if model.misplaced(call):
        try:
            impl.complete_load(keys, context())
        except OffloadError:
            return view_of_impl(impl) == before
        return False
    impl.complete_load(keys, context())
    model.perform(call)
    return view_of_impl(impl) == view_of_model(model)


def offer_of_three(a: int, b: int, c: int, i: int, j: int, k: int) -> bool:
    """
    pre: a >= -2 and b >= -2 and c >= -2 and 0 <= i <= 1 and 0 <= j <= 1 and 0 <= k <= 1
    post: _
    """
    keys = (chosen(i, 0, 3), chosen(j, 1, 4), chosen(k, 2, 5))
    model, impl = model_cache((a, b, c)), impl_cache((a, b, c))
    answer = stored_of_impl(impl.prepare_store(keys, context()))
    right = model.perform(Call(calls.PREPARE_STORE, keys, ME), answer)
    told = [(True, list(answer.evicted_keys))] if answer is not None and answer.evicted_keys else []
    return answer == right and view_of_impl(impl) == view_of_model(model) and events_of_impl(impl) == told
