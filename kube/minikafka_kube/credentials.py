"""Who this process is to the API server: read by the official client, and handed to kopf too, which watches on its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kopf
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

_KUBECONFIG = Path("~/.kube/config")


async def configuration() -> Configuration:
    """Credentials: of ``KUBECONFIG`` when it is set, else of the pod's service account, else of the user's kubeconfig.

    A service account's token is read again every minute, for the kubelet renews it. Raises kopf.LoginError when there are
    no credentials, or none that can be read.
    """
    made = Configuration()
    try:
        if os.environ.get("KUBECONFIG"):
            await load_kube_config(os.environ["KUBECONFIG"], client_configuration=made, persist_config=False)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=made)
        elif _KUBECONFIG.expanduser().exists():
            await load_kube_config(str(_KUBECONFIG.expanduser()), client_configuration=made, persist_config=False)
        else:
            raise kopf.LoginError("no credentials: there is no service account, no KUBECONFIG and no ~/.kube/config")
    except (ConfigException, OSError, yaml.YAMLError) as error:
        raise kopf.LoginError(f"no credentials: {error}") from error
    return made


async def login(**_: Any) -> kopf.ConnectionInfo:
    """The same for kopf, as its login handler. Raises kopf.LoginError."""
    return connection_info(await configuration())


def connection_info(made: Configuration) -> kopf.ConnectionInfo:
    """The client's configuration in kopf's words."""
    scheme, _, token = str(made.api_key.get("BearerToken") or "").strip().rpartition(" ")
    return kopf.ConnectionInfo(
        server=made.host,
        ca_path=made.ssl_ca_cert,
        insecure=not made.verify_ssl,
        scheme=scheme.capitalize() or None,
        token=token or None,
        username=made.username or None,
        password=made.password or None,
        certificate_path=made.cert_file,
        private_key_path=made.key_file,
    )
