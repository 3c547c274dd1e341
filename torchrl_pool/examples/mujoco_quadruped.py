"""A quadruped that is shoved: ``python -m torchrl_pool.examples.mujoco_quadruped`` shows how long it stands.

Actions are targets of its joints, which drives with gains follow in each simulation step; they arrive late.
Each episode has another robot: other masses, another friction.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool import MujocoPool

# Standing: hip and ankle of each leg, in the order of the model's joints and in that of its actuators.
POSE = torch.tensor([0, 1, 0, -1, 0, -1, 0, 1.0])
TARGETS = POSE.roll(2)


def upright(state: TensorDictBase) -> torch.Tensor:
    """How far the torso's own vertical points upwards, from -1 to 1."""
    up: torch.Tensor = state["xmat:torso"][:, 8]
    return up


def reward(state: TensorDictBase, action: torch.Tensor, new: TensorDictBase) -> torch.Tensor:
    """For standing upright on the spot without moving the joints much."""
    drift, effort = new["qvel"][:, :2].square().sum(1), new["qvel"][:, 6:].square().mean(1)
    total: torch.Tensor = upright(new) - 0.1 * drift - 0.01 * effort
    return total


def terminated(state: TensorDictBase, new: TensorDictBase) -> torch.Tensor:
    """Where it has fallen over."""
    return upright(new) < 0.3


def start(rows: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Standing, with some noise, its face in any direction."""
    heading = torch.rand(len(rows), generator=rng) * 2 * torch.pi
    qpos = torch.zeros(len(rows), 15)
    qpos[:, 2] = 0.6
    qpos[:, 3], qpos[:, 6] = (heading / 2).cos(), (heading / 2).sin()
    qpos[:, 7:] = POSE + 0.05 * torch.randn(len(rows), 8, generator=rng)
    return {"qpos": qpos}


def make_quadruped(num_envs: int, shove: float = 0, **options: Any) -> MujocoPool:
    """The env. A shove is the deviation of the velocities (m/s, rad/s) that episodes begin with."""
    settings: dict[str, Any] = {
        "kp": 0.5,
        "kd": 0.02,
        "action_delay": (0, 2),
        "randomize": (
            f"qvel:root += normal(0, {shove})",
            "body_mass *= uniform(0.8, 1.2)",
            "geom_friction:floor = uniform(0.5, 1.5)",
            "actuator_gainprm *= uniform(0.9, 1.1)",
        ),
        "max_episode_steps": 500,
    }
    return MujocoPool(
        "ant.xml",
        num_envs,
        frame_skip=2,
        fields=("qpos", "qvel", "xmat:torso"),
        observation=lambda state: torch.cat([state["qpos"][:, 2:], state["qvel"]], dim=1),
        reward=reward,
        terminated=terminated,
        reset=start,
        **{**settings, **options},
    )


def stand(tensordict: TensorDictBase) -> TensorDictBase:
    """A policy that asks for the standing pose, whatever happens."""
    return tensordict.set("action", TARGETS.repeat(*tensordict.batch_size, 1))


def main(num_envs: int = 64) -> None:
    """Lets it stand, with and without a shove."""
    for shove in (0, 1):
        env = make_quadruped(num_envs, shove=shove, seed=0)
        data = env.rollout(500, stand, break_when_any_done=False, break_when_all_done=True)
        fallen = data["next", "terminated"].any(1).double().mean().item()
        speed = data["next", "observation"][..., 13:15].norm(dim=-1).mean().item()
        print(f"shoved by {shove} m/s: {fallen:.0%} fell, {speed:.2f} m/s on average")


if __name__ == "__main__":
    argparse.ArgumentParser(description="Shows how long a quadruped stands that is pushed.").parse_args()
    main()
