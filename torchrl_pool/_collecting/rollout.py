"""One rollout of a PoolCollector: the policy and the pool in turn, or at the same time for different envs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector

from torchrl_pool import _core
from torchrl_pool._collecting.added_entries import AddedEntry
from torchrl_pool._collecting.group_policy import Policy, policy_for_rows
from torchrl_pool._collecting.lean_policy import LeanPolicy
from torchrl_pool._collecting.rollout_storage import (
    BatchIndex,
    RolloutBatch,
    RolloutRows,
    RolloutStorage,
    in_next,
)
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.specs import Key
from torchrl_pool._env.stepper import Stepper
from torchrl_pool._env.tensors import leaf_keys
from torchrl_pool._env.transfers import down, pinned

_IDS = ("collector", "traj_ids")
_STEP_AND_RESET = _core.Op.step_and_reset


class StoringCollector(Collector):
    """What a rollout asks of its collector, beside what TorchRL's has."""

    # What steps the env, or what lies below transforms whose work is known; None: not into batches ...
    _stepper: Stepper | None = None
    _added_entries: Sequence[AddedEntry]  # ... and is to add these
    _runs_rest: bool = False  # whether TorchRL runs transforms at each step
    _storage: RolloutStorage | None  # where batches lie

    def _make_storage(self, template: TensorDictBase) -> RolloutStorage:
        """What batches hold that have all entries of the template, beside those that they had before."""
        raise NotImplementedError


