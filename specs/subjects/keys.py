"""Keys as the subjects know them: bytes, a hash and a 4-byte group index."""

from __future__ import annotations

from collections.abc import Iterable

from evictable.model.calls import Key, key_bytes
from evictable.specs.errors import UsageError


class KeyTable:
    """Translates both ways (see `key_bytes`) and remembers."""

    def __init__(self) -> None:
        self._to_bytes: dict[Key, bytes] = {}
        self._to_key: dict[bytes, Key] = {}

    def encode(self, key: Key) -> bytes:
        """Raises `UsageError` for a string that is not hexadecimal or an integer out of range."""
        known = self._to_bytes.get(key)
        return known if known is not None else self._learn(key)

    def fresh(self, key: Key) -> bytes:
        """The bytes of ``key`` in an object of their own: a caller does not hand out the same one twice."""
        return bytes(bytearray(self.encode(key)))

    def fresh_all(self, keys: tuple[Key, ...]) -> list[bytes]:
        return [self.fresh(key) for key in keys]

    @property
    def known(self) -> tuple[bytes, ...]:
        """All that was ever encoded."""
        return tuple(self._to_key)

    def decode(self, raw: bytes) -> Key:
        """A key that was never encoded (a subject made it up) comes back as hexadecimal."""
        known = self._to_key.get(raw)
        return known if known is not None else bytes(raw).hex()

    def decode_all(self, raws: Iterable[bytes]) -> tuple[Key, ...]:
        known, raws = self._to_key, list(raws)  # a subject may hand out what can be read once only
        try:
            return tuple([known[raw] for raw in raws])
        except KeyError:
            return tuple(self.decode(raw) for raw in raws)

    def _learn(self, key: Key) -> bytes:
        try:
            raw = key_bytes(key)
        except (ValueError, OverflowError):
            raise UsageError(
                f"key {key!r}: keys are integers from 0 to 2**64 - 1, or strings of hexadecimal digits"
            ) from None
        self._to_bytes[key] = raw
        self._to_key[raw] = key
        return raw
