"""One way to play: with random actions, through the ends of episodes."""

import torch


def play(env, steps=20, seed=0):
    """A rollout ``[num_envs, steps]`` whose actions the seed draws."""
    torch.manual_seed(seed)
    return env.rollout(steps, break_when_any_done=False)
