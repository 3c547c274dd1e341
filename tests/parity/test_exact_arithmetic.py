"""No library fuses a multiplication with an addition on its own, whatever flags it is built with."""

import json
import os
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from cases import cases
from own_tasks import OWN_TASKS

import torchrl_pool
from torchrl_pool import task_info

CHECKOUT = Path(__file__).parents[2]
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


# With -ffp-contract=off GCC 12 fuses here, if the processor may have such instructions.
ALTERNATE = """
void Alternate(const double* a, const double* b, const double* c, double* __restrict out) {
  out[0] = a[0] * b[0] - c[0];
  out[1] = a[1] * b[1] + c[1];
}
"""


def compile_as_an_env(source, flags):
    """The object file of a source, with what a build with these CXXFLAGS compiles an env with."""
    folder = source.parent
    options = ("-DTORCHRL_POOL_PYTHON=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    run = partial(subprocess.run, check=True, capture_output=True, env={**os.environ, "CXXFLAGS": flags})
    run(["cmake", "-S", CHECKOUT, "-B", folder, "-G", "Ninja", *options])
    commands = json.loads((folder / "compile_commands.json").read_text())
    command = next(shlex.split(c["command"]) for c in commands if "cpp/envs/" in c["file"])
    compiled = source.with_suffix(".o")
    run([*command[: command.index("-o")], "-c", source, "-o", compiled], cwd=folder)
    return compiled


@pytest.mark.skipif(
    os.uname().machine != "x86_64" or not shutil.which("cmake") or not shutil.which("ninja"),
    reason="only x86-64 has these flags, and CMake and Ninja are needed",
)
@pytest.mark.parametrize(
    "flags", cases(default=["-march=skylake-avx512", "-Ofast -march=haswell"], also=["-ffast-math -mfma"])
)
def test_flags_of_the_environment_do_not_make_it_fuse(flags, tmp_path):
    source = tmp_path / "alternate.cc"
    source.write_text(ALTERNATE)
    assert functions_that_fuse(compile_as_an_env(source, flags)) == set()
