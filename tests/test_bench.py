import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchrl_pool.__main__ import main
from torchrl_pool._bench.alternate import Seconds, alternate
from torchrl_pool._bench.contenders import CONTENDERS, POOL, Setup, make
from torchrl_pool._bench.gymnasium_env import Unavailable
from torchrl_pool._collecting.rollout import Rollout

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
QUICK = ["--rounds", "2", "--round-seconds", "0.001"]

# EnvPool as far as the peer knows it, for machines that do not have it.
ENVPOOL = """
import numpy as np
__version__ = "1.0"
list_all_envs = lambda: ["CartPole-v1", "Pong-v5"]
class action_space:
    sample = staticmethod(lambda: 0)
class make:
    action_space = action_space
    def __init__(self, task, env_type, num_envs, batch_size, num_threads, seed):
        self.size = batch_size
    def reset(self): pass
    def async_reset(self): pass
    def step(self, action): assert action.shape == (self.size,)
    def recv(self): return None, {"env_id": np.arange(self.size)}
    def send(self, action, env_id): assert action.shape == env_id.shape
"""


@pytest.fixture
def envpool(tmp_path, monkeypatch):
    (tmp_path / "envpool.py").write_text(ENVPOOL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return sys.executable


def test_bench_prints_saves_and_draws(tmp_path, capsys):
    json_file, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    asked = ["CartPole-v1", "Pendulum-v1", "--num-envs", "1", "2", "--num-threads", "1"]
    outputs = ["--json", str(json_file), "--plot", str(picture)]
    assert main(["bench", *asked, "--against", "raw,gymnasium,ale", *QUICK, *outputs]) == 0
    shown = capsys.readouterr().out
    for word in ("CartPole-v1", "Pendulum-v1", "raw", "gymnasium", "steps/s", "spread"):
        assert word in shown
    assert "ale: ale-py plays Atari games, not CartPole-v1" in shown
    document = json.loads(json_file.read_text())
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
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("on_terminal", [True, False])
def test_bench_says_what_it_does_now(on_terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    assert main(["bench", "CartPole-v1", "--num-envs", "1", "2", "--against", "raw", *QUICK]) == 0
    shown = capsys.readouterr().err
    assert "measuring 1 of 2: CartPole-v1, 1 envs" in shown
    assert "measuring 2 of 2: CartPole-v1, 2 envs" in shown
    for step in ("making raw", "warming raw up", "round 2 of 2"):
        assert (step in shown) == on_terminal
    assert shown.endswith("\r\033[K" if on_terminal else "threads\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CartPole-v1", "--against", "envpol"], "unknown name 'envpol'; known: torchrl_pool-async, raw"),
        (["CartPole-v1", "--num-envs", "0"], "expected at least 1, got 0"),
        (["CartPole-v1", "--rounds", "1"], "expected at least 2, got 1"),
        (["CartPole-v1", "--num-threads", "two"], "expected a number, got 'two'"),
        (
            ["CartPole-v1", "--json", "no/such/folder.json"],
            "No such file or directory: 'no/such/folder.json'",
        ),
        (["CartPole-v1", "--json", "/tmp"], "Is a directory: '/tmp'"),
        (["CartPole-v1", "--round-seconds", "nan"], "expected a number above 0, got 'nan'"),
        (["CartPole-v1", "--round-seconds", "-1"], "expected a number above 0, got '-1'"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(["bench", *arguments])
    assert message in capsys.readouterr().err


def test_an_unknown_task_is_refused_before_anything_runs(capsys):
    assert main(["bench", "CartPole-v1", "CartPol-v1"]) == 2
    assert "did you mean 'CartPole-v1'" in capsys.readouterr().err


def test_a_chart_without_matplotlib(monkeypatch, capsys):
    monkeypatch.setattr("torchrl_pool._bench.plot.find_spec", lambda name: None)
    assert main(["bench", "CartPole-v1", "--plot", "chart.png"]) == 1
    assert "pip install 'torchrl_pool[bench]'" in capsys.readouterr().err


@pytest.mark.every_combination  # some play certain tasks only
@pytest.mark.parametrize("name", [name for name in CONTENDERS if not name.startswith("envpool")])
@pytest.mark.parametrize("task", ["Ant-v5", "ALE/Pong-v5"])
def test_every_contender_steps(task, name):
    if (task, name) == ("Ant-v5", "ale"):
        pytest.skip("ale-py plays Atari games only")
    num_envs = 1 if name == "gymnasium-tensors" else 2
    contender = make(name, Setup(task, num_envs, num_threads=2))
    try:
        contender.run(2)
        assert len(contender.each(3)) == 3
    finally:
        contender.close()


@pytest.mark.parametrize(("name", "batch"), [("envpool", 4), ("envpool-async", 2)])
def test_envpool_in_a_process_of_its_own(envpool, name, batch):
    contender = make(name, Setup("ALE/Pong-v5", num_envs=4, num_threads=2, envpool_python=envpool))
    contender.run(5)
    assert contender.envs_per_call == batch
    assert all(seconds > 0 for seconds in contender.each(3))
    contender.close()


def test_what_cannot_be_measured_says_why(envpool, monkeypatch):
    def why(name, task="CartPole-v1", num_envs=2, **kwargs):
        with pytest.raises(Unavailable) as info:
            make(name, Setup(task, num_envs, 1, **kwargs))
        return str(info.value)

    assert why("envpool", "Taxi-v4", envpool_python=envpool) == "EnvPool 1.0 has no Taxi-v4"
    assert why("envpool", envpool_python="/no/python") == "there is no interpreter /no/python"
    assert "an even number" in why("torchrl_pool-async", num_envs=1)
    assert "--max-processes is 3" in why("torchrl", num_envs=4, max_processes=3)
    assert "--max-processes is 3" in why("gymnasium-async", num_envs=4, max_processes=3)
    assert why("gymnasium-tensors") == "only with one env"
    assert "no simulator but its own code" in why("simulator")
    monkeypatch.setattr("torchrl_pool._bench.contenders._SIMULATOR", "benchmarks/peers/none.py")
    assert "in a checkout (benchmarks/peers/none.py), not in an installed package" in why("simulator")
    monkeypatch.setattr("torchrl_pool._bench.contenders.find_spec", lambda name: None)
    assert "pip install envpool" in why("envpool")
    monkeypatch.setattr("torchrl_pool._bench.gymnasium_env.find_spec", lambda name: None)
    assert "pip install 'torchrl_pool[bench]'" in why("gymnasium")


def test_contenders_take_turns():
    turns = []
    runs = {name: lambda calls, name=name: turns.append(name) for name in ("a", "b")}
    times = alternate(runs, round_seconds=1e-9, rounds=3)
    assert turns[-6:] == ["a", "b"] * 3
    assert set(times) == {"a", "b"}
    assert Seconds(median=2.0, low=1.5, high=2.5).spread == 0.25


def test_a_step_copies_nothing_and_allocates_its_outputs_only():
    allocations = load_script("allocations")
    env = allocations.PoolEnv("HalfCheetah-v5", 4)
    stepper = allocations.Stepper(env)
    stepper(10)
    counts = allocations.count(lambda: stepper(20), 20)
    env.close()
    outputs = 4 * (17 * 8 + 4 + 3 * 1)  # observation, reward, three flags
    # A step's outputs are made ahead where the threads leave time for it: one in 20 may fall on either side.
    assert counts["bytes allocated"] == pytest.approx(outputs, rel=0.051)
    assert counts["allocations"] == pytest.approx(5, rel=0.051)
    assert "operations" not in counts
    assert "copies" not in counts


@pytest.mark.parametrize("script", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_every_script_explains_itself(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit) as exit:
        load_script(script).main()
    assert exit.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_a_timeline_without_a_gpu(monkeypatch, tmp_path):
    picture, events = tmp_path / "timeline.png", tmp_path / "events.json"
    setup = ["--task", "Pendulum-v1", "--num-envs", "4", "--num-threads", "1", "--policy-device", "cpu"]
    drawn = ["--cells", "4", "--steps", "2", "--timeline", str(picture), "--json", str(events)]
    monkeypatch.setattr(sys, "argv", ["timeline.py", *setup, *drawn])
    monkeypatch.setattr("torchrl_pool._collecting.collector.Rollout", Rollout)  # which the script replaces
    load_script("timeline").main()
    assert picture.read_bytes().startswith(b"\x89PNG")
    spans = json.loads(events.read_text())
    assert {span["row"] for span in spans} == {
        "caller: policy",
        "caller: helps, waits",
        "envs of half 1",
        "envs of half 2",
    }
    for half in range(2):
        calls = [span["begin"] for span in spans if span["row"] == "caller: policy" and span["half"] == half]
        assert calls == sorted(calls)
        assert len(calls) == 2


def test_a_timeline_of_a_gpu():
    """What it does, it does for the half whose policy is called then."""

    def event(name, begin, end, device="CPU"):
        time_range = SimpleNamespace(start=begin, end=end)
        return SimpleNamespace(
            name=name, time_range=time_range, device_type=getattr(torch.autograd.DeviceType, device)
        )

    events = []
    for step in range(3):
        for half in range(2):
            begin = 100 * (2 * step + half)
            events += [
                event(f"wait for half {half}", begin, begin + 10),
                event("Memcpy HtoD (Pinned -> Device)", begin + 30, begin + 35, "CUDA"),
                event(f"policy of half {half}", begin + 20, begin + 40),
                event("gemm", begin + 42, begin + 50, "CUDA"),
                event("Memcpy DtoH (Device -> Pinned)", begin + 51, begin + 55, "CUDA"),
                event(f"submitted half {half}", begin + 60, begin + 61),
            ]
    spans = load_script("timeline").spans(events, 1)
    assert ("GPU: copies up", 0, 10, 15) in spans
    assert ("GPU: kernels", 0, 22, 30) in spans
    assert ("GPU: copies down", 1, 131, 135) in spans
    assert ("envs of half 2", 1, 0, 90) in spans


def test_the_table_of_scripts_names_them_all():
    table = re.findall(r"^\| (`.*?) \|", (BENCHMARKS.parent / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    scripts = re.findall(r"`(\w+\.py)`", " ".join(table))
    assert sorted(scripts) == sorted(path.name for path in BENCHMARKS.glob("*.py"))


def load_script(name):
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))  # as where it is run
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
