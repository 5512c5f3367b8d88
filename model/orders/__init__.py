"""Eviction orders: one short file each, named as in the table of profiles."""

from __future__ import annotations

from evictable.model.orders.any import AnyOrder
from evictable.model.orders.arc import Arc, ArcNoFallback, ArcRequest
from evictable.model.orders.base import Order
from evictable.model.orders.lru_evictable import LruEvictable
from evictable.model.orders.lru_ranked import LruRanked, LruRankedRequest
from evictable.model.orders.lru_scan import LruScan

ORDERS: dict[str, type[Order]] = {
    order.name: order
    for order in (LruScan, LruEvictable, LruRanked, LruRankedRequest, ArcNoFallback, Arc, ArcRequest, AnyOrder)
}
DEFAULT_ORDER = LruEvictable.name

__all__ = ["DEFAULT_ORDER", "ORDERS", "Order"]
