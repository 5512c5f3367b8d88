"""What lies in the slots, and who is reading and writing there.

Counts can agree while data is lost: a slot handed out twice, or read before it was written. This record knows only
transfers: when each begins and ends, and of which key it carries the data.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen

from evictable.model.breach import Breach
from evictable.model.calls import Key

LAW = "slot-contents"


@frozen
class Transfer:
    """One reader or writer of one slot, named by who it is of: a request, or a job of a tier."""

    owner: str
    key: Key
    writes: bool

    def __str__(self) -> str:
        return f"{self.owner} {'writes' if self.writes else 'reads'} {self.key}"


@define
class Slots:
    """The contents of every slot, and the transfers that are under way in it."""

    contents: dict[int, Key] = field(factory=dict)
    """Whose data is whole and good in a slot."""
    under_way: dict[int, list[Transfer]] = field(factory=dict)

    def begin_write(self, owner: str, keys: Iterable[Key], slots: Iterable[int]) -> list[Breach]:
        """``owner`` may write each slot from now on; what was in there is lost."""
        breaches = []
        for key, slot in zip(keys, slots, strict=False):
            others = self.under_way.setdefault(slot, [])
            if others:
                expected = f"slot {slot} is written by {owner} alone"
                breaches.append(Breach(LAW, expected, f"{others[0]} there too", (key, others[0].key)))
            others.append(Transfer(owner, key, True))
            self.contents.pop(slot, None)
        return breaches

    def begin_read(self, owner: str, keys: Iterable[Key], slots: Iterable[int]) -> list[Breach]:
        """``owner`` may read each slot from now on."""
        breaches = []
        for key, slot in zip(keys, slots, strict=False):
            others = self.under_way.setdefault(slot, [])
            writer = next((other for other in others if other.writes), None)
            if self.contents.get(slot) != key:
                holds = f"that of {self.contents[slot]}" if slot in self.contents else "nothing that was written"
                breaches.append(
                    Breach(LAW, f"{owner} reads {key} where its data is", f"slot {slot} holds {holds}", (key,))
                )
            elif writer is not None:
                breaches.append(Breach(LAW, f"nobody writes slot {slot} while {owner} reads it", str(writer), (key,)))
            others.append(Transfer(owner, key, False))
        return breaches

    def end(self, owner: str, keys: Iterable[Key], slots: Iterable[int], written: Iterable[Key]) -> None:
        """The transfers of ``owner`` in these slots end; of ``written`` the data arrived whole."""
        good = set(written)
        for key, slot in zip(keys, slots, strict=False):
            transfers = self.under_way.get(slot, [])
            ended = next((one for one in transfers if one.owner == owner and one.key == key), None)
            if ended is None:
                continue
            transfers.remove(ended)
            if ended.writes and key in good:
                self.contents[slot] = key

    def flushed(self, owners_that_stay: Iterable[str]) -> list[Breach]:
        """A reset: the transfers of requests have been flushed; one that goes on would meet what comes next."""
        stay = set(owners_that_stay)
        breaches = []
        for slot, transfers in self.under_way.items():
            transfers[:] = [one for one in transfers if one.owner in stay]
            for one in transfers:
                breaches.append(Breach(LAW, "no transfer goes on after a reset", f"{one} in slot {slot}", (one.key,)))
        self.contents.clear()
        return breaches
