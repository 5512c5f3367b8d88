"""The manager on flat lists: what `evictable.impl.manager` promises, in a fraction of its time and memory."""

from evictable.impl.linked.manager import LinkedOffloadingManager

__all__ = ["LinkedOffloadingManager"]
