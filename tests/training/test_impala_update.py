"""IMPALA's update beside what it stands for: TorchRL's V-trace and A2CLoss, clipping, RMSprop's step."""

import pytest
import torch
from cases import cases
from torchrl.objectives import A2CLoss
from torchrl.objectives.value.functional import vtrace_advantage_estimate

pytest.importorskip("tyro")

from torchrl_pool import PoolCollector
from torchrl_pool.examples.envs import make_env
from torchrl_pool.examples.impala import Config, Update, make_networks

TASKS = {"discrete": "CartPole-v1", "continuous": "HalfCheetah-v5", "a trunk": "BabyAI-GoToLocal-v0"}


def side(task, **settings):
    """Settings, networks that are a little off the older ones, and steps that these have chosen."""
    config = Config(task=task, num_envs=6, gamma=0.9, rho_clip=1.1, c_clip=0.9, value_coef=0.7, **settings)
    torch.manual_seed(3)
    env = make_env(config, 6, seed=1)
    actor, critic = make_networks(config, env)
    collector = PoolCollector(env, actor, frames_per_batch=6 * 40, total_frames=6 * 40)
    (steps,) = collector
    collector.shutdown()
    own = list(dict.fromkeys([*actor.parameters(), *critic.parameters()]))
    for parameter in own:
        parameter.data += 0.02
    return config, actor, critic, own, steps


def torchrls(config, actor, critic, steps):
    """The losses of TorchRL's modules, whose gradient is then the parameters'."""
    rows = steps.reshape(-1)  # networks of grids take no other batches
    with torch.no_grad():
        log_prob = actor.get_dist(rows.clone()).log_prob(rows["action"])
        values = [critic(one.clone())["state_value"] for one in (rows, rows["next"])]
        columns = [log_prob, rows["action_log_prob"], *values]
        columns += [rows["next", key] for key in ("reward", "done", "terminated")]
        clips = {"rho_thresh": config.rho_clip, "c_thresh": config.c_clip}
        columns = [column.reshape(*steps.shape, 1) for column in columns]
        advantage, target = vtrace_advantage_estimate(config.gamma, *columns, **clips)
    rows["advantage"], rows["value_target"] = advantage.flatten(0, 1), target.flatten(0, 1)
    more = {"entropy_bonus": config.entropy_coef > 0, "entropy_coeff": config.entropy_coef}
    how = {"critic_coeff": config.value_coef, "reduction": config.loss_reduction, "loss_critic_type": "l2"}
    losses = A2CLoss(actor, critic, **how, **more)(rows)
    names = [name for name in ("loss_objective", "loss_critic", "loss_entropy") if name in set(losses.keys())]
    sum(losses[name] for name in names).backward()
    return {name: losses[name].item() for name in names}


@pytest.mark.parametrize(
    "settings", cases([{}, {"loss_reduction": "mean", "entropy_coef": 0.0}]), ids=["sum", "mean"]
)
@pytest.mark.parametrize("task", cases(TASKS.values()), ids=TASKS)
def test_losses_and_weights_are_those_of_torchrls_modules(task, settings):
    config, actor, critic, own, steps = side(task, max_grad_norm=0.5, **settings)
    found = Update(actor, critic, config)((steps,))
    config, actor, critic, theirs, steps = side(task, max_grad_norm=0.5, **settings)
    expected = torchrls(config, actor, critic, steps)
    assert found == pytest.approx({"loss_entropy": 0.0, **expected}, rel=1e-4, abs=1e-5)
    torch.nn.utils.clip_grad_norm_(theirs, 0.5)
    torch.optim.RMSprop(theirs, lr=config.learning_rate, alpha=0.99, eps=0.01).step()
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one.data, other.data, rtol=1e-4, atol=1e-6)


def test_parts_give_the_mean_of_their_gradients():
    gradients = []
    for parts in (1, 3):
        config, actor, critic, own, steps = side("CartPole-v1", loss_reduction="mean", max_grad_norm=0.0)
        Update(actor, critic, config)(steps.chunk(parts))
        gradients.append(torch.cat([one.grad.flatten() for one in own]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
