"""No library fuses a multiplication with an addition on its own, whatever flags it is built with."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from own_tasks import OWN_TASKS

import torchrl_pool
from torchrl_pool import task_info

CHECKOUT = Path(__file__).parents[1]
# Where NumPy fuses, std::fma does, which is then a call of the C library.
LIBRARIES = [Path(torchrl_pool._core.__file__)]
LIBRARIES += sorted({Path(task_info(task).plugin_path) for task in OWN_TASKS})
FUSED = re.compile(r"\bvfn?m(add|sub)")

pytestmark = pytest.mark.skipif(not shutil.which("objdump"), reason="there is no objdump here to look with")


def functions_that_fuse(library):
    shown = subprocess.run(
        ["objdump", "-d", "-C", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    fusing, function = set(), ""
    for line in shown.splitlines():
        if line.endswith(">:"):
            function = line.partition("<")[2][:-2]
        elif FUSED.search(line):
            fusing.add(function)
    return fusing


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_what_is_built_does_not_fuse(library):
    assert functions_that_fuse(library) == set()


def compile_one(folder, source, flags):
    """The object file of one of the sources, as a build with these CXXFLAGS makes it."""
    subprocess.run(
        ["cmake", "-S", CHECKOUT, "-B", folder, "-G", "Ninja", "-DTORCHRL_POOL_PYTHON=OFF"]
        + ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
        env={**os.environ, "CXXFLAGS": flags},
        check=True,
        capture_output=True,
    )
    commands = json.loads((folder / "compile_commands.json").read_text())
    (command,) = (command for command in commands if command["file"].endswith(source))
    (folder / command["output"]).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(command["command"], shell=True, cwd=command["directory"], check=True, capture_output=True)
    return folder / command["output"]


@pytest.mark.skipif(
    os.uname().machine != "x86_64" or not shutil.which("cmake") or not shutil.which("ninja"),
    reason="only x86-64 has these flags, and CMake and Ninja are needed",
)
@pytest.mark.parametrize("flags", ["-march=haswell", "-Ofast -march=haswell", "-ffast-math -mfma"])
def test_flags_of_the_environment_do_not_make_it_fuse(flags, tmp_path):
    """Without more than -ffp-contract=off GCC 12 fuses in this file."""
    assert functions_that_fuse(compile_one(tmp_path, "b2Distance.cpp", flags)) == set()
