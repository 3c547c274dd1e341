"""What compact_obs leaves out of a batch can be rebuilt for a loss, as the documentation shows."""

import re
from pathlib import Path

import pytest
import torch
from cases import cases
from collecting import FRAMES, N, T, collect
from torchrl.envs.transforms import NextStateReconstructor
from torchrl.modules import MLP, QValueActor
from torchrl.objectives import DQNLoss

from torchrl_pool import PoolCollector

PAGE = Path(__file__).parents[2] / "docs" / "compact_observations.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_has_programs():
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("number", cases(range(2)))
def test_program_of_the_page(number):
    names = {}
    exec(compile(PROGRAMS[number], f"{PAGE}, program {number}", "exec"), names)
    names["collector"].shutdown()
    assert ("next", "observation") not in names["batch"].keys(True)
    steps, known = names["steps"], names["known"].squeeze(-1)
    assert known.sum() >= 0.8 * known.numel()
    if number == 1:
        assert steps["next", "observation"].dtype is torch.uint8
        return
    gradients = [p.grad for p in names["loss_module"].parameters() if p.grad is not None]
    assert gradients
    assert all(g.isfinite().all() and g.any() for g in gradients)
    goes_on = steps[known & ~steps["next", "done"].squeeze(-1)]
    following = names["buffer"][goes_on["index"].flatten() + 1]["observation"]
    assert torch.equal(goes_on["next", "observation"], following)


def value_actor(env):
    torch.manual_seed(0)
    return QValueActor(MLP(4, 2, num_cells=[8]), in_keys=["observation"], spec=env.action_spec_unbatched)


@pytest.mark.filterwarnings("ignore:No target network updater:UserWarning")
@pytest.mark.parametrize("double_dqn", cases([False, True]))
def test_a_loss_on_what_was_rebuilt_is_that_on_the_whole(double_dqn):
    options = {"set_truncated": True, "env_options": {"obs_dtype": torch.float32}}
    batches = collect(PoolCollector, "CartPole-v1", value_actor, compact_obs=True, **options)
    whole = collect(PoolCollector, "CartPole-v1", value_actor, **options)
    actors = []
    collect(PoolCollector, "CartPole-v1", lambda env: actors.append(value_actor(env)) or actors[0], **options)
    loss_module = DQNLoss(actors[0], action_space="one-hot", double_dqn=double_dqn, delay_value=double_dqn)
    rebuild = NextStateReconstructor(["observation"], fill_value=0)
    for batch, reference in zip(batches, whole, strict=True):
        with pytest.raises(KeyError):
            loss_module(batch.reshape(-1))
        steps, reference = rebuild(batch.reshape(-1)), reference.reshape(-1)
        known = (steps["next", "terminated"] | ~steps["next", "truncated"]).squeeze(-1)
        goes_on = known & ~steps["next", "done"].squeeze(-1)
        assert torch.equal(steps["next", "observation"][goes_on], reference["next", "observation"][goes_on])
        assert FRAMES - 2 * N - T < known.sum() < FRAMES
        expected = loss_module(reference[known])["loss"]
        assert torch.equal(loss_module(steps[known])["loss"], expected)
        assert torch.isfinite(expected)
