"""Steps per second by number of envs and threads, sync and async, against for-loops, processes and peers.

The rows of EnvPool's figure 3 (Weng et al. 2022), on this machine and for every family. README and docs show
the saved results, by ``.ci/speed_tables.py``.
"""

from __future__ import annotations

import argparse

from torchrl_pool._bench.command import add_measuring_arguments, run
from torchrl_pool._bench.contenders import CONTENDERS, POOL

TASKS = ["CartPole-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5", "ALE/Breakout-v5"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=TASKS)
    everything = [name for name in CONTENDERS if name != POOL]
    add_measuring_arguments(parser, num_envs=[1, 8, 64, 256], against=everything)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
