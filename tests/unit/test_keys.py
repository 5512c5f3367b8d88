"""Keys as the subjects know them: bytes that keep the order of the numbers, and their way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evictable.model.calls import Key
from evictable.specs.errors import UsageError
from evictable.specs.subjects.keys import KeyTable

NUMBERS = st.integers(0, 2**64 - 1)
HEX = st.binary(min_size=1, max_size=40).map(bytes.hex)


@given(st.lists(NUMBERS | HEX))
def test_keys_come_back_as_they_were(keys: list[Key]) -> None:
    table = KeyTable()
    # A hexadecimal string may be the very bytes of a number: it is told as what was named last.
    keys = [key for key in keys if not (isinstance(key, str) and len(key) == 24 and key.endswith("00000000"))]
    raws = [table.encode(key) for key in keys]
    assert raws == table.fresh_all(tuple(keys))
    assert tuple(keys) == table.decode_all(raws) == table.decode_all(iter(raws))
    assert keys == [table.decode(raw) for raw in raws]


@given(NUMBERS, NUMBERS)
def test_bytes_are_ordered_as_the_numbers(one: int, other: int) -> None:
    table = KeyTable()
    assert (one < other) == (table.encode(one) < table.encode(other))


def test_a_key_is_a_hash_and_a_group() -> None:
    assert (b"\0\0\0\0\0\0\1\2\0\0\0\0", b"\xab\xcd") == tuple(map(KeyTable().encode, (258, "abcd")))


def test_a_key_that_the_subject_made_up_is_hexadecimal() -> None:
    table = KeyTable()
    raw = table.encode(1)
    assert (1, "fe") == table.decode_all([raw, b"\xfe"]) == table.decode_all(iter([raw, b"\xfe"]))


@pytest.mark.parametrize("key", [-1, 2**64, "abc", "zz"])
def test_what_is_no_key(key: Key) -> None:
    with pytest.raises(UsageError, match="keys are integers from 0"):
        KeyTable().fresh_all((key,))
