"""NativePart: the pool and those of its transforms that run in the executor, as one thing that steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool._env.arguments import mask_of_reset
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
        self._inputs = Inputs(chain)
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
            self._inputs.plain,
            NextRoot(chain.keys, chain.root_keys, action_keys, done_keys, env._next_root.nested_sizes),
            nested=env._nested or any(isinstance(key, tuple) for key in (*chain.keys, *action_keys)),
            chain=chain,
        )
        self.looks_closely = self._inputs.looks_closely
        self.carried = {one.key: (list(one.shape[1:]), one.dtype) for one in chain.carried}
        self.read_later, self.indivisible = chain.read_later, chain.builder.indivisible
        # Nobody knows any more what values that only the executor has were for rows that a reset leaves out.
        self.is_stale = False
        self._pools_latest = env._stepper.latest  # as long as nobody has used the pool by itself
        env._steppers.add(self)

    def let_go(self) -> None:
        """As :meth:`Stepper.let_go`."""
        super().let_go()
        self._pools_latest = {}

    def inputs(
        self, root: TensorDictBase, num_rows: int | None = None
    ) -> tuple[list[torch.Tensor], list[int]] | None:
        """As :meth:`Stepper.inputs`."""
        return self._inputs.check(root, num_rows)

    def before_batch_step(self) -> None:
        """As :meth:`Stepper.before_batch_step`; raises as :meth:`Chain.check_in_place`."""
        self.chain.check_in_place()
        self.chain.hidden.latest = self.chain.hidden.root

    def after_step(self, begun: bool) -> None:
        """As :meth:`Stepper.after_step`: all envs' values are those of this call."""
        hidden = self.chain.hidden
        hidden.latest = hidden.root if begun else hidden.out
        self.is_stale = False
        if writes := self.chain.builder.writes:
            writes.clear()

    # ---- what the transforms behind it find

    def reset_rows(
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
        mask = mask_of_reset(source, env.num_envs)
        takes = {"seed", "options", "list_of_kwargs"}
        reads = env._actions.states_in(source) is not None
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
        if any(key not in self.latest for key in self.chain.learned_keys):
            return False
        if self.chain.builder.writes and (self.rest or self.chain.has_phases):
            return False  # the latest values are as parameters were
        if self.rest:
            return bool(mask.any()) and self.knows_others()
        for key in self.chain.root_keys:
            value, template = known.get(key, None), self.step_prototypes[key]
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

    def _begin(self, mask: torch.Tensor | None, given: Any) -> dict[Key, torch.Tensor]:
        hidden = self.chain.hidden
        tensors, addresses = self.root.make()
        if mask is None:
            hidden.latest = hidden.out
        else:
            self._show_others(tensors)
        hidden.latest_addresses(addresses)
        self.begin(mask, given, (tensors, addresses))
        if mask is None:
            self.after_step(begun=False)
        self.latest = tensors
        return tensors

    def _show_others(self, tensors: dict[Key, torch.Tensor]) -> None:
        """For a reset of some envs: the others' latest values where TorchRL shows them, else zeros."""
        shown = self.chain.shown_keys
        for key, tensor in tensors.items():
            latest = self.latest.get(key) if key in shown else None
            if latest is None or latest.shape != tensor.shape or latest.dtype is not tensor.dtype:
                tensor.data.zero_()
            else:
                tensor.data.copy_(latest)  # its version says whether the user has written to it

    # ---- what TorchRL's own code has to find when it goes on from here, and the other way round

    def knows_others(self) -> bool:
        """Whether a reset of some envs can show the others' latest values as TorchRL does.

        Nobody has written to them, and no statistics have changed what they are.
        """
        latest = self.latest
        return not self.chain.has_phases and all(
            key in latest and not latest[key].is_inference() and latest[key]._version == 0
            for key in self.chain.shown_keys
        )

    def hand_over(self) -> None:
        """Tells the pool its latest observations, which a call for some of its envs falls back on."""
        self.follow_pool()
        latest = self.latest
        shown = {key: latest[own] for key, own in self.chain.as_written.items() if own in latest}
        hidden = {key: value.clone() for key, value in self.chain.hidden.by_key().items()}
        self._pools_latest = self.env._stepper.latest = {**shown, **hidden}

    def follow_pool(self) -> None:
        """Takes over where the pool has been used by itself: by a transform behind, through its parent."""
        if self.env._stepper.latest is not self._pools_latest:
            self.take_over()

    def take_over(self) -> None:
        """Takes over the pool's latest observations."""
        latest = self._pools_latest = self.env._stepper.latest
        self.chain.hidden.take_over(latest)
        as_written = self.chain.as_written.items()
        self.latest = {own: latest[key] for key, own in as_written if key in latest}
        self.is_stale = True
