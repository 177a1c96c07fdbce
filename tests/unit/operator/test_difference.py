"""What counts as different: not what the API server adds or writes in other words."""

from __future__ import annotations

import time
from typing import Any

import pytest
from minikafka_kube.names import APPLIED_ANNOTATION
from minikafka_operator.manifests.difference import differs, digest, quantity, sealed


@pytest.mark.parametrize(
    ("wished", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {}}, {"a": {"x": 1}}),
        ({"ports": [{"name": "x", "port": 1}]}, {"ports": [{"name": "x", "port": 1, "protocol": "TCP"}]}),
        ({"containers": [{"name": "x"}]}, {"containers": [{"name": "sidecar"}, {"name": "x", "image": "y"}]}),
        ({"volumeMounts": [{"mountPath": "/a"}]}, {"volumeMounts": [{"mountPath": "/b"}, {"mountPath": "/a"}]}),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "0.5"}}),
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}}),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        ({"emptyDir": {"sizeLimit": "1000k"}}, {"emptyDir": {"sizeLimit": "1M"}}),
        ({"verbs": ["get", "list"]}, {"verbs": ["get", "list"]}),
        ({"verbs": []}, {"verbs": []}),
        ({"term": {"namespaces": [], "matchLabels": {}, "note": "", "none": None}}, {"term": {}}),
        ({"tolerations": [{"key": "", "operator": "Exists"}]}, {"tolerations": [{"operator": "Exists"}]}),
        (
            {"tolerations": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
            {"tolerations": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
        ),
    ],
)
def test_the_same(wished: dict[str, Any], found: dict[str, Any]) -> None:
    assert differs(wished, found) == ""


@pytest.mark.parametrize(
    ("wished", "found", "where"),
    [
        ({"a": 1}, {}, "a"),
        ({"a": False}, {}, "a"),
        ({"a": 0}, {}, "a"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b"),
        ({"a": {"b": 1}}, {"a": "text"}, "a"),
        ({"a": [1]}, {"a": "text"}, "a"),
        ({"verbs": ["get"]}, {"verbs": ["get", "list"]}, "verbs"),
        ({"verbs": ["get", "list"]}, {"verbs": ["list", "get"]}, "verbs[0]"),
        (
            {"containers": [{"name": "x", "image": "1"}]},
            {"containers": [{"name": "x", "image": "2"}]},
            "containers[x].image",
        ),
        ({"containers": [{"name": "x"}]}, {"containers": [{"name": "y"}]}, "containers[x]"),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1G"}}, "limits.memory"),
        ({"label": "1Gi"}, {"label": "1024Mi"}, "label"),
        (
            {"env": [{"name": "limits", "value": "1Gi"}]},
            {"env": [{"name": "limits", "value": "1024Mi"}]},
            "env[limits].value",
        ),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": 1}, None, "it is not there"),
    ],
)
def test_different(wished: dict[str, Any], found: dict[str, Any] | None, where: str) -> None:
    assert differs(wished, found) == where


def test_sealed() -> None:
    thing = {"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {"replicas": 1}}
    made = sealed(thing)
    assert made["metadata"]["annotations"] == {"a": "b", APPLIED_ANNOTATION: digest(thing)}
    assert APPLIED_ANNOTATION not in thing["metadata"]["annotations"], "the original stays"
    assert sealed({**thing, "spec": {}})["metadata"]["annotations"] != made["metadata"]["annotations"]
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("2k", 2000), ("1Ki", 1024), ("1500m", 1.5), (3, 3), ("1.5Gi", 1.5 * 2**30)]
)
def test_quantity(text: str, number: float) -> None:
    assert quantity(text) == number


def test_no_quantity() -> None:
    assert quantity("lots") is None
    began = time.process_time()
    assert quantity("0" * 30_000 + "x") is None
    assert time.process_time() - began < 1, "each digit is looked at once"
