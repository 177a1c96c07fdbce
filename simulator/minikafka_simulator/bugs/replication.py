"""Bugs in what carries replication: serving fetches and produces, hosting replicas, asking for records and for ISR changes."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug

HOST, FETCH_LOOP = "replication/replica_host.py", "replication/fetch_loop.py"
REPLICAS, ISR_REQUESTS = "replication/replicas.py", "replication/isr_requests.py"

REPLICATION = (
    Bug("keep-deleted-log", "the log of a replica that is deleted or reassigned stays", "Kafka's stray logs", HOST,
        "            self._attempt(name, self._delete_log, tp)\n", ""),
    Bug("keep-stray-log", "a log of a topic that was deleted meanwhile stays", "KIP-516, Kafka's stray logs", HOST,
        "            names = [*image.topics, *(tp.topic for tp in self.logs.logs), *self._topic_ids]\n",
        "            names = list(image.topics)\n"),
    Bug("topic-by-name", "a topic that is made anew is taken for the one before it", "KIP-516", HOST,
        "        hosted = self._replicas.by_name.get(name, {})\n",
        "        hosted = self._replicas.by_name.get(name, {})\n"
        "        for partition in hosted.values() if topic is not None else ():\n"
        "            partition.topic_id = topic.topic_id.bytes\n"),
    Bug("tell-nobody", "who waits at a leader that is one no more is not told", "R16", HOST,
        "        partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)\n", ""),
    Bug("follow-old-leader", "a follower goes on fetching from the leader before", "Kafka's fetchers", HOST,
        "        self._fetchers.unfollow(partition)\n        self._effects.append(RoleChanged(partition, was))\n"
        "        if partition.follower is not None:\n"
        "            self._fetchers.follow(partition, partition.leader_id)\n        self._wake(partition)\n",
        "        before = self._fetchers.leader_of(partition)\n"
        "        self._fetchers.unfollow(partition)\n        self._effects.append(RoleChanged(partition, was))\n"
        "        if partition.follower is not None:\n"
        "            self._fetchers.follow(partition, partition.leader_id)\n        self._wake(partition)\n"
        "        if partition.follower is not None and before is not None:\n"
        "            self._fetchers.follow(partition, before)\n"),
    Bug("read-to-log-end", "consumers read up to the log end", "R3", REPLICAS,
        "        upper = end if follower else partition.high_watermark\n", "        upper = end\n"),
    Bug("acknowledge-early", "acks=all is answered one record before the HW is there", "R4, R16", REPLICAS,
        "required if partition.high_watermark < required else -1\n",
        "required if partition.high_watermark + 1 < required else -1\n"),
    Bug("acknowledge-duplicates", "a repeated batch is acknowledged at once, committed or not", "R16, R18", REPLICAS,
        "        required = info.last_offset + 1\n",
        "        required = 0 if info.duplicate else info.last_offset + 1\n"),
    Bug("serve-any-term", "records are sent to whoever knows the leader by another term", "KIP-320", REPLICAS,
        "        code = partition.check_leader(asked.current_leader_epoch)\n        if code:\n",
        "        code = partition.check_leader(-1)\n        if code:\n"),
    Bug("refused-when-unknown", "an unknown outcome of AlterPartition counts as a refusal", "KAFKA-12684", REPLICAS,
        "answer = AlterPartitionAnswer(ErrorCode.REQUEST_TIMED_OUT)",
        "answer = AlterPartitionAnswer(ErrorCode.OPERATION_NOT_ATTEMPTED)"),
    Bug("expired-is-done", "a produce whose time is up counts as done", "R16", REPLICAS,
        "waiter.delayed.settle(waiter.result, ErrorCode.REQUEST_TIMED_OUT)",
        "waiter.delayed.settle(waiter.result, ErrorCode.NONE)"),
    Bug("forget-parked-fetch", "the purgatory loses a follower's fetch", "Kafka's purgatory", REPLICAS,
        "        self.park(parked, request)\n        return parked\n",
        "        self.park(parked, request)\n        if parked.follower:\n            parked.give_up()\n        return parked\n"),
    Bug("forget-acknowledgement", "a produce is forgotten when the HW has passed it", "Kafka's purgatory",
        "replication/hosted.py",
        "        producers = self.producers\n        leader = self.leader\n",
        "        producers = self.producers\n        producers.clear()\n        leader = self.leader\n"),
    Bug("isr-change-asked-once", "an ISR change with an unknown outcome is not asked for again", "KIP-497",
        ISR_REQUESTS,
        "                again = True\n        return again\n",
        "                again = True\n        self._queue.clear()\n        return False\n"),
    Bug("isr-change-overlooked", "an ISR change that comes while another is asked for is lost", "KIP-497", ISR_REQUESTS,
        "        self._queue[proposal.topic_partition] = proposal\n",
        "        if not self._in_flight:\n            self._queue[proposal.topic_partition] = proposal\n"),
    Bug("fetch-names-no-epoch", "followers do not name the epoch of their last record", "KIP-595", FETCH_LOOP,
        "            asked[key] = follower.position()\n",
        "            asked[key] = follower.position()._replace(last_fetched_epoch=-1)\n"),
    Bug("fetch-waits-for-lost", "a fetch on a connection that is gone is waited for", "Kafka's NetworkClient", FETCH_LOOP,
        '        """The connection is gone, and with it whatever was in flight."""\n        self.in_flight = 0\n',
        '        """The connection is gone, and with it whatever was in flight."""\n'),
    Bug("fetch-backs-off-forever", "a partition that was refused once is never asked for again", "Kafka's fetchers", FETCH_LOOP,
        "            followed.backoff = min(followed.backoff * 2, self._backoff_max)\n",
        "            followed.backoff = min(followed.backoff * 2, self._backoff_max)\n"
        '            followed.not_before = float("inf")\n'),
    Bug("fetch-drops-others", "a partition in a new term pushes the others of its leader out", "Kafka's fetchers", FETCH_LOOP,
        "        self._followed[key_of(partition)] = _Followed(partition)\n",
        "        self._followed = {key_of(partition): _Followed(partition)}\n"),
)  # fmt: skip
