"""Bugs in the coordination of groups."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch

INTERNAL_LOG, HOST, COORDINATOR = "replication/internal_log.py", "groups/host.py", "groups/coordinator.py"
OFFSETS_LOG, COMMITS, GROUP_MEMBERSHIP = "groups/offsets_log.py", "groups/commits.py", "groups/membership.py"

GROUPS = (
    Bug("group-commit-early", "a coordinator answers before its record is replicated", "R16, R18", INTERNAL_LOG,
        "            done(ErrorCode(results[0][1][0].error))\n",
        "            answers.append(ErrorCode(results[0][1][0].error))\n\n        answers = []\n",
        also=(SourcePatch(INTERNAL_LOG,
                   "        self._replicas.flush_ready()\n",
                   "        self._replicas.flush_ready()\n        done(answers[0] if answers else ErrorCode.NONE)\n"),)),
    Bug("group-load-to-hw", "a new coordinator reads its log up to the high watermark only", "Kafka's GroupMetadataManager",
        INTERNAL_LOG,
        "            yield from log.read_batches(log.log_start_offset, log.log_end_offset)\n",
        "            end = hosted.high_watermark\n"
        "            for batch in log.read_batches(log.log_start_offset, log.log_end_offset):\n"
        "                if batch.header.next_offset <= end:\n"
        "                    yield batch\n"),
    Bug("group-keep-deposed", "a coordinator keeps groups after losing their partition", "R15", HOST,
        "            self._forget_failures(partition)\n            self.coordinator.unload(partition, self._now())\n",
        "            self._forget_failures(partition)\n"),
    Bug("group-load-beginning", "half a log counts as loaded", "Kafka's GroupMetadataManager", HOST,
        "            batches = self._log.read(OFFSETS_TOPIC, partition)\n",
        "            batches = islice(self._log.read(OFFSETS_TOPIC, partition), 5)\n",
        also=(SourcePatch(HOST, "from typing import Final, Protocol\n",
                   "from itertools import islice\nfrom typing import Final, Protocol\n"),)),
    Bug("group-answer-loading", "a coordinator answers while it is loading", "COORDINATOR_LOAD_IN_PROGRESS", COORDINATOR,
        "        if partition not in self._owned:\n            self._loading.add(partition)\n",
        "        self._owned.add(partition)\n        self._loading.add(partition)\n",
        also=(SourcePatch(COORDINATOR,
                   "        if partition in self._loading:\n            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS\n", ""),)),
    Bug("group-forget-generation", "a new coordinator counts generations anew", "Kafka's GroupMetadataManager", COORDINATOR,
        '                self._membership.prepare(group, "the group is too large", now)\n',
        '                self._membership.prepare(group, "the group is too large", now)\n'
        "            group.generation = 0\n"),
    Bug("group-share-early", "shares are given out before they are stored", "Kafka's SyncGroup", COORDINATOR,
        "            lambda error, at: done(group_error(error), at),\n        )\n",
        "            lambda error, at: None,\n        )\n        done(ErrorCode.NONE, now)\n"),
    Bug("group-store-nothing", "generations are not stored, offsets are", "Kafka's GroupMetadataManager", OFFSETS_LOG,
        "        write = _Write(done)\n",
        "        records = [record for record in records if record[0][:2] != GROUP_RECORD]\n"
        "        if not records:\n"
        "            done(ErrorCode.NONE, now)\n"
        "            return\n"
        "        write = _Write(done)\n",
        also=(SourcePatch(OFFSETS_LOG,
                   "class Append(Protocol):\n", 'GROUP_RECORD = b"\\0\\x02"\n\n\nclass Append(Protocol):\n'),)),
    Bug("group-any-generation", "commits of members of the past are accepted", "ILLEGAL_GENERATION", COMMITS,
        "        error = self._check(group, request)\n", "        error = ErrorCode.NONE\n"),
    Bug("group-show-unwritten", "an offset is shown before it is replicated", "Kafka's OffsetFetch", COMMITS,
        "        sequence = self._log.next_sequence()\n",
        "        group.offsets.apply(changes, self._log.next_sequence())\n"
        "        sequence = self._log.next_sequence()\n"),
    Bug("group-forget-late", "a commit that timed out and was replicated later is not taken into memory",
        "Kafka's GroupMetadataManager",
        OFFSETS_LOG,
        "            if not write.answered or error is ErrorCode.NONE:\n", "            if not write.answered:\n"),
    Bug("group-shares-of-anybody", "whoever comes first hands in the shares", "Kafka's SyncGroup", GROUP_MEMBERSHIP,
        '        """Hand in (the leader) or wait for the assignment of a generation."""\n',
        '        """Hand in (the leader) or wait for the assignment of a generation."""\n'
        "        if request.member_id in group.members:\n"
        "            group.leader_id = request.member_id\n"),
)  # fmt: skip
