"""The one object whose replacement is a commit: ConfigMap ``<cluster>-metadata``.

A commit must be atomic over many topics and brokers, and Kubernetes writes one object at a time. So everything that a
commit changes is written into this one first, by compare-and-set on its resourceVersion:

- ``records``: brokers and settings, the latest value of each, with the revision of its last change;
- ``topics``: the revision of each topic's last change. A topic is there if and only if its name is here;
- ``journal``: the values of those topics whose MiniKafkaTopic does not show that revision yet;
- ``shown``: those of the journal that an object has shown before. An object that is not there has two meanings, which nothing
  else tells apart: it has yet to be made, or somebody has deleted it, perhaps while no broker ran.

The controller copies journal entries to the topics' status afterwards, and drops them with a later write. A reader that has
each topic at the revision named in ``topics`` knows everything; one that lacks some reads the objects.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from minikafka.metadata.image import TOPIC
from minikafka.metadata.store import StoreError

VERSION = 1
PLAIN, PACKED = "metadata.json", "metadata.json.gz"
SHOWN = "shown"
PLAIN_BYTES_MAX = 128 * 1024
"""Above this the document is compressed, ten times and more; below, a person can read it with kubectl."""

CONFIG_MAP_BYTES_MAX = 1024 * 1024
"""Kubernetes' limit (``MaxSecretSize``, applied to ConfigMaps)."""


@dataclass(frozen=True, slots=True)
class Document:
    """The state as of one write. Immutable; ``after`` and the other methods make the next one."""

    cluster_id: str
    controller_epoch: int = 0
    revision: int = 0
    records: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    journal: Mapping[str, Any] = field(default_factory=dict)
    shown: frozenset[str] = frozenset()
    counters: Mapping[str, int] = field(default_factory=dict)
    resource_version: str = ""
    uid: str = ""

    def after(self, changes: Mapping[str, Any], made_anew: Set[str] = frozenset()) -> Document:
        """With records written (None removes) in one step, at the next revision.

        ``made_anew``: topics that are other ones than those of the same name before, so no object has shown them.
        """
        revision = self.revision + 1
        records, topics, journal, shown = dict(self.records), dict(self.topics), dict(self.journal), set(self.shown)
        for key, value in changes.items():
            name = key.removeprefix(TOPIC)
            if name == key:
                if value is None:
                    records.pop(key, None)
                else:
                    records[key] = (revision, value)
            elif value is None:
                topics.pop(name, None)
                journal.pop(name, None)
                shown.discard(name)
            else:
                if name in made_anew:
                    shown.discard(name)
                elif name in topics and name not in journal:
                    shown.add(name)
                topics[name], journal[name] = revision, value
        return replace(self, revision=revision, records=records, topics=topics, journal=journal, shown=frozenset(shown))

    def trimmed(self, shown: Mapping[str, int]) -> Document:
        """Without the journal entries that the topics' objects show (name -> revision)."""
        journal = {n: v for n, v in self.journal.items() if shown.get(n, -1) < self.topics[n]}
        if len(journal) == len(self.journal):
            return self
        return replace(self, journal=journal, shown=self.shown & journal.keys())

    def newer_than(self, other: Document) -> bool:
        """Whether this is a later write of the same object than ``other``."""
        if self.revision != other.revision:
            return self.revision > other.revision
        if self.resource_version.isdecimal() and other.resource_version.isdecimal():
            return int(self.resource_version) > int(other.resource_version)
        return self.resource_version != other.resource_version

    def goes_back_behind(self, known: Document) -> bool:
        """Whether somebody has put an earlier state in the place of ``known``; not just a late reading of the same object."""
        if self.revision >= known.revision:
            return False
        versions = (self.resource_version, known.resource_version)
        return self.uid != known.uid or (all(v.isdecimal() for v in versions) and int(versions[0]) > int(versions[1]))

    # -- as a ConfigMap -------------------------------------------------------------------------------------------------

    def to_config_map(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """The object to write; raises StoreError when it would be too large for Kubernetes."""
        content = {
            "version": VERSION,
            "clusterId": self.cluster_id,
            "controllerEpoch": self.controller_epoch,
            "revision": self.revision,
            "counters": self.counters,
            "records": self.records,
            "topics": self.topics,
            # The mark beside the state, and not in a list of names: those may be long.
            "journal": {n: {**v, SHOWN: True} if n in self.shown else v for n, v in self.journal.items()},
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
        metadata: dict[str, Any] = {"name": name, "labels": dict(labels)}
        if self.resource_version:
            metadata["resourceVersion"] = self.resource_version
        if len(text) <= PLAIN_BYTES_MAX:
            return {"metadata": metadata, "data": {PLAIN: text.decode()}}
        packed = gzip.compress(text, compresslevel=1, mtime=0)
        if len(packed) > CONFIG_MAP_BYTES_MAX - 1024:
            raise StoreError(
                f"ConfigMap {name}: the cluster's metadata takes {len(packed)} bytes compressed; "
                f"Kubernetes allows {CONFIG_MAP_BYTES_MAX}"
            )
        return {"metadata": metadata, "binaryData": {PACKED: base64.b64encode(packed).decode()}}

    @classmethod
    def from_config_map(cls, value: Mapping[str, Any]) -> Document:
        """Raises StoreError for an object that is not ours or damaged."""
        metadata = value["metadata"]
        try:
            plain = (value.get("data") or {}).get(PLAIN)
            if plain is None:
                plain = gzip.decompress(base64.b64decode((value.get("binaryData") or {})[PACKED]))
            content = json.loads(plain)
            if content["version"] != VERSION:
                raise StoreError(
                    f"ConfigMap {metadata['name']}: version {content['version']} of the format; "
                    f"this program knows version {VERSION}"
                )
            return cls(
                content["clusterId"],
                content["controllerEpoch"],
                content["revision"],
                {k: (r, v) for k, (r, v) in content["records"].items()},
                content["topics"],
                {n: {k: part for k, part in v.items() if k != SHOWN} for n, v in content["journal"].items()},
                frozenset(
                    n for n, v in content["journal"].items() if v.get(SHOWN)
                ),  # earlier versions did not write it
                content["counters"],
                metadata["resourceVersion"],
                metadata["uid"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, OSError, EOFError, zlib.error) as error:
            raise StoreError(f"ConfigMap {metadata['name']}: not the metadata of a cluster ({error!r})") from error
