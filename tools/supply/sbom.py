"""``python -m tools.supply.sbom`` (`make sbom`): what the package and each image are made of, as CycloneDX 1.6 in JSON.

The package: what requirements.lock has of all extras for users, by hash, with licences. An image: what its Dockerfile installs
of the lock. With ``--file-system IMAGE=PATH``, a folder or a tar archive (`docker export`) of an image's files, it is what these
hold: Debian packages, and Python packages, which are held against the lock. Each document is validated by CycloneDX's schema.
The same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from debian.deb822 import Packages
from packageurl import PackageURL

from tools.container.requirements import LOCK, Locked, normal, selection
from tools.supply.licences import extras_for_users, installed_licence

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = Path("build/sbom")
INSTALLS = re.compile(r"^RUN sh /build/install /opt/minikafka(.*)$", re.MULTILINE)
OF_DEBIAN = re.compile(r"^(\./)?var/lib/dpkg/status(\.d/[^/]+)?$")
OF_PYTHON = re.compile(r"^(\./)?.*/(site|dist)-packages/[^/]+\.dist-info/METADATA$")
OWN_FOLDER = "/opt/minikafka/"
_NAMESPACE = uuid.UUID("5f0f4b7e-3c6d-5d0e-9c0a-6d696e696b61")


class Refused(Exception):
    """There is nothing right that could be written; the message says why."""


def dockerfiles() -> dict[str, Path]:
    """Find the Dockerfiles of the images, by image."""
    found = {"broker": "broker-image", "operator": "operator", "chaos": "chaos", "lab": "chaos/lab"}
    found |= {
        "network-agent": "chaos/network-agent",
        "analytics": "analytics",
        "log-collector": "analytics/log-collector",
    }
    return {image: ROOT / folder / "Dockerfile" for image, folder in found.items()}


def locked_in(dockerfile: Path) -> list[Locked]:
    """Select what a Dockerfile installs of the lock."""
    found = INSTALLS.search(dockerfile.read_text(encoding="utf-8"))
    return selection(ROOT, found[1].split()) if found else []


def _licensed(component: Component, expression: str | None) -> Component:
    if expression is not None:
        component.licenses.add(LicenseFactory().make_from_string(expression))
    return component


def python_component(package: Locked) -> Component:
    """Make the component of a locked package; its hashes are those of its files on any index."""
    purl = PackageURL("pypi", None, package.name, package.version)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest.partition(":")[2]) for digest in package.hashes]
    files = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=hashes)
    component = Component(
        name=package.name, version=package.version, purl=purl, bom_ref=str(purl), external_references=[files]
    )
    return _licensed(component, installed_licence(package.name))


def debian_components(status: bytes) -> Iterator[Component]:
    """Yield the installed packages of dpkg's status file. Their licences are in Debian's copyright files."""
    for package in Packages.iter_paragraphs(status, use_apt_pkg=False):
        if package.get("Status", "install ok installed").split()[-1] == "installed":
            qualifiers = {"arch": package["Architecture"]}
            purl = PackageURL("deb", "debian", package["Package"], package["Version"], qualifiers)
            yield Component(name=package["Package"], version=package["Version"], purl=purl, bom_ref=str(purl))


def contents(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what says which packages there are in a folder or tar archive: paths and bytes. Raises Refused for neither."""
    wanted = (OF_DEBIAN, OF_PYTHON)
    if root.is_dir():
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if any(pattern.match(name) for pattern in wanted) and path.is_file():
                yield name, path.read_bytes()
        return
    try:
        with tarfile.open(root) as archive:
            for member in archive:
                if any(pattern.match(member.name) for pattern in wanted) and (file := archive.extractfile(member)):
                    yield member.name, file.read()
    except (OSError, tarfile.TarError) as error:
        raise Refused(f"--file-system: {root}: a folder or a tar archive is allowed ({error})") from None


def found_in(root: Path, lock: Sequence[Locked], own: str) -> list[Component]:
    """List the components of a file system. Raises Refused where Python packages of the image are not those of the lock."""
    locked = {package.name: package for package in lock}
    components, installed, debian = [], set(), False
    for name, content in contents(root):
        if OF_DEBIAN.match(name):
            debian = True
            components += debian_components(content)
            continue
        fields = email.message_from_bytes(content)
        python = normal(fields["Name"])
        if python == own:
            continue
        package = locked.get(python)
        if f"/{PurePosixPath(name)}".replace("/./", "/").startswith(OWN_FOLDER):
            if package is None or package.version != fields["Version"]:
                raise Refused(f"{root}: {name}: {python} {fields['Version']} is not what {LOCK} has for this image")
            installed.add(python)
        components.append(python_component(package or Locked(python, fields["Version"], "", [], set())))
    if not debian:
        raise Refused(f"{root}: there is no var/lib/dpkg/status in it: no file system of a Debian image")
    if missing := sorted(locked.keys() - installed):
        raise Refused(f"{root}: {missing[0]}, which {LOCK} has for this image, is not in it")
    return components


def commit_time() -> datetime:
    """Return SOURCE_DATE_EPOCH, or the time of the commit that is checked out."""
    seconds = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    return datetime.fromtimestamp(int(seconds), UTC)


def document(name: str, kind: ComponentType, version: str, components: Iterable[Component]) -> str:
    """Make the document, and validate it. Raises Refused where CycloneDX's schema does not allow it."""
    subject = _licensed(Component(name=name, type=kind, version=version, bom_ref=f"{name}@{version}"), "Apache-2.0")
    unique = {component.bom_ref.value: component for component in components}
    bom = Bom(
        components=unique.values(), serial_number=uuid.uuid5(_NAMESPACE, "\n".join([name, version, *map(str, unique)]))
    )
    bom.metadata.timestamp = commit_time()
    bom.metadata.component = subject
    bom.register_dependency(subject, unique.values())
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise Refused(f"{name}: CycloneDX's schema does not allow it: {error}")
    return text + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 all documents are written, 1 an image holds what the lock does not, 2 bad input."""
    parser = argparse.ArgumentParser(prog="make sbom", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--output", type=Path, default=ROOT / OUTPUT, help=f"a folder (default: {OUTPUT})")
    parser.add_argument("--file-system", action="append", default=[], metavar="IMAGE=PATH", help="an image's files")
    options = parser.parse_args(arguments)
    images, roots = dockerfiles(), {}
    for given in options.file_system:
        image, _, path = given.partition("=")
        if image not in images or not Path(path).exists():
            parser.error(
                f"--file-system: {given}: IMAGE=PATH is allowed; an image: {', '.join(images)}; a path that exists"
            )
        roots[image] = Path(path)
    from minikafka import __version__ as version

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        package = map(python_component, selection(ROOT, extras_for_users(pyproject)))
        texts = {"minikafka": document("minikafka", ComponentType.LIBRARY, version, package)}
        for image, dockerfile in images.items():
            lock = locked_in(dockerfile)
            if image in roots:
                components = found_in(roots[image], lock, "minikafka")
            elif lock:
                components = [python_component(package) for package in lock]
            else:
                print(f"{image}: nothing of {LOCK} is in it; for Debian's packages: --file-system {image}=PATH")
                continue
            texts[image] = document(f"minikafka/{image}", ComponentType.CONTAINER, version, components)
    except Refused as error:
        print(f"make sbom: {error}", file=sys.stderr)
        return 1
    for name, text in texts.items():
        path = options.output / f"{name}.cdx.json"
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(json.loads(text)['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
