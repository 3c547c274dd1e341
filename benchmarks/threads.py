"""Steps per second by number of threads, beside the bare C++ envs on as many: where does it stop to scale?"""

from __future__ import annotations

import argparse

from torchrl_pool._bench.command import add_measuring_arguments, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=["CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5"])
    add_measuring_arguments(
        parser, num_envs=[1, 8, 64, 1024], num_threads=[1, 2, 3, 4], against=["raw"], rounds=10
    )
    run(parser.parse_args())


if __name__ == "__main__":
    main()
