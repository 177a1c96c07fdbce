"""Bugs in the rules of replication: followers, leaders, the controller and the log. Most were made once, in Kafka or its kin."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch

FOLLOWER, LEADER, PARTITION = "replication/follower.py", "replication/leader.py", "replication/partition.py"
HOST, LOG_MANAGER = "replication/replica_host.py", "log/manager.py"
PARTITIONS, BROKERS, TOPICS = "controller/partitions.py", "controller/brokers.py", "controller/topics.py"

IS_CURRENT = """\
        log = self.partition.log
        return (
            asked.leader_epoch == self.epoch
            and asked.offset == log.log_end_offset
            and asked.last_fetched_epoch == self.last_fetched_epoch()
        )
"""
LAST_FETCHED_EPOCH = """\
        if self.partition.config.truncation_mode:
            return -1
        return self.partition.log.epochs.latest
"""
BEFORE_POSITIONS = "class FetchPosition(NamedTuple):\n"
PREVIOUS_EPOCH = "(directory.previous_broker_epoch for directory in self._directories)\n"

RULES = (
    # -- followers
    Bug("truncate-to-hw", "follower truncates to its HW instead of the end of the epoch", "before KIP-101", FOLLOWER,
        "        return mode_high_watermark or self.partition.log.epochs.latest < 0\n", "        return True\n",
        also=(SourcePatch(FOLLOWER, LAST_FETCHED_EPOCH, "        return -1\n"),)),
    Bug("no-epoch-at-become-leader", "no epoch entry when a leader takes over", "KAFKA-6361, KIP-279", LEADER,
        "        self.note_epoch_start()\n", ""),
    Bug("one-shot-truncation", "truncates once and never asks again", "KIP-279", FOLLOWER,
        "            return self.diverged(diverging, log_start_offset)\n",
        "            CUT_ONCE.add(self.partition)\n            return self.diverged(diverging, log_start_offset)\n",
        also=(SourcePatch(FOLLOWER, BEFORE_POSITIONS, "CUT_ONCE = set()\n\n\n" + BEFORE_POSITIONS),
              SourcePatch(FOLLOWER,
                   "        self.truncations: list", "        CUT_ONCE.discard(partition)\n        self.truncations: list"),
              SourcePatch(FOLLOWER, LAST_FETCHED_EPOCH,
                   "        if self.partition in CUT_ONCE:\n            return -1\n" + LAST_FETCHED_EPOCH))),
    Bug("no-epoch-fencing", "currentLeaderEpoch is not checked", "KIP-320", PARTITION,
        "        if current_leader_epoch >= 0 and current_leader_epoch != own:\n", "        if False:\n"),
    Bug("stale-fetch-answer", "an answer is applied after the epoch or position moved", "Kip320.tla rule 2", FOLLOWER,
        IS_CURRENT, "        return True\n"),
    Bug("hw-on-divergence", "HW is taken from a diverging answer", "KAFKA-14704", FOLLOWER,
        "            return self.diverged(diverging, log_start_offset)\n",
        "            outcome = self.diverged(diverging, log_start_offset)\n"
        "            self.partition.high_watermark = high_watermark\n"
        "            return outcome\n"),
    Bug("forget-epoch-on-empty", "lastFetchedEpoch is forgotten after an empty answer", "KAFKA-15510", FOLLOWER,
        "    def answered(\n        self,\n",
        "    def answered(self, *answer):\n"
        "        outcome = self._answered(*answer)\n"
        "        (FORGOTTEN.add if outcome is FetchOutcome.EMPTY else FORGOTTEN.discard)(self.partition)\n"
        "        return outcome\n\n"
        "    def _answered(\n        self,\n",
        also=(SourcePatch(FOLLOWER, BEFORE_POSITIONS, "FORGOTTEN = set()\n\n\n" + BEFORE_POSITIONS),
              SourcePatch(FOLLOWER, LAST_FETCHED_EPOCH,
                   "        if self.partition in FORGOTTEN:\n            return -1\n" + LAST_FETCHED_EPOCH))),
    Bug("append-later-epoch", "batches of a later epoch than the fetch's are appended", "KAFKA-18723", FOLLOWER,
        "        self.partition.log.append_as_follower(records, self.epoch)\n",
        "        self.partition.log.append_as_follower(records, 2**31 - 1)\n",
        also=(SourcePatch(FOLLOWER, IS_CURRENT, "        return asked.offset == self.partition.log.log_end_offset\n"),)),
    Bug("out-of-range-drops-all", "OFFSET_OUT_OF_RANGE truncates to the start", "KAFKA-2143, KAFKA-7414", FOLLOWER,
        '''        """After OUT_OF_RANGE (KAFKA-7414): follow the leader's range, dropping no more than must be."""\n''',
        '''        """After OUT_OF_RANGE (KAFKA-7414): follow the leader's range, dropping no more than must be."""\n'''
        "        self.partition.begin_anew_at(0)\n        return FetchOutcome.TRUNCATED\n"),
    Bug("join-at-hw", "joins the ISR at the HW, before the start of the leader's epoch", "KAFKA-7128", LEADER,
        "        if remote.leo < self.partition.high_watermark or remote.leo < self.start_offset:\n",
        "        if remote.leo < self.partition.high_watermark:\n",
        also=(SourcePatch(LEADER,
                   "        return self.may_advance() or remote.is_caught_up(\n"
                   "            self.partition.log.log_end_offset, now, self.partition.config.replica_lag_time_max\n        )\n",
                   "        return True\n"),)),
    # -- leaders
    Bug("committed-isr-for-hw", "HW ignores a pending ISR change", "KIP-497", LEADER,
        "        if replica in self.isr.maximal:\n            return True\n        return (\n"
        "            now - remote.last_caught_up <= self.partition.config.replica_lag_time_max\n"
        "            and self.partition.peers.eligible(replica, remote.broker_epoch)\n        )\n",
        "        pending = self.isr.pending\n"
        "        wanted = self.isr.committed if pending is None else [member for member, _ in pending.isr]\n"
        "        return replica in wanted and replica in self.isr.committed\n"),
    Bug("fall-back-on-unknown", "falls back to the old ISR when the outcome is unknown", "KAFKA-12684", LEADER,
        "        if error in REFUSED_NOT_APPLIED:\n"
        "            if not self.isr.unanswered or self.isr.maximal == set(self.isr.committed):\n",
        "        if True:\n            if True:\n"),
    Bug("no-partition-epoch", "ISR changes without compare-and-set on the partition epoch", "KIP-497", PARTITIONS,
        "        if proposal.partition_epoch < old.partition_epoch:\n            return ErrorCode.INVALID_UPDATE_VERSION\n", "",
        also=(SourcePatch(PARTITIONS,
                   "        if proposal.leader_epoch > old.leader_epoch or proposal.partition_epoch > old.partition_epoch:\n",
                   "        if proposal.leader_epoch > old.leader_epoch:\n"),)),
    Bug("accept-fenced", "fenced or stopping brokers may join the ISR", "KIP-841", PARTITIONS,
        "        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch)\n",
        "        return broker is not None\n",
        also=(SourcePatch(HOST,
                   "        return peer is not None and peer.active and broker_epoch in (-1, peer.epoch)\n",
                   "        return peer is not None\n"),)),
    Bug("accept-rebooted", "a fetch of the last incarnation lets a rebooted broker into the ISR", "KIP-903", PARTITIONS,
        "        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch)\n",
        "        return broker is not None and broker.active\n",
        also=(SourcePatch(HOST,
                   "        return peer is not None and peer.active and broker_epoch in (-1, peer.epoch)\n",
                   "        return peer is not None and peer.active\n"),
              SourcePatch(LEADER,
                   "        if broker_epoch != -1 and self.partition.peers.alive_epoch(replica) > broker_epoch:\n",
                   "        if False:\n"))),
    Bug("keep-uncleanly-stopped", "a broker that lost its tail keeps its seat in ISR and ELR", "KIP-966", BROKERS,
        "        uncleanly = registration.previous_broker_epoch != known.epoch\n", "        uncleanly = False\n"),
    Bug("restart-unnoticed", "a restart within the session keeps the ISR seat", "KIP-966", BROKERS,
        "        if known is not None:\n            self._replace_incarnation(known, registration)\n", "",
        also=(SourcePatch(BROKERS,
                   "        if self.disconnected(broker_id, broker_epoch) and not self.workspace.config.trust_isr:\n",
                   "        if False:\n"),
              SourcePatch(BROKERS,
                   "        if broker is None or session is None or session.connected or self.workspace.config.trust_isr:\n",
                   "        if True:\n"))),
    Bug("hw-under-min-isr", "HW advances below min.insync.replicas", "KAFKA-15583", LEADER,
        "        return self.partition.log.failure is None and len(self.isr.committed) >= self.effective_min_isr()\n",
        "        return True\n"),
    Bug("clean-marker-stays", "the clean shutdown marker is still there after loading", "KAFKA-10471", LOG_MANAGER,
        PREVIOUS_EPOCH,
        PREVIOUS_EPOCH + "            for directory in self._directories:\n"
        "                if directory.clean:\n"
        "                    directory.write_clean_marker(self.previous_broker_epoch)\n"),
    Bug("drop-leaderless-hw", "the HW of a leaderless partition is dropped from the checkpoint", "KAFKA-1647", HOST,
        "        found = {tp: hw for tp, hw in self.logs.high_watermarks.items() if tp in self.logs.logs}\n",
        "        found = {}\n",
        also=(SourcePatch(HOST,
                   "(p.topic_partition, p.high_watermark) for p in",
                   "(p.topic_partition, p.high_watermark if p.role else 0) for p in"),)),
    Bug("hasty-shrink", "a new leader shrinks the ISR before the first fetch", "apache/fluss #3698", LEADER,
        "            remote.broker_epoch = known.broker_epoch\n        return remote\n",
        "            remote.broker_epoch = known.broker_epoch\n"
        '        remote.last_caught_up = float("-inf")\n        return remote\n'),
    Bug("trust-old-positions", "a leader that missed a term keeps what its followers had before it", "MiniKafka", LEADER,
        "        return previous is not None and previous.epoch + 1 == self.epoch\n", "        return previous is not None\n"),
    Bug("shrink-without-leader", "a shrink drops the leader itself from the ISR", "apache/fluss #3927", LEADER,
        "        lag = self.partition.config.replica_lag_time_max\n        keep = tuple(\n",
        "        lag = self.partition.config.replica_lag_time_max\n"
        "        known = [m for m in self.isr.committed if m in self.remotes]\n"
        "        others = tuple(m for m in known if self.remotes[m].is_caught_up(leo, now, lag))\n"
        "        if others and len(others) < len(self.isr.committed) - 1:\n"
        "            return self.propose(others)\n"
        "        keep = tuple(\n",
        also=(SourcePatch(PARTITIONS, " or self.check_members(old, proposal)\n", "\n"),)),
    Bug("dedupe-on-leader-only", "followers do not keep the state of producers", "redpanda #3039", FOLLOWER,
        "        self.partition.log.append_as_follower(records, self.epoch)\n",
        "        self.partition.log.append_as_follower(records, self.epoch)\n        self.partition.log.producers.clear()\n"),
    # -- settings that all must share
    Bug("min-isr-keeps-elr", "the ELR outlives a lower min.insync.replicas", "KIP-966", TOPICS,
        "lambda old: change_min_isr(old, rules, before)", "lambda _old: None"),
    Bug("min-isr-keeps-epoch", "a leader shrinks its ISR before it knows a higher min.insync.replicas", "MiniKafka", TOPICS,
        "lambda old: change_min_isr(old, rules, before)", "lambda old: change(old, rules)",
        also=(SourcePatch(TOPICS,
                   "from minikafka.controller.change import change_min_isr\n",
                   "from minikafka.controller.change import change, change_min_isr\n"),)),
    Bug("own-min-isr", "leaders go by the min.insync.replicas of their own file", "KIP-966",
        "server/metadata_follower.py",
        "        if CLUSTER_CONFIG in records:\n            self._take_cluster_configs()\n", ""),
    Bug("leader-flushes-late", "a leader counts for what flush.messages wants flushed first", "Kafka's UnifiedLog.append", LEADER,
        "        return self.partition.log.vouched_offset\n", "        return self.partition.log.log_end_offset\n"),
    Bug("follower-flushes-late", "a follower's fetch tells of what flush.messages wants flushed first",
        "Kafka's UnifiedLog.append", FOLLOWER,
        "        return not self.partition.log.owes_flush\n", "        return True\n"),
    Bug("lagging-end-offset", "ListOffsets shows the HW of a leader that has not caught up", "OFFSET_NOT_AVAILABLE", LEADER,
        "        if self.start_offset > self.partition.high_watermark:\n            return None\n", ""),
)  # fmt: skip
