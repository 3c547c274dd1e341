"""The programs in README and docs, each run by itself as it stands; ``.ci/commands.py`` runs the commands."""

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys

import pytest
from cases import cases
from environments import CHECKOUT
from markdown import code_blocks
from processes import printed

pytestmark = pytest.mark.docs

DOCUMENTS = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted(CHECKOUT.glob("docs/**/*.md"))]
FIRST = code_blocks(DOCUMENTS[0], "python")[0]  # on the first page of the site, too
PROGRAMS = [
    pytest.param(document, program, id=f"{document.name}-{i}")
    for document in DOCUMENTS
    for i, program in enumerate(code_blocks(document, "python"))
    if "RayCollector" not in program  # test_extras.py runs it
    and (document, program) != (CHECKOUT / "docs" / "index.md", FIRST)
]
SHORT = ("README.md", "own_env.md", "checkpoints.md", "load_policy.md")
OTHERS = re.compile(r"\b(benchmarl|vizdoom|nle|procgen)\b")  # packages of recipes, which need not be there
WITH_EXAMPLES = [
    ".".join(file.relative_to(CHECKOUT).with_suffix("").parts)
    for file in sorted((CHECKOUT / "torchrl_pool").rglob("*.py"))
    if re.search(r">>> (?!.*\+SKIP)", file.read_text())
]


@pytest.fixture
def folder(tmp_path):
    """A folder with the files that the documents show, which say their names in the first line."""
    for document in DOCUMENTS:
        for source in [*code_blocks(document, "cpp"), *code_blocks(document, "python")]:
            if named := re.match(r"(?://|#) (\w+\.(?:cc|py))\b", source):
                (tmp_path / named[1]).write_text(source)
    return tmp_path


@pytest.mark.parametrize(
    ("document", "program"),
    cases(
        default=[program for program in PROGRAMS if program.values[0].name in SHORT],
        also=PROGRAMS,
    ),
)
def test_a_program_runs_by_itself(document, program, folder):
    for package in set(OTHERS.findall(program)):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    printed(program, cwd=folder, XDG_CACHE_HOME=str(folder / "cache"))


def test_the_first_program_ends_in_a_loss(folder):
    *shown, last = printed(f"{FIRST}print(batch.shape, loss.isfinite().item())", cwd=folder).splitlines()
    assert last == "torch.Size([64, 64]) True"
    assert [line.startswith("reward per step: ") for line in shown] == [True, True]


def test_the_examples_of_docstrings_hold():
    results = {module: doctest.testmod(importlib.import_module(module)) for module in WITH_EXAMPLES}
    assert [module for module, result in results.items() if result.failed or not result.attempted] == []


def test_every_block_has_a_language_that_is_run():
    for document in DOCUMENTS:
        fences = re.findall(r"^```(.*)$", document.read_text(), re.MULTILINE)
        # A diff shows what changes in somebody else's program.
        assert set(fences[::2]) <= {"python", "cpp", "bash", "diff"}, document
        assert set(fences[1::2]) <= {""}, document


def test_commands_stand_in_blocks():
    """Within a sentence stand only forms of commands, with a word in capitals for what to fill in."""
    for document in DOCUMENTS:
        inline = re.findall(r"`((?:\.venv/bin/)?(?:python3?|pip|cmake|ctest) [^`\n]+)`", document.read_text())
        inline = [command for command in inline if command != "pip install"]
        assert not [command for command in inline if not re.search(r"\b[A-Z]{3,}\b", command)], document


def test_the_commands_script_lists_every_block():
    blocks = [block for document in DOCUMENTS[:2] for block in code_blocks(document, "bash")]
    script = [sys.executable, ".ci/commands.py", "--list", *(document.name for document in DOCUMENTS[:2])]
    listed = subprocess.run(script, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert listed.split() == "".join(blocks).split()
    assert "commands.py README.md CONTRIBUTING.md" in (CHECKOUT / ".ci" / "run").read_text()
