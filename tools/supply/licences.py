"""Licences of what users of the package and of the images get: from the metadata of what is installed, held against a list.

``docs/reference/licences.md`` is made here (``tools/generated.py``), so `make check` fails at a licence that is not allowed, and
at a package that does not say which it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.message import Message
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import cast

from license_expression import ExpressionError, LicenseExpression, Licensing, get_spdx_licensing

from tools.container.requirements import Locked, normal, selection

ROOT = Path(__file__).resolve().parents[2]
NOT_FOR_USERS = {"dev", "docs", "fuzz"}
"""Extras of who works on the project."""
ALLOWED = {
    "0BSD": "",
    "Apache-2.0": "",
    "BSD-2-Clause": "",
    "BSD-3-Clause": "",
    "ISC": "",
    "MIT": "",
    "MIT-0": "",
    "PSF-2.0": "",
    "LGPL-2.1-or-later": "of libraries that are loaded, not changed: whoever gets them may replace them",
    "MPL-2.0": "of files that are not changed",
}
"""SPDX identifiers, and on which condition."""
BY_CLASSIFIER = {
    "Apache Software License": "Apache-2.0",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Classifiers of PyPI that name one licence."""
LOOKED_UP = {
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "cronsim": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "requests-oauthlib": "ISC",
    "uvloop": "Apache-2.0 OR MIT",
}
"""Of packages whose metadata says it in words or not precisely: what their LICENSE files say."""


class LicenceError(ValueError):
    """A licence is not allowed, or not known; the message names the packages."""


@cache
def _spdx() -> Licensing:
    return get_spdx_licensing()


def parsed(expression: str) -> LicenseExpression | None:
    """Parse an SPDX expression; None for what is none."""
    try:
        return _spdx().parse(expression, validate=True) if expression else None
    except ExpressionError:
        return None


def licence_of(name: str, fields: Message) -> str | None:
    """Find the SPDX expression of a package from its metadata: what it says itself, what was looked up, its classifiers."""
    said = [
        fields.get("License-Expression") or "",
        LOOKED_UP.get(normal(name), ""),
        (fields.get("License") or "").strip(),
    ]
    for expression in said:
        if (found := parsed(expression)) is not None:
            return str(found.render())
    classifiers = [
        line.rpartition(" :: ")[2] for line in fields.get_all("Classifier", []) if line.startswith("License ::")
    ]
    found_by_classifier = {BY_CLASSIFIER[classifier] for classifier in classifiers if classifier in BY_CLASSIFIER}
    return found_by_classifier.pop() if len(found_by_classifier) == 1 else None


def allowed(expression: str) -> bool:
    """Say whether an expression can be met by the list: every part of an AND, one of an OR."""
    licensing = _spdx()

    def met(part: LicenseExpression) -> bool:
        arguments = getattr(part, "args", ())
        if isinstance(part, licensing.AND):
            return all(map(met, arguments))
        if isinstance(part, licensing.OR):
            return any(map(met, arguments))
        return str(part) in ALLOWED

    return met(licensing.parse(expression))


def installed_licence(name: str) -> str | None:
    """Find the licence of an installed package; None where it is not installed, or says none that is known."""
    try:
        return licence_of(name, cast(Message, metadata(name)))
    except PackageNotFoundError:
        return None


def judge(licences: Mapping[str, str | None]) -> None:
    """Raise LicenceError where one is not known or not allowed."""
    wrong = [
        f"{name}: its licence is not known; add what its LICENSE file says to LOOKED_UP in tools/supply/licences.py"
        if licence is None
        else f"{name}: {licence} is not allowed (allowed: {', '.join(ALLOWED)})"
        for name, licence in licences.items()
        if licence is None or not allowed(licence)
    ]
    if wrong:
        raise LicenceError("; ".join(wrong))


def extras_for_users(pyproject: Mapping[str, object]) -> list[str]:
    """List the extras that users of the package install."""
    project = cast(Mapping[str, Mapping[str, object]], pyproject["project"])
    return [name for name in project["optional-dependencies"] if name not in NOT_FOR_USERS]


def users_packages(pyproject: Mapping[str, object]) -> dict[str, tuple[Locked, list[str]]]:
    """Find by name what users may get of the lock, and by which extras; "" is the package itself."""
    base = {package.name for package in selection(ROOT, [])}
    found: dict[str, tuple[Locked, list[str]]] = {}
    for extra in ["", *extras_for_users(pyproject)]:
        for package in selection(ROOT, [extra] if extra else []):
            if not extra or package.name not in base:
                found.setdefault(package.name, (package, []))[1].append(extra)
    return dict(sorted(found.items()))


def current_page() -> str:
    """Make the page. Raises LicenceError."""
    import tomllib

    packages = users_packages(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    licences = {name: installed_licence(name) for name in packages}
    judge(licences)
    rows = [
        f"| {name} | {package.version} | {licences[name]} | {', '.join(extras) if extras != [''] else 'all'} |"
        for name, (package, extras) in packages.items()
    ]
    conditions = [f"| {name} | {condition} |" for name, condition in ALLOWED.items()]
    return "\n".join(
        [
            "# Licences of dependencies",
            "",
            "For anyone who ships MiniKafka: what comes with the package and the images, in which version",
            "(`requirements.lock`), under which licence, and which licences are allowed. MiniKafka itself is",
            "under the Apache License 2.0. Not here: what is needed only to work on MiniKafka; the Debian",
            "packages of images, which bring copyright files of their own; the Java archives inside PySpark,",
            "which its source archive lists.",
            "",
            "Made from the metadata of installed packages by `make docs`; do not edit.",
            "",
            "## Packages",
            "",
            "| package | version | licence | comes with |",
            "|---|---|---|---|",
            *rows,
            "",
            "*all*: with the package itself; else with these extras.",
            "",
            "## Allowed licences",
            "",
            "`make check` fails where a package has none of them, or does not say which. To allow one is a",
            "decision: add it to the list in `tools/supply/licences.py`, with its condition.",
            "",
            "| licence | on which condition |",
            "|---|---|",
            *conditions,
            "",
        ]
    )
