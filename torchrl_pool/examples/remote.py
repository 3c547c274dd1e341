"""Actors on other machines: processes of a Ray cluster, called as those of the learner's own."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from torchrl_pool import EnvFailure
from torchrl_pool.examples import say_what_is_missing
from torchrl_pool.examples.actors import Actor, Actors, MakeNetworks, Threaded, make_actor, threads_of
from torchrl_pool.examples.options import Count, Kept, NotNegative, Positive, expect
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

State = dict[str, Any]
SIGNS = "signs"
"""What :class:`Host` does in a thread of its own."""
ONE_PROCESS = {"num_cpus": 1, "num_gpus": 0, "memory": 10**8, "max_restarts": -1}
REACHING_SECONDS = 10.0
SENT_ALONG = 100_000
"""Bytes of weights up to which they are part of a call; more lie on each machine once."""


@dataclass(frozen=True)
class RemoteOptions:
    """Options of programs whose actors are processes of a Ray cluster; goes before the algorithm's."""

    actors: Kept[Count] = 2  # processes that collect, each with its share of the envs
    address: str = ""  # of a Ray cluster, such as 10.0.0.1:6379; none: one is started on this machine
    silence: Positive = 60.0  # seconds without a sign of life after which an actor is lost
    patience: NotNegative = 120.0  # seconds in which an actor that is lost must be back

    acts_itself = False

    def check(self) -> None:
        super().check()  # type: ignore[misc]
        has_statistics = self.normalize_observations  # type: ignore[attr-defined]
        none = "no statistics of observations, which actors do not share"
        expect(not has_statistics, "normalize_observations", none, has_statistics)


class NotBegunError(Exception):
    """This process has no actor: it has come after one that died."""


class Host:
    """An actor in a process of its own; where that dies, Ray starts another.

    Args:
        make: makes the actor.
    """

    def __init__(self, make: Callable[[], Actor]) -> None:
        self._make = make
        self._made: Actor | None = None
        self._last: tuple[int, TensorDictBase, State | None] | None = None  # batch, by its number
        self._can_be_saved = True

    def begin(self, state: State | None) -> tuple[str, bool]:
        """Makes the actor, in that state; returns the machine's address, and whether it was made now."""
        is_new = self._made is None
        if is_new:
            torch.set_num_threads(1)
            made = self._make()
            if state is not None:
                made.load_state_dict(state)
            self._made = made
        where: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return where, is_new

    @ray.method(concurrency_group=SIGNS)
    def show_sign(self) -> None:
        """A sign of life, which no batch keeps waiting."""

    @property
    def _actor(self) -> Actor:
        if self._made is None:
            raise NotBegunError
        return self._made

    @ray.method(num_returns=2)
    def collect(
        self, number: int, version: int, weights: torch.Tensor
    ) -> tuple[TensorDictBase, State | None]:
        """The batch of that number, and the actor's state after it, None where that cannot be saved.

        Asked again, for its answer was lost on the way, it is the same one.
        """
        if self._last is None or self._last[0] != number:
            batch = self._actor.collect(version, weights)
            self._last = number, batch, self._state()
        return self._last[1:]

    def _state(self) -> State | None:
        if self._can_be_saved:
            try:
                return self.state_dict()
            except (NotImplementedError, EnvFailure):
                self._can_be_saved = False
        return None

    def state_dict(self) -> State:
        return self._actor.state_dict()

    def load_state_dict(self, state: State) -> None:
        self._last = None  # it was collected before that state, and its number may come again
        self._actor.load_state_dict(state)


