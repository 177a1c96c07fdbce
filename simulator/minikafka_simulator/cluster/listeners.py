"""Where simulated brokers listen: for clients and for brokers."""

from __future__ import annotations

from minikafka_simulator.machine.loop import BROKERS_PORT, CLIENTS_PORT

CLIENT_LISTENER = "CLIENTS"


def listeners(broker: int) -> dict[str, str]:
    """Return the settings that say so, of one broker."""
    return {
        "listeners": f"{CLIENT_LISTENER}://sim:{CLIENTS_PORT + broker},BROKERS://sim:{BROKERS_PORT + broker}",
        "listener.security.protocol.map": f"{CLIENT_LISTENER}:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
    }
