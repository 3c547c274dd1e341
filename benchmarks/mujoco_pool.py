"""What rewards in torch cost: MujocoPool beside MuJoCo's own batch, the native task and others' ants.

Random actions, episodes begun again; contenders take turns. mujoco.batch and mujoco.rollout step the same
batch the same number of simulation steps, with no observations, rewards or tensors; mujoco.rollout step by
step, as a policy would have it, and many steps in one call, with actions that are known before.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout
from tensordict import TensorDictBase
from throughput import alternate, machine_line, one_torch_thread, save
from torchrl.envs import EnvBase
from torchrl.envs.custom.mujoco import AntEnv

from torchrl_pool import MujocoPool, PoolEnv
from torchrl_pool._tables import print_table
from torchrl_pool.examples.mujoco_ant import make_ant

FRAME_SKIP = 5
EPISODE = 60  # steps, where nothing else ends one
ACTIONS = 16  # batches of them, in turn


class Env:
    """``step_and_maybe_reset``, as collectors call it."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root = env.reset()
        self.actions = [env.full_action_spec["action"].rand() for _ in range(ACTIONS)]

    def __call__(self, calls: int) -> None:
        for i in range(calls):
            self.root["action"] = self.actions[i % ACTIONS]
            _, self.root = self.env.step_and_maybe_reset(self.root)

    def close(self) -> None:
        self.env.close()


class MujocoBatch:
    """``mujoco.batch``: simulation steps, and resets of all at once."""

    def __init__(self, model: mujoco.MjModel, num_envs: int, num_threads: int, frame_skip: int) -> None:
        from mujoco.batch import Batch

        self.batch = Batch(model, num_envs, num_threads)
        self.frame_skip, self.calls = frame_skip, 0
        low, high = model.actuator_ctrlrange.T
        self.controls = np.random.uniform(low, high, (ACTIONS, num_envs, model.nu))
        self.begin()

    def begin(self) -> None:
        self.batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        for array in (self.batch.qpos, self.batch.qvel):
            array += np.random.uniform(-0.1, 0.1, array.shape)
        self.batch.forward()

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            self.batch.ctrl = self.controls[self.calls % ACTIONS]
            self.batch.step(nstep=self.frame_skip)
            self.calls += 1
            if self.calls % EPISODE == 0:
                self.begin()

    def close(self) -> None:
        del self.batch


class MujocoRollout:
    """Simulation steps alone, ``horizon`` control steps in one call."""

    def __init__(self, num_envs: int, num_threads: int, horizon: int) -> None:
        import gymnasium

        folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
        self.model = mujoco.MjModel.from_xml_path(str(folder / "ant.xml"))
        self.data = [mujoco.MjData(self.model) for _ in range(num_threads)]
        self.rollout = Rollout(nthread=num_threads)
        self.horizon = horizon
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        first = np.zeros(mujoco.mj_stateSize(self.model, kind))
        mujoco.mj_getState(self.model, self.data[0], first, kind)
        self.first = np.tile(first, (num_envs, 1))
        self.first[:, 1:] += np.random.uniform(-0.1, 0.1, self.first[:, 1:].shape)
        self.state = self.first
        self.controls = np.random.uniform(-1, 1, (num_envs, ACTIONS * horizon, self.model.nu))
        self.calls = 0

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            begin = self.calls % ACTIONS * self.horizon
            control = np.repeat(self.controls[:, begin : begin + self.horizon], FRAME_SKIP, axis=1)
            states, _ = self.rollout.rollout(self.model, self.data, self.state, control)
            self.calls += 1
            # An ant on its back has other contacts than one that walks: episodes are as short as the others'.
            short = self.calls * self.horizon % EPISODE < self.horizon
            self.state = self.first if short else states[:, -1]

    def close(self) -> None:
        self.rollout.close()


def quadruped() -> dict[str, Any]:
    """dm_control's."""
    from dm_control.suite import common, quadruped

    return {"xml": quadruped.make_model(floor_size=10).decode(), "assets": dict(common.ASSETS)}


