"""What :class:`~torchrl_pool.PoolCollector` passes on to TorchRL's ``Collector``, with its types."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict

import torch
from tensordict import TensorDictBase
from torchrl.collectors import Collector, WeightUpdaterBase
from torchrl.data import ReplayBuffer
from torchrl.envs import ExplorationType
from torchrl.weight_update import WeightSyncScheme

from torchrl_pool._plugins.options import unknown_option


class CollectorOptions(TypedDict, total=False):
    """Those of torchrl 0.14 which ``PoolCollector`` has no default or meaning of its own for."""

    auto_register_policy_transforms: bool | None
    backend: Literal["direct", "process", "ray", "rpc", "distributed", "submitit"] | None
    backend_options: dict[str, Any] | None
    compact_obs: bool
    compile_policy: bool | dict[str, Any] | None
    create_env_kwargs: dict[str, Any] | None
    cudagraph_policy: bool | dict[str, Any] | None
    device: torch.device | str | int | None
    env_device: torch.device | str | int | None
    exploration_type: ExplorationType
    extend_buffer: bool
    init_random_frames: int | None
    interruptor: Any
    max_frames_per_traj: int | None
    no_cuda_sync: bool
    num_collectors: int | None
    policy_device: torch.device | str | int | None
    policy_factory: Callable[[], Callable[[TensorDictBase], TensorDictBase]] | None
    post_collect_hook: Callable[[TensorDictBase], None] | None
    postproc: Callable[[TensorDictBase], TensorDictBase] | None
    pre_collect_hook: Callable[[], None] | None
    replay_buffer: ReplayBuffer | None
    reset_at_each_iter: bool
    reset_when_done: bool
    set_truncated: bool
    split_trajs: bool | None
    storing_device: torch.device | str | int | None
    sync: bool | None
    track_traj_ids: bool
    traj_format: Literal["padded", "cat"] | None
    traj_pool: Any
    trajs_per_batch: int | None
    trajs_per_write: int | None
    trust_policy: bool | None
    weight_recv_schemes: Mapping[str, WeightSyncScheme] | None
    weight_sync_schemes: Mapping[str, WeightSyncScheme] | None
    weight_updater: WeightUpdaterBase | Callable[[], WeightUpdaterBase] | None
    worker_idx: int | None


def the_only_one(create_env_fn: Any) -> Any:
    """The env, or what makes it: as in Collector, a list may hold it."""
    if not isinstance(create_env_fn, Sequence):
        return create_env_fn
    if len(create_env_fn) != 1:
        raise ValueError(
            f"create_env_fn: expected one env or callable, got {len(create_env_fn)}: one PoolEnv runs all "
            "num_envs envs"
        )
    return create_env_fn[0]


def check_names(of: type, names: Iterable[str]) -> None:
    """Raises TypeError: an argument that neither the class nor ``Collector`` has."""
    known = [*inspect.signature(Collector.__init__).parameters, "traj_pool"]
    for name in names:
        if name not in known:
            what = f"{of.__name__} has no argument {name!r}"
            raise unknown_option(name, what, "it has its own and those of TorchRL's Collector", known)


@contextlib.contextmanager
def preparing(senders: Mapping[str, WeightSyncScheme] | None) -> Iterator[None]:
    """While ``weight_sync_schemes`` are prepared: says what a scheme lacks that cannot be.

    Raises:
        ValueError: a scheme does not find whom to send to.
    """
    try:
        yield
    except Exception as error:
        if not senders:
            raise
        raise ValueError(
            "weight_sync_schemes: expected schemes that know their receivers (init_on_sender(model_id=…, "
            f"model=…, devices=…)), as a PoolCollector has no collectors below it, got {senders}: {error!r}. "
            "Its own policy needs none: update_policy_weights_(). A collector that gets weights takes "
            "weight_recv_schemes"
        ) from error
