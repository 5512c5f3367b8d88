"""Policies whose order is not known."""

from __future__ import annotations

from attrs import define

from evictable.model.orders.lru_evictable import LruEvictable


@define
class AnyOrder(LruEvictable):
    """No order: any idle keys outside the offer may go, as long as they are as many as needed.

    It inherits a list only to have a choice of its own where nobody else makes one.
    """

    name = "any"
    exact = False
