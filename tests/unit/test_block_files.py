"""Blocks as files: what a file is, and what becomes of one that is not as it was written."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from evictable.impl import OffloadKey
from evictable.impl.tiering.block_files import BadBlock, BlockFiles
from evictable.impl.tiering.file_operations import FileOperations

A, B, C, D = (OffloadKey(bytes([10, 0, 0, n])) for n in range(4))
BLOCK = b"contents"
OTHER = b"whatever"
FILE_BYTES = 40 + len(A) + 16 + len(BLOCK)


class Watched(FileOperations):
    """Tells what is done, and may be made to do something else instead, or before."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.before: dict[str, Callable[..., object]] = {}
        self.instead: dict[str, Callable[..., object]] = {}

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name.startswith("_") or not callable(method):
            return method

        def watched(*arguments: Any, **named: Any) -> Any:
            self.done.append(name)
            self.before.get(name, lambda *_, **__: None)(*arguments, **named)
            return self.instead.get(name, method)(*arguments, **named)

        return watched


def failing(number: int = errno.ENOSPC) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail


def files_in(root: Path, namespace: str = "", block_bytes: int = len(BLOCK), **options: Any) -> BlockFiles:
    return BlockFiles(root, namespace, block_bytes, **{"fsync": False, **options})


def holding(root: Path, *keys: OffloadKey, **options: Any) -> BlockFiles:
    files = files_in(root, **options)
    for key in keys:
        files.write(key, memoryview(BLOCK))
    return files


def path_of(files: BlockFiles, key: OffloadKey) -> Path:
    return files.folder / key.hex()[:2] / f"{key.hex()}.block"


def content(files: BlockFiles, key: OffloadKey) -> bytes:
    block = bytearray(len(BLOCK))
    files.read(key, memoryview(block))
    return bytes(block)


def unfinished(files: BlockFiles) -> list[Path]:
    return list((files.folder / "writing").iterdir())


def assert_is_a_miss(files: BlockFiles, key: OffloadKey, error: type[OSError] = BadBlock) -> None:
    """Reading it fails, once, and the key can be stored again."""
    with pytest.raises(error):
        content(files, key)
    assert not files.has(key)
    files.write(key, memoryview(BLOCK))
    assert (True, BLOCK) == (files.has(key), content(files, key))


# What a file is


def test_a_file_is_what_the_module_says(tmp_path: Path) -> None:
    files = holding(tmp_path, A, namespace="m")
    layout = blake2b(repr((1, len(BLOCK), "m")).encode(), digest_size=16).digest()
    head = b"EVICTBLK" + bytes([0, 0, 0, 1]) + bytes([0, 0, 0, 4]) + bytes([0] * 7 + [8]) + layout + A
    checksum = blake2b(head + BLOCK, digest_size=16).digest()
    assert tmp_path / f"m-{layout.hex()}" == files.folder
    assert head + checksum + BLOCK == path_of(files, A).read_bytes()


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("", "blocks"), ("../org/model fp8", "org-model-fp8"), ("x" * 99, "x" * 40), ("模", "blocks")],
)
def test_a_namespace_of_any_kind_makes_a_folder(namespace: str, name: str, tmp_path: Path) -> None:
    assert (tmp_path, name) == (
        (folder := files_in(tmp_path, namespace).folder).parent,
        folder.name.rpartition("-")[0],
    )


def test_what_was_written_is_found_by_the_next_process(tmp_path: Path) -> None:
    holding(tmp_path, A)
    files = files_in(tmp_path)
    assert (True, BLOCK, False) == (files.has(A), content(files, A), files.has(B))


def test_reading_and_writing_go_on_after_short_steps(tmp_path: Path) -> None:
    watched = Watched()
    watched.instead["write"] = lambda file, block: os.write(file, block[:3])
    watched.instead["read"] = lambda file, block: os.readv(file, [block[:3]])
    assert BLOCK == content(holding(tmp_path, A, operations=watched), A)


def test_a_key_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    files.write(A, memoryview(OTHER))
    assert BLOCK == content(files, A)


