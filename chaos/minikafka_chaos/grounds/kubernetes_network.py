"""Faults of the network on Kubernetes: asked of the network agents (`minikafka_chaos.network`), one on each node, by exec.

They are there only where somebody has installed the chart `minikafka-chaos-network`. A fault is made in the pods of its targets,
so it goes with them: in a pod that was replaced nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from minikafka.telemetry.fault_verbs import Verb, verbs

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.kubernetes_agents import ask_agent, at_once
from minikafka_chaos.grounds.kubernetes_api import Namespace, NotReached, Object, Refused
from minikafka_chaos.links.rules import CLIENTS
from minikafka_chaos.scenario.faults import Direction, Fault, Targets
from minikafka_chaos.scenario.scenario import ScenarioSpec
from minikafka_chaos.scenario.steps import Step

NAMESPACE: Final = "minikafka-chaos-network"
"""Where the chart is, unless somebody says otherwise."""
CHART: Final = "charts/minikafka-chaos-network"
LABELS: Final = "app.kubernetes.io/name=minikafka-chaos-network"
CONTAINER: Final = "network-agent"
COMMAND: Final = "minikafka-network"

HOLD_SECONDS: Final = 1800
"""What has no duration is ended by the kernel after so long; the ledger says the same (`controller.ledger.EXPIRY_SECONDS`)."""

VERBS: Final = verbs(lambda rule: rule.peers)
"""Those that take a network agent."""

INSTALL: Final = f"install {CHART} in a namespace of its own (docs/guide/chaos-on-kubernetes.md, Network)"


def steps_with_links(spec: ScenarioSpec) -> Iterable[tuple[Step, Verb]]:
    """Return what of a story takes a network agent."""
    for step in spec.steps:
        for verb in step.fault.verbs if step.fault is not None else ():
            if verb in VERBS:
                yield step, verb


def is_ready(agent: Object) -> bool:
    """Return whether an agent's pod can be asked."""
    status = agent.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return "deletionTimestamp" not in agent["metadata"] and conditions.get("Ready") == "True"


def node_of(pod: Object) -> str:
    """The node that a pod is on; empty while it is on none."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def agents_refusal(namespace: str, agents: Iterable[Object], nodes: Mapping[str, str]) -> str:
    """Why these agents' pods are not enough; empty when they are. `nodes`: the node of each broker's pod, by the pod's name."""
    ready = {node_of(agent) for agent in agents if is_ready(agent)}
    if not ready:
        return f"there is no network agent that is ready in namespace {namespace}: {INSTALL}"
    for pod, node in sorted(nodes.items()):
        if node and node not in ready:
            return f"node {node}, where {pod} is, has no network agent that is ready (namespace {namespace})"
    return ""


class NetworkAgents:
    """The agents in `space`, asked about pods of the namespace `home`. `pod` gives the object of a broker's pod, or None."""

    def __init__(self, space: Namespace, home: str, pod: Callable[[int], Object | None]) -> None:
        self._space = space
        self._home = home
        self._pod = pod
        self.used = False
        """Whether anything was asked for: only then there can be something to undo."""

    def refusal(self, brokers: Iterable[int] = ()) -> str:
        """Return why faults of the network cannot be made here; empty when they can."""
        try:
            found = self._space.find_all("pods", labels=LABELS)
        except Refused as error:
            return f"network agents in namespace {self._space.name} cannot be looked for: {error}; {INSTALL}"
        pods = [pod for broker in brokers if (pod := self._pod(broker)) is not None]
        return agents_refusal(self._space.name, found, {pod["metadata"]["name"]: node_of(pod) for pod in pods})

    # -- faults --------------------------------------------------------------------------------------------------------

    def make(self, fault: Fault, name: str, targets: Targets) -> dict[str, str]:
        """Make a Cut or a Loss, in the pods of all targets; the uids of these pods. `name`: the agents' id of it.

        What was made of one that could not be made wholly is undone again.
        """
        self.used = True
        parameters = fault.parameters
        seconds = HOLD_SECONDS if fault.duration_s is None else fault.duration_s
        words: list[object] = ["--id", name, "--seconds", seconds]
        words += ["--direction", (parameters.direction or Direction.BOTH).value.lower()]
        if fault.verb is Verb.LOSS:
            words += ["--percent", parameters.percent]

        def one(broker: int) -> str:
            pod = self._must(broker)
            self._ask(broker, pod, fault.verb.value.lower(), *words, *self._peers(broker, targets.peers))
            return str(pod["metadata"]["uid"])

        try:
            return dict(zip(map(str, targets.brokers), at_once(one, targets.brokers), strict=True))
        except BaseException:
            self._undo_part(name, targets.brokers)
            raise

    def _undo_part(self, name: str, brokers: Sequence[int]) -> None:
        """Whoever cannot be asked now has it ended by the kernel."""
        for broker in brokers:
            try:
                self.recover([broker], name)
            except ToolTrouble:
                continue

    def heal(self, targets: Targets) -> None:
        """End every fault between the targets and their peers: at both ends, for it may have been made at either."""
        at: dict[int, list[int]] = {}
        for broker, peer in targets.links:
            at.setdefault(broker, []).append(peer)
            if peer != CLIENTS:
                at.setdefault(peer, []).append(broker)

        def one(broker: int) -> None:
            pod = self._pod(broker)
            if pod is not None:
                self._ask(broker, pod, "heal", *self._peers(broker, at[broker]))

        at_once(one, at)

    def recover(
        self, brokers: Iterable[int], name: str | None = None, uids: Mapping[str, str] | None = None
    ) -> list[int]:
        """End one fault, or all, in the pods of these brokers; those in which there was any of it.

        In a pod that is not the one of `uids` any more nothing is left.
        """
        words = [] if name is None else ["--id", name]

        def one(broker: int) -> bool:
            pod = self._pod(broker)
            if pod is None or (uids is not None and uids.get(str(broker)) != pod["metadata"]["uid"]):
                return False
            return bool(self._ask(broker, pod, "recover", *words)["recovered"])

        wanted = list(brokers)
        return [broker for broker, was in zip(wanted, at_once(one, wanted), strict=True) if was]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _peers(self, broker: int, peers: Iterable[int]) -> list[object]:
        words: list[object] = []
        for peer in peers:
            if peer == CLIENTS:
                words.append("--clients")
            elif peer != broker:
                words += ["--peer", self._must(peer)["metadata"]["name"]]
        return words

    def _must(self, broker: int) -> Object:
        pod = self._pod(broker)
        if pod is None:
            raise ToolTrouble(f"broker {broker} has no pod now")
        return pod

    def _ask(self, broker: int, pod: Object, verb: str, *words: object) -> dict[str, Any]:
        """What the agent on the pod's node answers; one that is being replaced is waited for. Raises NotDone, ToolTrouble."""
        node, metadata = node_of(pod), pod["metadata"]

        def agent() -> str:
            found = self._space.find_all("pods", labels=LABELS, fields=f"spec.nodeName={node}")
            ready = next((each["metadata"]["name"] for each in found if is_ready(each)), None)
            if ready is None:
                says = f"node {node} has no network agent that is ready (namespace {self._space.name})"
                raise NotReached(f"broker {broker}: {says}")
            return str(ready)

        whom = [self._home, "--pod", metadata["name"], "--uid", metadata["uid"]]
        command = [COMMAND, verb, *whom, *map(str, words)]
        who = f"broker {broker}: network agent {verb}"
        return ask_agent(self._space, agent, CONTAINER, command, who)
