"""Ant-v5 rebuilt in torch: ``python -m torchrl_pool.examples.mujoco_ant`` compares it with the original."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool import MujocoPool, PoolEnv


class Ant:
    """The task: walk forwards on four legs."""

    seconds = 5 * 0.01  # of a step

    def observe(self, state: TensorDictBase) -> torch.Tensor:
        """Positions without x and y, velocities, and the forces on all bodies but the world."""
        forces = state["cfrc_ext"][:, 1:].clamp(-1, 1).flatten(1)
        return torch.cat([state["qpos"][:, 2:], state["qvel"], forces], dim=1)

    def reward(self, state: TensorDictBase, action: torch.Tensor, new: TensorDictBase) -> torch.Tensor:
        """For moving forwards and being healthy, less the cost of controls and contacts."""
        forward = new["xpos:torso"][:, 0] - state["xpos:torso"][:, 0]
        control_cost = 0.5 * action.square().sum(1)
        contact_cost = 5e-4 * new["cfrc_ext"].clamp(-1, 1).square().sum((1, 2))
        total: torch.Tensor = forward / self.seconds + self.is_healthy(new) - (control_cost + contact_cost)
        return total

    def terminated(self, state: TensorDictBase, new: TensorDictBase) -> torch.Tensor:
        """Where it is no longer healthy."""
        return ~self.is_healthy(new)

    def is_healthy(self, state: TensorDictBase) -> torch.Tensor:
        """Whether the torso is neither too low nor too high."""
        height: torch.Tensor = state["qpos"][:, 2]
        return (height >= 0.2) & (height <= 1.0)


def make_ant(num_envs: int, **options: Any) -> MujocoPool:
    """The env; seeds and episodes are those of ``PoolEnv("Ant-v5")``."""
    return MujocoPool(
        "ant.xml",
        num_envs,
        frame_skip=5,
        fields=("qpos", "qvel", "cfrc_ext", "xpos:torso"),
        observation=(task := Ant()).observe,
        task=task,
        randomize=("qpos += uniform(-0.1, 0.1)", "qvel += normal(0, 0.1)"),
        **options,
    )


def main(steps: int = 200) -> None:
    """Plays both with the same actions and prints how far apart they get."""
    torch.manual_seed(0)
    rebuilt, original = make_ant(8, seed=0, dtype=torch.float64), PoolEnv("Ant-v5", 8, seed=0)
    own, other = rebuilt.reset(), original.reset()
    differences = dict.fromkeys(("observation", "reward", "done"), 0.0)
    for _ in range(steps):
        own["action"] = other["action"] = original.full_action_spec["action"].rand()
        played, own = rebuilt.step_and_maybe_reset(own)
        expected, other = original.step_and_maybe_reset(other)
        for key, most in differences.items():
            difference = played["next", key].double() - expected["next", key].double()
            differences[key] = max(most, difference.abs().max().item())
    for key, difference in differences.items():
        print(f"{key:<12} differs by {difference:.1e} at most")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Compares Ant-v5 rebuilt in torch with the original.").parse_args()
    main()
