"""dm_control beside a pool, in a process for NumPy's settings, which are read at its import."""

import logging

import numpy as np
import torch
import torchrl.envs  # noqa: F401  before OpenGL: Triton (of torch for CUDA) crashes as it is loaded behind Mesa
from child import serve

logging.disable(logging.WARNING)

from dm_control import suite  # noqa: E402
from dm_control.rl.control import PhysicsError  # noqa: E402
from dm_control.suite import quadruped  # noqa: E402
from torchrl._utils import seed_generator  # noqa: E402
from torchrl.envs import DMControlEnv, SerialEnv  # noqa: E402

from torchrl_pool import PoolEnv  # noqa: E402
from torchrl_pool._plugins.names import suite_names  # noqa: E402

# Without it, escape would need OpenGL to begin an episode.
CONTEXTS = quadruped.Physics.contexts
quadruped.Physics.contexts = None


def reference(task, seeds):
    """TorchRL's envs; the springs of an lqr are drawn with its seed, or would be another's every time."""
    domain, name = suite_names(task)
    drawn = [{"random": seed} if domain == "lqr" else {} for seed in seeds]
    return SerialEnv(len(seeds), [lambda kw=kw: DMControlEnv(domain, name, **kw) for kw in drawn])


def ids():
    return sorted(f"dm_control/{domain}-{task}-v0" for domain, task in suite.ALL_TASKS)


def differing_pixels(task, visualize_reward=False, **view):
    """Of pictures at the beginning of an episode and ten steps later, each beside dm_control's."""
    quadruped.Physics.contexts = CONTEXTS
    twin = suite.load(*suite_names(task), {"random": 3}, visualize_reward=visualize_reward)
    pool = PoolEnv(task, 1, device="cpu", visualize_reward=visualize_reward, **view)
    twin.reset()
    root = pool.reset(seed=3)
    differing = []
    for _ in range(2):
        expected = torch.from_numpy(twin.physics.render(**view).copy())
        differing.append(int((pool.render()[0] != expected).any(-1).sum()))
        assert len(expected.unique()) > 20
        for _ in range(10):
            action = pool.rand_action()["action"].clamp(-10, 10)
            root = pool.step(root.set("action", action))["next"]
            twin.step(action[0].numpy())
    pool.close()
    quadruped.Physics.contexts = None
    return differing


def physics_error(task, control):
    """What dm_control says of controls that are all this number; None: nothing."""
    twin = suite.load(*suite_names(task))
    twin.reset()
    try:
        twin.step(np.full(twin.action_spec().shape, control))
    except PhysicsError as error:
        return str(error)
    return None


def chain(seed, count):
    seeds = [seed]
    while len(seeds) < count:
        seeds.append(seed_generator(seeds[-1]))
    return seeds


def ulps(actual, expected):
    """The largest distance between two tensors, in representable numbers."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype is torch.bool:
        assert torch.equal(actual, expected)
        return 0
    a, b = (tensor.numpy().view(np.int64) for tensor in (actual, expected))
    a, b = (np.where(bits < 0, np.int64(-(2**63)) - bits, bits) for bits in (a, b))
    return int(np.abs(a - b).max())


def beyond(action, high, factors):
    """About half of the elements outside of their bounds, just so or by one of these factors."""
    factor = torch.tensor(factors, dtype=torch.float64)[torch.randint(len(factors), action.shape)]
    far = torch.nextafter(high, high + 1) * factor
    return torch.where(torch.rand(action.shape) < 0.5, far * action.sign(), action)


def distances(task, num_envs, seeds, episodes, steps, factors=()):
    """How far apart the two are in each entry, over all seeds; their specs and flags must be equal.

    With factors, about half of an action is outside of its bounds; those of lqr are taken for [-10, 10].
    """
    far = {}
    pool = PoolEnv(task, num_envs, device="cpu")
    twins = None
    for seed in seeds:
        if twins is None or "/lqr" in task:
            twins = reference(task, chain(seed, num_envs))
        for kind in ("observation", "action", "reward", "done"):
            assert getattr(pool, f"{kind}_spec") == getattr(twins, f"{kind}_spec").to("cpu"), kind
        assert pool.set_seed(seed) == twins.set_seed(seed)
        for _ in range(episodes):
            ours, theirs = pool.reset(), twins.reset()
            for step in range(steps + 1):
                for key in (*twins.observation_keys, *twins.done_keys, *(twins.reward_keys if step else ())):
                    far[key] = max(far.get(key, 0), ulps(ours[key], theirs[key]))
                if step == steps:
                    break
                action = pool.rand_action()["action"].clamp(-10, 10)  # lqr's are unbounded
                if factors:
                    action = beyond(action, pool.action_spec.space.high.clamp(max=10), factors)
                ours = pool.step(ours.set("action", action))["next"]
                theirs = twins.step(theirs.set("action", action.clone()))["next"]
    pool.close()
    twins.close()
    return far


if __name__ == "__main__":
    serve(globals())
