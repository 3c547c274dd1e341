"""What the default run leaves to the long form."""

import itertools
import shutil
from collections import Counter

import pytest
from environments import CHECKOUT
from long_form import covering
from processes import printed

pytestmark = pytest.mark.repo

TESTS = """
import pytest

@pytest.mark.parametrize("a", range(5))
@pytest.mark.parametrize("b", range(4))
def test_product(a, b): pass

@pytest.mark.every_combination
@pytest.mark.parametrize("a", range(5))
@pytest.mark.parametrize("b", range(4))
def test_whole_product(a, b): pass

@pytest.mark.parametrize("task", ["Ant-v4", "Ant-v5", "Hopper-v4", "Hopper-v5", "Humanoid-v4"])
def test_tasks(task): pass

@pytest.mark.parametrize("task", ["Ant-v4", "Ant-v5"])
def test_few_tasks(task): pass

@pytest.mark.slow
def test_slow(): pass
"""
DEFAULT = {"test_product": 5, "test_whole_product": 20, "test_tasks": 3, "test_few_tasks": 2}
ALL = {"test_product": 20, "test_whole_product": 20, "test_tasks": 5, "test_few_tasks": 2, "test_slow": 1}


@pytest.fixture
def collected(tmp_path):
    """How many tests of each name a run has, with these arguments."""
    for file in ("pyproject.toml", "tests/conftest.py", "tests/long_form.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / file, tmp_path / file)
    (tmp_path / "tests" / "test_some.py").write_text(TESTS)
    program = "import sys, pytest; pytest.main(['-q', '-n', '0', '--collect-only', *sys.argv[1:]])"

    def collect(*arguments, long=""):
        out = printed(program, *arguments, cwd=tmp_path, TORCHRL_POOL_LONG_TESTS=long)
        return Counter(line.partition("::")[2].partition("[")[0] for line in out.splitlines() if "::" in line)

    return collect


def test_the_default_run_has_each_value_and_each_kind_of_task(collected):
    assert collected() == DEFAULT


def test_the_long_form_has_all(collected):
    assert collected(long="1") == ALL


def test_what_is_left_out_can_be_run_alone(collected):
    assert collected("-m", "slow") + collected() == ALL


@pytest.mark.parametrize("sizes", [(12,), (4, 4), (2, 7), (4, 3, 2)], ids=str)
def test_each_value_of_each_parameter_is_chosen_once_at_least(sizes):
    cases = [dict(zip("abc", case, strict=False)) for case in itertools.product(*map(range, sizes))]
    chosen = covering(cases)
    for name, size in zip("abc", sizes, strict=False):
        assert {cases[i][name] for i in chosen} == set(range(size))
    assert len(chosen) == max(sizes)
