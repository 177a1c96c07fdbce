"""Processes that are known again, and those that are about to be gone."""

from __future__ import annotations

import subprocess
import sys

from minikafka.local.process import ProcessIdentity, open_verified, start_ticks, state

from tests.waiting import until_now

ENDS_THREAD_BY_THREAD = """
import ctypes, os, platform, sys, threading
threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0))).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # exit: of this thread alone
"""


def test_a_process_is_gone_when_its_last_thread_is() -> None:
    """One that is killed ends thread by thread: it is a zombie by then, and still listens on its ports."""
    with subprocess.Popen([sys.executable, "-c", ENDS_THREAD_BY_THREAD], stdin=subprocess.PIPE) as ending:
        until_now(lambda: state(ending.pid) == "Z")
        ticks = start_ticks(ending.pid)
        assert ticks is not None and ending.poll() is None and ending.stdin is not None
        ending.stdin.write(b"\n")
        ending.stdin.flush()
        assert open_verified(ProcessIdentity(ending.pid, ticks), sys.executable) is None
        assert ending.poll() == 0
