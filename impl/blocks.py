"""The record of one resident block."""

from __future__ import annotations


class BlockStatus:
    """A slot of the pool that holds, or is about to hold, the content of one key.

    `ref_cnt` is -1 while the store is in flight, 0 when the block is ready and idle, and n > 0 while n loads
    read it. `writer` is the id of the request that is storing the block, or that stored it.

    vLLM 0.24 makes this a `ctypes.Structure`; the discussion of PR #46216 preferred `__slots__`, whose fields
    are several times cheaper to read, and this project follows the discussion.
    """

    __slots__ = ("block_id", "ref_cnt", "writer")

    def __init__(self, block_id: int, writer: str | None = None) -> None:
        self.block_id = block_id
        self.ref_cnt = -1
        self.writer = writer

    @property
    def is_ready(self) -> bool:
        """Whether the block can be read."""
        return self.ref_cnt >= 0

    def __repr__(self) -> str:
        return f"BlockStatus(block_id={self.block_id}, ref_cnt={self.ref_cnt}, writer={self.writer!r})"
