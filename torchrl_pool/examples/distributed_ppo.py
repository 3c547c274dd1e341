"""Trains PPO from what several machines collect: ``python -m torchrl_pool.examples.distributed_ppo``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from torchrl_pool.examples import ppo
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.remote import RemoteOptions, RemoteTraining


@dataclass(frozen=True)
class Config(RemoteOptions, ppo.Config):
    """PPO's settings; envs and frames are those of all actors together."""


class DistributedPPOTraining(RemoteTraining[Config], ppo.PPOTraining):
    """PPO whose batches come from Ray's actors."""

    config: Config


PROGRAM = Program(
    "distributed_ppo", "PPO", "Schulman et al. 2017", Config, DistributedPPOTraining, like="ppo"
)

if __name__ == "__main__":
    # Under its own name, not as __main__, so that actors can import what they are sent.
    from torchrl_pool.examples.distributed_ppo import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
