"""Actors on other machines: processes of a Ray cluster, called as those of the learner's own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase

from torchrl_pool.examples import say_what_is_missing
from torchrl_pool.examples.actors import A, Actor, Actors, ActorTraining
from torchrl_pool.examples.options import option
from torchrl_pool.examples.results import warn

try:
    import ray
    from ray.exceptions import (
        ActorDiedError,
        GetTimeoutError,
        ObjectLostError,
        RayActorError,
        RayError,
        RayTaskError,
    )
except ImportError as error:
    say_what_is_missing(error, "ray")

ONE_PROCESS = {"num_cpus": 1, "num_gpus": 0, "memory": 10**8, "max_restarts": -1}
SENT_ALONG = 100_000
"""Bytes of weights up to which they are part of a call; more lie on each machine once."""


@dataclass(frozen=True)
class RemoteOptions:
    """Options of programs whose actors are processes of a Ray cluster; goes before the algorithm's."""

    actors: int = option(2, "processes that collect, each with its share of the envs", least=1, kept=True)
    address: str = option("", "of a Ray cluster, such as 10.0.0.1:6379; none: one is started on this machine")
    patience: float = option(120.0, "seconds in which an actor that is lost must be back", least=0)

    def check(self) -> None:
        super().check()  # type: ignore[misc]
        if self.normalize_observations:  # type: ignore[attr-defined]
            raise ValueError(
                "--normalize-observations: expected no statistics of observations, which actors do not share"
            )


class NotBegunError(Exception):
    """This process has no actor: it has come after one that died."""


class Host:
    """An actor in a process of its own; where that dies, Ray starts another, which begins new episodes.

    Args:
        make: makes the actor.
    """

    def __init__(self, make: Callable[[], Actor]) -> None:
        self._make = make
        self._made: Actor | None = None
        self._last: tuple[int, TensorDictBase] | None = None  # batch, by its number

    def begin(self) -> tuple[str, bool]:
        """Makes the actor; returns the machine's address, and whether there was none before."""
        is_new = self._made is None
        if is_new:
            torch.set_num_threads(1)
            self._made = self._make()
        where: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return where, is_new

    @property
    def _actor(self) -> Actor:
        if self._made is None:
            raise NotBegunError
        return self._made

    def collect(self, number: int, version: int, weights: torch.Tensor) -> TensorDictBase:
        """The batch of that number. Asked again, for its answer was lost on the way, it is the same one."""
        if self._last is None or self._last[0] != number:
            self._last = number, self._actor.collect(version, weights)
        return self._last[1]

    def state_dict(self) -> dict[str, Any]:
        return self._actor.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = None  # it was collected before that state, and its number may come again
        self._actor.load_state_dict(state)


class RemoteActor:
    """An :class:`~torchrl_pool.examples.actors.Actor` on whichever machine of a cluster has room.

    A call whose answer is lost, with a machine or a connection, is made again. So each batch is chosen by the
    weights that it was asked for with, and has its full size, whatever happens to machines meanwhile.

    Args:
        name: for messages.
        make: makes the actor, there.
        patience: seconds in which it must answer again.
    """

    def __init__(self, name: str, make: Callable[[], Actor], patience: float) -> None:
        self._name, self._patience = name, patience
        self._batches, self._is_known, self._is_lost = 0, False, False
        self._host: Any = ray.remote(Host).options(**ONE_PROCESS).remote(make)

    def collect(self, version: int, weights: torch.Tensor) -> TensorDictBase:
        batch: TensorDictBase = self._call("collect", self._batches, version, _shared(weights))
        self._batches += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._call("state_dict")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._call("load_state_dict", state)

    def close(self) -> None:
        ray.kill(self._host)

    def _call(self, method: str, *arguments: Any) -> Any:
        """What the actor answers.

        Raises:
            ConnectionError: there was no answer, and why.
        """
        since = time.monotonic()  # it was lost
        while True:
            try:
                if not self._is_known:
                    self._begin(since + self._patience)
                return ray.get(getattr(self._host, method).remote(*arguments))
            except RayTaskError as error:  # what it raised itself
                if not isinstance(error.cause, NotBegunError):
                    raise error.cause from None
                since = self._lose()
            except ActorDiedError as error:  # and is not started again
                reason = str(error).strip().rpartition("\n")[2]
                raise ConnectionError(f"{self._name} cannot run on its machine: {reason}") from None
            except (RayActorError, ObjectLostError):  # its machine or the way there is gone
                if self._is_known:
                    since = self._lose()
                time.sleep(0.2)
            except RayError as error:
                reason = str(error).partition("\n")[0]
                raise ConnectionError(f"{self._name} cannot be asked: {reason}") from None

    def _lose(self) -> float:
        """Returns the time of it."""
        warn(f"{self._name} is lost; expected back within {self._patience:g} s (--patience)")
        self._is_known, self._is_lost = False, True
        return time.monotonic()

    def _begin(self, end: float) -> None:
        """Waits for its process, which may have to wait for room on a machine."""
        left = end - time.monotonic()
        try:
            where, is_new = ray.get(self._host.begin.remote(), timeout=max(left, 0))
        except GetTimeoutError:
            left = 0
        except (RayActorError, ObjectLostError) as error:
            if left > 0 or isinstance(error, ActorDiedError):
                raise
        if left <= 0:
            resources: Any = ray.available_resources()  # type: ignore[no-untyped-call]
            free = resources.get("CPU", 0)
            raise ConnectionError(
                f"{self._name} was not there for {self._patience:g} s (--patience), "
                f"the cluster has {free:g} processors to spare"
            )
        if self._is_lost:
            warn(f"{self._name} is back, on {where}" + ("; it begins new episodes" if is_new else ""))
        self._is_known, self._is_lost = True, False


_last_shared: tuple[torch.Tensor, Any] | None = None


def _shared(weights: torch.Tensor) -> Any:
    """Weights as what is sent: where they are large, one reference for all actors."""
    global _last_shared
    if weights.nbytes <= SENT_ALONG:
        return weights
    last = _last_shared
    if last is None or last[0] is not weights:
        last = _last_shared = weights, ray.put(weights)
    return last[1]


def _make(training: type[ActorTraining[Any]], config: Any, number: int, frames: int, options: Any) -> Actor:
    return training.to_act(config).make_actor(number, frames, **options)


class RemoteTraining(ActorTraining[A]):
    """A training whose actors are processes of a Ray cluster: goes before the algorithm's training."""

    acts_itself = False

    def make_actors(self, policy: Any, steps: int) -> Actors:
        config: Any = self.config
        self._started_ray = not ray.is_initialized()
        if self._started_ray:
            where: dict[str, Any] = {"num_cpus": config.actors}
            if config.address:
                where = {"address": config.address}
            ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        return super().make_actors(policy, steps)

    def begin_actor(self, number: int, frames: int, **options: Any) -> RemoteActor:
        config: Any = self.config
        make = partial(_make, type(self), config, number, frames, options)
        return RemoteActor(f"actor {number}", make, config.patience)

    def close(self) -> None:
        super().close()
        if self._started_ray:
            ray.shutdown()
