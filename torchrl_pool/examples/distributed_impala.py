"""Trains IMPALA on several machines: ``python -m torchrl_pool.examples.distributed_impala``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from torchrl_pool.examples import impala
from torchrl_pool.examples.program import Program
from torchrl_pool.examples.remote import RemoteOptions, begin_remote_actors


@dataclass(frozen=True)
class Config(RemoteOptions, impala.Config):
    """IMPALA's settings; envs and frames are those of all actors together."""


TRAIN = partial(impala.train, begin_actors=begin_remote_actors)
PROGRAM = Program("distributed_impala", "IMPALA", "Espeholt et al. 2018", Config, TRAIN, like="impala")

if __name__ == "__main__":
    # Under its own name, not as __main__, so that actors can import what they are sent.
    from torchrl_pool.examples.distributed_impala import PROGRAM as IMPORTED

    sys.exit(IMPORTED.main())
