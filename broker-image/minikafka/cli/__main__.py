"""``python -m minikafka.cli``: the same as the `minikafka` command, for where no script is installed."""

import sys

from minikafka.cli.main import main

sys.exit(main())
