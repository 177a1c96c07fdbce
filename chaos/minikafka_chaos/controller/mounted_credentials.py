"""What the runner's pod has mounted of a secured cluster, as settings of clients. Read anew for each client that is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from minikafka.client.metrics_access import MetricsAccess
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.config.client_properties import client_security
from minikafka.config.keys import ConfigError
from minikafka.security.fresh import read_at_most
from minikafka.security.tls import TlsSettings
from minikafka_kube.names import CA_FILE, METRICS_TOKEN_FILE

from minikafka_chaos.controller.credentials import CERTIFICATE_FILE, METRICS_FOLDER, PASSWORD_FILE, InternalListener
from minikafka_chaos.errors import ToolTrouble

_PASSWORD_BYTES_MAX = 64 << 10


def mounted_security(listener: InternalListener | None, folder: Path) -> ClientSecurity:
    """How clients connect, and as whom. Raises ToolTrouble, which tells no secret, where something is missing or of no use."""
    if listener is None:
        return PLAINTEXT
    properties = {"security.protocol": listener.protocol}
    try:
        if listener.protocol.startswith("SASL"):
            properties["sasl.mechanism"] = "SCRAM-SHA-512"
            properties["sasl.jaas.config"] = read_at_most(folder / PASSWORD_FILE, _PASSWORD_BYTES_MAX).decode()
        elif listener.authentication:
            properties["ssl.keystore.type"] = "PEM"
            properties["ssl.keystore.location"] = str(folder / CERTIFICATE_FILE)
        if listener.tls and ((folder / CA_FILE).exists() or not listener.certificate_secret):
            properties["ssl.truststore.type"] = "PEM"
            properties["ssl.truststore.location"] = str(folder / CA_FILE)
        found = client_security(properties)
    except OSError as error:
        raise ToolTrouble(f"the credentials of the experiment cannot be read: {error}") from error
    except ConfigError as error:
        raise ToolTrouble(f"the credentials of the experiment are of no use: {error}") from error
    if not listener.secured_metrics:
        return found
    metrics = folder / METRICS_FOLDER
    trust = TlsSettings(truststore_location=str(metrics / CA_FILE))
    return replace(found, metrics=MetricsAccess(trust, str(metrics / METRICS_TOKEN_FILE)))
