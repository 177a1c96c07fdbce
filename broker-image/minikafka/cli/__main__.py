"""``python -m minikafka.cli``: the same as the `minikafka` command, for where no script is installed."""

import sys

try:
    from minikafka.cli.main import main

    code = main()
except KeyboardInterrupt:  # during that import; main() itself ends with the same
    code = 130
finally:
    # CPython remembers that a KeyboardInterrupt left an exec() of text (imports have some: named tuples, dataclasses), although
    # it was caught; a program that `-m` started is then ended by SIGINT, whatever its exit code. The next exec() forgets it.
    exec("")
sys.exit(code)