class RemoteActor:
    """An :class:`~torchrl_pool.examples.actors.Actor` on whichever machine of a cluster has room.

    A call whose answer is lost, with a machine or a connection, is made again, and a new process begins in
    the state that the lost one had after its last batch. So faults of machines do not change a batch.

    Args:
        name: for messages.
        make: makes the actor, there.
        silence: seconds without a sign of life after which its process is ended.
        patience: seconds in which it must be back.
    """

    def __init__(self, name: str, make: Callable[[], Actor], silence: float, patience: float) -> None:
        self._name, self._silence, self._patience = name, silence, patience
        self._batches, self._is_known, self._is_lost = 0, False, False
        self._state: State | None = None  # after its last batch
        self._host: Any = _RemoteHost.options(**ONE_PROCESS).remote(make)

    def collect(self, version: int, weights: torch.Tensor) -> TensorDictBase:
        batch: TensorDictBase
        batch, self._state = self._call("collect", self._batches, version, _shared(weights.cpu()))
        self._batches += 1
        return batch

    def state_dict(self) -> State:
        if self._state is None:
            self._state = self._call("state_dict")
        return self._state

    def load_state_dict(self, state: State) -> None:
        self._call("load_state_dict", state)
        self._state = state

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
                return self._ask(method, *arguments)
            except GetTimeoutError:
                warn(f"{self._name} has shown no sign of life for {self._silence:g} s (--silence)")
                ray.kill(self._host, no_restart=False)
                since = self._lose()
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
            except SystemExit:  # what Ray raises where its own processes have ended
                raise ConnectionError(f"{self._name} cannot be asked: Ray has ended here") from None
            except RayError as error:
                reason = str(error).partition("\n")[0]
                raise ConnectionError(f"{self._name} cannot be asked: {reason}") from None

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Waits for an answer as long as there are signs of life, since the duration of a batch is unknown.

        Raises:
            GetTimeoutError: there are none.
        """
        answer = getattr(self._host, method).remote(*arguments)
        parts = answer if isinstance(answer, list) else [answer]
        while len(ray.wait(parts, num_returns=len(parts), timeout=self._silence / 2)[0]) < len(parts):
            ray.get(self._host.show_sign.remote(), timeout=self._silence / 2)
        return ray.get(answer)

    def _lose(self) -> float:
        """Returns the time of it."""
        warn(f"{self._name} is lost; expected back within {self._patience:g} s (--patience)")
        self._is_known, self._is_lost = False, True
        return time.monotonic()

    def _begin(self, end: float) -> None:
        """Waits for its process, which may have to wait for room on a machine."""
        left = end - time.monotonic()
        try:
            where, is_new = ray.get(self._host.begin.remote(self._state), timeout=max(left, 0))
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
            begins_anew = is_new and self._state is None and self._batches > 0
            warn(f"{self._name} is back, on {where}" + ("; it begins new episodes" if begins_anew else ""))
        self._is_known, self._is_lost = True, False


_RemoteHost: Any = ray.remote(concurrency_groups={SIGNS: 1})(Host)  # type: ignore[call-overload]
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


def _check_reachable(address: str) -> None:
    """Raises ConnectionError if no process listens there; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in address:
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACHING_SECONDS).close()
        except OSError as error:
            raise ConnectionError(
                f"--address: expected the head of a Ray cluster, {address} does not answer: {error}"
            ) from None


def begin_remote_actors(
    config: Any, env: EnvBase, policy: ProbabilisticActor, make_networks: MakeNetworks, steps: int
) -> Actors:
    """What :func:`~torchrl_pool.examples.actors.begin_actors` begins, in a Ray cluster."""
    starts_ray = not ray.is_initialized()
    if starts_ray:
        where: dict[str, Any] = {"num_cpus": config.actors}
        if config.address:
            _check_reachable(config.address)
            where = {"address": config.address}
        ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    frames = env.batch_size[0] * steps
    actors = [
        RemoteActor(
            f"actor {number}",
            partial(make_actor, make_networks, config, number, frames),
            config.silence,
            config.patience,
        )
        for number in range(config.actors)
    ]
    end: Callable[[], object] = ray.shutdown if starts_ray else lambda: None
    return Threaded(actors, policy, **threads_of(config.architecture), end=end)
