"""``python -m minikafka_chaos.controller``."""

import sys

from minikafka_chaos.controller.main import main

sys.exit(main())
