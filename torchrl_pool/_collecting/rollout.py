"""One rollout of a PoolCollector: the policy and the pool in turn, or at the same time for different envs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.collectors import Collector

from torchrl_pool import _core
from torchrl_pool._collecting.direct_policy import DirectPolicy
from torchrl_pool._collecting.group_policy import Policy, policy_for_rows
from torchrl_pool._collecting.rollout_storage import RolloutBatch, RolloutRows, RolloutStorage, in_next
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.specs import Key
from torchrl_pool._env.stepper import Stepper
from torchrl_pool._env.tensors import entries_of
from torchrl_pool._env.transfers import down, pinned

_IDS = ("collector", "traj_ids")
_VERSION = "policy_version"


class StoringCollector(Collector):
    """What a rollout asks of its collector, beside what TorchRL's has."""

    _stepper: Stepper | None = None  # what steps the env into batches; None: TorchRL's Collector collects
    _counts_versions: bool = False  # whether batches hold the versions of the policy's weights
    _storage: RolloutStorage | None  # where batches lie

    def _make_storage(self, template: TensorDictBase) -> RolloutStorage:
        """What batches hold that have all entries of the template, beside those that they had before."""
        raise NotImplementedError


class _Group:
    """Consecutive envs that are stepped together."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.num_envs = first, last - first
        self.envs = slice(first, last)
        self.root: dict[Key, Any]  # what their next step begins with, and the policy's outputs
        self.policy: Policy
        self.rows: RolloutRows
        self.flight: _core.Flight  # its step, from submission to the end of the wait
        self.versions: list[Any] = []  # of the weights, by step
        # Of the root's tensors on a device, by id: they themselves, and what they were copied from.
        self.origins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.written: dict[Key, torch.Tensor] = {}  # what the pool has written of the root


class Rollout:
    """``frames_per_batch`` steps of a collector's envs, from its carrier on.

    Args:
        collector: whose envs they are.
        direct: what is called in its policy's place, if that can be taken apart.
        num_groups: in which the envs are stepped.
    """

    def __init__(self, collector: StoringCollector, direct: DirectPolicy | None, num_groups: int) -> None:
        self._collector = collector
        assert collector._stepper is not None
        self._stepper = collector._stepper
        self._env = self._stepper.env
        self._pool = self._env._running()
        bounds = [self._env.num_envs * i // num_groups for i in range(num_groups + 1)]
        self._groups = [_Group(first, last) for first, last in pairwise(bounds)]
        for group in self._groups:
            group.flight = _core.Flight(self._pool)
        self._alone = num_groups == 1
        self._on_cpu = self._env._on_cpu and not collector._cast_to_env_device
        self._random: bool = collector._should_use_random_frames()
        self._direct = direct
        policy = collector._wrapped_policy
        call = direct or policy
        # The next call of what torch has captured may write into the same memory.
        self._captured = direct is None and (collector.compiled_policy or collector.cudagraphed_policy)
        # Nobody reads these before they are there again.
        self._not_carried = {"collector", *(() if direct is None else direct.overwrites)}
        # A policy that gets the whole root may read the trajectories' ids.
        self._ids_at_each_step = direct is None or _IDS in direct.in_keys
        self._rows = torch.Size([self._env.num_envs])
        # Whether it takes and gives the root's own entries, with no tensordict around them.
        keys = () if direct is None else (*direct.in_keys, *direct.out_keys)
        on_values = self._alone and self._on_cpu and not collector._cast_to_policy_device
        self._on_values = on_values and bool(keys) and all(isinstance(key, str) for key in keys)
        # As for TorchRL, a trajectory ends with any flag, be it that of one agent among many. The pool's own
        # ones tell no more than "done", unless a transform has changed them.
        own = ("done", "terminated", "truncated")
        self._ends = [in_next(key) for key in collector.env.done_keys if key not in own]
        for group in self._groups:
            group.root = dict((collector._carrier if self._alone else collector._carrier[group.envs]).items())
            group.policy = (
                call
                if self._alone
                else policy_for_rows(policy, call, collector.env.full_action_spec, group.envs)
            )
        self._batch: RolloutBatch

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
            return self._carrier_of(self._groups[0])
        return torch.cat([self._carrier_of(group) for group in self._groups])

    def _run(self) -> RolloutBatch:
        collector, made = self._collector, 0
        interruptor, counts_versions = collector.interruptor, collector._counts_versions
        while made < collector.frames_per_batch:
            for group in self._groups:
                if group.flight.in_flight:
                    self._finish_step(group, made - 1)
                if counts_versions:
                    group.versions.append(collector.policy_version)
                self._choose_actions(group)
                if made == 0:
                    self._prepare_batch(group)
                self._begin_step(group, made)
            made += 1
            if interruptor is not None and interruptor.collection_stopped():
                break
        for group in self._groups:
            if group.flight.in_flight:
                self._finish_step(group, made - 1)
        return self._finish_batch(made)

    # ---- the policy

    def _choose_actions(self, group: _Group) -> None:
        """Adds the policy's outputs to the root."""
        direct = self._direct
        if self._on_values and not self._random and direct is not None:
            outputs = direct.call(*map(group.root.get, direct.in_keys))
            for value in outputs:
                if type(value) is not torch.Tensor or value.shape[:1] != self._rows or not value.is_cpu:
                    break
            else:
                group.root.update(zip(direct.out_keys, outputs, strict=True))
                return
            carrier = self._carrier_of(group)
            direct.write(carrier, outputs)  # which converts them, or says that they do not fit
        else:
            carrier = self._with_actions(group)
        group.root = dict(carrier.items())

    def _with_actions(self, group: _Group) -> TensorDictBase:
        """The root as a tensordict, with the policy's outputs."""
        collector, carrier = self._collector, self._carrier_of(group)
        if self._random:
            if self._alone:
                collector.env.rand_action(carrier)
            else:
                carrier.update(collector.env.full_action_spec[group.envs].rand())
            return carrier
        observed: TensorDictBase = carrier
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
        return carrier

    # ---- the pool

    def _prepare_batch(self, group: _Group) -> None:
        """Memory for the batch, now that what it holds has been seen."""
        collector, carrier = self._collector, self._carrier_of(group)
        if group is self._groups[0]:
            storage = collector._storage
            if storage is None or not storage.holds(carrier):
                storage = collector._make_storage(carrier)
            self._batch = RolloutBatch(storage)
        assert collector._storage is not None
        group.rows = RolloutRows(self._batch, collector._storage, group.first, group.num_envs)

    def _begin_step(self, group: _Group, step: int) -> None:
        if "_step" in group.root:
            raise ValueError("the policy has written '_step', which it did not when the collector was made")
        root: Any = group.root
        if not self._on_cpu:
            root = dict(_on_host(self._carrier_of(group), group.origins).items())
        stepper = self._stepper
        stepper.before_batch_step()
        inputs = stepper.inputs.prepared(root, group.num_envs)
        if self._call(group, step, inputs, root):
            return
        # Batches hold what is carried on without what it comes from.
        carrier = stepper.unsafe(root, num_rows=group.num_envs).detach()
        recorded = group.rows.sources(carrier, zeros=self._random)
        inputs = stepper.inputs.checked(
            stepper.inputs.prepared(entries_of(carrier), group.num_envs), group.num_envs
        )
        if inputs is None:
            raise ValueError(f"expected a root with the entries {stepper.carried}, got {carrier!r}")
        begun = self._call(group, step, inputs, recorded)
        assert begun

    def _call(self, group: _Group, step: int, inputs: Any, recorded: Any) -> bool:
        """Begins a step; of all envs, makes it. False: an entry is not just as the executor reads it."""
        calls = self._stepper.calls
        if not self._alone:
            return calls.submit(group.flight, inputs, group.rows.core, step, recorded)
        results = calls.record(self._pool, inputs, group.rows.core, step, recorded)
        if results is not None:
            self._advance(group, step, results)
        return results is not None

    def _finish_step(self, group: _Group, step: int) -> None:
        self._advance(group, step, group.flight.wait())

    def _advance(self, group: _Group, step: int, results: _core.Results) -> None:
        """From the root of one step to the next one's; what the step has written may leave for a device."""
        _, group.written, resets = results
        env, batch, next_root = self._env, self._batch, self._stepper.next_root
        if self._alone:
            self._stepper.latest = group.written
        trajectories = group.root.get("collector")
        done = begins = None  # the same, where the simulators are and where the policy is
        if resets and (self._ids_at_each_step or next_root.carries(group.root, self._not_carried)):
            done = batch.tensors["next", "done"][group.envs, step].reshape(-1)
            begins = self._where_the_root_is(done)
        written = self._stepper.on_device(group.written)
        # Where all envs of the pool begin anew TorchRL clears nothing that they do not write.
        root = next_root.following(
            group.root, written, begins if resets < env.num_envs else None, self._not_carried
        )
        if self._collector._counts_versions:
            versions = torch.full((group.num_envs,), group.versions[-1], dtype=torch.int64, device="cpu")
            root[_VERSION] = self._where_the_root_is(versions)
        if not env._on_cpu:
            group.origins = {id(value): (value, group.written[key]) for key, value in written.items()}
        if trajectories is not None:
            ended = self._ended(batch, (group.envs, step)) if self._ends else done
            if self._ids_at_each_step and ended is not None and (number := int(ended.sum())):
                ids = trajectories.get("traj_ids")
                new = self._collector._traj_pool.get_traj_and_increment(number, device=ids.device)
                begun = begins if ended is done and begins is not None else ended.to(ids.device)
                ids = ids.masked_scatter(begun, new)
                trajectories = self._stepper.unsafe({"traj_ids": ids}, num_rows=group.num_envs)
            root["collector"] = trajectories
        group.root = root
        if group is self._groups[-1]:
            batch.send(step + 1)

    def _carrier_of(self, group: _Group) -> TensorDict:
        carrier = self._stepper.unsafe(group.root, num_rows=group.num_envs)
        if self._collector._carrier_has_no_device:
            carrier._device = None
        return carrier

    def _where_the_root_is(self, value: torch.Tensor) -> torch.Tensor:
        env = self._env
        if env._on_cpu or not value.is_cpu:
            return value
        moved: dict[str, torch.Tensor] = self._stepper.on_device({"value": pinned(value)})
        return moved["value"]

    def _finish_batch(self, made: int) -> RolloutBatch:
        batch = self._batch
        if not self._ids_at_each_step and _IDS in batch.tensors:
            self._number_trajectories(batch, made)
        if (versions := batch.tensors.get(("next", _VERSION))) is not None:
            for group in self._groups:
                versions[group.envs, :made] = torch.tensor(group.versions, device="cpu")
        if made < self._collector.frames_per_batch:
            batch.clear_from(made)
        return batch

    def _ended(self, batch: RolloutBatch, steps: tuple[slice, int | slice]) -> torch.Tensor:
        """Which envs' trajectories end at these steps: ``[n]`` or ``[n, t]``."""
        ends = [
            batch.tensors[key][steps].flatten(1 + isinstance(steps[1], slice)).any(-1)
            for key in (("next", "done"), *self._ends)
        ]
        return torch.stack(ends).any(0)

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
            trajectories = group.root["collector"]
            last = following[group.envs, -1].to(trajectories.get("traj_ids").device).clone()
            group.root["collector"] = self._stepper.unsafe({"traj_ids": last}, num_rows=group.num_envs)


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
