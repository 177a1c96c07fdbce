"""`minikafka up --while-stdin`: the cluster of a program that may be killed at any moment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from minikafka.local.process import has_stopped, state

from tests.forms import in_full
from tests.waiting import until_now


@pytest.mark.parametrize("end", ["it is killed", *in_full(["standard input ends"])])
def test_it_ends_with_the_program_that_holds_its_standard_input(end: str) -> None:
    """And so do its brokers, one of which hangs; its files are left where it was killed, until the next begins."""
    options = ("--while-stdin", "--base-port", "0", "--control", "0", "--brokers", "2", "--json", "--timeout", "300")
    command = (sys.executable, "-m", "minikafka.cli", "up", *options)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        told = json.loads(program.stdout.readline())
        folder = Path(told["brokers"][0]["data_dir"]).parents[1]
        pids = [broker["pid"] for broker in told["brokers"]]
        os.kill(pids[0], signal.SIGSTOP)
        until_now(lambda: has_stopped(pids[0]))
        if end == "it is killed":
            program.kill()
        else:
            program.stdin.close()
        program.wait()
    until_now(lambda: [state(pid) for pid in pids], lambda states: set(states) <= {None, "Z"})
    assert end == "it is killed" or not folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
