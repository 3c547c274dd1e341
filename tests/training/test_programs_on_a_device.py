"""``--device`` of the training programs: all of a training runs there, and ends where the CPU's does."""

import importlib
import json

import pytest
import torch
from cases import cases
from device import NAME, strict_device

from torchrl_pool.examples import load_policy
from torchrl_pool.training._traced_once import TracedOnce

ON_POLICY = ("--task", "CartPole-v1", "--total-frames", "512", "--num-envs", "4")
PPO = (*ON_POLICY, "--frames-per-batch", "128", "--minibatch-size", "64")
REPLAY = ("--total-frames", "120", "--frames-per-row", "60", "--learning-starts", "80")
CASES = {
    "ppo": PPO,
    "ppo actors": (*PPO, "--architecture", "cleanba", "--actors", "2", "--recurrent", "gru"),
    "ppo normalized": (
        *(
            "--task",
            "HalfCheetah-v5",
            "--total-frames",
            "512",
            "--num-envs",
            "4",
            "--frames-per-batch",
            "128",
        ),
        *("--minibatch-size", "64", "--normalize-observations", "--normalize-rewards"),
        *("--policy", "tanh-normal", "--entropy-coef", "0"),
    ),
    "appo": (*PPO, "--population", "2"),
    "impala": (*ON_POLICY, "--steps", "16", "--minibatches", "2"),
    "impala pictures": (
        *("--task", "ALE/Pong-v5", "--total-frames", "64"),
        "--num-envs",
        "4",
        "--steps",
        "8",
    ),
    "dqn": ("--task", "CartPole-v1", *REPLAY, "--parallel", "--n-steps", "3", "--distributional"),
    "dqn elsewhere": ("--task", "CartPole-v1", *REPLAY, "--priority-alpha", "0.6", "--storing-device", "cpu"),
    "sac": ("--task", "Pendulum-v1", *REPLAY, "--priority-alpha", "0.6", "--batch-size", "32"),
}


def weights(folder):
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    members = state.get("members", [state])
    return torch.cat([one["update"]["parameters"] for one in members])


def run(name, folder, *arguments, evaluate=0):
    program = importlib.import_module(f"torchrl_pool.examples.{name.split()[0]}").PROGRAM
    how = ("--output", str(folder), "--quiet", "--evaluate", str(evaluate), "--compile", "no")
    with strict_device():
        assert program.main([*arguments, *how]) == 0
    (made,) = folder.iterdir()
    return made


@pytest.mark.parametrize(
    "name", cases(default=["ppo", "ppo normalized", "impala pictures", "dqn elsewhere", "sac"], also=CASES)
)
def test_a_training_ends_alike_on_the_device(name, tmp_path, monkeypatch):
    # A graph of what is on this device cannot be made; on_a_device.py tests that of plain columns.
    monkeypatch.setattr(TracedOnce, "__call__", lambda self, *inputs: self._function(*inputs))
    episodes = 0 if name == "impala pictures" else 2
    here, there = (
        run(name, tmp_path / one, *CASES[name], "--device", one, evaluate=episodes) for one in ("cpu", NAME)
    )
    torch.testing.assert_close(weights(here), weights(there), rtol=1e-3, atol=1e-4)
    if episodes:
        returns = [json.loads((one / "evaluation.json").read_text())["returns"] for one in (here, there)]
        assert returns[0] == pytest.approx(returns[1], rel=1e-2)


def test_a_training_goes_on_where_another_began(tmp_path):
    begun = run("ppo", tmp_path / "begun", *PPO, "--device", NAME)
    before = weights(begun)
    policy, env = load_policy(begun)
    env.close()
    assert {one.device.type for one in policy.parameters()} == {"cpu"}
    for device in ("cpu", NAME):
        more = ("--resume", str(begun), "--total-frames", "768", "--device", device)
        assert not torch.equal(weights(run("ppo", tmp_path / device, *more)), before)


def test_devices_that_torch_cannot_use_are_refused(tmp_path, capsys):
    program = importlib.import_module("torchrl_pool.examples.ppo").PROGRAM
    with pytest.raises(SystemExit):
        program.main([*PPO, "--output", str(tmp_path), "--device", "gpu"])
    assert "--device: expected a device that torch can use" in capsys.readouterr().err
