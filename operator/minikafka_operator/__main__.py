"""The command ``minikafka-operator`` of an installation, where the extra that it needs may be missing; also by ``python -m``."""

from __future__ import annotations

import sys

BAD_INPUT = 2


def main() -> int:
    """Run the operator; the exit code. One line where the installation lacks the extra."""
    try:
        from minikafka_operator.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("minikafka"):
            raise
        need = "needs the extra 'operator': pip install 'minikafka[operator]'"
        print(f"minikafka-operator: {need} ({error})", file=sys.stderr)
        return BAD_INPUT
    return run()


if __name__ == "__main__":
    sys.exit(main())
