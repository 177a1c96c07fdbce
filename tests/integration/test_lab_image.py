"""The image of the whole lab: a client and the verbs reach it from outside its container, and it leaves in good order."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from minikafka.local.ports import free_base_port

from tests.waiting import until_now

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]
"""It needs an engine (docker), which the script of the images finds or, as root on Debian, installs."""

MAKE = Path(__file__).parents[1] / "e2e/images/make"
TOKEN = "secret"
UP_SECONDS_MAX = 180.0
USER = "65532"

Verb = Callable[..., Any]


class Refused(Exception):
    """A verb was not carried out: status and reason."""


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image() -> str:
    made = subprocess.run([MAKE, "lab"], stdout=subprocess.PIPE, text=True, check=False)
    assert not made.returncode, "the image was not made (see above)"
    return made.stdout.strip()


@pytest.fixture
def base_port() -> int:
    return free_base_port(5)


@pytest.fixture
def lab(image: str, base_port: int) -> Iterator[str]:
    """The name of a container whose brokers are reached at three ports from `base_port` on, and whose verbs at the fifth."""
    name = f"minikafka-lab-{uuid.uuid4().hex[:8]}"
    brokers = f"127.0.0.1:{base_port}-{base_port + 2}:{base_port}-{base_port + 2}"
    ports = ("--publish", brokers, "--publish", f"127.0.0.1:{base_port + 4}:8080")
    asked = ("--advertised-host", "127.0.0.1", "--base-port", str(base_port))
    docker("run", "--detach", "--name", name, *ports, "--env", f"MINIKAFKA_CONTROL_TOKEN={TOKEN}", image, *asked)
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


@pytest.fixture
def verb(lab: str, base_port: int) -> Verb:
    """Has a verb carried out; returns its result."""

    def asked(name: str, token: str = TOKEN, **fields: Any) -> Any:
        url, headers = f"http://127.0.0.1:{base_port + 4}/v1/{name}", {"Content-Type": "application/json"}
        headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(url, json.dumps(fields).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=UP_SECONDS_MAX) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as refused:
            raise Refused(f"{refused.code}: {json.load(refused)['error']}") from refused

    def is_up() -> bool:
        try:
            return bool(asked("status"))
        except OSError:  # nobody listens yet
            return False

    until_now(is_up, seconds=UP_SECONDS_MAX, what=lambda: docker("logs", lab))
    return asked


def test_a_lab_in_a_container_is_broken_and_judged_from_outside(lab: str, verb: Verb, base_port: int) -> None:
    with pytest.raises(Refused, match="401: "):
        verb("status", token="wrong")
    topic = verb("create_topic")
    bootstrap = ",".join(f"127.0.0.1:{base_port + broker}" for broker in range(3))
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, "before")
    assert producer.flush(60) == 0
    killed = verb("kill_leader", topic=topic)
    producer.produce(topic, "after")
    assert producer.flush(60) == 0
    verb("restart", broker=killed)
    verb("wait_full_isr", topic=topic)
    assert len(verb("records", topic=topic)) == 2
    assert verb("verdict")["verdict"] == "Passed"

    processes = docker("top", lab, "-eo", "pid,uid,stat,args").splitlines()[1:]
    assert {line.split()[1] for line in processes} == {USER}
    assert not [line for line in processes if line.split()[2].startswith("Z")], "who was killed is waited for"
    docker("stop", "--time", "60", lab)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", lab) == "0"
