"""PoolCollector: TorchRL's Collector, with rollouts that the executor writes where they stay."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.llm.transforms import PolicyVersion

from torchrl_pool._collecting.collector_options import (
    CollectorOptions,
    check_names,
    preparing,
    the_only_one,
)
from torchrl_pool._collecting.collector_state import load_collector_state, state_or_error
from torchrl_pool._collecting.direct_policy import (
    DirectPolicy,
    PolicyPart,
    exploring,
    parts_of,
    take_apart,
)
from torchrl_pool._collecting.env_transforms import fused, with_what_the_policy_reads
from torchrl_pool._collecting.rollout import Rollout, StoringCollector
from torchrl_pool._collecting.rollout_storage import (
    RolloutBatch,
    RolloutStorage,
    RowType,
    in_next,
    row_types,
)
from torchrl_pool._collecting.schedule import Schedule
from torchrl_pool._env.arguments import check_int
from torchrl_pool._env.errors import EnvFailure, naming_doubles
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key, check_dtypes
from torchrl_pool._env.transfers import Uploads
from torchrl_pool._transforms.fused_env import FusedEnv
from torchrl_pool._transforms.native_part import NativePart


class PoolCollector(StoringCollector):
    """TorchRL's :class:`~torchrl.collectors.Collector` for a :class:`~torchrl_pool.PoolEnv`.

    Yields what ``Collector(env, policy, ...)`` yields from the same seeds, key by key. Nothing is stacked or
    cloned at the end of a batch: at each step the pool's threads write into the ``[N, T]`` batch that will be
    yielded. Each batch is new memory, which belongs to the consumer; its dimensions are named
    ``(None, "time")``, and it has these entries:

    | entry | shape and dtype | what it holds |
    |---|---|---|
    | the env's observations | ``[N, T, …]`` | what the policy saw |
    | ``"action"``, and what else the policy writes | ``[N, T, …]`` | its outputs at each step |
    | ``"done"``, ``"terminated"``, ``"truncated"`` | bool ``[N, T, 1]`` | flags before the step: false |
    | ``("next", …)`` | ``[N, T, …]`` | what the step returned: see :class:`~torchrl_pool.PoolEnv` |
    | ``("collector", "traj_ids")`` | int64 ``[N, T]`` | number of the trajectory |
    | ``"policy_version"``, in the root and in next | int64 ``[N, T]`` | with ``track_policy_version`` |

    Transforms with a native form run in the executor (:func:`~torchrl_pool.explain` lists them).
    :attr:`writes_once` is false where batches are collected as ``Collector`` does it: with an env of another
    class, a transform that TorchRL runs, a policy that writes a mask ``"_step"``, or a replay buffer
    with ``extend_buffer=False``.

    Batches hold numbers without gradients, also where the policy itself enables gradients.

    The networks of a policy of TensorDictModules are called with tensors, and actions are sampled and scored
    without a tensordict or a distribution, with the same results bit for bit; other modules are called as in
    ``Collector``. A change of the policy's modules takes effect with the next batch, but for
    ``compile_policy``, which compiles them as they are at the first steps.

    After an :class:`~torchrl_pool.EnvFailure` or Ctrl-C within a batch, its steps are lost and iteration may
    continue: the next batch begins with a reset of all envs. Other exceptions shut the collector down.

    Args:
        create_env_fn: the env, a callable that makes it, or a list with one such callable.
        policy: as in ``Collector``.

    Keyword Args:
        frames_per_batch: steps of all envs together in a batch, N · T.
        total_frames: steps to collect in all; -1: no end.
        double_buffered: steps the envs in two groups (or that many): while the policy computes the actions of
            one, the pool's threads step the others (Sample Factory, section 3.2). The policy is called once
            for each group and step, with batch size ``[N / groups]``, so it may sample other actions than for
            all envs together. VecNorm and TrajCounter learn from the groups in turn. It pays where the policy
            takes about as long as the simulators, on other processors. ``"auto"`` measures six batches with
            one and with two groups, and keeps the faster.
        track_policy_version: as in ``Collector``: ``("next", "policy_version")``, int64 ``[N, T]``, is the
            version of the weights that chose the step's action (Cleanba, section 4), which
            ``update_policy_weights_`` increases.
        policy_threads: torch's threads (``torch.set_num_threads``) while a batch is collected. Default: one
            for a small network, because idle threads spin on the processors of the simulators; torch's own
            number for convolutions, and from about 130 million multiplications a call on. Not set where
            batches are collected in a background thread.
        return_same_td: has no effect: each batch is a tensordict of its own.
        pin_memory: whether the batches are pinned. Default: only when they go to a CUDA device, which is
            ``storing_device`` or else the env's; each step is copied there, in a stream of its own, while the
            next one is computed.
        use_buffers: ``False``: the policy is not called at construction, as in ``Collector``. Batches are
            never overwritten, whatever it is.
        **kwargs: the other arguments of ``Collector``. ``auto_register_policy_transforms``, whether the env
            gets ``is_init`` and the states of a recurrent policy, has another default: where a module of the
            policy reads ``is_init`` (``LSTMModule``, ``GRUModule``, ``OrnsteinUhlenbeckProcessModule``) or
            makes a primer, and only there.

    Raises:
        TypeError: an argument that neither this class nor ``Collector`` has.
        ValueError: more than one env; ``double_buffered`` where :attr:`writes_once` is false, or with more
            groups than envs; ``weight_sync_schemes`` that do not know their receivers.

    Examples:
        >>> from torchrl_pool import PoolCollector, PoolEnv
        >>> collector = PoolCollector(PoolEnv("CartPole-v1", 8), frames_per_batch=256, total_frames=512)
        >>> [tuple(batch.shape) for batch in collector]
        [(8, 32), (8, 32)]
    """

    env: Any
    frames_per_batch: int
    _carrier: TensorDictBase
    _followed: NativePart | None = None  # of a fused env, what was last taken note of
    _final_rollout: TensorDictBase
    _wrapped_policy_maybe_compiled: Any

    def __init__(
        self,
        create_env_fn: EnvBase | Callable[[], EnvBase] | Sequence[Callable[[], EnvBase]],
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        frames_per_batch: int,
        total_frames: int = -1,
        double_buffered: bool | int | str = False,
        track_policy_version: bool | PolicyVersion = False,
        policy_threads: int | None = None,
        pin_memory: bool | None = None,
        return_same_td: bool = False,
        use_buffers: bool | None = None,
        **kwargs: Unpack[CollectorOptions],
    ) -> None:
        del return_same_td
        check_names(type(self), kwargs)
        self._schedule = Schedule(double_buffered, policy_threads)
        self._pin_memory = pin_memory
        self._storage = None
        self._policy_output_keys = ()
        # A policy, and what is called in its place.
        self._compiled: tuple[nn.Module, DirectPolicy | None] | None = None
        self._was_cut_short = False
        self._last_state: dict[str, Any] | Exception | None = None  # after the last frame
        super().__init__(
            the_only_one(create_env_fn),
            policy,
            frames_per_batch=check_int("frames_per_batch", frames_per_batch, minimum=1),
            total_frames=total_frames,
            track_policy_version=track_policy_version,
            use_buffers=use_buffers,
            **kwargs,
        )
        if self.writes_once or not self.init_random_frames:
            # A batch is the consumer's: there is nothing to clone, and no buffer to keep.
            self._use_buffers = False
            self.return_same_td = self.replay_buffer is None
        # else Collector's buffer knows which entries the policy will add to those of random frames.
        self._check_groups()

    @property
    def writes_once(self) -> bool:
        """Whether the pool writes the steps into the batches themselves."""
        return not self._obstacle

    @property
    def _batch_device(self) -> torch.device | None:
        """Where batches go, as Collector's do: to the env's device by default. None: they stay on the CPU."""
        device: torch.device | None = self.storing_device or self.env.device
        is_there = self.storing_device is None and device is not None and device.type == "cpu"
        return None if is_there else device

    @property
    def _obstacle(self) -> str:
        """What would have to be there for the pool to write into batches; empty: nothing is missing."""
        stepper = self._stepper
        if stepper is None or stepper.env._post_step_mdp_hooks is not None or self._leaves_out_what_is_read:
            return (
                f"expected a PoolEnv whose transforms all have a native form (see explain), got {self.env!r}"
            )
        if "_step" in self._policy_output_keys:  # of some envs, then
            return "expected a policy that writes no mask '_step'"
        if self.replay_buffer is not None and not self._ignore_rb and not self.extend_buffer:
            return "expected no replay buffer with extend_buffer=False"
        return ""

    @property
    def _leaves_out_what_is_read(self) -> bool:
        """Whether statistics are of entries that ``compact_obs`` leaves out.

        These lie in the next root alone, where an episode that begins overwrites them before they are read.
        """
        stepper, left_out = self._stepper, getattr(self, "_compact_next_keys", ())
        return stepper is not None and any(in_next(key) in left_out for key in stepper.read_later)

    @property
    def num_groups(self) -> int | None:
        """In how many groups the envs are stepped, see ``double_buffered``; None: not decided yet."""
        return self._schedule.num_groups if self._schedule.is_decided else None

    def policy_parts(self) -> list[PolicyPart]:
        """The modules of the policy in the order of their calls, and why some get a tensordict.

        :func:`~torchrl_pool.explain` prints them.
        """
        policy = self._wrapped_policy_uncompiled
        whole = type(policy).__name__
        if self.cudagraphed_policy:
            return [PolicyPart(whole, None, "it is captured by a CUDA graph")]
        if self.compiled_policy and not self.writes_once:
            return [
                PolicyPart(whole, None, "it is compiled, and batches are collected as by TorchRL's Collector")
            ]
        with exploring(self.exploration_type):
            return parts_of(policy)

    def _policy_now(self) -> DirectPolicy | None:
        """What is called in the policy's place, if anything."""
        policy = self._wrapped_policy_uncompiled
        if self.cudagraphed_policy:
            return None
        direct = take_apart(policy)  # again for each batch: somebody may have changed it
        if self.compiled_policy and isinstance(policy, nn.Module):
            if self._compiled is None or self._compiled[0] is not policy:
                self._compiled = policy, direct and direct.compile(**self.compiled_policy_kwargs)
            direct = self._compiled[1]
        return direct

    @contextlib.contextmanager
    def _policy_taken_apart(self) -> Iterator[None]:
        """While Collector's own code collects: it calls what is in the policy's place, if anything."""
        direct = None if self.compiled_policy else self._policy_now()
        if direct is None or type(self._carrier) is not TensorDict:
            yield
            return
        self._wrapped_policy_maybe_compiled = direct
        try:
            yield
        finally:
            self._wrapped_policy_maybe_compiled = None  # the policy as it is, which is not compiled

    # ---- what differs in the construction

    def _setup_weight_sync(self, weight_updater: Any, weight_sync_schemes: Any) -> None:
        with preparing(weight_sync_schemes):
            super()._setup_weight_sync(weight_updater, weight_sync_schemes)

    def _maybe_setup_policy_env_transforms(self, env: EnvBase, policy: Any) -> EnvBase:
        if self._auto_register_policy_transforms is not None:
            return super()._maybe_setup_policy_env_transforms(env, policy)
        return with_what_the_policy_reads(env, policy)

    def _setup_max_frames_per_traj(self, max_frames_per_traj: int | None) -> None:
        super()._setup_max_frames_per_traj(max_frames_per_traj)
        # From here on the env stays what it is.
        self.env = fused(self.env, self.policy_version_tracker)
        if isinstance(self.env, PoolEnv) and self.env._writes_entries:
            self._stepper = self.env._stepper
        self._follow_transforms()

    def _follow_transforms(self) -> None:
        """Takes note of what the transforms are now: they may have been changed, frozen, initialised."""
        if not isinstance(self.env, FusedEnv):
            return
        rest = self.env.fusion().rest  # which may be the first to ask for what it then finds changed
        part = self.env.native()
        if part is self._followed:
            return
        self._followed, self._storage = part, None
        tracker = self.policy_version_tracker
        counts = tracker is not None and tracker.version_type in (int, "int")
        self._counts_versions = counts and len(rest) == 1 and rest[0] is tracker
        self._stepper = part if not rest or self._counts_versions else None

    def _maybe_make_final_rollout(self, make_rollout: bool) -> None:
        if not (make_rollout and self.writes_once):
            super()._maybe_make_final_rollout(make_rollout)
            return
        # All that is needed of it is what a batch holds: one step tells.
        num_steps, self.frames_per_batch = self.frames_per_batch, 1
        with naming_doubles(self.env):
            super()._maybe_make_final_rollout(make_rollout)
        self.frames_per_batch = num_steps
        if not self.writes_once:  # as the policy has shown
            self._final_rollout = self._final_rollout.expand(self.n_env, num_steps).clone()
            self._final_rollout.refine_names(..., "time")
            return
        self._make_storage(self._final_rollout)
        del self._final_rollout

    def _make_storage(self, template: TensorDictBase) -> RolloutStorage:
        stepper = self._stepper
        assert stepper is not None
        outputs, left_out = dict(stepper.columns.rows), {*self._compact_next_keys}
        filled_in: dict[Key, RowType] = {}
        if self._counts_versions and ("next", "policy_version") not in left_out:
            filled_in["next", "policy_version"] = torch.Size([]), torch.int64
        recorded = {} if self._storage is None else dict(self._storage.recorded)
        elsewhere = {*map(in_next, outputs), *filled_in, *left_out}
        recorded.update({key: row for key, row in row_types(template).items() if key not in elsewhere})
        device = self._batch_device
        is_cuda = device is not None and device.type == "cuda"
        pin_memory = is_cuda if self._pin_memory is None else self._pin_memory
        self._storage = RolloutStorage(
            stepper.env.num_envs,
            self.frames_per_batch,
            outputs=outputs,
            filled_in=filled_in,
            recorded=recorded,
            left_out=left_out,
            pin_memory=pin_memory,
            uploads=Uploads(device) if pin_memory and device is not None and device.type != "cpu" else None,
            nested_sizes=stepper.next_root.nested_sizes,
            positions=stepper.columns.positions,
            hidden_columns=stepper.columns.out,
        )
        return self._storage

    def _check_groups(self) -> None:
        obstacle = self._obstacle
        if not obstacle and self._stepper is not None and (indivisible := self._stepper.indivisible):
            obstacle = f"expected transforms that can run on groups of envs; {indivisible}"
        self._schedule.fit(self.n_env, obstacle)

    @torch.no_grad()
    def fake_tensordict(self) -> TensorDictBase:
        """As :meth:`torchrl.collectors.Collector.fake_tensordict`."""
        if not self.writes_once:
            return super().fake_tensordict()
        if self._storage is None:
            self._maybe_make_final_rollout(make_rollout=True)
        assert self._storage is not None
        zeros = RolloutBatch(self._storage).as_tensordict(self._batch_device).zero_()
        return self._postproc(self._maybe_set_truncated(zeros))

    # ---- rollouts

    def __iter__(self) -> Iterator[TensorDictBase | None]:
        self._iteration_started = True
        try:
            yield from self.iterator() if self.trajs_per_batch is None else self._iter_by_trajectories()
        except EnvFailure:
            raise
        except Exception:
            self.shutdown()
            raise

    def iterator(self) -> Iterator[TensorDictBase | None]:
        """Yields batches ``[N, T]`` until ``total_frames`` are collected; ``None`` with a replay buffer."""
        if not self.writes_once or self.replay_buffer is not None:
            yield from super().iterator()
            return
        while self._frames < self.total_frames:
            yield self._next_batch()  # no name for it here: that would keep its memory in use

    def _increment_frames(self, numel: int) -> bool:
        """As ``Collector``'s, which closes the env with the last frame: ``state_dict()`` may follow."""
        if self._frames + numel >= self.total_frames:
            self._last_state = state_or_error(self)
            if self.replay_buffer is not None and not self.extend_buffer:  # in the midst of the last step
                self._last_state = ValueError("the collector has ended, with extend_buffer=False")
            elif isinstance(self._last_state, dict):
                self._last_state["frames"] += numel
        with self._closing_env("its collector, which has all of its total_frames"):
            completed: bool = super()._increment_frames(numel)
        return completed

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """Ends the collector and closes its env: as :meth:`torchrl.collectors.Collector.shutdown`."""
        with self._closing_env("its collector's shutdown"):
            super().shutdown(*args, **kwargs)

    @contextlib.contextmanager
    def _closing_env(self, who: str) -> Iterator[None]:
        """Notes who closes the pool, if somebody does, for whoever asks it afterwards."""
        pool: Any = getattr(self, "env", None)
        while isinstance(pool, TransformedEnv):
            pool = pool.base_env
        was_open = isinstance(pool, PoolEnv) and not pool.is_closed
        yield
        if was_open and pool.is_closed:
            pool._simulators.closed_by = who

    def _next_batch(self) -> TensorDictBase:
        self._iter += 1
        batch = self.rollout()
        assert batch is not None
        self._increment_frames(batch.numel())
        batch = self._postproc(batch)
        if self.post_collect_hook is not None:
            self.post_collect_hook(batch)
        return batch

    def _postproc(self, tensordict_out: TensorDictBase) -> TensorDictBase:
        storage = self._storage
        if self.split_trajs or self.postproc is not None or storage is None or storage.has_private:
            return super()._postproc(tensordict_out)
        return tensordict_out  # in which Collector would look for private entries

    @torch.no_grad()
    def rollout(self) -> TensorDictBase | None:
        """Collects one batch ``[N, T]``; ``None`` where it went to a replay buffer.

        Otherwise as :meth:`torchrl.collectors.Collector.rollout`.

        Raises:
            EnvFailure: envs have failed; the steps of this batch are lost.
        """
        self._last_state = None
        self._follow_transforms()
        if not self.writes_once:
            with (
                naming_doubles(self.env),
                exploring(self.exploration_type),
                self._policy_taken_apart(),
            ):
                return super().rollout()
        if self.env.run_type_checks:
            assert self._stepper is not None
            check_dtypes(self.env, self._stepper.step_prototypes)
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        if self.reset_at_each_iter:
            self._carrier.update(self.env.reset())
            self._start_new_trajectories()
        elif self._was_cut_short:
            self._flush_trajectory_assembly()
            self._make_carrier()
        self._was_cut_short = True
        start = time.perf_counter()
        with naming_doubles(self.env), exploring(self.exploration_type):
            direct = self._policy_now()
            with self._schedule.computing(self._wrapped_policy_uncompiled, self.n_env):
                rollout = Rollout(self, direct, self._schedule.num_groups)
                batch = rollout.run()
        self._schedule.note(time.perf_counter() - start)
        self._carrier = rollout.last_carrier()
        self._was_cut_short = False
        result = batch.as_tensordict(self._batch_device)
        if not self.no_cuda_sync:
            self._sync_storage()
        return self._maybe_set_truncated(result)

    # ---- checkpoints

    def state_dict(self) -> OrderedDict[str, Any]:
        """As :meth:`torchrl.collectors.Collector.state_dict`, and the simulators under ``"pool"``.

        A collector that loads it goes on bit for bit, from the same state of torch's generators. Where
        simulators cannot be saved, a warning says so: new episodes begin then, as with ``Collector``. What is
        saved after ``total_frames`` is kept from the last frame, after which the env is closed.
        """
        state: OrderedDict[str, Any] = super().state_dict()
        simulators = self._last_state or state_or_error(self)
        if isinstance(simulators, Exception):
            warnings.warn(f"state_dict() holds no simulators: {simulators}", stacklevel=2)
        else:
            state["pool"] = {**simulators, "policy_version": self.policy_version}
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], **kwargs: Any) -> None:
        """As :meth:`torchrl.collectors.Collector.load_state_dict`; simulators go on where they were saved."""
        super().load_state_dict(state_dict, **kwargs)
        self._last_state = None
        if "pool" in state_dict:
            load_collector_state(self, state_dict["pool"])

    @torch.no_grad()
    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """As :meth:`torchrl.collectors.Collector.reset`."""
        self._carrier = self._carrier.clone()  # it is written to, and shares tensors with the policy
        super().reset(index, **kwargs)
