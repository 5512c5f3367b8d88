"""Cache policies in the styles that people propose, as `strangers:NAME`: three good ones, and each with a subtle bug.

Nothing here knows the host. The fixtures put a copy of this file into the working directory.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from heapq import heappop, heappush
from itertools import islice


class SegmentedLRU:
    """Probation and protection, and a ghost set of keys that come back straight into protection (interface of 0.24)."""

    def __init__(self, cache_capacity):
        self.capacity = cache_capacity
        self.resident = {}
        self.probation = OrderedDict()
        self.protection = OrderedDict()
        self.ghosts = OrderedDict()
        self.proven = set()

    def get(self, key):
        return self.resident.get(key)

    def insert(self, key, block):
        self.resident[key] = block
        if self.ghosts.pop(key, False) is None:
            self.proven.add(key)

    def remove(self, key):
        del self.resident[key]
        self.forget(key)

    def touch(self, keys):
        for key in reversed(list(keys)):
            if key in self.resident:
                self.proven.add(key)
                if self.probation.pop(key, False) is None or key in self.protection:
                    self.protection[key] = None
                    self.protection.move_to_end(key)
        self.shrink_protection()

    def evict(self, n, protected):
        candidates = (key for part in (self.probation, self.protection) for key in part if key not in protected)
        victims = list(islice(candidates, n))
        if len(victims) < n:
            return None
        evicted = [(key, self.resident.pop(key)) for key in victims]
        for key in victims:
            self.forget(key)
            self.ghosts[key] = None
        while len(self.ghosts) > self.capacity:
            self.ghosts.popitem(last=False)
        return evicted

    def clear(self):
        for part in (self.resident, self.probation, self.protection, self.ghosts, self.proven):
            part.clear()

    def mark_evictable(self, key):
        (self.protection if key in self.proven else self.probation)[key] = None
        self.shrink_protection()

    def mark_non_evictable(self, key):
        self.probation.pop(key, None)
        self.protection.pop(key, None)

    def forget(self, key):
        self.mark_non_evictable(key)
        self.proven.discard(key)

    def shrink_protection(self):
        while len(self.protection) > max(1, self.capacity // 2):
            key, _ = self.protection.popitem(last=False)
            self.proven.discard(key)
            self.probation[key] = None


class DemotionLoses(SegmentedLRU):
    """A block that is demoted from protection is in neither segment: it is never given up."""

    def shrink_protection(self):
        while len(self.protection) > max(1, self.capacity // 2):
            key, _ = self.protection.popitem(last=False)
            self.proven.discard(key)


class LFU:
    """Least frequently used first; finds idle blocks by itself and has the hooks (interface of 0.33, no marks)."""

    def __init__(self, cache_capacity):
        self.chunks = {}
        self.uses = Counter()

    def get(self, key):
        found = self.chunks.get(key)
        return None if found is None else found[0]

    def insert(self, key, chunk, req_context):
        self.chunks[key] = chunk, req_context.req_id
        self.uses[key] += 1

    def remove(self, key):
        del self.chunks[key]
        del self.uses[key]

    def touch(self, keys, req_context):
        self.uses.update(key for key in keys if key in self.chunks)

    def on_store_miss(self, keys, req_context):
        pass

    def on_request_access(self, keys, req_context):
        self.touch(keys, req_context)

    def on_request_finished(self, key_groups, insertion_only_keys, reused_keys, req_context):
        self.touch(reused_keys, req_context)

    def evict(self, n, protected):
        idle = [key for key, (chunk, _) in self.chunks.items() if self.may_go(chunk) and key not in protected]
        if len(idle) < n:
            return None
        victims = sorted(idle, key=self.uses.__getitem__)[:n]
        for key in victims:
            del self.uses[key]
        return [(key, self.chunks.pop(key)[0]) for key in victims]

    def clear(self):
        self.chunks.clear()
        self.uses.clear()

    def may_go(self, chunk):
        return chunk.ref_cnt == 0


class ReadyIsIdle(LFU):
    """Takes for idle what is ready: a block that is being loaded may be given up."""

    def may_go(self, chunk):
        return chunk.is_ready


class LazyHeap:
    """A heap whose stale entries are passed over when they come up (interface of 0.26: touch has a request)."""

    def __init__(self, cache_capacity):
        self.blocks = {}
        self.heap = []
        self.stamp = {}  # of evictable keys
        self.clock = 0

    def get(self, key):
        return self.blocks.get(key)

    def insert(self, key, block):
        self.blocks[key] = block

    def remove(self, key):
        del self.blocks[key]
        self.stamp.pop(key, None)

    def touch(self, keys, req_context):
        for key in reversed(list(keys)):
            if key in self.stamp:
                self.mark_evictable(key)

    def evict(self, n, protected):
        victims, spared = [], []
        while self.heap and len(victims) < n:
            entry = heappop(self.heap)
            if self.is_stale(*entry):
                continue
            (spared if entry[1] in protected else victims).append(entry)
        enough = len(victims) == n
        for entry in spared if enough else spared + victims:
            heappush(self.heap, entry)
        if not enough:
            return None
        return [(key, self.take(key)) for _, key in victims]

    def clear(self):
        self.blocks.clear()
        self.heap.clear()
        self.stamp.clear()

    def mark_evictable(self, key):
        self.clock += 1
        self.stamp[key] = self.clock
        heappush(self.heap, (self.clock, key))

    def mark_non_evictable(self, key):
        del self.stamp[key]

    def is_stale(self, stamp, key):
        return self.stamp.get(key) != stamp

    def take(self, key):
        del self.stamp[key]
        return self.blocks.pop(key)


class StaleEntryTaken(LazyHeap):
    """Of an entry in the heap it asks only whether its key is evictable: an old one of the same key passes, too."""

    def is_stale(self, stamp, key):
        return key not in self.stamp

    def take(self, key):
        self.stamp.pop(key, None)
        return self.blocks.pop(key, None)
