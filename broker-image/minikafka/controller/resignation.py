"""When a controller gives its term up for the good of the others, and for how long it leaves the lease to them.

A controller that hears fewer than half of the brokers is probably itself the one that nobody reaches. One without a
majority resigns in KRaft too (KAFKA-15489), so that those who hear each other can go on. Here the lease can be taken by
anybody who reaches the store, so it also has to be left alone for a while; and if nobody did better meanwhile, a
controller acts on what it hears.
"""

from __future__ import annotations

from minikafka.controller.brokers import BrokerRegistry


class ControllerResignation:
    """One broker's, from its start to its end: it outlives the broker's terms as the controller.

    ``session``: the brokers' session timeout in seconds. Times are seconds of the caller's clock.
    """

    def __init__(self, session: float) -> None:
        self._seconds = 2 * session
        """The others see the lease unrenewed for a session, and may have looked at it a moment too early."""
        self._may = True
        self._until = 0.0

    def is_due(self, brokers: BrokerRegistry, now: float) -> bool:
        """To be asked at each tick of a term: whether the term must end now.

        Not again after nobody else took the lease, until it has heard most of the brokers once more.
        """
        if self._may and brokers.is_cut_off(now):
            self._may = False
            self.begin(now)
            return True
        self._may |= brokers.hears_most(now)
        return False

    def begin(self, now: float) -> None:
        """This broker cannot be the controller now, for reasons of its own."""
        self._until = now + self._seconds

    def leaves_the_lease(self, now: float) -> bool:
        """The lease is left to the others."""
        return now < self._until
