"""Trains PPO on several machines: ``python -m torchrl_pool.examples.distributed_ppo``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from torchrl_pool.examples import ppo
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.remote import RemoteOptions, begin_remote_actors


@dataclass(frozen=True)
class Config(RemoteOptions, ppo.Config):
    """PPO's settings; envs and frames are those of all actors together."""


TRAIN = partial(ppo.train, begin_actors=begin_remote_actors)
PROGRAM = Program("distributed_ppo", "PPO", "Schulman et al. 2017", Config, TRAIN, like="ppo")

if __name__ == "__main__":
    # Under its own name, not as __main__, so that actors can import what they are sent.
    from torchrl_pool.examples.distributed_ppo import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
