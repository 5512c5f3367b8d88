"""What every eviction order answers, and when it is told what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

from evictable.model.calls import Key


class Order(ABC):
    """Knows which of the idle keys goes first.

    The manager tells it of every change that a policy is told of, in the same sequence; it owns no
    ``ref_cnt`` and no slot.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """Whether the victims are prescribed. Without that any idle key outside the offer may go."""

    @abstractmethod
    def inserted(self, key: Key) -> None:
        """A store of ``key`` began: resident, not idle."""

    @abstractmethod
    def idle(self, key: Key) -> None:
        """The ``ref_cnt`` of ``key`` became 0."""

    @abstractmethod
    def busy(self, key: Key) -> None:
        """The ``ref_cnt`` of ``key`` left 0 upwards."""

    @abstractmethod
    def removed(self, key: Key) -> None:
        """``key`` is resident no more: evicted, or its store failed."""

    @abstractmethod
    def touched(self, keys: Sequence[Key]) -> None:
        """``keys`` were used, head of the prefix first."""

    @abstractmethod
    def cleared(self) -> None:
        """The cache was reset."""

    @abstractmethod
    def num_idle(self) -> int:
        """How many keys are idle."""

    @abstractmethod
    def is_idle(self, key: Key) -> bool:
        """Whether ``key`` is idle."""

    @abstractmethod
    def victims(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        """The first ``n`` idle keys outside ``protected``, in eviction order; ``None`` when there are fewer."""

    @abstractmethod
    def idle_keys(self) -> Iterable[Key]:
        """All idle keys, in eviction order (costs the whole list)."""
