"""Bugs in what producers with several batches in flight, several partitions in a request, and topics made anew rely on."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch

LEADER, REPLICAS, LOG_MANAGER = "replication/leader.py", "replication/replicas.py", "log/manager.py"

APPEND = "        info = self.partition.log.append_as_leader(records, self.epoch, now_ms, ahead=ahead)\n"
AS_IT_CAME = (
    "            info = self.partition.log.append_as_leader(memoryview(said), self.epoch, now_ms, internal=True)\n"
)
KNOWS_INVALID_RECORD = SourcePatch(
    LEADER,
    "from minikafka.log.log import AppendInfo\n",
    "from minikafka.log.errors import InvalidRecord\nfrom minikafka.log.log import AppendInfo\n",
)

OFFSETS_BY_NAME = Bug(
    "offsets-by-name", "a topic that is made anew starts from the checkpoints of the one before it", "KIP-516", LOG_MANAGER,
    "        self._forget_offsets(topic_partition)\n", "",
)  # fmt: skip

WRITING = (
    Bug("remember-one-batch", "a leader recognises a duplicate of a producer's last batch only", "KIP-98", LEADER,
        APPEND,
        "        for _, known in self.partition.log.producers:\n            del known.batches[:-1]\n" + APPEND),
    Bug("restart-remembers-one-batch", "after a restart a broker knows the last batch of each producer only",
        "Kafka's ProducerStateManager", LOG_MANAGER,
        "(directory.previous_broker_epoch for directory in self._directories)\n",
        "(directory.previous_broker_epoch for directory in self._directories)\n"
        "                for log in self.logs.values():\n"
        "                    for _, known in log.producers:\n"
        "                        del known.batches[:-1]\n"),
    Bug("trust-headers", "MaxTimestamp of a client's batch header is believed", "Kafka's LogValidator, IBM/sarama #3108",
        "log/log.py",
        "        elif max_timestamp != said or attributes & LOG_APPEND_TIME_FLAG:\n", "        elif False:\n"),
    Bug("trust-records", "a batch is taken whose records are not what its header says", "Kafka's LogValidator", LEADER,
        APPEND,
        "        said = bytearray(records)\n        try:\n    " + APPEND + "        except InvalidRecord:\n" + AS_IT_CAME,
        also=(KNOWS_INVALID_RECORD,)),
    Bug("trust-compressed-records", "the records of a compressed batch are not looked at", "Kafka's LogValidator", LEADER,
        APPEND,
        "        said = bytearray(records)\n        try:\n    " + APPEND + "        except InvalidRecord:\n"
        "            if not said[ATTRIBUTES_POSITION] & COMPRESSION_MASK:\n                raise\n" + AS_IT_CAME,
        also=(KNOWS_INVALID_RECORD,
              SourcePatch(LEADER,
                   "from minikafka.protocol.errors import ErrorCode\n",
                   "from minikafka.protocol.errors import ErrorCode\n"
                   "from minikafka.protocol.records import ATTRIBUTES_POSITION, COMPRESSION_MASK\n"))),
    Bug("wait-for-first-partition", "a produce for several partitions waits for the first of them", "Kafka's purgatory", REPLICAS,
        "                    if required >= 0:\n", "                    if required >= 0 and delayed is None:\n"),
    Bug("lose-partition-error", "a produce for several partitions answers one that was refused like the others",
        "Kafka's ProduceResponse", REPLICAS,
        "        acks = request.acks\n        now = self._now()\n",
        "        acks = request.acks\n        answer = respond\n\n"
        "        def respond(results):\n"
        "            rows = [row for _, rows in results for row in rows]\n"
        "            offset = next((row.base_offset for row in rows if not row.error), -1)\n"
        "            for row in rows if len(rows) > 1 else ():\n"
        "                if row.error:\n"
        "                    row.error, row.base_offset = 0, offset\n"
        "            answer(results)\n\n"
        "        now = self._now()\n"),
    OFFSETS_BY_NAME,
)  # fmt: skip
