"""The public names at work, with types: `python examples/api.py`. Every name is in docs/api.md."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from evictable.impl import CPUOffloadingManager, LookupResult, OffloadKey, ReqContext, make_offload_key
from evictable.model.calls import Call, Stored
from evictable.model.laws import LAW_BY_ID
from evictable.model.trace import Trace, read
from evictable.specs.monitor import Violation, watch
from evictable.specs.oracle import Oracle
from evictable.specs.subjects.base import Setup


def use_the_built_in_manager() -> LookupResult:
    """Store a block, and look it up."""
    manager = CPUOffloadingManager(num_blocks=4, cache_policy="arc", enable_events=True)
    request, key = ReqContext("r1"), make_offload_key(b"content", 0)
    output = manager.prepare_store([key], request)
    assert output is not None, "there was no room"
    keys: list[OffloadKey] = output.keys_to_store
    manager.complete_store(keys, request)
    return manager.lookup(key, request)


def ask_the_oracle() -> tuple[str, ...]:
    """A store into the slot of another block, which is being stored: the laws that this breaks."""
    oracle = Oracle(Setup(capacity=2))
    for request in ("r1", "r2"):
        oracle.answer(Call("on_new_request", request=request))
    offer = Call("prepare_store", keys=(0,), request="r1")
    print("right:", oracle.answer(offer).record())
    wrong = Stored(keys_to_store=(1,), block_ids=(0,), evicted_keys=())
    broken = oracle.observe(Call("prepare_store", keys=(1,), request="r2"), wrong)
    return tuple(one.law.id for one in broken)


def watch_a_live_manager(folder: Path) -> list[Violation]:
    """A pin goes missing in a running manager: what the monitor tells of it."""
    manager = CPUOffloadingManager(num_blocks=4)
    request, key = ReqContext("r1"), make_offload_key(b"content", 0)
    manager.prepare_store([key], request)
    manager.complete_store([key], request)
    with watch(manager, level="readback", dump_dir=folder, log=None) as monitor:
        manager._num_evictable_cache_blocks += 1  # as a defect would
        manager.prepare_load([key], request)
    return monitor.violations


def main() -> None:
    print("lookup:", use_the_built_in_manager().name)
    for law in ask_the_oracle():
        print(f"{law}: {LAW_BY_ID[law].sentence}")
    with TemporaryDirectory() as folder:
        (found,) = watch_a_live_manager(Path(folder))
        assert found.path is not None
        trace: Trace = read(found.path.read_text().splitlines())
        print(f"{found.law} in {found.call}, {len(trace.entries)} calls in the trace")


if __name__ == "__main__":
    main()
