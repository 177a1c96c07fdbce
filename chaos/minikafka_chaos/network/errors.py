"""What the network agent's verbs raise."""


class AgentError(Exception):
    """A verb was not done; one line. `code` is the exit code."""

    code = 3


class BadRequest(AgentError):
    """What was asked cannot be, now or later; nothing was done."""

    code = 2


class NotNow(AgentError):
    """It cannot be done as things are now."""


class NoProcess(NotNow):
    """The pod has no process on this node: it has no network that anybody uses."""
