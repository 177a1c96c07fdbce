"""What is installed, by which hashes, under which licences, and what is written down of it (tools/supply, tools/container)."""

from __future__ import annotations

import json
import re
import tarfile
import tomllib
from email.message import Message
from pathlib import Path

import pytest

from tests.forms import for_each
from tools.container.requirements import LOCK, read, selection
from tools.supply import sbom
from tools.supply.licences import LicenceError, allowed, judge, licence_of
from tools.supply.lock import differences

ROOT = Path(__file__).parents[2]
A, B, C, D, E = (f"--hash=sha256:{digit * 64}" for digit in "abcde")
PYPROJECT = """
[project]
name = "minikafka"
dependencies = ["Base_Part>=1", "only-chaos"]
[project.optional-dependencies]
one = ["one>=2"]
both = ["minikafka[one]", "other==3"]
[dependency-groups]
tool = ["tool"]
broker = ["base-part"]
"""
LOCKED = f"""# by hand
base-part==1.5 \\
    {A} \\
    {B}
    # via minikafka (pyproject.toml)
only-chaos==1 \\
    {A}
    # via minikafka (pyproject.toml)
deep==7 ; sys_platform == 'linux' \\
    {C}
    # via
    #   one
    #   tool
one==2.0.post1 \\
    {C}
    # via minikafka (pyproject.toml)
other==3 \\
    {D}
    # via minikafka (pyproject.toml)
tool==4 \\
    {E}
    # via minikafka (pyproject.toml:tool)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / LOCK).write_text(LOCKED)
    return tmp_path


def test_each_takes_its_part_of_the_lock(folder: Path) -> None:
    """What an extra or group requires, and what that requires, by hash; and a wheel that was built instead of its source."""
    parts = {
        (): ["base-part", "only-chaos"],
        ("one",): ["base-part", "deep", "one", "only-chaos"],
        ("both",): ["base-part", "deep", "one", "only-chaos", "other"],
        ("tool",): ["deep", "tool"],
        ("one", "tool"): ["base-part", "deep", "one", "only-chaos", "tool"],
        ("broker",): ["base-part"],
        ("broker", "one"): ["base-part", "deep", "one"],
    }
    assert {names: [one.name for one in selection(folder, names)] for names in parts} == parts
    base, _ = selection(folder, [])
    assert base.lines() == ["base-part==1.5 \\", f"    {A} \\", f"    {B}"]
    assert selection(folder, ["tool"])[0].lines() == ["deep==7 ; sys_platform == 'linux' \\", f"    {C}"]
    (folder / "built.lock").write_text(f"base-part==1.5 \\\n    {E}\n")
    assert selection(folder, [])[0].hashes == [E.removeprefix("--hash=")]


def test_a_lock_that_is_none_is_refused(folder: Path) -> None:
    refusals = {
        "none": "no such extra or group: none (there are: one, both, tool, broker)",
        f"late==1 \\\n    {A}\nhttps://x": "line 4: only NAME==VERSION with --hash=sha256:... is allowed: https://x",
        "base-part==1.5\n": "base-part has no hash",
        f"late==1\nlate==2 \\\n    {A}\n": "line 2: late is there twice",
        f"one==2 \\\n    {A}\n": f"{LOCK} is older than pyproject.toml: it lacks base-part; run make lock",
    }
    for text, said in refusals.items():
        if text != "none":
            (folder / LOCK).write_text(text)
        with pytest.raises(SystemExit) as refused:
            selection(folder, ["none"] if text == "none" else [])
        assert said in str(refused.value) or said.replace("line 4", "line 3") in str(refused.value)


def test_a_lock_that_is_older_than_its_project_is_noticed(folder: Path) -> None:
    assert differences(folder) == []
    changed = PYPROJECT.replace("one>=2", "one>=2.1").replace('"tool"', '"tool", "new"').replace(', "other==3"', "")
    (folder / "pyproject.toml").write_text(changed)
    assert differences(folder) == [
        f"pyproject.toml requires new, which {LOCK} does not have",
        f"pyproject.toml requires one>=2.1, and {LOCK} has 2.0.post1",
        f"{LOCK} has other, which nothing requires",
    ]


def test_a_broker_requires_nothing_that_the_package_does_not() -> None:
    """A group cannot be included in a package's dependencies, so it names some of them; the bounds are theirs alone."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    bare = {re.sub(r"[><=~!][^;]*", "", requirement, count=1) for requirement in pyproject["project"]["dependencies"]}
    assert set(pyproject["dependency-groups"]["broker"]) < bare


def test_no_address_is_in_the_lock() -> None:
    assert not re.search(r"://|@|--(extra-)?index", (ROOT / LOCK).read_text())


