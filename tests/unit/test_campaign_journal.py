"""The journal of a campaign: a unit is in it whole, or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from evictable.specs.campaign.journal import Journal, locked
from evictable.specs.errors import UsageError


def entry(number: int) -> dict[str, Any]:
    return {"unit": number, "place": 0, "elapsed": 0.5, "result": {}}


def units(folder: Path) -> list[int]:
    return [entry["unit"] for entry in Journal(folder).read()]


def written(folder: Path, *numbers: int) -> Journal:
    journal = Journal(folder)
    list(journal.read())
    for number in numbers:
        journal.append(entry(number))
    journal.close()
    return journal


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    written(tmp_path, 0, 2)
    written(tmp_path, 1)
    assert [0, 2, 1] == units(tmp_path)


def test_there_need_not_be_one(tmp_path: Path) -> None:
    assert [] == units(tmp_path)


def test_a_line_without_an_end_is_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path, 0).path
    path.write_bytes(path.read_bytes() + b'{"unit": 1, "res')
    assert [0] == units(tmp_path)
    written(tmp_path, 1)
    assert [0, 1] == units(tmp_path)
    assert [entry(0), entry(1)] == list(map(json.loads, path.read_bytes().splitlines()))


@pytest.mark.parametrize("line", [b"what\n", b"[]\n", b'{"unit": "one"}\n', b'{"unit": 2}\n', b"\xff\n"])
def test_another_line_is_refused(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, 0).path
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(UsageError, match=r"journal.jsonl: line 2 is no entry of a journal; give another --dir"):
        units(tmp_path)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, write = Journal(tmp_path), os.pwrite
    journal.append(entry(0))

    def half(file: int, data: bytes, offset: int) -> Any:
        write(file, data[:4], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(UsageError, match=r"No space left on device\); make room and run the same command again"):
        journal.append(entry(1))
    monkeypatch.undo()
    assert [0] == units(tmp_path)
    written(tmp_path, 1)
    assert [0, 1] == units(tmp_path)


def test_a_folder_has_one_campaign_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UsageError, match="another campaign runs there"), locked(tmp_path):
        pass


def test_the_lock_is_gone_afterwards(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="give another --dir"), locked(tmp_path / "file" / "campaign"):
        pass
