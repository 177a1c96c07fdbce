"""A verb on the cluster of a data directory: through its control port where one is open, else by this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.session.control import Control
from minikafka_chaos.session.controlled import session_of
from minikafka_chaos.session.verbs import call


def carry_out(data: Path, verb: str, given: Mapping[str, Any]) -> Any:
    """Carry out a verb; its result as plain JSON.

    Raises VerbRefused for one that cannot be, BadScenario where there is no such cluster, ToolTrouble for one that failed.
    """
    control = Control.of(data)
    if control is not None:
        return control.ask(verb, given)
    ground = ProcessesGround(data)
    try:
        ground.attach()
        session = session_of(data, ground)
    except ToolTrouble as error:
        raise BadScenario(f"--data: {error}") from error
    try:
        return call(session, verb, given)
    finally:
        session.close()
