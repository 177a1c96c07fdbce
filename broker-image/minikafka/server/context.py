"""What every part of a broker has at hand: its settings, the time, what is counted and told, and who watches over its work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from minikafka.config import BrokerConfig, ConfigError
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.health import Health
from minikafka.server.machine import Machine
from minikafka.server.observer import BrokerObserver
from minikafka.server.supervision import Supervisor
from minikafka.telemetry.event_limit import EventLimit
from minikafka.telemetry.stats import BrokerStats
from minikafka.transport.channels import Channels

WARN_AGAIN_SECONDS = 60.0
WARNED_KEYS_MAX = 1000


class BrokerContext:
    """Of one broker. It knows none of the parts that use it.

    Args:
        config: the broker's settings.
        machine: time, identities, disk, events and console.
        observer: who watches; nobody unless given.
    """

    def __init__(self, config: BrokerConfig, machine: Machine, observer: BrokerObserver | None = None) -> None:
        self.config = config
        self.broker_id: int = config.node_id
        self.machine = machine
        self.observer = observer or BrokerObserver()
        self.clock = machine.clock
        self.stats = BrokerStats()
        self.events = machine.events(config)
        self.health = Health(self.events.emit, self.clock.now)
        self.supervisor = Supervisor(self.health, self.handler_failed)
        self._warned: dict[str, float] = {}
        self._strangers: defaultdict[str, EventLimit] = defaultdict(lambda: EventLimit(self.clock.now))
        """By listener: who knocks at one must not hide who knocks at another."""
        self.channels = Channels(config, self.events.emit, self.warn_rarely, self.clock.unix_ms)

    def client_id(self, purpose: str) -> str:
        """Under which this broker asks others."""
        return f"broker-{self.broker_id}-{purpose}"

    def check_topic_configs(self, configs: Mapping[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG for an override that is not allowed."""
        try:
            self.config.validate_topic_overrides(configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    # -- one line for the operator, on standard error -----------------------------------------------------------------------

    def warn(self, line: str) -> None:
        """Always."""
        self.machine.tell(self.broker_id, line)

    def warn_rarely(self, key: str, line: str) -> bool:
        """At most once a minute for each ``key``: a retry loop must not fill the disk. True when it was told."""
        now = self.clock.now()
        if now - self._warned.get(key, float("-inf")) < WARN_AGAIN_SECONDS:
            return False
        if len(self._warned) > WARNED_KEYS_MAX:
            self._warned.clear()
        self._warned[key] = now
        self.warn(line)
        return True

    def not_let_in(self, address: str, listener: str, reason: str, principal: str | None = None) -> None:
        """Tell that a client is not let in; a stranger can bring this about as often as he likes."""
        self.stats.failed_authentications += 1
        if self._strangers[listener].takes(object()):
            self.events.emit(
                "authentication_failed", principal=principal, address=address, listener=listener, reason=reason
            )

    def bad_request(self, host: str, problem: str) -> None:
        """A client sent what no broker can make sense of."""
        self.warn_rarely(host, f"bad request from {host}: {problem}")

    def heard_nothing_from(self, whom: str, host: str, port: int) -> None:
        """A broker that took our request has not answered it in time; the connection was closed for it."""
        self.warn_rarely(f"answer of {host}:{port}", f"no answer in time from {whom} at {host}:{port}")

    def handler_failed(self, error: BaseException) -> None:
        """Something broke that nobody expected to: a mistake in this program."""
        self.observer.failed(error)
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        # The module and not the file, which says where somebody's checkout lies.
        place = "?" if where is None else f"{where.tb_frame.f_globals.get('__name__', '?')}:{where.tb_lineno}"
        if self.warn_rarely(place, f"internal error: {error!r} at {place}"):
            self.events.emit("internal_error", error=repr(error), place=place)
