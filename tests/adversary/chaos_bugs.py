"""Bugs in chaos on Kubernetes: a fault that outlives its end, one that nobody wrote down, one that nobody allowed."""

from __future__ import annotations

from tests.adversary.planting import Bug

CONTROLLER = "chaos/minikafka_chaos/controller"
UNIT = "tests/unit/chaos/controller"
GATE, POWER_LOSS = "tests/unit/agent/test_gate.py", "tests/unit/agent/test_power_loss.py"

CHAOS = (
    Bug("a01", "a gate holds for as long as its file says, were it a year", "Expiry", "agent/gate.py",
        "    capped = float(min(until, written + HOLD_SECONDS_MAX))\n", "    capped = float(min(until, 2**60))\n",
        (GATE,)),
    Bug("a02", "a gate's file that nobody can read holds", "Expiry", "agent/gate.py",
        "                tell(f\"gate: {error}: it does not hold\")\n            found = None\n",
        "                tell(f\"gate: {error}: it does not hold\")\n"
        "            found = Hold(time.time() + 1) if time.monotonic() - began < 3 else None\n",
        (GATE,)),
    Bug("a03", "a broker that is told to end at the gate opens its logs instead", "Gate", "agent/gate.py",
        "            tell(f\"gate: told to end after {time.monotonic() - began:.1f} s of waiting\")\n            return False\n",
        "            tell(f\"gate: told to end after {time.monotonic() - began:.1f} s of waiting\")\n            return True\n",
        (GATE,)),
    Bug("a04", "a power loss spares what a flush had copied and not finished", "Power loss", "agent/power_loss.py",
        "            data.truncate(cut.start)\n", "",
        (POWER_LOSS,)),
    Bug("a05", "a torn power loss keeps all of it", "Power loss", "agent/power_loss.py",
        "    left = 0 if mode is Mode.ALL or not total else rng.randrange(total)\n",
        "    left = 0 if mode is Mode.ALL or not total else total\n",
        (POWER_LOSS,)),
    Bug("c01", "a fault may begin while the experiment is healing", "Write-ahead", f"{CONTROLLER}/ledger.py",
        "            self._require_running(thing)\n            out =", "            out =",
        (f"{UNIT}/test_ledger.py",)),
    Bug("c02", "a fault is made although it could not be written down", "Write-ahead", f"{CONTROLLER}/ledger.py",
        "                        raise ToolTrouble(f\"the experiment's status cannot be written: {error}\") from error\n",
        "                        return\n",
        (f"{UNIT}/test_ledger.py",)),
    Bug("c03", "brokers that are out for another reason do not count", "Budget", f"{CONTROLLER}/budget.py",
        "    gone = {*out, *targets}\n", "    gone = {*targets}\n",
        (f"{UNIT}/test_budget.py",)),
    Bug("c04", "the Lease is given back while faults are on", "Healing", f"{CONTROLLER}/experiments.py",
        "    if left:\n        return _undo(o, left)\n    if o.own_cluster", "    if o.own_cluster",
        (f"{UNIT}/test_experiments.py",)),
    Bug("c05", "a fault in a pod whose agent does not answer counts as over", "Healing", f"{CONTROLLER}/experiments.py",
        "    return expires is None or now > expires + timedelta(seconds=EXPIRY_MARGIN_SECONDS)\n",
        "    return expires is None or now > expires - timedelta(days=1)\n",
        (f"{UNIT}/test_experiments.py",)),
    Bug("c06", "agents are not asked again once the runner is gone", "Healing", f"{CONTROLLER}/experiments.py",
        "return Recover(_agents(o, left), settle=False) if left", "return Recover(_agents(o, left), settle=True) if left",
        (f"{UNIT}/test_experiments.py",)),
    Bug("c07", "a cluster that does not allow chaos is broken all the same", "Opt-in", f"{CONTROLLER}/admission.py",
        "    if not ((cluster.get(\"spec\") or {}).get(\"chaos\") or {}).get(\"allowed\"):\n",
        "    if not (cluster.get(\"spec\") or {}).get(\"chaos\"):\n",
        (f"{UNIT}/test_experiments.py",)),
    Bug("c08", "a schedule begins an experiment while another one goes on", "Forbid", f"{CONTROLLER}/schedules.py",
        "    if active:\n", "    if active and spec.suspend:\n",
        (f"{UNIT}/test_schedules.py",)),
    Bug("c09", "a history keeps one more than it should", "History limits", f"{CONTROLLER}/schedules.py",
        "        if len(found) > limit:\n", "        if len(found) > limit + 1:\n",
        (f"{UNIT}/test_schedules.py",)),
)  # fmt: skip
