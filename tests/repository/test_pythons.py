"""Which Pythons are promised, and that the core does not need one that has torch."""

import re
import sys
import tomllib

import pytest
from environments import CHECKOUT, run

pytestmark = pytest.mark.repo

PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def test_the_same_pythons_are_named_everywhere():
    named = re.findall(r"Python :: 3\.(\d+)", " ".join(PYPROJECT["project"]["classifiers"]))
    first, last = min(map(int, named)), max(map(int, named))
    assert PYPROJECT["project"]["requires-python"] == f">=3.{first}"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py3{first}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == f"3.{first}"
    assert f"Python (3.{first} to 3.{last})" in (CHECKOUT / "README.md").read_text()
    plugins = CHECKOUT / "torchrl_pool" / "_plugins"
    template = tomllib.loads((plugins / "template" / "pyproject.toml").read_text())
    assert template["project"]["requires-python"] == f">=3.{first}"
    assert first <= sys.version_info.minor <= last


def test_the_core_equals_gymnasium_without_torch(tmp_path):
    out = run(sys.executable, CHECKOUT / "tests" / "without_torch.py", cwd=tmp_path)
    assert out.count("equal in every bit") == 5
