"""Policies whose order is not known."""

from __future__ import annotations

from typing import Self

from attrs import define

from evictable.model.orders.base import Order
from evictable.model.orders.lru_evictable import LruEvictable


@define
class AnyOrder(LruEvictable):
    """No order: any idle keys outside the offer may go, as long as they are as many as needed.

    It inherits a list only to have a choice of its own where nobody else makes one.
    """

    name = "any"
    exact = False

    @classmethod
    def in_place_of(cls, order: Order) -> Self:
        """The idle keys of ``order``, of whose sequence nothing is known any more."""
        new = cls()
        for key in order.idle_keys():
            new.idle(key)
        return new
