"""Keys as the subjects know them: bytes, a hash and a 4-byte group index."""

from __future__ import annotations

from evictable.model.calls import Key
from evictable.specs.errors import UsageError

_HASH_BYTES = 8
_GROUP = (0).to_bytes(4, "big")


class KeyTable:
    """Translates both ways and remembers.

    An integer becomes bytes whose order is that of the integers, since ranks tie by key; a string is
    hexadecimal for the whole key.
    """

    def __init__(self) -> None:
        self._to_bytes: dict[Key, bytes] = {}
        self._to_key: dict[bytes, Key] = {}

    def encode(self, key: Key) -> bytes:
        """Raises `UsageError` for a string that is not hexadecimal or an integer out of range."""
        known = self._to_bytes.get(key)
        return known if known is not None else self._learn(key)

    def encode_all(self, keys: tuple[Key, ...]) -> list[bytes]:
        known = self._to_bytes
        try:
            return [known[key] for key in keys]
        except KeyError:
            return [self.encode(key) for key in keys]

    def decode(self, raw: bytes) -> Key:
        """A key that was never encoded (a subject made it up) comes back as hexadecimal."""
        known = self._to_key.get(raw)
        return known if known is not None else bytes(raw).hex()

    def decode_all(self, raws: object) -> tuple[Key, ...]:
        known = self._to_key
        try:
            return tuple([known[raw] for raw in raws])  # type: ignore[attr-defined]
        except KeyError:
            return tuple(self.decode(raw) for raw in raws)  # type: ignore[attr-defined]

    def _learn(self, key: Key) -> bytes:
        try:
            raw = bytes.fromhex(key) if isinstance(key, str) else key.to_bytes(_HASH_BYTES, "big") + _GROUP
        except (ValueError, OverflowError):
            raise UsageError(
                f"key {key!r}: keys are integers from 0 to 2**64 - 1, or strings of hexadecimal digits"
            ) from None
        self._to_bytes[key] = raw
        self._to_key[raw] = key
        return raw
