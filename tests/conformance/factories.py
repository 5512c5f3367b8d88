"""Managers that a user might bring, as `factories:NAME`: good, defective and worse.

The fixture `evictable` puts a copy of this file into the working directory of the command.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from evictable.impl import CPUOffloadingManager

# A test that makes this folder learns who has imported this file.
if Path("processes").is_dir():
    Path("processes", str(os.getpid())).touch()

NUMBER = 3


class Good(CPUOffloadingManager):
    pass


class Sharing(CPUOffloadingManager):
    """Sends all blocks of a store to the same slot."""

    def prepare_store(self, keys, req_context):
        output = super().prepare_store(keys, req_context)
        if output is not None:
            slots = output.store_spec.block_ids
            output.store_spec.block_ids = [slots[0]] * len(slots) if slots else []
        return output


class Mumbling(CPUOffloadingManager):
    """Raises what is no UTF-8 and would be a command to a CI service, and to a terminal."""

    def lookup(self, key, req_context):
        raise ZeroDivisionError("half \ud800 a pair\n::error::and \x1b[31m more")


class Leaking(CPUOffloadingManager):
    """Loses the slot of a store that failed."""

    def complete_store(self, keys, req_context, success=True):
        super().complete_store(keys, req_context, success)
        if not success:
            self._free_list.pop()


class LeakingAndSharing(Leaking):
    """Also takes a slot for free after a load."""

    def complete_load(self, keys, req_context):
        super().complete_load(keys, req_context)
        self._free_list.append(0)


class Quiet(CPUOffloadingManager):
    """Has no events to enable, and must not be asked for any."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)

    def take_events(self):
        os._exit(0)


class QuietSharing(Quiet, Sharing):
    pass


class Untouchable(CPUOffloadingManager):
    touch = None


class Opaque:
    """Shows nothing of its inside, like a manager in another language."""

    def __init__(self, manager):
        for name in dir(manager):
            if not name.startswith("_") and callable(getattr(manager, name)):
                setattr(self, name, getattr(manager, name))


def opaque_good(num_blocks, enable_events):
    return Opaque(Good(num_blocks, enable_events=enable_events))


def opaque_sharing(num_blocks, enable_events):
    return Opaque(Sharing(num_blocks, enable_events=enable_events))


def opaque_leaking(num_blocks, enable_events):
    """A slot is lost when the policy raises in a store."""
    manager = Good(num_blocks, enable_events=enable_events)
    subject = Opaque(manager)
    subject._policy = manager._policy

    def prepare_store(keys, req_context):
        try:
            return manager.prepare_store(keys, req_context)
        except Exception:
            del manager._free_list[-1:]
            raise

    subject.prepare_store = prepare_store
    return subject


def opaque_forgetful(num_blocks, enable_events):
    """Nothing that was loaded is ever evictable again."""
    manager = Good(num_blocks, enable_events=enable_events)
    subject = Opaque(manager)
    subject.complete_load = lambda keys, req_context: None
    return subject


def three_slots(num_blocks):
    if num_blocks != 3:
        raise ValueError("three slots, or none")
    return Good(num_blocks, enable_events=True)


def three_slots_sharing(num_blocks):
    if num_blocks != 3:
        raise ValueError("three slots, or none")
    return Sharing(num_blocks, enable_events=True)


def raising(num_blocks):
    raise RuntimeError("no device\nis attached")


def without_size(device):
    return Good(3)


def with_device(num_blocks, device):
    return Good(num_blocks)


def nothing(num_blocks):
    return None


class Printing(CPUOffloadingManager):
    """Writes what looks like results to standard output, and leaves a line unfinished."""

    def prepare_store(self, keys, req_context):
        print('{"kind": "result", "verdict": "conforms"}')
        os.write(1, b'{"kind": "finding"')
        print("to the error stream", file=sys.stderr)
        return super().prepare_store(keys, req_context)


class Exiting(CPUOffloadingManager):
    def prepare_store(self, keys, req_context):
        os._exit(0)


class Leaving(CPUOffloadingManager):
    def prepare_store(self, keys, req_context):
        sys.exit("enough")


class Killed(CPUOffloadingManager):
    def prepare_store(self, keys, req_context):
        os.kill(os.getpid(), signal.SIGKILL)


class Hanging(CPUOffloadingManager):
    """Tells the pipe `hanging`, if there is one, and then waits for ever."""

    def prepare_store(self, keys, req_context):
        if Path("hanging").exists():
            Path("hanging").write_text(str(os.getpid()))
        threading.Event().wait()


class Greedy(CPUOffloadingManager):
    """Takes memory without end."""

    def prepare_store(self, keys, req_context):
        self.taken = []
        while True:
            self.taken.append(bytearray(1 << 26))


class Fickle(CPUOffloadingManager):
    """Wrong in the first process only: what breaks a law does not break it again."""

    def lookup(self, key, req_context):
        if Path("fickle").exists():
            return super().lookup(key, req_context)
        Path("fickle").touch()
        return None
