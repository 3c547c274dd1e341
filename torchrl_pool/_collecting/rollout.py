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
from torchrl_pool._env.tensors import leaf_keys
from torchrl_pool._env.transfers import down, pinned

_IDS = ("collector", "traj_ids")
_VERSION = "policy_version"
_STEP_AND_RESET = _core.Op.step_and_reset


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
        self.root: dict[Key, Any]  # the entries that their next step begins with
        self.carrier: TensorDictBase  # the same with the policy's outputs, once it was called
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
        self._not_carried = frozenset() if direct is None else direct.overwrites
        # A policy that gets the whole root may read the trajectories' ids.
        self._ids_at_each_step = direct is None or _IDS in direct.in_keys
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
        self._constant: dict[Key, Any] = {}  # what stays in the roots of steps from tensors

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
        collector, made, only_tensors = self._collector, 0, False
        interruptor, counts_versions = collector.interruptor, collector._counts_versions
        while made < collector.frames_per_batch:
            for group in self._groups:
                if group.flight.in_flight:
                    self._finish_step(group, made - 1)
                if counts_versions:
                    group.versions.append(collector.policy_version)
                if only_tensors:
                    self._step_from_tensors(group, made)
                    continue
                carrier = self._choose_actions(group)
                if made == 0:
                    self._prepare_batch(group, carrier)
                self._begin_step(group, made, carrier)
            made += 1
            if interruptor is not None and interruptor.collection_stopped():
                break
            if made == 1 and self._goes_on_with_tensors(self._groups[0]):
                only_tensors = True
        for group in self._groups:
            if group.flight.in_flight:
                self._finish_step(group, made - 1)
        return self._finish_batch(made)

    # ---- steps that begin with nothing but tensors that the pool has written

    def _goes_on_with_tensors(self, group: _Group) -> bool:
        """Whether no step after the first one needs a tensordict."""
        collector, direct = self._collector, self._direct
        if direct is None or self._random or self._ids_at_each_step or collector._counts_versions:
            return False
        if not self._alone or not self._on_cpu or collector._cast_to_policy_device:
            return False
        if self._stepper.looks_closely:
            return False
        if "collector" in group.root:
            self._constant = {"collector": group.root["collector"]}
        written = group.written.keys()
        return written >= {*leaf_keys(self._carrier_of(group))} - {_IDS} and written >= {*direct.in_keys}

    def _step_from_tensors(self, group: _Group, step: int) -> None:
        direct, root, stepper = self._direct, group.root, self._stepper
        assert direct is not None
        outputs = direct.call(*[root[key] for key in direct.in_keys])
        root.update(zip(direct.out_keys, outputs, strict=True))
        stepper.before_batch_step()
        results = stepper.calls.run(self._pool, _STEP_AND_RESET, root, (group.rows.core, step))
        if results is None:  # what the policy has written is looked at more closely
            carrier = self._carrier_of(group)
            direct.write(carrier, outputs)
            self._begin_step(group, step, carrier)
        else:
            group.written = stepper.latest = results[1]
            self._batch.send(step + 1)
        group.root = {**group.written, **self._constant}

    # ---- the policy

    def _choose_actions(self, group: _Group) -> TensorDictBase:
        """The root, with the policy's outputs."""
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

    def _prepare_batch(self, group: _Group, carrier: TensorDictBase) -> None:
        """Memory for the batch, now that what it holds has been seen."""
        collector = self._collector
        if group is self._groups[0]:
            storage = collector._storage
            if storage is None or not storage.holds(carrier):
                storage = collector._make_storage(carrier)
            self._batch = RolloutBatch(storage)
        assert collector._storage is not None
        group.rows = RolloutRows(self._batch, collector._storage, group.first, group.num_envs)

    def _begin_step(self, group: _Group, step: int, carrier: TensorDictBase) -> None:
        if "_step" in carrier.keys():  # noqa: SIM118
            raise ValueError("the policy has written '_step', which it did not when the collector was made")
        group.carrier = carrier
        root = carrier if self._on_cpu else _on_host(carrier, group.origins)
        stepper, place = self._stepper, (group.rows.core, step)
        stepper.before_batch_step()
        is_plain = not stepper.looks_closely and type(root) is TensorDict
        if is_plain and self._call(group, step, root._tensordict, place):
            return
        root = root.detach()  # batches hold what is carried on without what it comes from
        sources = group.rows.sources(root, zeros=self._random)
        inputs = stepper.inputs(root, group.num_envs)
        if inputs is None:
            raise ValueError(f"expected a root with the entries {stepper.carried}, got {root!r}")
        begun = self._call(group, step, inputs, (*place, sources))
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

    def _finish_step(self, group: _Group, step: int) -> None:
        self._advance(group, step, group.flight.wait())

    def _advance(self, group: _Group, step: int, results: _core.Results) -> None:
        """From the root of one step to the next one's; what the step has written may leave for a device."""
        _, group.written, resets = results
        env, batch, carrier = self._env, self._batch, group.carrier
        if self._alone:
            self._stepper.latest = group.written
        entries = {key: value for key, value in carrier.items() if key not in self._not_carried}
        trajectories = entries.pop("collector", None)
        done = begins = None  # the same, where the simulators are and where the policy is
        if resets:
            done = batch.tensors["next", "done"][group.envs, step].reshape(-1)
            begins = self._where_the_root_is(done)
        written = self._stepper.on_device(group.written)
        # Where all envs of the pool begin anew TorchRL clears nothing that they do not write.
        root = self._stepper.next_root.following(entries, written, begins if resets < env.num_envs else None)
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
