"""What a worker does: it makes envs, and does with them what their pool asks for."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from torchrl_pool import _core
from torchrl_pool._processes.children import end_process
from torchrl_pool._workers.adapters import Adapter, adapt
from torchrl_pool._workers.entries import Entry, mismatch
from torchrl_pool._workers.gymnasium_make import NotRegistered, made_by
from torchrl_pool._workers.info_channel import InfoChannel
from torchrl_pool._workers.whole_state import whole_state
from torchrl_pool._workers.wrappers import (
    attribute,
    called,
    check_limit,
    group_map,
    has_attribute,
    is_from,
    is_wrapped,
    kind_of_env,
    look_up,
    picture,
    set_attribute,
)

Factories = Sequence[Callable[[], Any]] | Callable[[], Any]

# What is asked for: an executor's operations, as numbers.
_CREATE, _RESET, _STEP, _STEP_AND_RESET = (
    int(op) for op in (_core.Op.create, _core.Op.reset, _core.Op.step, _core.Op.step_and_reset)
)


@dataclass(frozen=True)
class InfoOptions:
    """Which infos of its envs a pool returns, and under which names.

    Attributes:
        keys: infos of Gymnasium's envs that are entries; ``/`` separates nested levels.
        passed: infos that are passed on as they are, beside the entries, named likewise; ``None``: all.
        own_names: whether entries have names of their own (:func:`~torchrl_pool._workers.entries.apart`),
            since nobody sees them; otherwise names are the keys of tensordicts.
        max_episode_steps: of the pool, of which who tells of episodes has to know; 0: it has no limit.
    """

    keys: tuple[str, ...] = ()
    passed: tuple[str, ...] | None = ()
    own_names: bool = False
    max_episode_steps: int = 0

    @property
    def has_episodes(self) -> bool:
        """Whether statistics of an episode are returned, which wrappers write once it has ended."""
        keys = (*self.keys, *(("episode",) if self.passed is None else self.passed))
        return any(key.split("/")[0] == "episode" for key in keys)

    def chosen(self, info: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What of an info dict is passed on."""
        if self.passed is None:
            return info
        found: dict[Any, Any] = {}
        for name in self.passed:
            if name in info:
                found[name] = info[name]
            elif (value := look_up(info, path := name.split("/"))) is not None:
                *above, last = path
                place = found
                for key in above:
                    place = place.setdefault(key, {})
                place[last] = value
        return found


@dataclass(frozen=True)
class Description:
    """What a pool has to know of its envs.

    Attributes:
        name: of the env, for messages.
        entries: what it reads and writes.
        states: see :class:`~torchrl_pool._workers.adapters.Adapter`.
        sets_state: whether its ``reset(set_state=True)`` begins from these.
        specs: a TorchRL env's, pickled; ``None`` for other envs.
        group_map: a multi-agent env's, if it has one.
    """

    name: str
    entries: tuple[Entry, ...]
    states: tuple[Entry, ...]
    sets_state: bool
    specs: bytes | None
    group_map: dict[str, list[str]] | None


@dataclass(frozen=True)
class Attachment:
    """How a worker takes part in a pool.

    Attributes:
        worker: its number.
        first_env: of each worker, and the number of envs.
        entries: of the pool's envs, and where lost ones are replaced a flag for these, which is the last.
        replaces_lost: whether envs are made anew in the place of those that were lost with another process.
        lost: how the process before this one ended, in words that follow "its worker process".
    """

    worker: int
    first_env: tuple[int, ...]
    entries: tuple[Entry, ...]
    replaces_lost: bool
    lost: str = ""


class RequestFailure(RuntimeError):
    """What was asked of an env has failed there, or its worker process has ended.

    Attributes:
        env: its number.
        report: the exception and the traceback, as text.
    """

    def __init__(self, env: int, report: str) -> None:
        super().__init__(env, report)
        self.env, self.report = env, report

    def __str__(self) -> str:
        return self.report


class CannotSave(RequestFailure, NotImplementedError):
    """The env has no state that can be saved."""


class StateRefused(RequestFailure, ValueError):
    """The env does not take this state."""


