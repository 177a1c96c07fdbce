"""Bugs in the server: its connections, its loops, and what it writes down."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug

FETCHERS = "server/fetchers.py"

SERVER = (
    Bug("parked-fetch-holds-back", "the answer to a fetch waits behind the parked one before it", "MiniKafka",
        "server/api/fetch.py",
        "    connection.waiting_fetch.overtaken()\n", ""),
    Bug("answers-out-of-order", "a connection answers what is ready first", "Kafka's protocol guide", "server/connection.py",
        "        slot.out = out\n        slots = self.slots\n",
        "        slot.out = out\n        slots = self.slots\n"
        "        if slot in slots:\n            slots.remove(slot)\n            slots.appendleft(slot)\n"),
    Bug("fetcher-stands-still", "a fetcher whose connection ended never looks again", "MiniKafka", FETCHERS,
        "        asyncio.get_running_loop().call_later(seconds, look)\n", ""),
    Bug("never-ask-for-offsets", "a follower out of range does not ask for its leader's range", "KAFKA-7414", FETCHERS,
        '        """KAFKA-7414: what range does the leader hold?"""\n',
        '        """KAFKA-7414: what range does the leader hold?"""\n        return\n'),
    Bug("checkpoint-log-ends", "the checkpoint of high watermarks holds log end offsets", "R3, R11",
        "replication/replica_host.py",
        "(p.topic_partition, p.high_watermark) for p in", "(p.topic_partition, p.log.log_end_offset) for p in"),
    Bug("lease-for-clients", "the lease tells where the controller listens for clients", "KIP-631", "server/membership.py",
        "host, port = self._listeners.inter_broker()", "_, host, port = self._listeners.advertised()[0]"),
)  # fmt: skip