def test_the_steps_of_a_write_come_in_the_order_that_makes_it_safe(tmp_path: Path) -> None:
    watched = Watched()
    holding(tmp_path, A, fsync=True, operations=watched)
    last = watched.done[watched.done.index("write") :]
    assert ["write", "write", "sync", "replace", "close", "open", "sync", "close"] == last


def test_without_fsync_nothing_is_synced(tmp_path: Path) -> None:
    watched = Watched()
    holding(tmp_path, A, operations=watched)
    assert "sync" not in watched.done


def test_writers_of_one_key_do_not_disturb_each_other(tmp_path: Path) -> None:
    together = threading.Barrier(8, timeout=20)
    watched = Watched()
    watched.before["replace"] = lambda *_: together.wait()
    files = [files_in(tmp_path, operations=watched) for _ in range(2)]
    threads = [threading.Thread(target=files[n % 2].write, args=(A, memoryview(BLOCK))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 8 == watched.done.count("replace")
    assert (BLOCK, []) == (content(files[0], A), unfinished(files[0]))


def test_who_clears_the_root_does_not_stop_the_stores(tmp_path: Path) -> None:
    files = holding(tmp_path / "root", A)
    shutil.rmtree(tmp_path / "root")
    assert not files.has(A)
    files.write(A, memoryview(BLOCK))
    assert BLOCK == content(files, A)


# Files that are not as they were written


@pytest.mark.parametrize("length", range(FILE_BYTES))
def test_a_file_cut_off_anywhere_is_a_miss(length: int, tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    os.truncate(path_of(files, A), length)
    assert not files.has(A)
    assert_is_a_miss(files, A)


def test_a_file_that_grew_is_a_miss(tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    with path_of(files, A).open("ab") as file:
        file.write(b"x")
    assert not files.has(A)
    assert_is_a_miss(files, A)


@pytest.mark.parametrize("bit", range(8))
def test_a_file_with_any_bit_flipped_is_a_miss(bit: int, tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    good = path_of(files, A).read_bytes()
    assert FILE_BYTES == len(good)
    for place in range(FILE_BYTES):
        bad = bytearray(good)
        bad[place] ^= 1 << bit
        path_of(files, A).write_bytes(bad)
        assert_is_a_miss(files, A)


def test_a_file_cut_off_while_it_is_read_is_a_miss(tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, operations=watched)
    watched.before["read"] = lambda *_: os.truncate(path_of(files, A), FILE_BYTES - 1)
    with pytest.raises(BadBlock, match="was cut off"):
        content(files, A)
    assert not files.has(A)


def test_the_file_of_another_key_is_a_miss(tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    path_of(files, A).rename(path_of(files, B))
    assert_is_a_miss(files, B)


def test_the_file_of_another_namespace_is_a_miss(tmp_path: Path) -> None:
    theirs, ours = holding(tmp_path, A, namespace="theirs"), holding(tmp_path, B, namespace="ours")
    assert not ours.has(A)
    path_of(theirs, A).rename(path_of(ours, A))
    assert_is_a_miss(ours, A)


def test_blocks_of_another_size_are_left_alone(tmp_path: Path) -> None:
    ours, theirs = holding(tmp_path, A), files_in(tmp_path, block_bytes=5)
    assert not theirs.has(A)
    theirs.write(A, memoryview(b"small"))
    assert BLOCK == content(ours, A)


def test_a_file_of_a_block_of_another_size_is_a_miss(tmp_path: Path) -> None:
    theirs, ours = files_in(tmp_path, block_bytes=5), holding(tmp_path, B)
    theirs.write(A, memoryview(b"small"))
    path_of(theirs, A).rename(path_of(ours, A))
    assert not ours.has(A)
    assert_is_a_miss(ours, A)


def test_a_folder_in_the_place_of_a_file_is_a_miss(tmp_path: Path) -> None:
    files = holding(tmp_path, A)
    path_of(files, B).mkdir()
    with pytest.raises(BadBlock):
        content(files, B)
    assert not files.has(B)


def test_a_bad_file_that_cannot_be_removed_is_a_miss(tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, operations=watched)
    path_of(files, A).write_bytes(bytes(FILE_BYTES))
    watched.instead["remove"] = failing(errno.EROFS)
    assert files.has(A)
    assert_is_a_miss(files, A)


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_file_that_cannot_be_read_is_a_miss_and_stays(operation: str, tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, operations=watched)
    watched.instead[operation] = failing(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        content(files, A)
    del watched.instead[operation]
    assert not files.has(A)
    assert path_of(files, A).exists()
    files.write(A, memoryview(BLOCK))
    assert BLOCK == content(files, A)


def test_a_good_file_that_came_meanwhile_is_not_removed(tmp_path: Path) -> None:
    watched = Watched()
    ours, theirs = holding(tmp_path, A, operations=watched), files_in(tmp_path)
    path_of(ours, A).write_bytes(bytes(FILE_BYTES))

    def replaced(file: int, block: memoryview) -> None:
        if path_of(ours, A).read_bytes() == bytes(FILE_BYTES):
            path_of(ours, A).unlink()
            theirs.write(A, memoryview(BLOCK))

    watched.before["read"] = replaced
    with pytest.raises(BadBlock):
        content(ours, A)
    assert (True, BLOCK) == (ours.has(A), content(ours, A))


def test_a_key_too_long_for_a_name_is_never_there(tmp_path: Path) -> None:
    files, long = files_in(tmp_path), OffloadKey(b"k" * 125)
    with pytest.raises(OSError, match="name too long"):
        files.write(long, memoryview(BLOCK))
    assert (False, []) == (files.has(long), unfinished(files))
    assert files_in(tmp_path).has(OffloadKey(b"k" * 124)) is False


# When the file system does not do what it is told


@pytest.mark.parametrize("operation", ["make_folder", "open", "write", "sync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_write_that_fails_leaves_nothing(operation: str, number: int, tmp_path: Path) -> None:
    watched = Watched()
    files = files_in(tmp_path, fsync=True, operations=watched)
    watched.instead[operation] = failing(number)
    with pytest.raises(OSError, match=os.strerror(number)):
        files.write(A, memoryview(BLOCK))
    assert (False, []) == (files.has(A), unfinished(files))
    watched.instead.clear()
    files.write(A, memoryview(BLOCK))
    assert BLOCK == content(files, A)


def test_a_write_that_ends_half_way_leaves_nothing(tmp_path: Path) -> None:
    watched = Watched()
    files = files_in(tmp_path, operations=watched)
    watched.instead["write"] = lambda file, block: (
        os.write(file, block[: len(block) // 2]) if len(block) > 4 else failing()()
    )
    with pytest.raises(OSError, match="No space left"):
        files.write(A, memoryview(BLOCK))
    assert (False, []) == (files.has(A), unfinished(files))


def test_a_folder_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"no place for blocks \(Not a directory\): '.*/file/blocks-"):
        files_in(tmp_path / "file")


def test_a_folder_that_can_only_be_read_is_read(tmp_path: Path) -> None:
    holding(tmp_path, A)
    watched = Watched()
    watched.instead["remove"] = watched.instead["touch"] = watched.instead["replace"] = failing(errno.EROFS)
    watched.instead["open"] = lambda path, flags: (
        failing(errno.EROFS)() if flags & os.O_WRONLY else os.open(path, flags)
    )
    files = files_in(tmp_path, operations=watched, max_bytes=10**6)
    assert (True, BLOCK) == (files.has(A), content(files, A))
    with pytest.raises(OSError, match="Read-only"):
        files.write(B, memoryview(BLOCK))


# What others left behind


def test_what_a_dead_process_was_writing_is_removed(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    (files.folder / "writing" / "left").write_bytes(b"half a bl")
    assert [] == unfinished(files_in(tmp_path))


def test_what_another_is_writing_is_left_alone(tmp_path: Path) -> None:
    watched = Watched()
    files = files_in(tmp_path, operations=watched)
    watched.before["replace"] = lambda *_: files_in(tmp_path)
    files.write(A, memoryview(BLOCK))
    assert BLOCK == content(files, A)


def test_a_file_taken_for_left_before_it_was_locked_is_made_anew(tmp_path: Path) -> None:
    watched = Watched()
    files = files_in(tmp_path, operations=watched)

    def start_another(file: int, wait: bool) -> None:
        watched.before.clear()
        files_in(tmp_path)

    watched.before["lock"] = start_another
    files.write(A, memoryview(BLOCK))
    assert (2, BLOCK) == (watched.done.count("lock"), content(files, A))


def test_without_locks_nothing_is_taken_for_left(tmp_path: Path) -> None:
    watched = Watched()
    watched.instead["lock"] = lambda file, wait: False
    (left := files_in(tmp_path).folder / "writing" / "left").write_bytes(b"half a bl")
    files = holding(tmp_path, A, operations=watched)
    assert ([left], BLOCK) == (unfinished(files), content(files, A))


# The bound


def test_the_block_stored_or_read_longest_ago_makes_room(tmp_path: Path) -> None:
    files = holding(tmp_path, A, B, C, max_bytes=3 * FILE_BYTES)
    for age, key in enumerate([C, A, B]):
        os.utime(path_of(files, key), (age, age))
    content(files, C)
    files.write(D, memoryview(BLOCK))
    assert [False, True, True, True] == [files.has(key) for key in (A, B, C, D)]


def test_blocks_that_were_there_at_the_start_count(tmp_path: Path) -> None:
    holding(tmp_path, A, B, C)
    files = holding(tmp_path, D, max_bytes=2 * FILE_BYTES + 1)
    assert 2 == sum(files.has(key) for key in (A, B, C, D))


def test_files_are_not_counted_for_every_block(tmp_path: Path) -> None:
    watched = Watched()
    files = files_in(tmp_path, max_bytes=32 * FILE_BYTES, operations=watched)
    counts: list[Path] = []
    watched.before["names"] = lambda folder: counts.append(folder) if folder == files.folder else None
    keys = [OffloadKey(bytes([n, 0, 0, 0])) for n in range(64)]
    for key in keys:
        files.write(key, memoryview(BLOCK))
    assert (32, 32) == (len(counts), sum(files.has(key) for key in keys))


def test_blocks_that_are_being_written_count(tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, B, max_bytes=3 * FILE_BYTES, operations=watched)

    def write_another(*_: object) -> None:
        watched.before.clear()
        files.write(D, memoryview(BLOCK))

    watched.before["replace"] = write_another
    files.write(C, memoryview(BLOCK))
    assert [False, True, True, True] == [files.has(key) for key in (A, B, C, D)]


def test_other_files_are_neither_counted_nor_removed(tmp_path: Path) -> None:
    files = holding(tmp_path, A, B, max_bytes=FILE_BYTES)
    (files.folder / "notes").write_bytes(bytes(1000))
    path_of(files, A).with_suffix(".notes").write_bytes(bytes(1000))
    files.write(C, memoryview(BLOCK))
    assert (True, True) == ((files.folder / "notes").exists(), path_of(files, A).with_suffix(".notes").exists())
    assert [False, False, True] == [files.has(key) for key in (A, B, C)]


def test_a_block_larger_than_the_bound_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    holding(tmp_path, A)
    files = files_in(tmp_path, max_bytes=FILE_BYTES - 1)
    with pytest.raises(OSError, match="a block has 68 bytes, and there may be 67 in all"):
        files.write(B, memoryview(BLOCK))
    assert files.has(A)


def test_another_process_may_remove_the_same_blocks(tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, B, C, max_bytes=3 * FILE_BYTES, operations=watched)
    watched.before["remove"] = lambda path: path.unlink()
    files.write(D, memoryview(BLOCK))
    assert 3 == sum(files.has(key) for key in (A, B, C, D))


def test_old_blocks_that_cannot_be_removed_keep_new_ones_out(tmp_path: Path) -> None:
    watched = Watched()
    files = holding(tmp_path, A, max_bytes=FILE_BYTES, operations=watched)
    watched.instead["remove"] = failing(errno.EPERM)
    with pytest.raises(PermissionError):
        files.write(B, memoryview(BLOCK))
    assert [True, False] == [files.has(key) for key in (A, B)]
