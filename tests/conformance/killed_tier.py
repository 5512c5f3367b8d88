"""Processes that use the file system tier and are killed meanwhile: run `python killed_tier.py HOW FOLDER ...`.

`everywhere FOLDER empty|used`: the same work again and again, each time in a copy of the same files and killed at
another place; what is left is for a test to look at. `at-random FOLDER SEED ROUNDS`: see there.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evictable.impl import LookupResult, OffloadKey, ReqContext
from evictable.impl.tiering.base import JobMetadata, JobResult
from evictable.impl.tiering.file_operations import FileOperations
from evictable.impl.tiering.filesystem import FileSystemTier

SLOTS, SLOT_BYTES = 8, 64
FILE_BYTES = 40 + 4 + 16 + SLOT_BYTES

REQUEST = ReqContext("r")

# Two of them in folders of their own.
KEYS = [OffloadKey(bytes([folder, 0, 0, n])) for n, folder in enumerate((1, 1, 1, 1, 1, 1, 2, 3))]
OLD, OLDER, OLDEST, FLIPPED, CUT_OFF, NEW, NEWER, NEWEST = KEYS

# What the work needs at its peak but one, so that the oldest has to go.
MAX_BYTES = 7 * FILE_BYTES


def content(key: OffloadKey) -> bytes:
    return blake2b(key, digest_size=SLOT_BYTES).digest()


class Mortal(FileOperations):
    """Kills the process right before operation `last`; or half-way through it, when it is to be `torn`."""

    def __init__(self, last: int | None = None, torn: bool = False) -> None:
        self.done: list[str] = []
        self._last = last
        self._torn = torn
        self._turn = threading.Lock()

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        return method if name.startswith("_") or not callable(method) else partial(self._do, name, method)

    def _do(self, name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with self._turn:
            if self._last is not None and len(self.done) >= self._last:
                if self._torn and name == "write":
                    file, block = arguments
                    os.write(file, block[: len(block) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            self.done.append(name)
        # A kill, unlike a loss of power, takes nothing that was written: there is no need to wait for the disk.
        return None if name == "sync" else method(*arguments, **named)


class Client:
    """A tier, and a scheduler that waits for each of its jobs."""

    def __init__(self, root: Path, operations: FileOperations | None = None, **options: Any) -> None:
        self.memory = memoryview(bytearray(SLOTS * SLOT_BYTES))
        view = self.memory.cast("B", (SLOTS, SLOT_BYTES))
        self.tier = FileSystemTier(
            view, "fs", root, operations=Mortal() if operations is None else operations, **options
        )
        self.jobs = 0

    def slot(self, block_id: int) -> memoryview:
        return self.memory[block_id * SLOT_BYTES : (block_id + 1) * SLOT_BYTES]

    def submit(self, keys: Collection[OffloadKey], block_ids: Collection[int], is_promotion: bool) -> int:
        self.jobs += 1
        for key, block_id in zip(keys, block_ids, strict=True):
            self.slot(block_id)[:] = bytes(SLOT_BYTES) if is_promotion else content(key)
        submit = self.tier.submit_load if is_promotion else self.tier.submit_store
        submit(JobMetadata(self.jobs, list(keys), list(block_ids), is_promotion, REQUEST))
        return self.jobs

    def results(self) -> list[JobResult]:
        while not (results := list(self.tier.get_finished_jobs())):
            time.sleep(0.00005)
        return results

    def store(self, *keys: OffloadKey) -> bool:
        self.submit(keys, range(len(keys)), is_promotion=False)
        return self.results()[0].success

    def load(self, key: OffloadKey) -> bytes | None:
        """What is served for the key, if it is a hit."""
        if self.tier.lookup(key, REQUEST) is LookupResult.MISS:
            return None
        self.submit([key], [0], is_promotion=True)
        return bytes(self.slot(0)) if self.results()[0].success else None


def damaged_in(root: Path) -> set[OffloadKey]:
    """The keys whose files do not hold their content, whole."""
    found = {OffloadKey(bytes.fromhex(path.stem)): path.read_bytes() for path in root.rglob("*.block")}
    return {key for key, file in found.items() if len(file) != FILE_BYTES or not file.endswith(content(key))}


def verify(root: Path, promised: Iterable[OffloadKey] = ()) -> None:
    """No key is served with anything but its own content, and those promised are served; all can be stored again.

    What is left in the folder is a file for each key.
    """
    client = Client(root, n_read_threads=1, n_write_threads=1)
    served = {key: client.load(key) for key in KEYS}
    right = {key: content(key) for key in KEYS}
    missing = [key for key in KEYS if served[key] is None]
    assert {key: None if key in missing else right[key] for key in KEYS} == served
    assert [] == [key for key in promised if key in missing]
    assert [] == [key for key in missing if client.tier.lookup(key, REQUEST) is not LookupResult.MISS]
    assert client.store(*missing)
    assert right == {key: client.load(key) for key in KEYS}
    client.tier.shutdown()
    assert [f"{key.hex()}.block" for key in KEYS] == sorted(path.name for path in root.rglob("*") if path.is_file())


# Killed everywhere


def prepare(root: Path) -> None:
    """Files of all kinds: old ones, damaged ones, and one that was never finished."""
    client = Client(root)
    assert client.store(OLD, OLDER, OLDEST, FLIPPED, CUT_OFF)
    client.tier.shutdown()
    (folder,) = root.iterdir()
    files = {key: folder / "01" / f"{key.hex()}.block" for key in KEYS}
    for age, key in enumerate([OLDEST, OLDER, OLD]):
        os.utime(files[key], (age, age))
    flip(files[FLIPPED], 500)
    os.truncate(files[CUT_OFF], FILE_BYTES // 2)
    (folder / "writing" / "unfinished").write_bytes(b"half")


def flip(file: Path, bit: int) -> None:
    whole = bytearray(file.read_bytes())
    whole[bit // 8] ^= 1 << bit % 8
    file.write_bytes(whole)


def work(root: Path, operations: Mortal, report: Callable[[OffloadKey], object]) -> None:
    """Everything that a tier does with files, in an order that is always the same; `report` tells what was stored."""
    client = Client(root, operations, max_bytes=MAX_BYTES, n_read_threads=1, n_write_threads=1)
    for key in KEYS:
        assert client.load(key) in (None, content(key))
    for keys in [(FLIPPED,), (CUT_OFF, NEW), (NEWER,), (NEW, NEWEST)]:
        assert client.store(*keys)
        for key in keys:
            report(key)
    for key in KEYS:
        assert client.load(key) in (None, content(key))
    client.tier.shutdown()


def fork(work: Callable[[], object]) -> int:
    """A child that does the work and nothing else. Only for processes that have no threads."""
    assert 1 == threading.active_count()
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    return child


def ended(child: int) -> int:
    """How it ended: the number of a signal, 0 if it did its work."""
    return os.waitpid(child, 0)[1]


def everywhere(folder: Path, kind: str) -> None:
    """Leaves `killed`, with a folder for every place at which the work was killed in a copy of `origin`.

    `12` was killed after 12 operations, right before the next (which is the same to files as right after the last);
    `12-torn` amid a write; and `end` not at all. Beside it, `12.stored` names the keys that had been reported as
    stored, and `end.operations` what was done.
    """
    (folder / "killed").mkdir()
    {"empty": Path.mkdir, "used": prepare}[kind](folder / "origin")

    def run(name: str, operations: Mortal) -> int:
        place = folder / "killed" / name
        shutil.copytree(folder / "origin", place)
        with place.with_suffix(".stored").open("ab", buffering=0) as stored:

            def whole() -> None:
                work(place, operations, lambda key: stored.write(key.hex().encode() + b"\n"))
                place.with_suffix(".operations").write_text("\n".join(operations.done))

            return ended(fork(whole))

    assert 0 == run("end", Mortal())
    for last, operation in enumerate((folder / "killed" / "end.operations").read_text().split()):
        assert signal.SIGKILL == run(str(last), Mortal(last))
        if operation == "write":
            assert signal.SIGKILL == run(f"{last}-torn", Mortal(last, torn=True))


# Killed at random


def work_at_random(root: Path, operations: Mortal, chance: random.Random) -> None:
    """Several jobs at once, until the end."""
    client = Client(root, operations, max_bytes=MAX_BYTES)
    loading: dict[int, Mapping[OffloadKey, int]] = {}
    free = [(0, 1), (2, 3), (4, 5), (6, 7)]
    using: dict[int, tuple[int, int]] = {}
    while True:
        while free:
            slots, promotion = free.pop(), chance.random() < 0.5
            keys = chance.sample(KEYS, 2)
            job = client.submit(keys, slots, promotion)
            using[job] = slots
            if promotion:
                loading[job] = dict(zip(keys, slots, strict=True))
        for result in client.results():
            places = loading.pop(result.job_id, {})
            arrived = places if result.success else result.successful_keys or ()
            for key in arrived:
                if places:
                    assert content(key) == client.slot(places[key]), key
            free.append(using.pop(result.job_id))


def at_random(folder: Path, seed: int, rounds: int) -> None:
    """Two processes at a time work in the same folder until they are killed; then files are damaged, and so on."""
    chance = random.Random(seed)
    for _ in range(rounds):
        children = []
        for _ in range(2):
            mortal = Mortal(chance.randrange(1, 600), torn=chance.random() < 0.5)
            children.append(fork(partial(work_at_random, folder, mortal, random.Random(chance.random()))))
        assert [signal.SIGKILL] * 2 == [ended(child) for child in children]
        client = Client(folder)
        assert [] == list(folder.glob("*/writing/*"))
        for key in KEYS:
            assert client.load(key) in (None, content(key)), key
        client.tier.shutdown()
        for file in folder.rglob("*.block"):
            size = file.stat().st_size
            match chance.randrange(8):
                case 0 if size:
                    flip(file, chance.randrange(size * 8))
                case 1:
                    os.truncate(file, chance.randrange(size + 1))
    verify(folder)


if __name__ == "__main__":
    match sys.argv[1:]:
        case "everywhere", where, kind:
            everywhere(Path(where), kind)
        case "at-random", where, seed, rounds:
            at_random(Path(where), int(seed), int(rounds))
