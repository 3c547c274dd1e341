"""Tables and charts in the documents are what their programs write from the registry and the results."""

import re
import subprocess
import sys

import pytest
from environments import CHECKOUT

pytestmark = pytest.mark.docs

FAMILIES = ["classic", "toy_text", "box2d", "minigrid", "mujoco", "dm_control"]
SLOW = pytest.param("atari", marks=pytest.mark.slow)  # loads 104 games


@pytest.mark.parametrize("family", [*FAMILIES, SLOW])
def test_the_tables_of_tasks_are_those_of_the_registry(family):
    check = (sys.executable, CHECKOUT / ".ci" / "task_tables.py", "--check", family)
    done = subprocess.run(check, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"differs: {done.stdout}; run .ci/task_tables.py"


def test_figures_and_charts_are_those_of_the_results():
    check = (sys.executable, CHECKOUT / ".ci" / "speed_tables.py", "--check")
    done = subprocess.run(check, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"differ: {done.stdout}; run .ci/speed_tables.py"


def test_every_generated_block_has_its_program():
    programs = "".join((CHECKOUT / ".ci" / f"{name}_tables.py").read_text() for name in ("task", "speed"))
    for document in [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]:
        begun = re.findall(r"^<!-- generated: (\S+) -->$", document.read_text(), re.MULTILINE)
        ended = re.findall(r"^<!-- end of generated -->$", document.read_text(), re.MULTILINE)
        assert len(begun) == len(ended), document
        assert not [name for name in begun if f'"{name}"' not in programs], document
