"""Rare values that CrossHair finds for Hypothesis: arithmetic guards, which random examples hardly ever meet.

Each property has a defect that shows at one value only, and finds it; with random examples, as many, none does.
Nothing here is a proof: CrossHair looks for examples, within Hypothesis' number of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from evictable.impl.admission import AdmissionTracker
from evictable.impl.policies.arc import ARCCachePolicy
from evictable.model.admission import Admission
from evictable.model.trace import TraceError, read_call
from evictable.specs.contracts.copies import Edit, copy_of

pytestmark = pytest.mark.slow

CROSSHAIR, RANDOM = "crosshair", "hypothesis"


def search(backend: str) -> settings:
    return settings(
        backend=backend,
        max_examples=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )


def key_at_the_edge(backend: str, read: Callable[..., Any], refusal: type[Exception]) -> Callable[[], None]:
    """A key is a number below 2**64, and no other."""

    @search(backend)
    @given(st.integers())
    def holds(key: int) -> None:
        accepted = False
        with suppress(refusal):
            read(1, {"call": "touch", "request": "r", "keys": [key]})
            accepted = True
        assert accepted == (0 <= key < 2**64)

    return holds


def admission_at_the_threshold(backend: str, model: Any, impl: Any) -> Callable[[], None]:
    """A key is admitted at its threshold-th offer, by both and at the same time."""

    @search(backend)
    @given(st.integers(1000, 10**9), st.integers(10, 10**9))
    def holds(threshold: int, count: int) -> None:
        tracker = impl(threshold, 2)
        tracker.counts = OrderedDict({0: count})
        admission = model(threshold, 2, OrderedDict({0: count}))
        before = tracker.admits(0)
        admission.offered((0,))
        assert before == admission.admits(0) == (count + 1 >= threshold)

    return holds


def arc_target_in_range(backend: str, policy_class: Any) -> Callable[[], None]:
    """A ghost that is asked for again moves the target by one, up to the capacity or down to 0."""

    @search(backend)
    @given(st.integers(1000, 10**6), st.integers(777, 10**7), st.booleans())
    def holds(capacity: int, quarters: int, first: bool) -> None:
        if quarters > 4 * capacity:
            return
        policy = policy_class(capacity)
        policy.target_t1_size = before = quarters / 4
        policy._append(policy.b1 if first else policy.b2, 0, None)
        policy.touch((0,))
        right = min(before + 1, capacity) if first else max(before - 1, 0)
        assert right == policy.target_t1_size

    return holds


def mutated(module: str, name: str, old: str, new: str) -> Any:
    return getattr(copy_of(module, f"rare_{name}", [Edit(module, old, new)]), name)


def of_keys(backend: str) -> Callable[[], None]:
    module = copy_of("model.trace", "rare_keys", [Edit("model.trace", "and 0 <= key < 2**64", "and 0 <= key <= 2**64")])
    return key_at_the_edge(backend, module.read_call, module.TraceError)


HOLDING = {
    "key": lambda backend: key_at_the_edge(backend, read_call, TraceError),
    "admission": lambda backend: admission_at_the_threshold(backend, Admission, AdmissionTracker),
    "arc": lambda backend: arc_target_in_range(backend, ARCCachePolicy),
}
BROKEN = {
    "key": of_keys,
    "admission": lambda backend: admission_at_the_threshold(
        backend,
        Admission,
        mutated("impl.admission", "AdmissionTracker", "+ 1 >= self.store_threshold", "+ 1 > self.store_threshold"),
    ),
    "arc": lambda backend: arc_target_in_range(
        backend,
        mutated("impl.policies.arc", "ARCCachePolicy", "float(self.cache_capacity)", "float(self.cache_capacity + 1)"),
    ),
}


@pytest.mark.parametrize("name", HOLDING)
def test_it_holds(name: str) -> None:
    HOLDING[name](CROSSHAIR)()


@pytest.mark.parametrize("name", BROKEN)
def test_it_finds_the_value_that_breaks_it(name: str) -> None:
    with pytest.raises(AssertionError):
        BROKEN[name](CROSSHAIR)()


@pytest.mark.parametrize("name", BROKEN)
def test_random_examples_miss_that_value(name: str) -> None:
    """Or the backend would not pay. If this fails one day, the test above it has become needless."""
    BROKEN[name](RANDOM)()
