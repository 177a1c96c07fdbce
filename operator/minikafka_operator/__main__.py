"""``python -m minikafka_operator``."""

import sys

from minikafka_operator.command import main

if __name__ == "__main__":
    sys.exit(main())
