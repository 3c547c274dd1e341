"""Tables, counts and charts in the documents are those of the registry and of the results."""

import re
import subprocess
import sys

import pytest
from environments import CHECKOUT

from torchrl_pool import list_tasks

pytestmark = pytest.mark.docs

FAMILIES = {
    "classic": "Classic control",
    "toy_text": "Toy Text",
    "box2d": "Box2D",
    "minigrid": "MiniGrid and BabyAI",
    "mpe": "Multi Particle Environments",
    "sisl": "SISL",
    "mujoco": "MuJoCo",
    "dm_control": "DeepMind Control",
    "robotics": "Gymnasium-Robotics",
    "atari": "Atari",
}


@pytest.mark.parametrize(
    "program",
    ["speed_tables", pytest.param("task_tables", marks=pytest.mark.slow)],  # all games are loaded
)
def test_tables_figures_and_charts_are_up_to_date(program):
    check = (sys.executable, CHECKOUT / ".ci" / f"{program}.py", "--check")
    done = subprocess.run(check, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"differ: {done.stdout}; run .ci/{program}.py"


def test_every_generated_block_has_its_program():
    programs = "".join((CHECKOUT / ".ci" / f"{name}_tables.py").read_text() for name in ("task", "speed"))
    for document in [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]:
        begun = re.findall(r"^<!-- generated: (\S+) -->$", document.read_text(), re.MULTILINE)
        ended = re.findall(r"^<!-- end of generated -->$", document.read_text(), re.MULTILINE)
        assert len(begun) == len(ended), document
        assert not [name for name in begun if f'"{name}"' not in programs], document


def test_the_numbers_of_tasks_are_those_of_the_registry():
    counts = {family: len(list_tasks(family)) for family in FAMILIES}
    index = (CHECKOUT / "docs" / "families" / "index.md").read_text()
    shown = dict(re.findall(r"^\| \[([^\]]+)\]\(\w+\.md\) \| (\d+) \|", index, re.MULTILINE))
    assert shown == {name: str(counts[family]) for family, name in FAMILIES.items()}
    for document in ("README.md", "docs/index.md"):
        assert f"{sum(counts.values())} tasks" in (CHECKOUT / document).read_text()
