"""`minikafka charts`: where the Helm charts are, so that one installation has all that Kubernetes needs."""

from __future__ import annotations

import argparse
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(_args: argparse.Namespace) -> int:
    """Print the folder."""
    print(folder())
    return 0


def folder() -> Path:
    """Return where the charts are: inside the package when installed, beside it in a checkout. The CRDs are beside them."""
    installed = PACKAGE / "files" / "charts"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "charts"
