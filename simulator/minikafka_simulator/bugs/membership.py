"""Bugs in a broker's place in the cluster, and in a controller's term."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch

TERM, LIFECYCLE = "controller/term.py", "membership/lifecycle.py"

COMMIT = "        return [Commit(self.lease.epoch, records, tuple(self._events))]\n"
REFUSED = '        """The store refused, or its answer was lost."""\n        return self.end(str(error))\n'

MEMBERSHIP = (
    Bug("answer-before-commit", "a controller answers before the store has what it decided", "R15", TERM,
        COMMIT,
        "        decided, self._decided = self._decided, []\n"
        "        return [Commit(self.lease.epoch, records, tuple(self._events)), *decided]\n"),
    Bug("tell-before-commit", "a controller tells of what is not in the store yet", "KIP-500", TERM,
        COMMIT,
        "        events, self._events = self._events, []\n"
        "        return [*map(Happened, events), Commit(self.lease.epoch, records, tuple(events))]\n"),
    Bug("tell-of-failed-commit", "a controller tells of what the store refused", "KIP-500", TERM,
        REFUSED, REFUSED.replace("self.end(str(error))", "[*map(Happened, self._events), *self.end(str(error))]")),
    Bug("outlive-refused-commit", "a term goes on after a commit that failed", "KIP-631", TERM,
        REFUSED, REFUSED.replace("return self.end(str(error))", "self._events.clear()\n        return self.committed()")),
    Bug("keep-lost-lease", "a term goes on though the lease could not be renewed", "KIP-631", TERM,
        "        return self.end(str(error)) if isinstance(error, FencedControllerError) else []\n", "        return []\n"),
    Bug("keep-last-image", "a new term begins with what the last one had decided, written or not", "KIP-631", LIFECYCLE,
        "        return [TermBegins(lease, image)]\n",
        '        self.kept = getattr(self, "kept", image)\n        return [TermBegins(lease, self.kept)]\n'),
    Bug("snapshot-before-lease", "the snapshot is read before the lease is taken", "R15", LIFECYCLE,
        '        """The term may begin."""\n',
        '        """The term may begin."""\n'
        '        read = getattr(self, "read", None)\n'
        "        if read is None:\n"
        "            self.read, self.step = snapshot, TakeLease(lease.epoch)\n"
        "            return []\n"
        "        snapshot = read\n",
        also=(SourcePatch(LIFECYCLE,
                   "self.step = self._take(lease.epoch if lease else 0, now)\n",
                   "self.step = self._read_first(self._take(lease.epoch if lease else 0, now))\n"),
              SourcePatch(LIFECYCLE,
                   "self._take(lease.epoch, now) if self._is_silent(now) else",
                   "self._read_first(self._take(lease.epoch, now)) if self._is_silent(now) else"),
              SourcePatch(LIFECYCLE,
                   "self.step = self._take(self.controller_epoch, now) if self._is_silent(now) else",
                   "self.step = self._read_first(self._take(self.controller_epoch, now)) if self._is_silent(now) else"),
              SourcePatch(LIFECYCLE,
                   "self.step = TakeLease(self.controller_epoch)\n",
                   "self.step = self._read_first(TakeLease(self.controller_epoch))\n"),
              SourcePatch(LIFECYCLE,
                   "    def lease_taken(self,",
                   "    def _read_first(self, step):\n"
                   "        if not isinstance(step, TakeLease):\n"
                   "            return step\n"
                   "        self.read = None\n"
                   '        return ReadSnapshot(Lease(self.broker_id, step.expected_epoch, 0, "", 0))\n\n'
                   "    def lease_taken(self,"))),
    Bug("hear-old-incarnation", "a heartbeat of an old registration is accepted", "KIP-631, KIP-903", "controller/brokers.py",
        "        if broker.epoch != broker_epoch:\n            return HeartbeatAnswer(ErrorCode.STALE_BROKER_EPOCH)\n",
        "        broker_epoch = broker.epoch\n"),
    Bug("take-part-unregistered", "the image is applied before the own registration is in it", "R12, R15", LIFECYCLE,
        "        return me if me is not None and self.broker_epoch >= 0 and me.epoch == self.broker_epoch else None\n",
        "        return me\n"),
    Bug("ready-at-once", "a broker is unfenced before its replicas match the image", "KIP-631", LIFECYCLE,
        "        self._poked = False\n        seconds =", "        self._poked = self.want_fence = False\n        seconds ="),
    Bug("keep-lost-registration", "a broker does not register again when its registration is over", "KIP-631", LIFECYCLE,
        "            return self._registration_lost()\n",
        "            self.step = Wait(self._settings.heartbeat_interval, until_poked=True)\n            return []\n"),
    Bug("ready-after-loss", "after a lost registration a broker is still ready to lead", "KIP-631", LIFECYCLE,
        "        self.want_fence = True\n        self.step = self._beat()\n",
        "        self.want_fence = False\n        self.step = self._beat()\n"),
)  # fmt: skip