MODELS: dict[str, Callable[[], dict[str, Any]]] = {
    "ant": lambda: {"xml": "ant.xml"},
    "half_cheetah": lambda: {"xml": "half_cheetah.xml"},
    "humanoid": lambda: {"xml": "humanoid.xml"},
    "quadruped": quadruped,
}


def run_forwards(state: TensorDictBase, action: torch.Tensor, new: TensorDictBase) -> torch.Tensor:
    """The reward of a task for any of these models."""
    speed = (new["qpos"][:, 0] - state["qpos"][:, 0]) / 0.05
    return speed - 0.1 * action.square().sum(1)


def observe(state: TensorDictBase) -> torch.Tensor:
    return torch.cat([state["qpos"][:, 1:], state["qvel"]], dim=1)


TASK = {"reward": run_forwards, "observation": observe, "fields": ("qpos", "qvel")}


def make_pool(model: str, num_envs: int, threads: int, **task: Any) -> MujocoPool:
    """With no task: what MuJoCo's batch does too: steps, with no reward and episodes of a fixed length."""
    noise = ("qpos += uniform(-0.1, 0.1)", "qvel += uniform(-0.1, 0.1)")
    limit = {"max_episode_steps": EPISODE, "num_threads": threads, "seed": 0}
    return MujocoPool(
        num_envs=num_envs, frame_skip=FRAME_SKIP, randomize=noise, **MODELS[model](), **limit, **task
    )


def contenders(model: str, num_envs: int, threads: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """What makes each, and how many steps of every env one call makes."""

    def batch() -> MujocoBatch:
        env = make_pool(model, 1, 1)
        return MujocoBatch(env.mj_model, num_envs, threads, FRAME_SKIP)

    everywhere: dict[str, tuple[Callable[[], Any], int]] = {
        "MujocoPool": (lambda: Env(make_pool(model, num_envs, threads, **TASK)), 1),
        "MujocoPool, no task": (lambda: Env(make_pool(model, num_envs, threads)), 1),
        "mujoco.batch": (batch, 1),
    }
    if model != "ant":
        return everywhere
    return everywhere | {
        "MujocoPool, Ant-v5": (lambda: Env(make_ant(num_envs, num_threads=threads, seed=0)), 1),
        "PoolEnv, native": (lambda: Env(PoolEnv("Ant-v5", num_envs, num_threads=threads, seed=0)), 1),
        "mujoco.rollout, 1 step": (partial(MujocoRollout, num_envs, threads, 1), 1),
        "mujoco.rollout, 20 steps": (partial(MujocoRollout, num_envs, threads, 20), 20),
        "TorchRL's AntEnv": (lambda: Env(AntEnv(num_envs=num_envs, backend="mujoco", parallel=False)), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="ant")
    parser.add_argument("--batch", action="store_true", help="mujoco.batch alone, beside MujocoPool")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--round-seconds", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    one_torch_thread()
    everyone = contenders(options.model, options.num_envs, options.threads)
    makers = dict(list(everyone.items())[:3]) if options.batch else everyone
    running = {name: make() for name, (make, _) in makers.items()}
    times = alternate(running, round_seconds=options.round_seconds, rounds=options.rounds)
    for contender in running.values():
        contender.close()
    rates = {name: options.num_envs * makers[name][1] / seconds.median for name, seconds in times.items()}
    rows = [
        [name, f"{rate:,.0f}", f"{rates['MujocoPool'] / rate:.2f}", f"{times[name].spread:.0%}"]
        for name, rate in rates.items()
    ]
    print(f"{machine_line()}\n")
    print_table(
        [f"{options.num_envs} x {options.model}", "steps/s", "MujocoPool is … times as fast", "spread"],
        rows,
        numbers=3,
    )
    save(options.json, {"num_envs": options.num_envs, "steps_per_second": rates, "seconds_per_call": times})


if __name__ == "__main__":
    main()
