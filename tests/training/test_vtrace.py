"""V-trace from tensors: TorchRL's numbers, also where episodes end inside a batch."""

from itertools import pairwise

import pytest
import torch
from cases import cases
from torchrl.objectives.value import GAE, VTrace
from torchrl.objectives.value.functional import vtrace_advantage_estimate

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool.examples.networks import actor_and_critic
from torchrl_pool.training import estimate_advantages, estimate_vtrace, vtrace_targets

N, T = 5, 17


def steps_of(seed):
    """Log-ratios, values, next values, rewards, and ends of episodes; values follow one another."""
    rng = torch.Generator().manual_seed(seed)
    log_ratio, value, reward = (torch.randn(N, T, generator=rng) for _ in range(3))
    next_value = torch.cat([value[:, 1:], torch.randn(N, 1, generator=rng)], dim=1)
    ends = torch.rand(N, T, generator=rng) < 0.2
    return log_ratio, value, next_value, reward, ends


def torchrls(log_ratio, *others, gamma, rho_clip=1.0, c_clip=1.0):
    log_ratio, *others = (one.unsqueeze(-1) for one in (log_ratio, *others))
    found = vtrace_advantage_estimate(
        torch.tensor(gamma),
        log_ratio,
        torch.zeros_like(log_ratio),
        *others,
        rho_thresh=rho_clip,
        c_thresh=c_clip,
    )
    return [one.squeeze(-1) for one in found]


@pytest.mark.parametrize(("rho_clip", "c_clip"), cases(default=[(1.0, 1.0), (0.5, 1.5)], also=[(2.0, 0.5)]))
@pytest.mark.parametrize("seed", range(3))
def test_advantages_and_targets_are_torchrls_bit_for_bit(seed, rho_clip, c_clip):
    *columns, ends = steps_of(seed)
    options = {"gamma": 0.97, "rho_clip": rho_clip, "c_clip": c_clip}
    found = vtrace_targets(*columns, ends, ends, **options)
    for one, other in zip(found, torchrls(*columns, ends, ends, **options), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("seed", range(3))
def test_each_episode_is_estimated_as_if_it_were_alone(seed):
    log_ratio, value, next_value, reward, done = steps_of(seed)
    terminated = done & (torch.arange(T) % 2 == 0)  # the others end by their time limit
    assert (done & ~terminated)[:, :-1].any()
    next_value = torch.where(done, torch.linspace(-1, 1, T), next_value)
    columns = log_ratio, value, next_value, reward, done, terminated
    found = vtrace_targets(*columns, gamma=0.97)
    for one, other in zip(found, torchrls(*columns, gamma=0.97), strict=True):
        assert torch.equal(one, other)
    for row in range(N):
        cuts = sorted({0, *(done[row].nonzero().flatten() + 1).tolist(), T})
        for begin, end in pairwise(cuts):
            alone = [column[row : row + 1, begin:end] for column in columns]
            for one, other in zip(found, torchrls(*alone, gamma=0.97), strict=True):
                assert torch.equal(one[row : row + 1, begin:end], other)


def test_lambda_weighs_the_errors_that_follow():
    _, *columns, ends = steps_of(0)
    on_policy = torch.zeros(N, T)  # c is 1 everywhere, so lambda stands for a clip below it
    short = vtrace_targets(on_policy, *columns, ends, ends, gamma=0.97, lmbda=0.7)
    clipped = vtrace_targets(on_policy, *columns, ends, ends, gamma=0.97, c_clip=0.7)
    torch.testing.assert_close(short, clipped)
    value, next_value, reward = columns
    target = vtrace_targets(on_policy, value, next_value, reward, ends, ends, gamma=0.97, lmbda=0.0)[1]
    torch.testing.assert_close(target, reward + 0.97 * ~ends * next_value)


def test_estimates_of_a_batch_are_torchrls():
    torch.manual_seed(0)
    env = PoolEnv("CartPole-v1", 4, seed=0, categorical_action_encoding=True, obs_dtype=torch.float32)
    actor, critic = actor_and_critic(env, "16", "normal")
    (batch,) = PoolCollector(env, actor, frames_per_batch=128, total_frames=128)
    assert batch["next", "done"].any()
    with torch.no_grad():
        for one in actor.parameters():
            one.add_(0.1 * torch.randn_like(one))
        # VTrace itself asks for the probability of another action than the one that was taken.
        log_prob = actor.get_dist(batch).log_prob(batch["action"]).unsqueeze(-1)
        values = critic(batch.clone())["state_value"], critic(batch["next"].clone())["state_value"]
        flags = [batch["next", key] for key in ("reward", "done", "terminated")]
        before = batch["action_log_prob"].unsqueeze(-1)
        advantage, target = vtrace_advantage_estimate(0.98, log_prob, before, *values, *flags)
    vtrace = VTrace(gamma=0.98, actor_network=actor, value_network=critic)
    found = estimate_vtrace(vtrace, batch.clone())
    torch.testing.assert_close(found["advantage"], advantage, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["value_target"], target, rtol=1e-4, atol=1e-4)
    gaes = estimate_advantages(GAE(gamma=0.98, lmbda=0.95, value_network=critic), batch.clone())
    assert not torch.allclose(found["advantage"], gaes["advantage"])