class _Group:
    """Consecutive envs that are stepped together."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.num_envs = first, last - first
        self.envs = slice(first, last)
        self.carrier: TensorDictBase  # what their next step begins with
        self.policy: Policy
        self.rows: RolloutRows
        self.flight: _core.Flight  # its step, from submission to the end of the wait
        self.versions: list[Any] = []  # of the weights, by step
        # Of the carrier's tensors on a device, by id: they themselves, and what they were copied from.
        self.origins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.next_root: dict[Key, torch.Tensor] = {}  # where the pool writes the root that follows


class Rollout:
    """``frames_per_batch`` steps of a collector's envs, from its carrier on.

    Args:
        collector: whose envs they are.
        lean: what is called in its policy's place, if that can be taken apart.
        num_groups: in which the envs are stepped.
    """

    def __init__(self, collector: StoringCollector, lean: LeanPolicy | None, num_groups: int) -> None:
        self._collector = collector
        assert collector._stepper is not None
        self._stepper = collector._stepper
        self._env = self._stepper.env
        self._added = collector._added_entries
        self._pool = self._env._running()
        bounds = [self._env.num_envs * i // num_groups for i in range(num_groups + 1)]
        self._groups = [_Group(first, last) for first, last in pairwise(bounds)]
        for group in self._groups:
            group.flight = _core.Flight(self._pool)
        self._alone = num_groups == 1
        # Whether TorchRL runs transforms around what the executor does.
        self._is_within = collector._runs_rest
        self._on_cpu = self._env._on_cpu and not collector._cast_to_env_device
        self._random, self._lean = False, lean
        policy = collector._wrapped_policy
        call = lean or policy
        # The next call of what torch has captured may write into the same memory.
        self._captured = lean is None and (collector.compiled_policy or collector.cudagraphed_policy)
        # Nobody reads these before they are there again.
        self._not_carried = frozenset() if lean is None else lean.overwrites
        # A policy that gets the whole root may read the trajectories' ids.
        self._ids_at_each_step = lean is None or _IDS in lean.in_keys
        # As for TorchRL, a trajectory ends with any flag, be it that of one agent among many. The pool's own
        # ones tell no more than "done", unless a transform has changed them.
        own = () if self._is_within else ("done", "terminated", "truncated")
        self._ends = [in_next(key) for key in collector.env.done_keys if key not in own]
        for group in self._groups:
            group.carrier = collector._carrier if self._alone else collector._carrier[group.envs]
            group.policy = (
                call
                if self._alone
                else policy_for_rows(policy, call, collector.env.full_action_spec, group.envs)
            )
        self._batch: RolloutBatch | None = None

    def run(self) -> RolloutBatch:
        """Makes all steps, and returns the batch that holds them.

        Raises:
            EnvFailure: envs have failed. Whatever is raised, the pool is at rest then; if an interrupt comes
                while it comes to rest, its next call waits for what has begun.
        """
        try:
            return self._run()
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        finally:
            try:
                for group in self._groups:
                    if group.flight.in_flight:
                        with contextlib.suppress(_core.EnvFailure):  # its envs will be reset
                            group.flight.wait()
            finally:
                for group in self._groups:
                    del group.flight  # abandons a step that nobody waits for

    def last_carrier(self) -> TensorDictBase:
        """What the step after the last one begins with, for all envs."""
        if self._alone:
            return self._groups[0].carrier
        return torch.cat([group.carrier for group in self._groups])

    def _run(self) -> RolloutBatch:
        num_steps = self._collector.frames_per_batch
        interruptor = self._collector.interruptor
        made = 0
        while made < num_steps:
            self._random = self._collector._should_use_random_frames()
            for group in self._groups:
                if group.flight.in_flight:
                    self._finish_step(group, made - 1)
                group.versions.append(self._collector.policy_version)
                self._choose_actions(group)
                self._begin_step(group, made)
            made += 1
            if interruptor is not None and interruptor.collection_stopped():
                break
            if made == 1 and self._steps_from_tensors():
                made = self._go_on_with_tensors()
                break
        for group in self._groups:
            if group.flight.in_flight:
                self._finish_step(group, made - 1)
        return self._finish_batch(made)

    # ---- steps after the first one, where roots hold nothing but tensors that the pool writes

    def _steps_from_tensors(self) -> bool:
        """Whether steps go from the tensors of a root and of the policy to those of the next root.

        What all of them have in common is decided here.
        """
        collector, group, lean, storage = (
            self._collector,
            self._groups[0],
            self._lean,
            self._collector._storage,
        )
        if not self._alone or self._is_within or not self._on_cpu or self._random or self._added:
            return False
        if lean is None or self._ids_at_each_step or storage is None or self._stepper.looks_closely:
            return False
        if storage.uploads is not None or storage.differentiable or collector._cast_to_policy_device:
            return False
        written = group.next_root.keys()
        return written >= {*leaf_keys(group.carrier)} - {_IDS} and written >= {*lean.in_keys}

    def _go_on_with_tensors(self) -> int:
        """Makes the steps after the first one. Returns how many there are then."""
        collector, group, lean, stepper = self._collector, self._groups[0], self._lean, self._stepper
        assert lean is not None
        pool, rows, run = self._pool, group.rows.core, stepper.calls.run
        num_steps: int = collector.frames_per_batch
        interruptor = collector.interruptor
        root, trajectories = group.next_root, group.carrier.get("collector", None)
        constant: dict[Key, Any] = {}
        if trajectories is not None:
            constant[_IDS] = trajectories.get("traj_ids")
        in_keys, out_keys, call = lean.in_keys, lean.out_keys, lean.call
        try:
            for step in range(1, num_steps):
                outputs = call(*[root[key] for key in in_keys])
                entries: dict[Key, Any] = {**root, **constant}
                entries.update(zip(out_keys, outputs, strict=True))
                stepper.before_batch_step()
                results = run(pool, _STEP_AND_RESET, entries, (rows, step))
                if results is None:  # what the policy has written is looked at more closely
                    self._carry(group, root, trajectories)
                    lean.write(group.carrier, outputs)
                    self._begin_step(group, step)
                    root = group.next_root
                else:
                    root = results[1]
                if interruptor is not None and interruptor.collection_stopped():
                    num_steps = step + 1
                    break
        finally:
            stepper.latest = root
        self._carry(group, root, trajectories)
        return num_steps

    def _carry(self, group: _Group, root: dict[Key, Any], trajectories: TensorDictBase | None) -> None:
        self._go_on(group, self._carrier_of(group, root), trajectories, None)

    # ---- the policy

    def _choose_actions(self, group: _Group) -> None:
        """Adds the policy's outputs to the carrier."""
        collector, carrier = self._collector, group.carrier
        if self._random:
            env = collector.env
            if self._alone:
                env.rand_action(carrier)
            else:
                carrier.update(env.full_action_spec[group.envs].rand())
            return
        observed = carrier
        device = collector.policy_device if collector._cast_to_policy_device else None
        if device is not None:
            # In the stream in which the policy will compute: nothing has to wait for it.
            on_host = device.type == "cpu"
            observed = _on_host(carrier, group.origins) if on_host else carrier.to(device, non_blocking=True)
        if self._captured:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        chosen = group.policy(observed)
        if self._captured:
            chosen = chosen.select(*collector._policy_output_keys, strict=False).clone()
        if chosen is not carrier:
            if self._env._on_cpu and device is not None and device.type != "cpu":
                chosen = _on_host(chosen.select(*collector._policy_output_keys, strict=False), {})
            carrier.update(chosen, keys_to_update=collector._policy_output_keys)

    # ---- the pool

    def _begin_step(self, group: _Group, step: int) -> None:
        collector = self._collector
        for entry in self._added:
            entry.complete_next(group.carrier)
        if "_step" in group.carrier.keys():  # noqa: SIM118
            raise ValueError("the policy has written '_step', which it did not when the collector was made")
        if self._is_within:
            self._step_within(group, step)
            return
        if step == 0:
            self._prepare_batch(group)
        storage = collector._storage
        assert storage is not None
        root = group.carrier if self._on_cpu else _on_host(group.carrier, group.origins)
        assert self._batch is not None
        if storage.differentiable:
            self._batch.note_origins((group.envs, step), group.carrier)
        stepper, place = self._stepper, (group.rows.core, step)
        stepper.before_batch_step()
        is_plain = not stepper.looks_closely and type(root) is TensorDict
        if is_plain and self._call(group, step, root._tensordict, place):
            return
        inputs = self._inputs(root, group.num_envs)
        begun = self._call(group, step, inputs, (*place, group.rows.sources(root, zeros=self._random)))
        assert begun

    def _call(self, group: _Group, step: int, inputs: Any, place: _core.Place) -> bool:
        """Begins a step; of all envs, makes it. False: an input is not just as the executor reads it."""
        calls = self._stepper.calls
        if not self._alone:
            return calls.submit(group.flight, _STEP_AND_RESET, inputs, place)
        results = calls.run(self._pool, _STEP_AND_RESET, inputs, place)
        if results is not None:
            self._advance(group, step, results)
        return results is not None

    def _inputs(self, root: TensorDictBase, num_rows: int) -> tuple[list[torch.Tensor], list[int]]:
        inputs = self._stepper.inputs(root, num_rows)
        if inputs is None:  # batches hold what is carried on without what it comes from
            inputs = self._stepper.inputs(root.detach(), num_rows)
        if inputs is None:
            raise ValueError(f"expected a root with the entries {self._stepper.carried}, got {root!r}")
        return inputs

    def _step_within(self, group: _Group, step: int) -> None:
        """A step with transforms that TorchRL runs around what the executor writes into the batch.

        What batches hold is learned from the first one. Such a step, and one that goes TorchRL's way, is
        copied whole.
        """
        collector, stepper, root = self._collector, self._stepper, group.carrier
        if collector._cast_to_env_device:
            root = root.to(collector.env_device)
        storage, zeros = collector._storage, self._random
        if step == 0 and storage is not None and storage.fits(root.exclude("next"), zeros=zeros):
            self._prepare_batch(group)
        if self._batch is not None:
            on_host = root if self._env._on_cpu else _on_host(root, {})
            stepper.place = group.rows.core, step, group.rows.sources(on_host, zeros=zeros)
        trajectories = root.get("collector", None)
        try:
            stepped, carrier = collector.env._step_and_maybe_reset(root)
        finally:
            written, stepper.place, stepper.written = stepper.written, None, None
        if step == 0 and (self._batch is None or storage is None or not storage.fits(stepped, zeros=zeros)):
            if not zeros:
                collector._storage = None  # what it knows was not so
            storage, written = collector._make_storage(stepped), None
            self._batch = RolloutBatch(storage)
            self._prepare_batch(group)
        batch, place = self._batch, (group.envs, step)
        assert storage is not None
        assert batch is not None
        batch.note_origins(place, stepped)
        self._complete_step(batch, storage, place, stepped, written)
        if collector._carrier_has_no_device:
            carrier.clear_device_()
        self._go_on(group, carrier, trajectories, self._ended(batch, place))

    def _complete_step(
        self,
        batch: RolloutBatch,
        storage: RolloutStorage,
        place: BatchIndex,
        stepped: TensorDictBase,
        written: dict[Key, torch.Tensor] | None,
    ) -> None:
        """Copies to the batch what the executor has not ``written`` there, or what has become of that."""
        copied = [*storage.filled_in]
        if written is None:
            copied += [*storage.recorded, *storage.written]
        else:
            for own in storage.outputs:
                if (key := in_next(own)) in storage.written:
                    value, given = stepped.get(key, None), written[own]
                    if value is not given or given.is_inference() or given._version > 0:
                        copied.append(key)
        for key in copied:
            batch.put(place, key, stepped.get(key, None), zeros=self._random)

    def _prepare_batch(self, group: _Group) -> None:
        """Memory for the batch, now that what it holds has been seen."""
        collector = self._collector
        if self._batch is None:
            storage = collector._storage
            if storage is None or not storage.holds(group.carrier):
                storage = collector._make_storage(group.carrier)
            self._batch = RolloutBatch(storage)
        assert collector._storage is not None
        group.rows = RolloutRows(self._batch, collector._storage, group.first, group.num_envs)

    def _finish_step(self, group: _Group, step: int) -> None:
        self._advance(group, step, group.flight.wait())

    def _advance(self, group: _Group, step: int, results: _core.Results) -> None:
        """From the root of one step to the next one's; what the step has written may leave for a device."""
        env, batch = self._env, self._batch
        _, group.next_root, resets = results
        assert batch is not None
        entries = {key: value for key, value in group.carrier.items() if key not in self._not_carried}
        trajectories = entries.pop("collector", None)
        for entry in self._added:
            entries.pop(entry.key, None)
        done = begins = None  # the same, where the simulators are and where the policy is
        if resets:
            done = batch.tensors["next", "done"][group.envs, step].reshape(-1)
            begins = self._where_the_root_is(done)
        written = env._on_device(group.next_root)
        # Where all envs of the pool begin anew TorchRL clears nothing that they do not write.
        root = self._stepper.next_root.following(entries, written, begins if resets < env.num_envs else None)
        if self._alone:
            self._stepper.latest = group.next_root
        following, version = entries.get("next"), group.versions[-1]
        for entry in self._added:
            value = entry.next_root(following, begins, group.envs, version)
            root[entry.key] = self._where_the_root_is(value)
        if not env._on_cpu:
            group.origins = {id(value): (value, group.next_root[key]) for key, value in written.items()}
        carrier = self._carrier_of(group, root)
        ended = self._ended(batch, (group.envs, step)) if self._ends else done
        self._go_on(group, carrier, trajectories, ended, begins if ended is done else None)
        if group is self._groups[-1]:
            batch.send(step + 1)

    def _carrier_of(self, group: _Group, root: dict[Key, Any]) -> TensorDict:
        carrier = self._stepper.unsafe(root, num_rows=group.num_envs)
        if self._collector._carrier_has_no_device:
            carrier._device = None
        return carrier

    def _go_on(
        self,
        group: _Group,
        carrier: TensorDictBase,
        trajectories: TensorDictBase | None,
        ended: torch.Tensor | None,
        begins: torch.Tensor | None = None,
    ) -> None:
        """Gives a group the root of its next step, with the ids of the trajectories that it is in.

        Args:
            group: the group.
            carrier: the root, without the ids.
            trajectories: the ids until now.
            ended: whose trajectories have ended.
            begins: the same on the policy's device, where it is there already.
        """
        if trajectories is not None:
            if self._ids_at_each_step and ended is not None and (number := int(ended.sum())):
                ids = trajectories.get("traj_ids")
                new = self._collector._traj_pool.get_traj_and_increment(number, device=ids.device)
                ids = ids.masked_scatter(ended.to(ids.device) if begins is None else begins, new)
                trajectories = self._stepper.unsafe({"traj_ids": ids}, num_rows=group.num_envs)
            carrier._set_str("collector", trajectories, validated=True, inplace=False, non_blocking=False)
        group.carrier = carrier

    def _where_the_root_is(self, value: torch.Tensor) -> torch.Tensor:
        env = self._env
        if env._on_cpu or not value.is_cpu:
            return value
        moved: dict[str, torch.Tensor] = env._on_device({"value": pinned(value)})
        return moved["value"]

    def _finish_batch(self, made: int) -> RolloutBatch:
        batch = self._batch
        assert batch is not None
        if not self._ids_at_each_step and _IDS in batch.tensors:
            self._number_trajectories(batch, made)
        for entry in self._added:
            if entry.next_row is not None and ("next", entry.key) in batch.tensors:
                for group in self._groups:
                    rows = batch.tensors["next", entry.key][group.envs, :made]
                    entry.fill_next(rows, group.versions)
        if made < self._collector.frames_per_batch:
            batch.clear_from(made)
        return batch

    def _ended(self, batch: RolloutBatch, steps: tuple[slice, int | slice]) -> torch.Tensor:
        """Which envs' trajectories end at these steps: ``[n]`` or ``[n, t]``."""
        first, *others = (
            batch.tensors[key][steps].flatten(1 + isinstance(steps[1], slice)).any(-1)
            for key in (("next", "done"), *self._ends)
        )
        for one in others:
            first |= one
        return first

    def _number_trajectories(self, batch: RolloutBatch, made: int) -> None:
        """Gives all steps the ids that they would have been given one after the other."""
        ids = batch.tensors[_IDS]  # that of the first step everywhere
        done = self._ended(batch, (slice(None), slice(made)))
        begun = int(done.sum())
        if begun == 0:
            return
        first = self._collector._traj_pool.get_traj_and_increment(begun)[0]
        by_time = done.t().flatten().cumsum(0).view(made, -1).t()
        # Ids grow with time, so that an episode's is the largest that its env has been given so far.
        following = torch.where(done, first + by_time - 1, ids[:, :1]).cummax(1).values
        ids[:, 1:made] = following[:, :-1]
        for group in self._groups:
            last = following[group.envs, -1].to(group.carrier.get(_IDS).device)
            group.carrier.set(_IDS, last.clone())


def _on_host(
    tensordict: TensorDictBase, origins: Mapping[int, tuple[torch.Tensor, torch.Tensor]]
) -> TensorDictBase:
    """The same as CPU tensors: what lies on a device only comes down, all at once."""
    leaves = dict(tensordict.items(True, True))
    if all(value.is_cpu for value in leaves.values()):
        return tensordict
    values = down([_origin(value, origins) for value in leaves.values()])
    return TensorDict(dict(zip(leaves, values, strict=True)), tensordict.batch_size, device="cpu")


def _origin(value: torch.Tensor, origins: Mapping[int, tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """What a tensor on a device was copied from, unless it was written to since."""
    _, origin = origins.get(id(value), (None, None))
    return value if origin is None or value.is_inference() or value._version > 0 else origin
