"""NativePart: the pool and those of its transforms that run in the executor, as one thing that steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.tensors import unsafe_tensordict
from torchrl_pool._transforms.chain import Chain, ChainAllocator, Inputs
from torchrl_pool._transforms.fusion import Fusion

_STEP, _STEP_AND_RESET = _core.Op.step, _core.Op.step_and_reset


@dataclass
class StepIntoBatch:
    """A step of all envs whose outputs go to two places: a rollout's batch, and TorchRL's transforms."""

    rows: _core.RolloutRows
    step: int
    sources: list[int]  # what is recorded
    owner: object
    # Once it is made, the tensors that the transforms have got; none: it went TorchRL's way.
    given: dict[Key, torch.Tensor] | None = None

    def step_envs(
        self,
        pool: _core.Pool,
        chain: Chain,
        actions: list[int],
        addresses: list[int],
        owner: object,
    ) -> None:
        """Has the executor write to the batch, and to tensors whose addresses are those of the columns."""
        place = self.rows, self.step, self.sources
        pool.run(_STEP, actions, place, addresses, (owner, self.owner), chain.core)


class NativePart:
    """The pool and the native ones of its transforms.

    Args:
        env: the pool.
        fusion: what becomes of its transforms.
        action_keys, done_keys: those of the env with all transforms.
    """

    def __init__(self, env: PoolEnv, fusion: Fusion, action_keys: list[Key], done_keys: list[Key]) -> None:
        self.env, self.chain = env, (chain := fusion.chain)
        self.transforms, self.rest = fusion.native, fusion.rest
        self.allocator = ChainAllocator(chain, env.num_envs, env._pin_memory, not env._on_cpu)
        self.inputs = Inputs(chain)
        self.next_root = NextRoot(chain.keys, chain.root_keys, action_keys, done_keys, env._nested_sizes)
        self.nested = env._nested or any(isinstance(key, tuple) for key in chain.keys)
        # Nobody knows any more what values that only the executor has were for rows that a reset leaves out.
        self.is_stale = False
        self._pools_latest = env._allocator.latest  # as long as nobody has used the pool by itself
        self.into: StepIntoBatch | None = None  # where the next step writes to, too
        env._holders.add(self)

    def let_go(self) -> None:
        """Forgets what calls have left here: the pool is closed."""
        self.allocator.let_go()
        self._pools_latest = {}

    def tensordict(self, tensors: dict[Key, torch.Tensor]) -> TensorDict:
        env = self.env
        return self.unsafe(env._on_device(tensors))

    def unsafe(
        self, values: dict[Key, Any], names: list[str] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """As :meth:`PoolEnv._unsafe`."""
        env = self.env
        batch_size = env._batch_size if num_rows is None else torch.Size([num_rows])
        return unsafe_tensordict(
            values, batch_size, env._device, names, nested=self.nested, nested_sizes=env._nested_sizes
        )

    # ---- what the transforms behind it find

    def reset(
        self, source: TensorDictBase | None, known: TensorDictBase | None, **kwargs: Any
    ) -> TensorDictBase:
        """The first rows of new episodes in all envs, or in those of a mask; the others' are not for users.

        Args:
            source: what transforms look at, the mask ``"_reset"`` among it.
            known: the root, for envs that go on.
            **kwargs: what the pool's reset takes.
        """
        env = self.env
        self.follow_pool()
        mask = None if source is None else source.get("_reset", None)
        if mask is not None:
            mask = check_mask("_reset", mask, env.num_envs)
            mask = None if mask.all() else mask
        takes = {"seed", "options", "list_of_kwargs"}
        reads = env._states is not None and source is not None and env._states.are_in(source)
        if reads or not takes.issuperset(kwargs) or (mask is not None and not self._goes_on(known, mask)):
            return self._torchrl_reset(source, kwargs)
        given = env._source.reset_arguments(
            kwargs.get("seed"), kwargs.get("options"), kwargs.get("list_of_kwargs")
        )
        if mask is not None and not mask.any():
            if self.chain.has_phases:  # statistics take in the batch once more, as at every reset
                return self._torchrl_reset(source, kwargs)
            assert known is not None
            return self.tensordict({key: known.get(key).clone() for key in self.chain.root_keys})
        return self.tensordict(self._begin(mask, given))

    def _goes_on(self, known: TensorDictBase | None, mask: torch.Tensor) -> bool:
        """Whether the rows that a reset leaves out are known, and nothing else is.

        From the root; or to the transforms behind the native ones, from the last call.
        """
        if known is None or (self.is_stale and self.chain.hides_more):
            return False
        if any(key not in self.allocator.latest for key in self.chain.learned_keys):
            return False
        if self.chain.builder.writes and (self.rest or self.chain.has_phases):
            return False  # the latest values are as parameters were
        if self.rest:
            return bool(mask.any()) and self.knows_others()
        for key in self.chain.root_keys:
            value, template = known.get(key, None), self.allocator.step_prototypes[key]
            if type(value) is not torch.Tensor:
                return False
            if value.shape != template.shape or value.dtype is not template.dtype:
                return False
        return True

    def _torchrl_reset(self, source: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        """The same by TorchRL's code of the native transforms."""
        self.hand_over()
        for transform in reversed(self.transforms):
            source = transform._reset_env_preprocess(source)
        root: TensorDictBase = self.env._reset(source, **kwargs)
        source = root.empty() if source is None else source
        for transform in self.transforms:
            root = transform._reset(source, root)
        self.take_over()
        return self.chain.without_emptied(root)

    def step(self, root: TensorDictBase) -> TensorDict | None:
        """A step of all envs. None: an entry is not as the specs have it, which TorchRL deals with."""
        inputs = self.inputs.check(root)
        return None if inputs is None else self._step(inputs)

    # ---- the three calls of the executor

    def _begin(self, mask: torch.Tensor | None, given: Any) -> dict[Key, torch.Tensor]:
        env, chain = self.env, self.chain
        if mask is None:
            tensors, out = self.allocator.for_root()
            chain.hidden.latest = chain.hidden.out
            chain.hidden.latest_addresses(out)
        else:
            tensors, out = self.allocator.for_reset()
        try:
            env._reset_envs(out, mask, given, (tensors, mask, chain), chain.core)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None
        if mask is None:
            self._note_call()
        self.set_latest(tensors)
        return tensors

    def _step(self, inputs: tuple[list[torch.Tensor], list[int]]) -> TensorDict:
        env, chain = self.env, self.chain
        tensors, out = self.allocator.for_step()
        owner = (inputs[0], tensors, chain)
        into, self.into = self.into, None
        pool = env._running()
        try:
            if into is None:
                pool.run(_STEP, inputs[1], out, [], owner, chain.core)
            else:
                into.step_envs(pool, chain, inputs[1], out, owner)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None
        chain.hidden.latest = chain.hidden.out
        self._note_call()
        self.set_latest(tensors)
        values = tensors if env._on_cpu else env._on_device(tensors)
        if into is not None:
            into.given = values
        return self.unsafe(values)

    def step_and_reset(
        self,
        tensordict: TensorDict,
        entries: Mapping[Key, Any],
        inputs: tuple[list[torch.Tensor], list[int]],
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.step_and_maybe_reset`, whose comments hold here."""
        env, chain, allocator = self.env, self.chain, self.allocator
        pool = env._running()
        tensors, out = allocator.for_step()
        spare = allocator.for_root()
        owner = (inputs[0], tensors, spare, chain)
        names = tensordict._td_dim_names
        ready: list[TensorDict] = []
        overlap = partial(self._assemble, ready, entries, tensors, names) if env._overlaps else None
        try:
            resets = pool.run(_STEP_AND_RESET, inputs[1], out, spare[1], owner, chain.core, overlap)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None

        self._note_call()
        next_values = env._on_device(tensors)
        next_td = ready[0] if ready else self.unsafe(next_values, names)
        if resets:
            chain.hidden.latest = chain.hidden.root
            allocator.latest = spare[0]
            done = next_values["done"] if resets < env.num_envs else None
            next_root = self.unsafe(self.next_root.following(entries, env._on_device(spare[0]), done), names)
        else:
            chain.hidden.latest = chain.hidden.out
            allocator.latest = tensors
            allocator.give_back_root(spare)
            next_root = (
                ready[1] if ready else self.unsafe(self.next_root.following(entries, next_values), names)
            )
        preset = entries.get("next")
        if preset is not None:
            next_td.update(preset.exclude(*next_values))
        tensordict._set_str("next", next_td, validated=True, inplace=False, non_blocking=False)
        return tensordict, next_root

    def _note_call(self) -> None:
        """All envs' values are those of this call."""
        self.is_stale = False
        if writes := self.chain.builder.writes:
            writes.clear()

    def _assemble(
        self,
        ready: list[TensorDict],
        entries: Mapping[Key, Any],
        values: dict[Key, torch.Tensor],
        names: list[str] | None,
    ) -> None:
        ready += self.unsafe(values, names), self.unsafe(self.next_root.following(entries, values), names)
        self.allocator.prepare_step()

    # ---- what TorchRL's own code has to find when it goes on from here, and the other way round

    def knows_others(self) -> bool:
        """Whether a reset of some envs can show the others' latest values as TorchRL does.

        Nobody has written to them, and no statistics have changed what they are.
        """
        latest = self.allocator.latest
        return not self.chain.has_phases and all(
            key in latest and not latest[key].is_inference() and latest[key]._version == 0
            for key in self.chain.shown_keys
        )

    def set_latest(self, tensors: dict[Key, torch.Tensor]) -> None:
        self.allocator.latest = tensors

    def hand_over(self) -> None:
        """Tells the pool its latest observations, which a call for some of its envs falls back on."""
        self.follow_pool()
        latest = self.allocator.latest
        shown = {key: latest[own] for key, own in self.chain.as_written.items() if own in latest}
        hidden = {key: value.clone() for key, value in self.chain.hidden.by_key().items()}
        self._pools_latest = self.env._allocator.latest = {**shown, **hidden}

    def follow_pool(self) -> None:
        """Takes over where the pool has been used by itself: by a transform behind, through its parent."""
        if self.env._allocator.latest is not self._pools_latest:
            self.take_over()

    def take_over(self) -> None:
        """Takes over the pool's latest observations."""
        latest = self._pools_latest = self.env._allocator.latest
        self.chain.hidden.take_over(latest)
        as_written = self.chain.as_written.items()
        self.allocator.latest = {own: latest[key] for key, own in as_written if key in latest}
        self.is_stale = True
