"""FusedPool: a fused env as a PoolCollector's rollouts see it, a PoolEnv with a chain's entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Composite
from torchrl.envs import TransformedEnv

from torchrl_pool import _core
from torchrl_pool._env.specs import Key
from torchrl_pool._transforms.chain import Chain
from torchrl_pool._transforms.native_part import NativePart, StepIntoBatch


class FusedPool:
    """The native part of a fused env, with the parts of :class:`~torchrl_pool.PoolEnv` that write batches.

    Args:
        env: the fused env.
        part: its native part.
        runs_rest: whether TorchRL runs the other transforms at each step.
    """

    _post_step_mdp_hooks = None

    def __init__(self, env: TransformedEnv, part: NativePart, *, runs_rest: bool) -> None:
        self.env, self.part, self.runs_rest = env, part, runs_rest
        pool = part.env
        self.num_envs, self.batch_size = pool.num_envs, pool.batch_size
        self.full_action_spec: Composite = env.full_action_spec
        self._allocator, self._next_root = part.allocator, part.next_root
        self._on_cpu, self._nested_sizes = pool._on_cpu, pool._nested_sizes

    def rand_action(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.env.rand_action(tensordict)

    def step_within(
        self, root: TensorDictBase, into: StepIntoBatch | None
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """``step_and_maybe_reset`` of the env, whose native part writes into a batch, too."""
        self.part.into = into
        try:
            stepped: tuple[TensorDictBase, TensorDictBase] = self.env._step_and_maybe_reset(root)
            return stepped
        finally:
            self.part.into = None

    def rollout_columns(
        self, entries: Sequence[_core.RolloutColumn], first: int
    ) -> list[_core.RolloutColumn]:
        """Where all columns of the envs from the ``first`` on go, from where the entries do."""
        chain = self.part.chain
        columns = [(0, 0, 0)] * chain.num_columns
        for column, (address, size) in chain.hidden.out_rows(first).items():
            columns[column] = address, size, 0
        for column, entry in zip(chain.positions, entries, strict=True):
            columns[column] = entry
        return columns

    def _running(self) -> _core.Pool:
        return self.part.env._running()

    def _chain_for_step(self) -> Chain:
        """The chain, which owns what its stages write to, before a step of all envs.

        Raises as :meth:`Chain.check_in_place`.
        """
        chain = self.part.chain
        chain.check_in_place()
        chain.hidden.latest = chain.hidden.root
        return chain

    def _check_actions(
        self, root: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]]:
        inputs = self.part.inputs.check(root, num_rows)
        if inputs is None:  # batches hold what is carried on without what it comes from
            inputs = self.part.inputs.check(root.detach(), num_rows)
        if inputs is None:
            expected = {one.key: (list(one.shape[1:]), one.dtype) for one in self.part.inputs.carried}
            raise ValueError(f"expected a root with the entries {expected}, got {root!r}")
        return inputs

    def _rollout_steps(
        self, rows: _core.RolloutRows, recorded: _core.PlainTensors
    ) -> Callable[..., dict[Key, torch.Tensor] | None] | None:
        """As :meth:`PoolEnv._rollout_steps`."""
        roots, inputs = self._allocator.root_memory, self.part.inputs.plain
        if roots is None or inputs is None:
            return None
        make = _core.RolloutSteps(
            pool=self._running(),
            rows=rows,
            inputs=inputs.core,
            recorded=recorded,
            roots=roots,
            chain=self.part.chain.core,
        ).make

        def step(
            step: int, entries: dict[Key, torch.Tensor], owner: object
        ) -> dict[Key, torch.Tensor] | None:
            self._chain_for_step()
            return make(step, entries, (owner, self.part.chain))

        return step

    def _on_device(self, values: dict[Key, torch.Tensor]) -> dict[Key, torch.Tensor]:
        return self.part.env._on_device(values)

    def _unsafe(
        self, values: dict[Key, Any], names: list[str] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        return self.part.unsafe(values, names, num_rows)
