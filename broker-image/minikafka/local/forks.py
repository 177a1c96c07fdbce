"""What a child by fork gives up at once: pipes and sockets by which others know that this process, or a part of it, lives.

A child of `multiprocessing` or `os.fork` has copies of all of them, and would hold them open after its parent was killed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Container
from weakref import WeakMethod

_GIVING_UP: list[WeakMethod[Callable[[], None]]] = []


def call_in_children(give_up: Callable[[], None]) -> None:
    """Have a method called in every child by fork, as long as its object lives in this process."""
    _GIVING_UP[:] = [each for each in _GIVING_UP if each() is not None]
    _GIVING_UP.append(WeakMethod(give_up))


def close_quietly(descriptor: int) -> None:
    """Close a file descriptor, open or not."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def close_sockets(own: Container[int], reached: Container[int]) -> None:
    """Close this process's TCP sockets whose own port is one of these, or which are connected to one of those."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=int(name))
        except OSError:  # no socket
            continue
        with contextlib.suppress(OSError):
            is_tcp = found.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and (found.getsockname()[1] in own or found.getpeername()[1] in reached):
                os.close(found.fileno())
        found.detach()


def _give_up_all() -> None:
    for each in _GIVING_UP:
        if (give_up := each()) is not None:
            give_up()


os.register_at_fork(after_in_child=_give_up_all)
