"""NativePart: the pool and those of its transforms that run in the executor, as one thing that steps."""

from __future__ import annotations

import torch

from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.stepper import Columns, Stepper
from torchrl_pool._transforms.chain import Inputs
from torchrl_pool._transforms.fusion import Fusion


class NativePart(Stepper):
    """The pool and the native ones of its transforms.

    Args:
        env: the pool.
        fusion: what becomes of its transforms.
        action_keys, done_keys: those of the env with all transforms.
    """

    def __init__(self, env: PoolEnv, fusion: Fusion, action_keys: list[Key], done_keys: list[Key]) -> None:
        self.transforms, self.rest = fusion.native, fusion.rest
        self.chain = chain = fusion.chain
        self._latest_is_root = False
        super().__init__(
            env,
            Columns(
                chain.rows,
                chain.positions,
                chain.root_keys,
                flags=[key for key in chain.rows if key in chain.builder.flags],
                out=chain.hidden.rows_of_steps(chain.num_columns),
                root=chain.hidden.rows_of_roots(chain.num_columns),
            ),
            Inputs(chain),
            NextRoot(chain.keys, chain.root_keys, action_keys, done_keys, env._next_root.nested_sizes),
            nested=env._nested or any(isinstance(key, tuple) for key in (*chain.keys, *action_keys)),
            chain=chain,
        )
        self.carried = {one.key: (list(one.shape[1:]), one.dtype) for one in chain.carried}
        self.read_later, self.indivisible = chain.read_later, chain.builder.indivisible
        env._steppers.add(self)

    def before_batch_step(self) -> None:
        """As :meth:`Stepper.before_batch_step`; raises as :meth:`Chain.check_in_place`."""
        self.chain.check_in_place()
        self.after_call(begun=True)

    @property
    def knows_others(self) -> bool:
        """Whether a reset of some envs finds here what the transforms make of the others' latest rows.

        Another stepper's calls are unknown; statistics that learn change what TorchRL's transforms see.
        """
        return self._simulators.stepped_by is self and not (self.rest and self.chain.has_phases)

    def before_some(self) -> None:
        """As :meth:`Stepper.before_some`: a reset, after a call of this one."""
        if not self._latest_is_root:
            self.chain.hidden.complete_root()

    def after_call(self, begun: bool) -> None:
        """As :meth:`Stepper.after_call`."""
        super().after_call(begun)
        self._latest_is_root = begun

    def latest_columns(self) -> dict[int, torch.Tensor]:
        """As :meth:`Stepper.latest_columns`, of hidden columns too."""
        hidden = self.chain.hidden
        return super().latest_columns() | (hidden.root if self._latest_is_root else hidden.out)
