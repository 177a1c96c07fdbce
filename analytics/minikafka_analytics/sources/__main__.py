"""Runs `python -m minikafka_analytics.sources`; see `collect`."""

import sys

from minikafka_analytics.sources.collect import main

sys.exit(main())
