"""Bugs in the network agent, which has privileges: a cut without an end, of somebody else, that nobody allowed."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug

AGENT, GROUND = "chaos/minikafka_chaos/network", "chaos/minikafka_chaos/grounds/kubernetes_network.py"
UNIT = "tests/unit/chaos/network/test_agent.py"
NAMESPACES = "tests/unit/chaos/network/test_namespaces.py"
KERNEL = "tests/integration/test_network_rules.py"
CONTROLLER = "tests/unit/chaos/controller/test_network.py"
GROUND_TESTS = "tests/unit/chaos/test_kubernetes_network.py"

NETWORK = (
    Bug("n01", "a cut has no end of the kernel's", "Expiry", f"{AGENT}/rules.py",
        "    timeout = math.ceil(fault.seconds)\n", "    timeout = 0\n",
        (UNIT,)),
    Bug("n02", "connections to the target's port for brokers go on", "Cut", f"{AGENT}/rules.py",
        "        for port in (\"dport\", \"sport\"):\n            left", "        for port in (\"sport\",):\n            left",
        (KERNEL,)),
    Bug("n03", "a cut of what the target sends is one of what it is sent", "Direction", f"{AGENT}/rules.py",
        "    address = \"saddr\" if way == \"in\" else \"daddr\"\n", "    address = \"saddr\"\n",
        (KERNEL,)),
    Bug("n04", "a pod of a cluster that does not allow chaos is cut off", "Opt-in", f"{AGENT}/pods.py",
        "        if not allows_chaos(cluster):\n",
        "        if not (cluster.get(\"spec\") or {}).get(\"chaos\"):\n",
        (UNIT,)),
    Bug("n05", "an owner counts by its name, whatever its uid", "Owners", f"{AGENT}/pods.py",
        "        if owner is None or owner[\"metadata\"][\"uid\"] != uid:\n", "        if owner is None:\n",
        (UNIT,)),
    Bug("n06", "another pod of the same name is cut off", "Owners", f"{AGENT}/pods.py",
        "        if found is None or found[\"metadata\"][\"uid\"] != uid:\n            return None\n        pod",
        "        if found is None:\n            return None\n        pod",
        (UNIT,)),
    Bug("n07", "the node's own network is entered", "Node", f"{AGENT}/namespaces.py",
        "            if os.fstat(fd).st_ino in self._nodes_own():\n", "            if os.fstat(fd).st_ino == 0:\n",
        (NAMESPACES,)),
    Bug("n08", "a process id that was given out again is entered", "Node", f"{AGENT}/namespaces.py",
        "            if self._pod_of(pid) != uid:\n                os.close(fd)\n",
        "            if False:\n                os.close(fd)\n",
        (NAMESPACES,)),
    Bug("n09", "a fault that is asked for again begins anew", "Repetition", f"{AGENT}/agent.py",
        "            if before is None:\n                self._note",
        "            if before is not None:\n                self._remove(where, [before])\n"
        "            if before is None or before.is_over:\n                self._note",
        (UNIT,)),
    Bug("n10", "undoing one fault undoes all", "Overlap", f"{AGENT}/agent.py",
        "if fault_id is None or each.key == rules.key_of(fault_id)]", "if each.id]",
        (UNIT,)),
    Bug("n11", "healing one link heals all", "Overlap", f"{AGENT}/agent.py",
        "for each in hit for element in each.elements if element.peer in names]",
        "for each in hit for element in each.elements]",
        (UNIT,)),
    Bug("n12", "who has forbidden chaos meanwhile cannot end it", "Healing", f"{AGENT}/agent.py",
        "            return await PodLookup(get, ask.namespace, self.node).there(ask.pod, ask.uid)\n",
        "            return await PodLookup(get, ask.namespace, self.node).target(ask.pod, ask.uid)\n",
        (UNIT,)),
    Bug("n13", "what goes on is tidied away", "Expiry", f"{AGENT}/agent.py",
        "if each.is_over and each.key in keys])", "if each.is_over or each.key])",
        (UNIT,)),
    Bug("n14", "clients who ask are not cut off", "Cut", f"{AGENT}/rules.py",
        "\"dport\" if way == \"in\" else \"sport\")\n", "\"sport\" if way == \"in\" else \"dport\")\n",
        (KERNEL,)),
    Bug("n15", "a heal asks the target's agent only", "Healing", GROUND,
        "            if peer != CLIENTS:\n                at.setdefault(peer, []).append(broker)\n", "",
        (GROUND_TESTS,)),
    Bug("n16", "the controller heals without the network agents", "Healing", "chaos/minikafka_chaos/controller/reconciler.py",
        "                    if has_links(seen.status, pod):\n", "                    if not pod.name:\n",
        (CONTROLLER,)),
    Bug("n17", "an experiment begins although a broker's node has no network agent", "Admission", GROUND,
        "        if node and node not in ready:\n", "        if node and not ready:\n",
        (CONTROLLER,)),
)  # fmt: skip
