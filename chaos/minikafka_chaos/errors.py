"""What can go wrong in this package apart from what it looks for: every message is one line that says what to do."""


class ToolTrouble(Exception):
    """The tool or the machine failed, not the cluster under test: the verdict is Error."""


class BadScenario(ValueError):
    """A scenario that cannot be run as it stands: names the field and what is allowed."""


class NotSupported(BadScenario):
    """The ground cannot do what the scenario asks for."""
