"""What can go wrong with a local cluster: every message is one line that says what, and what to do."""


class ClusterError(Exception):
    """Something about a local cluster cannot be done, or failed."""


class BadRequest(ClusterError):
    """The request itself is wrong or contradicts what is recorded; nothing was changed."""


class PortInUse(ClusterError):
    """A port that a broker needs is taken; the message names it and, where readable, the process that holds it."""


class BrokerFailed(ClusterError):
    """A broker ended, or did not get ready in time; the message has the last line of its log."""
