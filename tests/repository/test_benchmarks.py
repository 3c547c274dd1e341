"""The programs of ``benchmarks/``."""

import importlib.util
import itertools
import json
import os
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # as where they are run

import contenders  # noqa: E402
import throughput  # noqa: E402
from contenders import CONTENDERS, POOL, Case, Unavailable  # noqa: E402
from throughput import Seconds, alternate  # noqa: E402

# The others are what these are made of.
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py") if "def main()" in path.read_text())

# EnvPool as far as the peer knows it, for machines that do not have it.
ENVPOOL = """
import numpy as np
__version__ = "1.0"
list_all_envs = lambda: ["CartPole-v1", "Pong-v5"]
class action_space:
    sample = staticmethod(lambda: 0)
class make:
    action_space = action_space
    def __init__(self, task, env_type, num_envs, num_threads, seed):
        self.size = num_envs
    def reset(self): pass
    def step(self, action): assert action.shape == (self.size,)
"""


@pytest.fixture
def envpool(tmp_path, monkeypatch):
    (tmp_path / "envpool.py").write_text(ENVPOOL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(contenders.ENVPOOL_PYTHON, sys.executable)


def make(name, task="CartPole-v1", num_envs=2, num_threads=1):
    return CONTENDERS[name][0](Case(task, num_envs, num_threads))


def test_throughput_prints_and_saves(tmp_path, monkeypatch, capsys):
    file = tmp_path / "throughput.json"
    asked = ["--task", "CartPole-v1", "Pendulum-v1", "--num-envs", "1", "2", "--num-threads", "1"]
    quick = ["--rounds", "2", "--round-seconds", "0.001", "--against", "raw", "gymnasium", "ale"]
    monkeypatch.setattr(sys, "argv", ["throughput.py", *asked, *quick, "--json", str(file)])
    throughput.main()
    shown = capsys.readouterr().out
    for word in ("CartPole-v1", "Pendulum-v1", "raw", "gymnasium", "steps/s", "spread"):
        assert word in shown
    assert "ale: ale-py plays Atari games, not CartPole-v1" in shown
    document = json.loads(file.read_text())
    assert document["machine"]["cpus"] == os.cpu_count()
    assert document["machine"]["memory_gib"] > 0
    assert {"python", "torch", "torchrl", "torchrl_pool", "gymnasium"} <= set(document["versions"])
    cells = document["results"]
    assert [(cell["task"], cell["num_envs"]) for cell in cells] == [
        (task, n) for task in ("CartPole-v1", "Pendulum-v1") for n in (1, 2)
    ]
    for cell in cells:
        assert set(cell["steps_per_second"]) == {POOL, "raw", "gymnasium"}
        assert all(rate > 0 for rate in cell["steps_per_second"].values())
        assert cell["pool_is_faster_by"][POOL] == 1


# Those that step one kind of task alone.
ONLY = {"ale": "ALE/Pong-v5", "pettingzoo": "mpe2/simple_tag_v3", "vmas": "mpe2/simple_spread_v3"}
GENERAL = [name for name in CONTENDERS if name not in (*ONLY, "envpool")]
STEPPED = [
    *ONLY.items(),
    *((name, "mpe2/simple_tag_v3") for name in (POOL, "raw", "torchrl", "workers")),
    *itertools.product(GENERAL, ["Ant-v5", "ALE/Pong-v5"]),
]


@pytest.mark.parametrize(("task", "name"), [(task, name) for name, task in STEPPED])
def test_every_contender_steps(task, name):
    if name == "vmas":
        pytest.importorskip("vmas")
    contender = make(name, task, num_envs=1 if name == "gymnasium-tensors" else 2, num_threads=2)
    try:
        contender.run(2)
        assert len(contender.seconds_of_each(3)) == 3
    finally:
        contender.close()


def test_the_bare_loop_begins_new_episodes():
    contender = make("raw", "CliffWalking-v1", num_envs=3, num_threads=2)  # which fails after an end
    contender.run(20_000)
    contender.close()


def test_envpool_in_a_process_of_its_own(envpool):
    contender = make("envpool", "ALE/Pong-v5", num_envs=4, num_threads=2)
    contender.run(5)
    times = contender.seconds_of_each(3)
    assert len(times) == 3
    assert all(seconds > 0 for seconds in times)
    contender.close()


def test_what_cannot_be_measured_says_why(envpool, monkeypatch):
    def why(name, **case):
        with pytest.raises(Unavailable) as info:
            make(name, **case)
        return str(info.value)

    assert why("envpool", task="Taxi-v4") == "EnvPool 1.0 has no Taxi-v4"
    assert "a process for each of 17 envs" in why("torchrl", num_envs=17)
    assert "a process for each of 17 envs" in why("gymnasium-async", num_envs=17)
    assert why("gymnasium-tensors") == "only with one env"
    monkeypatch.setenv(contenders.ENVPOOL_PYTHON, "/no/python")
    assert why("envpool") == "there is no interpreter /no/python"
    monkeypatch.delenv(contenders.ENVPOOL_PYTHON)
    monkeypatch.setattr(contenders, "find_spec", lambda name: None)
    assert "pip install envpool" in why("envpool")


def test_a_task_that_gymnasium_lacks_is_left_out():
    made, missing = contenders.make_all(["gymnasium"], Case("MJCF-v0", 1, 1))
    assert not made
    assert "MJCF" in missing["gymnasium"]


def test_contenders_take_turns():
    turns = []
    runs = {name: lambda calls, name=name: turns.append(name) for name in ("a", "b")}
    times = alternate(runs, round_seconds=1e-9, rounds=3)
    assert turns[-6:] == ["a", "b"] * 3
    assert set(times) == {"a", "b"}
    assert Seconds(median=2.0, low=1.5, high=2.5).spread == 0.25


def test_every_script_explains_itself(monkeypatch, capsys):
    for script in SCRIPTS:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
        spec = importlib.util.spec_from_file_location(f"benchmark_{script}", BENCHMARKS / f"{script}.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with pytest.raises(SystemExit) as exit:
            module.main()
        assert exit.value.code == 0, script
        assert "--json" in capsys.readouterr().out, script


def test_the_table_of_scripts_names_them_all():
    table = re.findall(r"^\| (`.*?) \|", (BENCHMARKS.parent / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)\.py`", " ".join(table))) == SCRIPTS
