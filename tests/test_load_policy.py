"""What a training has learned, loaded from its folder: networks, statistics, and an env to run them in."""

import ast
import json
from contextlib import closing
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool import examples
from torchrl_pool.examples import appo, dqn, impala, load_policy, ppo, sac, self_play
from torchrl_pool.examples.results import evaluate

BATCHES = ["--frames-per-batch", "64", "--minibatch-size", "32", "--epochs", "1", "--hidden", "8"]
REPLAY = ["--learning-starts", "16", "--batch-size", "8", "--frames-per-row", "32", "--hidden", "8"]
TRAININGS = {
    "ppo": (ppo, BATCHES),
    "mujoco": (ppo, [*BATCHES, "--task", "InvertedPendulum-v5"]),
    "memory": (ppo, [*BATCHES, "--recurrent", "gru", "--hidden-size", "8"]),
    "grid": (ppo, [*BATCHES, "--task", "MiniGrid-Empty-5x5-v0"]),
    "gymnasium": (ppo, [*BATCHES, "--task", "gymnasium:CartPole-v1", "--num-workers", "0"]),
    "cannot be saved": (ppo, [*BATCHES, "--task", "gymnasium:locked_env:Locked-v0"]),
    "cleanba": (ppo, [*BATCHES, "--architecture", "cleanba", "--actors", "2"]),
    "impala": (impala, ["--steps", "8", "--hidden", "8"]),
    "population": (appo, [*BATCHES, "--population", "2", "--max-lag", "0", "--total-frames", "256"]),
    "self-play": (self_play, BATCHES),
    "sac": (sac, [*REPLAY, "--task", "InvertedPendulum-v5"]),
    "dqn": (dqn, [*REPLAY, "--num-envs", "1", "--frames-per-batch", "4"]),
}


@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.every_combination
def test_a_loaded_policy_plays_as_it_was_evaluated(name, tmp_path):
    """In the same three envs, seeded alike."""
    program, arguments = TRAININGS[name]
    arguments = ["--total-frames", "128", "--num-envs", "4", *arguments, "--evaluate", "3", "--quiet"]
    assert program.PROGRAM.main([*arguments, "--output", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    policy, env = load_policy(folder, num_envs=3)
    with closing(env):
        assert env.batch_size == (3,)
        returns, _ = evaluate(env, policy)
        assert returns == json.loads((folder / "evaluation.json").read_text())["returns"]
        assert not any(one.requires_grad for one in policy.parameters())


def test_five_lines_run_it(tmp_path):
    assert ppo.PROGRAM.main([*BATCHES, "--total-frames", "64", "--quiet", "--output", str(tmp_path)]) == 0
    policy, env = load_policy(tmp_path / "ppo-CartPole-v1-0" / "checkpoint.pt")
    with closing(env):
        data, again = env.rollout(20, policy), env.rollout(20, policy)
    assert data.shape[0] == 1
    assert data["next", "episode_reward"][0, -1] == data.shape[1]
    with torch.no_grad():
        assert torch.equal(policy(again.clone())["action"], again["action"])  # the most likely ones


def test_where_there_is_nothing_to_load(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a checkpoint, there is no .*checkpoint\.pt"):
        load_policy(tmp_path)
    torch.save({"config": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="expected a checkpoint that names its program"):
        load_policy(tmp_path)


def test_examples_are_written_on_public_names():
    """So that they can be copied."""
    files = list(Path(examples.__file__).parent.glob("*.py"))
    assert len(files) > 15
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += (
                [one.name for one in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            )
            own = [name for name in names if name and name.startswith("torchrl_pool._")]
            assert not own, f"{file.name} imports {own}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torchrl_pool"):
                assert not [one.name for one in node.names if one.name.startswith("_")], file.name
