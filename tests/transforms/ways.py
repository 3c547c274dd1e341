"""Ways of stepping an env; each yields what the env gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

Way: TypeAlias = Callable[[EnvBase, int], Iterator[TensorDictBase]]


def rollouts(env: EnvBase, count: int) -> Iterator[TensorDictBase]:
    yield env.rollout(2 * count, break_when_any_done=False)
    yield env.rollout(count)
    yield env.rollout(count, break_when_any_done=False, break_when_all_done=True)
    root = env.reset()
    yield env.rollout(5, auto_reset=False, tensordict=root, break_when_any_done=False, set_truncated=True)
    yield env.rollout(5, break_when_any_done=False, return_contiguous=False).contiguous()
    yield env.rollout(5, env.rand_action, break_when_any_done=False, auto_cast_to_device=True)


def turns(env: EnvBase, count: int) -> Iterator[TensorDictBase]:
    """Calls of every kind, so that none leaves behind what another stumbles over."""
    root = env.reset()
    yield root.clone()
    for _ in range(count):
        kind, mask = int(torch.randint(4, ())), torch.rand(*env.batch_size, 1) < 0.4
        root = env.rand_action(root)
        if kind == 0:
            step, root = env.step_and_maybe_reset(root)
        elif kind == 1:
            step = env.step(root)
            root = env.maybe_reset(env.step_mdp(step))
        elif kind == 2:
            step = env.step(root)
            root = env.step_mdp(step)
            reset = mask | root["done"]
            root = env.reset(root.set("_reset", reset)) if reset.any() else root
        else:
            step = env.step(root.set("_step", mask.squeeze(-1)))
            root = env.maybe_reset(env.step_mdp(step).exclude("_step"))
        yield step["next"].clone()
        # The pool leaves the last action in the row of an env that begins an episode.
        root = root.exclude("_reset", "_step")
        yield root.exclude(*env.action_keys).clone()


def steps(env: EnvBase, count: int) -> Iterator[TensorDictBase]:
    root = env.reset()
    yield root.clone()
    for _ in range(count):
        step = env.step(env.rand_action(root))
        yield step.clone()
        root = env.step_mdp(step)
        if root["done"].any():
            root = env.maybe_reset(root)
            yield root.exclude("_reset")


def resets_by_a_mask_alone(env: EnvBase, count: int) -> Iterator[TensorDictBase]:
    """The rows that are reset are all that such a call is asked for."""
    for _ in range(count // 4):
        root = env.reset()
        env.step(env.rand_action(root))
        num_envs = env.batch_size.numel()
        mask = torch.arange(num_envs).unsqueeze(-1) == torch.randint(num_envs, ())
        root = env.reset(TensorDict({"_reset": mask}, env.batch_size))
        yield root[mask.squeeze(-1)].exclude("_reset")
