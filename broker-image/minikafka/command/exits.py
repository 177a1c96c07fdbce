"""Exit codes of every subcommand, and the exception that carries one with its line for the user."""

OK = 0
NO = 1
"""The question was understood and answered, and the answer is no: it is not there, it failed, it is not healthy."""
BAD_INPUT = 2
UNKNOWN = 3
"""It could not be told: nobody answered, or an outcome is unknown."""
INTERRUPTED = 130
BROKEN_PIPE = 141


class CommandError(Exception):
    """Ends the command: one line on standard error, and an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def bad_input(message: str) -> CommandError:
    """Return what the user asked cannot be; nothing was done."""
    return CommandError(BAD_INPUT, message)
