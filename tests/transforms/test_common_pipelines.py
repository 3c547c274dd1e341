"""Common pipelines, fused, against TorchRL's own way of running them, through every door of an env.

In the long form over a thousand steps each, a hundred of Atari's.
"""

import pytest
import torch
from commonest import CASES, FEW, adds_up_the_batch, over_gym_envs, over_pool
from long_form import LONG, few_of
from pipelines import assert_same
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.envs.utils import check_env_specs, step_mdp

import torchrl_pool
from torchrl_pool import PoolCollector

N = 3
# All of them are kept until they are compared: of pictures that are gigabytes.
STEPS = (
    {"classic": 1000, "mujoco": 1000, "atari": 100, "agents": 1000}
    if LONG
    else {"classic": 24, "mujoco": 24, "atari": 12, "agents": 16}
)

pytestmark = pytest.mark.filterwarnings("ignore:.*VecNorm")


def parametrized(cases):
    return pytest.mark.parametrize("case", few_of(cases, FEW), ids=" ".join)


pipelines = parametrized(CASES)
# Of Atari games a pool's pictures are not those of GymEnv, with or without transforms.
gymnasiums = [case for case in CASES if case[0] in ("classic", "mujoco") and not adds_up_the_batch(case)]


def pair(case, **options):
    """The fused env, and TorchRL's over a pool of the same seed."""
    return torchrl_pool.fuse(over_pool(case, N, seed=3, **options)), over_pool(case, N, seed=3, **options)


def assert_same_through(door, case, *, in_order=False):
    """Both envs give the same through a door: a function of an env and a number of steps."""
    results = []
    for env in pair(case):
        torch.manual_seed(0)
        results.append(list(door(env, STEPS[case[0]])))
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours, theirs, exact=not adds_up_the_batch(case), in_order=in_order)


# ---- one step after another


def steps(env, count):
    root = env.reset()
    yield root.clone()
    for _ in range(count):
        step = env.step(env.rand_action(root))
        yield step.clone()
        root = step_mdp(step)
        if root["done"].any() or root["truncated"].any():
            root = env.maybe_reset(root)
            yield root.exclude("_reset")


def steps_and_resets_in_one(env, count):
    """A pool leaves the last actions in the next root, which a policy is about to overwrite."""
    root = env.reset()
    for _ in range(count):
        step, root = env.step_and_maybe_reset(env.rand_action(root))
        yield step.clone()
        yield root.exclude(*env.action_keys).clone()


def steps_of_some(env, count):
    root = env.reset()
    for _ in range(count):
        root = env.rand_action(root).set("_step", torch.rand(N) < 0.6)
        step = env.step(root)
        yield step["next"].clone()
        root = env.maybe_reset(step_mdp(step).exclude("_step"))


def resets_of_some(env, count):
    root = env.reset()
    for _ in range(count):
        step = env.step(env.rand_action(root))
        root = step_mdp(step)
        mask = (torch.rand(N, 1) < 0.3) | root["done"]
        if mask.any():
            root = env.reset(root.set("_reset", mask))
            yield root.exclude("_reset")


def resets_by_a_mask_alone(env, count):
    """The rows that are reset are all that such a call is asked for."""
    env.reset()
    for _ in range(count // 4):
        root = env.reset()
        env.step(env.rand_action(root))
        mask = torch.arange(N).unsqueeze(-1) == torch.randint(N, ())
        root = env.reset(TensorDict({"_reset": mask}, [N]))
        yield root[mask.squeeze(-1)].exclude("_reset")


def turns(env, count):
    """All of these, so that none leaves behind what another stumbles over."""
    for door in (steps_and_resets_in_one, steps_of_some, resets_of_some, steps):
        yield from door(env, count // 4)


# ---- rollouts


def rollouts(env, count):
    yield env.rollout(count, break_when_any_done=False)
    yield env.rollout(count)
    yield env.rollout(count, break_when_any_done=False, break_when_all_done=True)
    root = env.reset()
    yield env.rollout(5, auto_reset=False, tensordict=root, break_when_any_done=False, set_truncated=True)
    yield env.rollout(5, break_when_any_done=False, return_contiguous=False).contiguous()
    yield env.rollout(5, env.rand_action, break_when_any_done=False, auto_cast_to_device=True)


DOORS = [
    steps,
    steps_and_resets_in_one,
    steps_of_some,
    resets_of_some,
    resets_by_a_mask_alone,
    turns,
    rollouts,
]


@pipelines
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door(case, door):
    # Agents' entries come after all that transforms have added to the root's own.
    assert_same_through(door, case, in_order=door is steps and case[0] != "agents")


@parametrized(gymnasiums)
def test_rollouts_over_gymnasiums_envs(case):
    fused, reference = torchrl_pool.fuse(over_pool(case, N)), over_gym_envs(case, N)
    assert fused.set_seed(5) == reference.set_seed(5)
    data = []
    for env in (fused, reference):
        torch.manual_seed(0)
        data.append(env.rollout(STEPS[case[0]], break_when_any_done=False))
    assert_same(*data, in_order=False)


# ---- specs


@pipelines
def test_specs(case):
    fused, reference = pair(case)
    assert fused.output_spec == reference.output_spec
    assert fused.input_spec == reference.input_spec
    assert fits_its_specs(fused) is fits_its_specs(reference)


def fits_its_specs(env):
    """RewardSum takes the bounds of one signed reward for those of their sum."""
    try:
        check_env_specs(env)
    except AssertionError:
        return False
    return True


# ---- collectors


def batches(kind, env, **options):
    torch.manual_seed(0)
    collector = kind(env, None, frames_per_batch=N * 8, total_frames=N * 24, **options)
    collected = [batch.clone() for batch in collector]
    collector.shutdown()
    return collected


@pipelines
@pytest.mark.parametrize("kind", [Collector, PoolCollector])
def test_collectors(case, kind):
    fused, reference = pair(case)
    for ours, theirs in zip(batches(kind, fused), batches(Collector, reference), strict=True):
        assert_same(ours, theirs, exact=not adds_up_the_batch(case), in_order=False)


# ---- async calls


@parametrized([case for case in CASES if case[1] != "double actions"])
def test_async_calls(case):
    """They are the pool's own, with its actions, and no transform sees them, as with any TransformedEnv."""
    results = []
    for env in pair(case):
        root = env.reset()
        torch.manual_seed(0)
        env.rand_action(root)
        env.async_step_and_maybe_reset_send(root[:1], [0])
        env.async_step_and_maybe_reset_send(root[1:], [1, 2])
        results.append(env.async_step_and_maybe_reset_recv(min_get=N))
    for fused, reference in zip(*results, strict=True):
        assert_same(fused, reference, exact=not adds_up_the_batch(case), in_order=False)
