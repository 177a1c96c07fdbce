"""The process of one member of a group: made by its settings, which are the only argument, and told when to die or to leave.

The first line of standard input is the configuration of its client, which may hold secrets.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from minikafka_chaos.load.group_member import BatchMember
from minikafka_chaos.load.reliable_member import ReliableMember

CRASH, STOP = "crash", "stop"
"""What may be asked on standard input after that: to die by SIGKILL at the moment that is named, the next time; to leave."""


def _listen(member: BatchMember | ReliableMember) -> None:
    for line in sys.stdin:
        if line.startswith(CRASH):
            member.dies = line.removeprefix(CRASH).strip()
        elif line.strip() == STOP:
            member.leave()
            return
    os.kill(os.getpid(), signal.SIGKILL)  # whoever started it is gone


def main() -> None:
    """Run the member until it is asked to leave."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: who started it decides
    settings = json.loads(sys.argv[1])
    config = json.loads(sys.stdin.readline() or "{}")
    if not config:
        return  # whoever started it is gone already
    member = ReliableMember(settings, config) if settings["poison_every"] else BatchMember(settings, config)
    threading.Thread(target=_listen, args=(member,), daemon=True).start()
    member.run()


if __name__ == "__main__":
    main()
