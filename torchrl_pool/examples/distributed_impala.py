"""Trains IMPALA on several machines: ``python -m torchrl_pool.examples.distributed_impala``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from torchrl_pool.examples import impala
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.remote import RemoteOptions, RemoteTraining


@dataclass(frozen=True)
class Config(RemoteOptions, impala.Config):
    """IMPALA's settings; envs and frames are those of all actors together."""


class DistributedIMPALATraining(RemoteTraining[Config], impala.IMPALATraining):
    """IMPALA whose batches come from Ray's actors."""

    config: Config


PROGRAM = Program(
    "distributed_impala", "IMPALA", "Espeholt et al. 2018", Config, DistributedIMPALATraining, like="impala"
)

if __name__ == "__main__":
    # Under its own name, not as __main__, so that actors can import what they are sent.
    from torchrl_pool.examples.distributed_impala import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
