"""Builds what is compiled (`minikafka.protocol._record_walk`) when the project is installed or made a wheel.

Where there is no C compiler, or no header of Python's, the installation goes on without it: everything works, and a broker pays
more for each record that it validates.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("broker-image/minikafka/protocol")
NAME = "_record_walk"
ABI = "cp311"
"""The oldest Python whose limited API it is built for; a newer one loads the same file."""


class CompiledParts(BuildHookInterface[Any]):
    """Hatchling calls it before it collects the files of a wheel, and of an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place, and say in the wheel's tag for what. A failure is told, and is none of the installation."""
        del version
        folder = Path(self.root) / FOLDER
        for stale in folder.glob(f"{NAME}.*.so"):
            stale.unlink()
        try:
            compiled = _compile(folder)
        except Exception as error:  # whatever setuptools raises where there is no compiler
            self.app.display_warning(f"{NAME} was not compiled ({error}); records are validated in Python, slower")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{ABI}-abi3-{platform}"
        build_data["artifacts"].append(str(compiled.relative_to(self.root)))


def _compile(folder: Path) -> Path:
    from setuptools import Distribution, Extension

    extension = Extension(NAME, [str(folder / f"{NAME}.c")], py_limited_api=True, extra_compile_args=["-O2", "-g0"])
    distribution = Distribution({"name": NAME, "ext_modules": [extension]})
    command = distribution.get_command_obj("build_ext")
    command.build_lib = str(folder)
    command.build_temp = str(Path(sysconfig.get_path("scripts")).parent / "build-temp")
    command.ensure_finalized()
    command.run()
    (compiled,) = folder.glob(f"{NAME}.*{sysconfig.get_config_var('SHLIB_SUFFIX') or '.so'}")
    return compiled


if __name__ == "__main__":
    print(_compile(Path(__file__).resolve().parents[1] / FOLDER), file=sys.stderr)
