"""Where the API server is and who we are: service accounts, kubeconfig files, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka.kubernetes import credentials
from minikafka.kubernetes.credentials import Access, find_access
from minikafka.metadata.store import StoreError


def kubeconfig(folder: Path, content: dict[str, Any] | str) -> dict[str, str]:
    file = folder / "kubeconfig"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"KUBECONFIG": str(file)}


def config(user: dict[str, Any], server: str = "http://localhost:8001/base", **context: str) -> dict[str, Any]:
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "k", "user": "u", **context}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }


def test_a_kubeconfig_file(tmp_path: Path) -> None:
    access = find_access(kubeconfig(tmp_path, config({"token": "secret"}, namespace="ns")))
    assert (access.host, access.port, access.base) == ("localhost", 8001, "/base")
    assert (access.token(), access.namespace, access.tls) == ("secret", "ns", None)


def test_in_yaml(tmp_path: Path) -> None:
    text = (
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: k, user: u}}]\n"
        "clusters:\n- name: k\n  cluster: {server: 'http://[::1]:8001'}\n"
        "users:\n- name: u\n  user: {tokenFile: token}\n"
    )
    (tmp_path / "token").write_text("from a file\n")
    access = find_access(kubeconfig(tmp_path, text))
    assert (access.host, access.address, access.token()) == ("::1", "[::1]:8001", "from a file")
    assert access.namespace == "default"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "KUBECONFIG="),
        ("[]", "not a kubeconfig file"),
        ({}, "no entry None among its contexts"),
        ({**config({}), "users": []}, "no entry 'u' among its users"),
        (config({}, server="localhost"), "not a URL; allowed: https://HOST:PORT"),
        (config({"exec": {"command": "aws"}}, server="https://x"), "credential plugins are not supported"),
    ],
)
def test_what_is_wrong_with_it(tmp_path: Path, content: dict[str, Any] | str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem) as refused:
        find_access(kubeconfig(tmp_path, content))
    assert "\n" not in str(refused.value)


def test_an_error_repeats_no_line_of_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"KUBECONFIG=.*line 3") as refused:
        find_access(kubeconfig(tmp_path, "users:\n- user: {token: SECRET\n"))
    assert "SECRET" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        find_access({"KUBECONFIG": str(tmp_path / "none")})
    with pytest.raises(StoreError, match="more than 16777216 bytes"):
        find_access({"KUBECONFIG": "/dev/zero"})


def test_no_pod(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"this is no pod .* and KUBECONFIG names no file"):
        find_access({}, tmp_path)


def test_a_pod_without_a_service_account(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the pod needs a service account with its token mounted"):
        find_access({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, tmp_path)


def test_a_token_that_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KEP-1205: the kubelet writes a new one; so does somebody who was refused with the old one."""
    file, now = tmp_path / "token", [0.0]
    monkeypatch.setattr(credentials.time, "monotonic", lambda: now[0])
    file.write_text("one")
    access = Access("http://localhost", None, token_file=file)
    assert access.token() == "one"
    file.write_text("two")
    assert access.token() == "one"
    access.token_refused()
    assert access.token() == "two"
    file.write_text("three")
    now[0] = credentials.TOKEN_READ_SECONDS + 1
    assert access.token() == "three"
    file.unlink()
    now[0] *= 3
    with pytest.raises(StoreError, match="token"):
        access.token()