@for_each(
    [
        ({"License-Expression": "MIT AND Apache-2.0"}, "MIT AND Apache-2.0", True),
        ({"License-Expression": "GPL-3.0-only OR MIT"}, "GPL-3.0-only OR MIT", True),
        ({"License-Expression": "GPL-3.0-only AND MIT"}, "GPL-3.0-only AND MIT", False),
        ({"License": "AGPL-3.0-only"}, "AGPL-3.0-only", False),
        ({"License": "see LICENSE", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT", True),
        ({"License": "", "Classifier": "License :: OSI Approved :: BSD License"}, None, False),
        ({}, None, False),
    ]
)
def test_a_licence_is_allowed_or_it_fails(fields: dict[str, str], expected: str | None, fine: bool) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value
    found = licence_of("made-up", metadata)
    assert found == expected
    assert fine == (found is not None and allowed(found))
    if fine:
        judge({"made-up": found})
    else:
        with pytest.raises(LicenceError, match=r"^made-up: (its licence is not known|.* is not allowed)"):
            judge({"made-up": found})


def image(folder: Path, version: str = "") -> Path:
    """The files of an image of the broker that say what is installed; with another version of h11."""
    packages = folder / "opt/minikafka/lib/python3.11/site-packages"
    for package in sbom.locked_in(sbom.dockerfiles()["broker"]):
        info = packages / f"{package.name}.dist-info"
        info.mkdir(parents=True)
        found = version if version and package.name == "h11" else package.version
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {found}\n")
    status = folder / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    paragraph = "Package: {}\nStatus: {}\nArchitecture: amd64\nVersion: 1:2.0-1\n\n"
    installed = ("libc6", "install ok installed"), ("gone", "deinstall ok config-files")
    status.write_text("".join(paragraph.format(*one) for one in installed))
    return folder


def test_an_image_is_what_its_files_say(tmp_path: Path) -> None:
    """From a folder and from an archive of it alike; what the lock does not have for the image is no image of it."""
    lock = sbom.locked_in(sbom.dockerfiles()["broker"])
    root = image(tmp_path / "root")
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(root, ".")
    found = [
        {str(one.purl) for one in sbom.found_in(path, lock, "minikafka")} for path in (root, tmp_path / "root.tar")
    ]
    assert found[0] == found[1]
    assert found[0] == {
        "pkg:deb/debian/libc6@1:2.0-1?arch=amd64",
        *(f"pkg:pypi/{one.name}@{one.version}" for one in lock),
    }
    with pytest.raises(sbom.Refused, match=r"h11 0\.1 is not what requirements\.lock has"):
        sbom.found_in(image(tmp_path / "other", "0.1"), lock, "minikafka")
    with pytest.raises(sbom.Refused, match="no file system of a Debian image"):
        sbom.found_in(root / "opt", [], "minikafka")


def test_a_document_is_valid_and_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    packages = [one for one in selection(ROOT, []) if one.name in ("h11", "rich")]
    made = [
        sbom.document("minikafka", sbom.ComponentType.LIBRARY, "1.0", map(sbom.python_component, packages))
        for _ in "ab"
    ]
    assert made[0] == made[1]
    document = json.loads(made[0])
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    by_name = {one["name"]: one for one in document["components"]}
    assert by_name["h11"]["licenses"] == [{"license": {"id": "MIT"}}]
    hashes = by_name["h11"]["externalReferences"][0]["hashes"]
    assert {f"sha256:{one['content']}" for one in hashes} == set(read(ROOT / LOCK)["h11"].hashes)
    packages[0].hashes = ["sha256:none"]
    with pytest.raises(sbom.Refused, match=r"^minikafka: CycloneDX's schema does not allow it"):
        sbom.document("minikafka", sbom.ComponentType.LIBRARY, "1.0", map(sbom.python_component, packages))


def test_every_image_is_known_and_installs_from_the_lock() -> None:
    """No Dockerfile that users build is without a document, none installs by pip itself, none ends as root but the agent."""
    folders = [
        ROOT / folder for folder in ("analytics", "broker-image", "chaos", "kube", "operator", "simulator", "tools")
    ]
    files = {path for folder in folders for path in folder.rglob("Dockerfile")}
    assert files == set(sbom.dockerfiles().values())
    for name, path in sbom.dockerfiles().items():
        text = path.read_text()
        assert "pip install" not in text
        assert bool(sbom.locked_in(path)) == (name != "log-collector")
        assert re.findall(r"^USER (\S+)$", text, re.MULTILINE)[-1:] == [
            "0:0" if name == "network-agent" else "65532:65532"
        ]