class Worker:
    """The envs of one worker, in the process that they run in.

    Args:
        factories: what makes an env, or one such for each.
        options: which infos the pool returns.
        channel: where their infos go; ``None``: nowhere.
        is_local: whether that is the pool's own process, in which an interrupt is meant for its caller.
    """

    def __init__(
        self, factories: Factories, options: InfoOptions, channel: InfoChannel | None, is_local: bool = False
    ) -> None:
        # In a process of their own whatever envs raise is their failure: also what would end a program.
        self._is_local = is_local
        self._failures = Exception if is_local else BaseException
        self._factories = factories
        self._info_options = options
        self._channel = channel
        self._adapters: dict[int, Adapter] = {}
        self._env_of: dict[int, int] = {}  # by the id of what was made
        self._is_forked = False
        self._unset: set[int] = set()  # made, in the place of lost envs too, and not yet set
        # Of each env, what resets are given, by the numbers that those resets name.
        self._given: dict[int, dict[int, tuple[Any, Any, bool | None]]] = {}
        self._told: Sequence[Entry] | None = None  # rewards and infos, which the first env knows for all
        self._attachment: Attachment
        self._port: _core.WorkerPort
        self._actions: list[np.ndarray[Any, Any]]

    # ---- before there is a pool ------------------------------------------------------------------------

    def describe(self, env: int) -> Description:
        """Makes an env, and says what the pool has to know of it."""
        adapter = self._made(env)
        spec = getattr(adapter.env, "spec", None)
        name = getattr(spec, "id", None) or type(adapter.env).__name__
        sets_state = bool(adapter.states) and adapter.env._supports_set_state
        return Description(
            name,
            tuple(adapter.entries),
            tuple(adapter.states),
            sets_state,
            adapter.specs,
            group_map(adapter.env),
        )

    def differing(self, envs: Sequence[int], first: Description) -> list[Description | None]:
        """Makes these envs, and describes those whose bounds are not the first env's.

        One that cannot be made, or does not fit, is left out: it says so once it is created for the pool.
        """
        self._told = _told(first.entries)
        return [self._differing(env, first) for env in envs]

    def _differing(self, env: int, first: Description) -> Description | None:
        try:
            description = self.describe(env)
        except self._failures as error:
            self.end_if_forked(error)
            return None
        is_same = description.entries == first.entries
        return None if is_same or mismatch(description.entries, first.entries) else description

    def attach(self, attachment: Attachment, arena: _core.Arena) -> None:
        """Joins a pool."""
        self._attachment = attachment
        self._told = _told(self._entries)
        self._port = _core.WorkerPort(
            arena=arena,
            worker=attachment.worker,
            entries=list(attachment.entries),
            flags_lost=attachment.replaces_lost,
        )
        num_envs = attachment.first_env[-1]
        actions = [entry for entry in attachment.entries if entry.role == "action"]
        self._actions = [
            np.ndarray((num_envs, *entry.shape), entry.dtype, memoryview(arena), offset)
            for entry, offset in zip(actions, arena.action_offsets, strict=True)
        ]

    @property
    def _entries(self) -> Sequence[Entry]:
        """Those of an env of the pool."""
        entries = self._attachment.entries
        return entries[:-1] if self._attachment.replaces_lost else entries

    def _factory(self, env: int) -> Callable[[], Any]:
        return self._factories if callable(self._factories) else self._factories[env]

    def _made(self, env: int) -> Adapter:
        adapter = self._adapters.get(env)
        if adapter is None:
            factory = self._factory(env)
            made = factory() if self._is_local else made_by(factory)
            within = _within(made)
            other = self._env_of.get(id(within))
            if other is not None and _is_of(self._adapters.get(other), within):
                raise ValueError(
                    f"expected a new env from each call of the callable, got the one that is env {other}"
                )
            options = self._info_options
            if options.max_episode_steps and options.has_episodes:
                check_limit(made)
            adapter = adapt(made, options.keys, self._told, options.own_names)
            if self._channel is not None:
                adapter.tell_info = partial(self._tell_info, env)
            self._told = _told(adapter.entries) if self._told is None else self._told
            self._adapters[env] = adapter
            self._env_of[id(within)] = env
            self._unset.add(env)
        return adapter

    def _tell_info(self, env: int, info: Any, is_reset: bool) -> None:
        assert self._channel is not None
        if not self._is_forked and (chosen := self._info_options.chosen(info)):
            self._channel.tell(env, is_reset, chosen)

    def _check(self, adapter: Adapter) -> None:
        """It has the entries that the pool's first env has, but for their bounds."""
        if reason := mismatch(adapter.entries, self._entries):
            raise ValueError(f"expected the same entries from all envs of a pool; {reason}")

    # ---- what the executor asks for --------------------------------------------------------------------

    def server(self, waits: bool) -> Callable[[], None]:
        """What does what is asked for, until there is nothing more or, if it waits, something in the channel.

        For as long as the worker is attached as it is. It raises RuntimeError where an env that is being
        stepped or reset here asks for it.
        """
        parts = self._adapters, self._unset, self._actions, self._fail, self._work
        return partial(self._port.serve, *parts, waits)

    def _work(self, op: int, first: int, count: int, seed_only: bool) -> None:
        """Does what is more than to step envs that are there, one by one.

        What an env raises is its failure, and not the worker's.
        """
        for env in range(first, first + count):
            if op == _CREATE:
                ended = self._guarded(env, self._create, env)
            elif op == _RESET:
                ended = self._guarded(env, self._reset, env, seed_only)
            else:
                actions = tuple(block[env].copy() for block in self._actions)
                ended = self._guarded(env, self._step_anew, env, actions, op == _STEP_AND_RESET)
            if (
                ended is not None
            ):  # an interrupt, which is for the call: the other envs do not keep it waiting
                raise ended

    def _step_anew(self, env: int, actions: Sequence[Any], may_reset: bool) -> None:
        """A step where envs were lost with the process that they were in."""
        is_lost = env in self._unset or env not in self._adapters
        if is_lost and not self._attachment.replaces_lost:
            lost = self._attachment.lost
            raise RuntimeError(f"its worker process {lost}: reset it before the next step")
        adapter = self._made(env)
        if not is_lost:
            may_reset = self._port.stepped(env, adapter.step(actions, self._port.is_last(env)), may_reset)
        else:
            may_reset = self._port.lost(env, may_reset)
        if may_reset:
            self._unset.discard(env)
            self._port.was_reset(env, adapter.reset(None, None))

    def _create(self, env: int) -> None:
        self._check(self._made(env))
        self._unset.discard(env)
        self._port.was_made(env)

    def _reset(self, env: int, seed_only: bool) -> None:
        adapter = self._made(env)
        seed = self._port.seed_of(env)
        self._unset.discard(env)
        if seed_only and seed is not None:
            adapter.seed(seed)
            self._port.was_made(env)
        else:
            options = self._options(env, adapter)
            self._port.was_reset(env, adapter.reset(seed, options))

    def _options(self, env: int, adapter: Adapter) -> Any:
        """What this reset of the env is given, and no other one."""
        number = self._port.note_of(env)
        if number == 0:
            return None
        given = self._given.get(env, {})
        if number not in given:
            raise RuntimeError("what this reset was given was lost with its worker process: reset it again")
        options, state, set_state = given.pop(number)
        for refused in [other for other in given if other < number]:
            del given[refused]
        if state is not None:
            adapter.begin_from(state, set_state)
        return options

    def _guarded(self, env: int, act: Callable[..., None], *arguments: Any) -> BaseException | None:
        try:
            act(*arguments)
        except BaseException as error:
            return self._fail(env, error)
        return None

    def _fail(self, env: int, error: BaseException) -> BaseException | None:
        """Reports the env's failure; what is meant for the pool's caller is returned."""
        self.end_if_forked(error)
        self._port.failed(env, report_of(error))
        return None if isinstance(error, self._failures) else error

    def disown(self) -> None:
        """In a child that an env has forked: it is no worker, and ends when it leaves the env's call."""
        self._is_forked = True
        if hasattr(self, "_port"):
            self._port.disown()

    def end_if_forked(self, error: BaseException | None = None) -> None:
        """Ends such a child, which has raised this, or has returned."""
        if self._is_forked:
            end_process(error)

    # ---- what is asked for by name ---------------------------------------------------------------------

    def call(
        self, envs: Sequence[int], name: str, arguments: Sequence[Sequence[Any]], named: dict[str, Any]
    ) -> list[Any]:
        """Calls a method of these envs, each with its arguments; another attribute is given as it is."""
        return self._for_each(envs, lambda i, env: called(attribute(env, name), arguments[i], named))

    def get_attr(self, envs: Sequence[int], name: str) -> list[Any]:
        """An attribute of these envs, of the outermost layer that has it."""
        return self._for_each(envs, lambda i, env: attribute(env, name))

    def has_attr(self, envs: Sequence[int], name: str) -> list[bool]:
        """Whether these envs have such an attribute, which stays where it is."""
        return self._for_each(envs, lambda i, env: has_attribute(env, name))

    def set_attr(self, envs: Sequence[int], name: str, values: Sequence[Any]) -> list[Any]:
        """Sets an attribute of these envs, where it is; or of an outermost layer."""
        return self._for_each(envs, lambda i, env: set_attribute(env, name, values[i]))

    def is_wrapped(self, envs: Sequence[int], module: str, name: str) -> list[bool]:
        """Whether one of each env's wrappers is of this class."""
        return self._for_each(envs, lambda i, env: is_wrapped(env, module, name))

    def render(self, envs: Sequence[int]) -> list[Any]:
        """Their pictures, uint8 ``[height, width, 3]``."""
        return self._for_each(envs, lambda i, env: picture(env))

    def hear_of_reset(
        self, envs: Sequence[int], number: int, given: Sequence[tuple[Any, Any]], set_state: bool | None
    ) -> None:
        """What the reset with this number gives each of them: options, and bytes of a state to begin from."""
        for env, (options, state) in zip(envs, given, strict=True):
            self._given.setdefault(env, {})[number] = options, state, set_state

    def save(self, env: int) -> bytes:
        """An env's state: its own ``get_state()`` and what is carried beside it, or all of it, pickled."""
        adapter = self._made(env)
        if adapter.has_own_state:
            _, carried = adapter.state()
            return pickled(("own", (adapter.env.get_state(), carried)))
        try:
            return whole_state(("all", adapter.state()))
        except Exception as error:
            raise CannotSave(
                env, f"it has no get_state() and set_state() of its own, and cannot be pickled: {error}"
            ) from error

    def load(self, env: int, state: bytes) -> None:
        """Puts an env into a state that :meth:`save` gave."""
        adapter = self._made(env)
        try:
            kind, value = pickle.loads(state)
            if kind == "own":
                own, carried = value
                adapter.env.set_state(own)
                value = adapter.env, carried
            elif (theirs := kind_of_env(value[0])) != (ours := kind_of_env(adapter.env)):
                raise StateRefused(env, f"this state is of {theirs}, and this env is {ours}")
            adapter.restore(value)
        except StateRefused:
            raise
        except Exception as error:
            raise StateRefused(env, report_of(error)) from error
        adapter.is_restored = True
        self._unset.discard(env)

    def close(self) -> None:
        """Closes all envs, whatever one of them raises."""
        failures: list[RequestFailure] = []

        def close(env: int, adapter: Adapter) -> None:
            try:
                adapter.env.close()
            except self._failures as error:
                self.end_if_forked(error)
                failures.append(RequestFailure(env, report_of(error)))

        with contextlib.ExitStack() as closing:  # which goes on after an interrupt, too
            for env, adapter in sorted(self._adapters.items(), reverse=True):
                closing.callback(close, env, adapter)
            self._adapters.clear()
            self._env_of.clear()
        if failures:
            raise failures[0]

    def _for_each(self, envs: Sequence[int], act: Callable[[int, Any], Any]) -> list[Any]:
        results = []
        for i, env in enumerate(envs):
            try:
                adapter = self._made(env)
                try:
                    results.append(act(i, adapter.env))
                finally:
                    adapter.restore(adapter.state())  # what it knew of the env may have changed
            except self._failures as error:
                self.end_if_forked(error)
                raise RequestFailure(env, report_of(error)) from error
        return results


