"""Published managers, searched from end to end in small worlds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evictable.specs.theorems import EXHAUSTED, REFUTED

pytestmark = pytest.mark.release

CONTRACT = "lockstep-lru-contract"
CARELESS = "lockstep-lru-careless"


def searched(subject: str, *names: str) -> list[tuple[str, str, str]]:
    call = [sys.executable, Path(__file__).with_name("play_exhaustive.py"), subject, *names]
    return [tuple(one) for one in json.loads(subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout)]


@pytest.mark.parametrize("version", ["0.23.0", "0.24.0", "0.33.0"])
def test_every_careful_call_in_a_small_world_is_right_and_a_careless_one_is_not(
    version: str, release: Callable[[str], Path]
) -> None:
    release(version)
    careful, careless = searched(f"vllm=={version}", CONTRACT, CARELESS)
    assert (CONTRACT, EXHAUSTED) == careful[:2]
    assert (CARELESS, REFUTED) == careless[:2]
    assert "1. on_new_request(request=r1) -> None" in careless[2] or "1. prepare_" in careless[2]


def test_the_offer_that_repeats_a_key_is_refuted(release: Callable[[str], Path]) -> None:
    release("0.24.0")
    ((_, verdict, detail),) = searched("vllm==0.24.0", "lockstep-lru-memory-careless")
    assert (REFUTED, True) == (verdict, "prepare_store([0, 0], request=r1)" in detail)
