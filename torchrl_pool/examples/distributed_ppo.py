"""Trains PPO on several machines: ``python -m torchrl_pool.examples.distributed_ppo``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from torchrl_pool.examples import ppo
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.remote import RemoteOptions, begin_remote_actors
from torchrl_pool.examples.results import Row
from torchrl_pool.examples.run import Run


@dataclass(frozen=True)
class Config(RemoteOptions, ppo.Config):
    """PPO's settings; envs and frames are those of all actors together."""


def train(config: Config, run: Run) -> Iterator[Row]:
    """PPO whose batches come from Ray's actors."""
    return ppo.train(config, run, begin_remote_actors)


PROGRAM = Program("distributed_ppo", "PPO", "Schulman et al. 2017", Config, train, like="ppo")

if __name__ == "__main__":
    # Under its own name, not as __main__, so that actors can import what they are sent.
    from torchrl_pool.examples.distributed_ppo import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