#: Tells that an env was lost with its process, and made anew: of a step whose row is truncated.
LOST = Entry("respawned", "info", "bool", (1,))


def report_of(error: BaseException) -> str:
    """What happened in one line, and where: as much as can be said of an exception of any kind."""
    try:
        return _whole_report_of(error)
    except BaseException:  # its __str__, __notes__ or position raise, or its class has no name
        return f"{type(error).__name__} (the exception cannot be formatted)"


def _whole_report_of(error: BaseException) -> str:
    if isinstance(error, NotRegistered):  # an id that Gymnasium refuses was not wrong in any code
        return str(error)
    # Notes come after the line with the kind of error, and where the syntax is wrong before it.
    only = traceback.format_exception_only(error)
    headline = next((part for part in only if not part.startswith(" ")), only[-1]).strip().splitlines()[0]
    whole = "".join(traceback.format_exception(error))
    return f"{_shown(headline, 1_000)}\n\n{_shown(whole, 15_000)}".rstrip()


def _shown(text: str, most: int) -> str:
    """As the executor takes it: so many bytes of UTF-8, without NUL."""
    data = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace")  # a surrogate has no other way
    if len(data) > most:
        data = data[: most // 2] + " […] ".encode() + data[len(data) - most // 2 :]
    return data.decode("utf-8", "ignore")


def pickled(value: Any) -> bytes:
    """The value as bytes, with cloudpickle where pickle cannot."""
    try:
        return pickle.dumps(value)
    except Exception:
        result: bytes = cloudpickle.dumps(value)
        return result


def _within(env: Any) -> Any:
    """What Gymnasium's wrappers are around: two of them may be around one env."""
    return env.unwrapped if is_from("gymnasium", "Env", env) else env


def _is_of(adapter: Adapter | None, within: Any) -> bool:
    """Whether this env was made from that, which may stand in a wrapper of TorchRL's."""
    if adapter is None:
        return False
    return _within(adapter.env) is within or getattr(adapter.env, "_env", None) is within


def _told(entries: Sequence[Entry]) -> Sequence[Entry]:
    return [entry for entry in entries if entry.role in ("reward", "info")]
