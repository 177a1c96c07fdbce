"""What the agent's verbs raise."""


class AgentError(Exception):
    """A verb was not done; one line. `code` is the exit code."""

    code = 3


class BadRequest(AgentError):
    """What was asked cannot be, now or later; nothing was done."""

    code = 2


class NotNow(AgentError):
    """It cannot be done as things are now."""
