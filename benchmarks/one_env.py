"""One env: steps per second against EnvPool, Gymnasium with and without tensors, and TorchRL's GymEnv.

EnvPool's table 2 (Weng et al. 2022). One env shows what a step costs besides the simulator.
"""

from __future__ import annotations

import argparse

from torchrl_pool._bench.command import add_measuring_arguments, run

TASKS = [
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "HalfCheetah-v5",
    "Ant-v5",
    "Humanoid-v5",
    "ALE/Pong-v5",
    "ALE/Breakout-v5",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=TASKS)
    against = ["raw", "envpool", "gymnasium", "gymnasium-tensors", "torchrl"]
    add_measuring_arguments(parser, num_envs=[1], num_threads=[1], against=against)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
