"""Stepper: what an env's calls of the executor read and write, and what they leave for the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask, mask_of_reset
from torchrl_pool._env.buffers import tensor_memory
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.reset_arguments import Options as ResetOptions
from torchrl_pool._env.specs import Key, check_dtypes, key_of, torch_dtype
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.tensors import entries_of, unsafe_tensordict
from torchrl_pool._env.transfers import up


@dataclass(frozen=True)
class Columns:
    """Where an env's entries lie among the executor's columns."""

    rows: Mapping[Key, tuple[torch.Size, torch.dtype]]  # shape and dtype of one env's
    positions: Sequence[int]  # the column of each
    root_keys: Sequence[Key]  # those that resets write, too
    flags: Sequence[Key]
    # Of each column that nobody sees, in steps and in roots: the address of row 0, and the bytes of a row.
    out: Sequence[tuple[int, int]]
    root: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, outputs: Sequence[_core.Spec]) -> Columns:
        """Those of a pool, all of which are seen."""
        return cls(
            {key_of(s): (torch.Size(s.shape), torch_dtype(s)) for s in outputs},
            range(len(outputs)),
            root_keys=[key_of(s) for s in outputs if s.role != "reward"],
            flags=[key_of(s) for s in outputs if s.role == "done"],
            out=[(0, 0)] * len(outputs),
            root=[(0, 0)] * len(outputs),
        )


class Stepper:
    """Steps the envs of a pool, from the entries of a tensordict to those of the next ones.

    Args:
        env: the pool, a PoolEnv.
        columns: what the executor writes.
        inputs: what it reads, an Actions or what transforms make of them.
        next_root: what becomes of the entries of a root.
        nested: whether an entry lies in a tensordict of its own.
        chain: the transforms that follow the pool's own columns, where there are any.
    """

    def __init__(
        self,
        env: Any,
        columns: Columns,
        inputs: Any,
        next_root: NextRoot,
        *,
        nested: bool,
        chain: Any = None,
    ) -> None:
        self.env, self.columns, self.next_root, self.nested = env, columns, next_root, nested
        self.inputs = inputs
        # Looked up here in a third of the time that it takes in a module of torch.
        self.num_envs, self.on_cpu = env.num_envs, env._on_cpu
        self.device: torch.device | None = env._device
        self._simulators = env._simulators
        self.batch_size: torch.Size = env._batch_size
        self.step_prototypes: dict[Key, torch.Tensor] = {
            key: torch.empty((env.num_envs, *shape), dtype=dtype, device="cpu")
            for key, (shape, dtype) in columns.rows.items()
        }
        """What a step writes: tensors like these."""
        position_of = dict(zip(columns.rows, columns.positions, strict=True))
        roots = {key: self.step_prototypes[key] for key in columns.root_keys}
        self.root_keys, self._flags = list(roots), columns.flags
        self.reward_keys = [key for key in columns.rows if key not in roots]
        where = {"pin_memory": env._pin_memory, "together": not env._on_cpu}
        self.out = tensor_memory(self.step_prototypes, columns.positions, columns.out, **where)
        self.root = tensor_memory(roots, [position_of[key] for key in roots], columns.root, **where)
        core = None if chain is None else chain.core
        numbers: dict[Key, torch.Tensor] = {
            "env_index": torch.empty(env.num_envs, dtype=torch.int64, device="cpu")
        }
        self.calls = _core.Calls(
            inputs=inputs.plain.core,
            out=self.out,
            root=self.root,
            numbers=tensor_memory(numbers, **where),
            chain=core,
            keep=chain,
        )
        self.shows_rest = chain is None or not chain.has_phases
        """Whether the other envs' results are known where some have failed."""
        # What the last call gave to the consumer, as a courtesy to rows that the next one leaves out: never
        # written, and read only while nobody has written to it (a fresh tensor's version is 0).
        self.latest: dict[Key, torch.Tensor] = {}

    def let_go(self) -> None:
        """Forgets what calls have left here, and the memory that is kept for the next ones."""
        self.latest = {}
        self.out.let_go()
        self.root.let_go()

    # ---- what differs with a chain

    read_later: Sequence[Key] = ()
    """Entries that are read again once all envs' rows are there."""
    carried: Mapping[Key, Any] = {}
    """Shape and dtype of what a step reads besides actions."""
    indivisible: str = ""
    """Why envs cannot be stepped in groups; empty: they can."""

    def before_batch_step(self) -> None:
        """Before a step that writes into a rollout's batch."""

    # ---- what a call leaves for one of some envs

    def before_some(self) -> None:
        """Before a call for some envs: takes the others' latest rows from what has stepped the pool last."""
        stepped = self._simulators.stepped_by
        if stepped is not None and stepped is not self:
            latest = stepped.latest_columns()
            places = zip(self.columns.rows, self.columns.positions, strict=True)
            self.latest = {key: latest[column] for key, column in places if column in latest}

    def after_call(self, begun: bool) -> None:
        """After a call; ``begun``: the envs' latest rows are those of a root."""
        del begun
        self._simulators.stepped_by = self

    def latest_columns(self) -> dict[int, torch.Tensor]:
        """The envs' latest rows, by column."""
        places = zip(self.columns.rows, self.columns.positions, strict=True)
        return {column: self.latest[key] for key, column in places if key in self.latest}

    # ---- tensordicts

    def unsafe(
        self, values: dict[Key, Any], names: Sequence[str | None] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """A tensordict of entries that are known to fit: a tenth of the checked constructor's cost."""
        size = self.batch_size if num_rows is None else torch.Size([num_rows])
        sizes = self.next_root.nested_sizes
        return unsafe_tensordict(values, size, self.device, names, nested=self.nested, nested_sizes=sizes)

    def on_device(self, tensors: dict[Any, torch.Tensor]) -> dict[Any, torch.Tensor]:
        """What the executor has written, where users see it."""
        return tensors if self.on_cpu or self.device is None else up(tensors, self.device)

    def tensordict(self, tensors: dict[Key, torch.Tensor]) -> TensorDict:
        """The same as a tensordict."""
        return self.unsafe(self.on_device(tensors))

    def failure(self, error: _core.EnvFailure) -> EnvFailure:
        """The executor's failure as the public exception, with what the call has written."""
        written = error.args[2] if self.shows_rest else None
        return env_failure(error, None if written is None else self.tensordict(written))

    # ---- calls

    def run(
        self,
        call: Callable[..., _core.Results | None],
        root: TensorDictBase,
        *to: Any,
    ) -> _core.Results | None:
        """A step of all envs: by ``step`` or ``step_and_reset`` of the calls.

        None: an entry is not as the specs have it, and TorchRL's own code of transforms has to deal with it.
        """
        pool = self.env._running()
        entries = self.inputs.prepared(entries_of(root))
        try:
            results = call(pool, entries, *to)
            if results is None:
                checked = self.inputs.checked(entries)
                results = None if checked is None else call(pool, checked, *to)
            return results
        except _core.EnvFailure as error:
            raise self.failure(error) from None

    def step(self, root: TensorDictBase) -> TensorDict | None:
        """What ``_step`` returns. None: as :meth:`run`."""
        self.env._running()  # which may begin episodes first, whose observations are the latest then
        mask = root.get("_step", None)
        if mask is None or (mask := check_mask("_step", mask, self.num_envs)).all():
            results = self.run(self.calls.step, root)
        else:
            out = self._others_kept(self.out, root)
            results = self.run(self.calls.step, root, out, (mask, mask.data_ptr()))
        if results is None:
            return None
        self.latest = values = results[0]
        self.after_call(begun=False)
        return self.tensordict(values)

    def reset(
        self,
        tensordict: TensorDictBase | None,
        *,
        seed: int | Sequence[int] | None = None,
        options: ResetOptions = None,
        list_of_kwargs: Sequence[Mapping[str, Any]] | None = None,
        set_state: bool | None = None,
        **kwargs: Any,
    ) -> TensorDict:
        """What ``_reset`` returns, of all envs or of those of the mask ``"_reset"``."""
        if kwargs:
            raise TypeError(
                f"reset() of {type(self.env).__name__} takes 'seed', 'options' and 'list_of_kwargs', "
                f"got {', '.join(kwargs)}"
            )
        given = self.env._source.reset_arguments(seed, options, list_of_kwargs)
        mask = mask_of_reset(tensordict, self.num_envs)
        if (states := self.env._actions.states_in(tensordict)) is not None:
            given.states = states if mask is None else states[mask.reshape(-1)], set_state
        out = None
        if mask is not None:
            assert tensordict is not None
            out = self._others_kept(self.root, tensordict)
        if out is not None and mask is not None and not mask.any():
            tensors = out[0]
        else:
            try:
                tensors = self._simulators.reset(self.calls, out, mask, given)
            except _core.EnvFailure as error:
                raise self.failure(error) from None
        self.latest = tensors
        self.after_call(begun=True)
        return self.tensordict(tensors)

    def _others_kept(self, memory: _core.TensorMemory, tensordict: TensorDictBase) -> _core.Given:
        """Tensors for a call that writes only some rows.

        The other rows get what the tensordict holds under the same keys, shape and dtype permitting, else the
        envs' latest observations. Rewards and flags that nobody knows are zero there.
        """
        self.before_some()
        out: _core.Given = memory.make()
        for key, tensor in out[0].items():
            value = tensordict.get(key, None)
            if value is None and key not in self._flags and key not in self.reward_keys:
                value = self.latest.get(key)
                if value is not None and (value.is_inference() or value._version > 0):
                    value = None
            fresh = tensor.data  # writing through it does not raise the version
            if value is not None and value.shape == tensor.shape and value.dtype is tensor.dtype:
                fresh.copy_(value)
            else:
                fresh.zero_()
        return out

    # ---- a step with auto-reset

    def step_and_maybe_reset(
        self,
        env: EnvBase,
        tensordict: TensorDictBase,
        advance: Callable[[TensorDict, dict[Key, Any]], tuple[TensorDict, TensorDict] | None],
    ) -> tuple[TensorDict, TensorDict] | None:
        """``step_and_maybe_reset`` in one visit of each env. None: TorchRL's code has to do it.

        Args:
            env: whose call it is: the pool, or a fused env around it.
            tensordict: the root, with an action.
            advance: :meth:`advance`, or what does more than it.

        Raises:
            RuntimeError: the tensordict is locked.
        """
        if type(tensordict) is not TensorDict:
            return None
        if tensordict._device != self.device:
            tensordict = tensordict.to(self.device)  # none leaves it as it is
            if tensordict._device != self.device:
                return None
        entries = tensordict._tensordict
        following = self.next_root
        if "_step" in entries or (following.shared and not following.can_carry(entries, self.batch_size)):
            return None
        if tensordict._batch_size != self.batch_size:
            env._assert_tensordict_shape(tensordict)
        if tensordict.is_locked:
            raise RuntimeError("a step writes 'next' into its input, which is locked: unlock_() it first")
        advanced = advance(tensordict, entries)
        if advanced is None:
            return None
        next_td, next_root = advanced
        preset = entries.get("next")
        if preset is not None:
            next_td.update(preset.exclude(*next_td.keys(True, True)))
        entries["next"] = next_td
        return tensordict, next_root

    def advance(
        self, tensordict: TensorDict, entries: Mapping[Key, Any]
    ) -> tuple[TensorDict, TensorDict] | None:
        """A step of all envs: its ``"next"`` entry, and the root that follows it, after auto-reset.

        None: as :meth:`run`.
        """
        if self.env._run_type_checks:
            check_dtypes(self.env, self.step_prototypes)
        results = self.run(self.calls.step_and_reset, tensordict)
        if results is None:
            return None
        names = tensordict._td_dim_names
        values, begun, resets = results
        written = values if self.on_cpu else self.on_device(values)
        next_td = self.unsafe(written, names)
        self.latest = values if begun is None else begun
        self.after_call(begun is not None)
        root, done = written, None
        if begun is not None:
            root = begun if self.on_cpu else self.on_device(begun)
            done = written["done"] if resets < self.num_envs else None
        return next_td, self.unsafe(self.next_root.following(entries, root, done), names)
