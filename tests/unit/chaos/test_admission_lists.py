"""The commands and options that the charts' admission policies let through are those that the agents have."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from minikafka.agent.command import add_arguments
from minikafka_chaos.network.command import SERVE, parser

ROOT = Path(__file__).resolve().parents[3]
CHAOS = ROOT / "charts/minikafka-chaos/templates/_helpers.tpl"
NETWORK = ROOT / "charts/minikafka-chaos-network/templates/admission.yaml"
OWN_FILES = {"--config", "--folder"}
"""What would have an agent use other files than its own."""
BY_HAND = {"--until"}
"""What nobody asks for over the API server: runners say how many seconds."""


def listed(file: Path, before: str) -> list[str]:
    """The JSON list that follows a text in a template."""
    _, _, after = file.read_text(encoding="utf-8").partition(before)
    found = re.match(r"\s*(\[.*?\])", after)
    assert found, f"{file.name}: no list after {before}"
    names: list[str] = json.loads(found[1])
    return names


def commands(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """What an agent can be asked for; it serves by itself."""
    (verbs,) = (action for action in made._actions if isinstance(action, argparse._SubParsersAction))
    return {name: verb for name, verb in verbs.choices.items() if name != SERVE}


def test_a_command_that_is_new_in_an_agent_is_in_the_policy_of_its_chart() -> None:
    """Else the API server refuses it, on Kubernetes alone."""
    agent = argparse.ArgumentParser()
    add_arguments(agent)
    verbs = commands(agent)
    assert sorted(listed(CHAOS, '{{- define "minikafka-chaos.verbs" -}}')) == sorted(verbs)
    options = {option for verb in verbs.values() for action in verb._actions for option in action.option_strings}
    allowed = listed(CHAOS, '{{- define "minikafka-chaos.options" -}}')
    assert sorted(allowed) == sorted(options - OWN_FILES - BY_HAND - {"-h", "--help"})
    assert sorted(listed(NETWORK, "variables.command[1] in")) == sorted(commands(parser()))
