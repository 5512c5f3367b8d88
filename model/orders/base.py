"""What every eviction order answers, and when it is told what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

from evictable.model.calls import Key


class Order(ABC):
    """Knows which of the idle keys goes first.

    The manager tells it of every change that a policy is told of, in the same sequence; it owns no
    ``ref_cnt`` and no slot.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """Whether the victims are prescribed. Without that any idle key outside the offer may go."""

    by_request: ClassVar[bool] = False
    """Whether it heeds what requests do: the hooks below are no-ops otherwise."""

    heeds_marks: ClassVar[bool] = True
    """Whether a policy of this order learns from marks which blocks are idle; else it looks at their ``ref_cnt``."""

    @classmethod
    def of_capacity(cls, capacity: int) -> Self:
        """A fresh one for a cache of so many slots."""
        return cls()

    # --- what a request does ---

    def announced(self, request: str | None) -> None:
        """A request begins, with nothing known of it."""

    def placed(self, request: str | None, keys: Sequence[Key], positions: Sequence[int | None] | None) -> None:
        """A call of ``request`` names ``keys``, and tells their token positions or some of them."""

    def offered(self, request: str | None, offer: Sequence[Key], new: Collection[Key], ready: Collection[Key]) -> None:
        """``request`` offers keys, of which some are new and admitted, and some ready. It may yet be refused."""

    def loaded(self, request: str | None, keys: Sequence[Key]) -> None:
        """``request`` has pinned ``keys``."""

    def finished(self, request: str | None) -> None:
        """``request`` has finished."""

    # --- what becomes of a key ---

    @abstractmethod
    def inserted(self, key: Key, request: str | None = None) -> None:
        """A store of ``key`` by ``request`` began: resident, not idle."""

    @abstractmethod
    def idle(self, key: Key) -> None:
        """The ``ref_cnt`` of ``key`` became 0."""

    @abstractmethod
    def busy(self, key: Key) -> None:
        """The ``ref_cnt`` of ``key`` left 0 upwards."""

    @abstractmethod
    def removed(self, key: Key) -> None:
        """``key`` is resident no more: its store failed, or it was evicted from an order that keeps no ghosts."""

    def evicted(self, keys: Sequence[Key]) -> None:
        """``keys``, idle until now, were evicted, in that order."""
        for key in keys:
            self.removed(key)

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
    def state(self) -> Any:
        """Everything that decides who is evicted next, in the form that `Snapshot.order` has."""

    @abstractmethod
    def idle_keys(self) -> Iterable[Key]:
        """All idle keys, in eviction order (costs the whole list)."""
