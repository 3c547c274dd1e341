"""MujocoPool: the physics of any MuJoCo model in the executor, a task's functions over the whole batch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import DTypeLike
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Composite, Unbounded

from torchrl_pool._env.arguments import (
    EnvIndex,
    check_float_dtype,
    check_int,
    check_names,
    generator_seed,
    mask_of_reset,
)
from torchrl_pool._env.errors import EnvFailure, joined
from torchrl_pool._env.in_flight import STEP, indices_of, receive
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.reset_arguments import Options as ResetOptions
from torchrl_pool._env.specs import Key, check_dtypes, key_named
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.tensors import unsafe_tensordict
from torchrl_pool._env.tracing import not_traced
from torchrl_pool._mujoco.functions import (
    FLAGS,
    RESERVED,
    Functions,
    Observe,
    Reset,
    Reward,
    Terminated,
    check_free,
    flag_column,
    initial_values,
    naming_fields,
    observed,
    reward_and_terms,
)
from torchrl_pool._mujoco.model_source import models_per_env, python_model, with_models
from torchrl_pool._mujoco.open_loop import steps
from torchrl_pool._mujoco.reset_options import PHYSICS, in_own_words, reset_options


class MujocoPool(PoolEnv):
    """A :class:`~torchrl_pool.PoolEnv` of any MuJoCo model, with a task that is written in torch.

    The physics of all envs runs in the threads of one C++ executor; then the task's functions run once for
    the whole batch of N = ``num_envs``::

        reward(state, action, next_state)  ->  [N] or [N, 1], floating-point; or {"reward": …, "a term": …}
        terminated(state, next_state)      ->  [N] or [N, 1], bool
        reset(rows, rng)                   ->  {"qpos": [k, nq], "qvel": [k, nv], …} for the envs `rows` ([k])
        observe(state)                     ->  [N, …], the entry "observation", or several by their names

    ``state`` and ``next_state`` are tensordicts ``[N]`` with the arrays of ``mjData`` that ``observation``
    and ``fields`` name, before and after the step, in MuJoCo's own dtypes; and ``"step_count"``. An array is
    named as it is in ``mjData`` (``"qpos"``, ``"sensordata"``, ``"xpos"``), also for some bodies, joints or
    sensors alone (``"xpos:torso"``, ``"qpos:hip,knee"``, ``"sensordata:gyro"``). Arrays of each env's
    ``mjModel`` are named likewise: ``"body_mass"`` tells what ``randomize`` has drawn.

    The entries, of batch size ``[N]``: ``"qpos"``, ``"qvel"`` or what ``observation`` names (``[N, …]``, of
    ``dtype``); terms in ``info_keys`` (``[N]``, of ``dtype``); ``"reward"`` (``[N, 1]``, of ``dtype``); the
    flags ``"done"``, ``"terminated"`` and ``"truncated"`` (bool ``[N, 1]``). Actions are float32 ``[N, nu]``.

    Args:
        xml: the path of a model, its XML text, or the name of one of Gymnasium's models (``"ant.xml"``); or
            ``num_envs`` of them, a model for each env, which may differ in all but the shapes of what is
            observed and of actions.
        num_envs: number of simulations; the batch size is ``[num_envs]``.

    Keyword Args:
        frame_skip: simulation steps per step.
        observation: the arrays that are entries of the observation, or an ``observe`` function.
        fields: further arrays, for the functions alone.
        info_keys: the terms of the reward that are entries, ``[num_envs]``; zeros where an episode begins.
        reward: see above. Default: none (0).
        terminated: see above. Default: only ``max_episode_steps`` ends an episode.
        reset: see above. Default: episodes begin at ``keyframe``.
        task: an object with methods ``reward``, ``terminated``, ``reset`` and ``observe``, for those
            functions that are not given.
        keyframe: where episodes begin, by number or name. Default: the model's initial state.
        randomize: domain randomization, drawn at each reset, in this order, from each env's random stream:
            ``"qpos += uniform(-0.1, 0.1)"``, ``"body_mass:torso *= normal(1, 0.1)"``,
            ``"geom_friction = log_uniform(0.5, 2)"``. A line that names an array of ``mjModel`` gives each
            env a model of its own, and starts from the compiled model's numbers each time.
        model_fields: arrays of ``mjModel`` by name with each env's values ``[N, …]``; or the names alone, for
            a ``reset`` that returns them.
        dtype: of rewards and of floating-point observations, ``torch.float32`` or ``torch.float64``, or the
            name of one.
        max_episode_steps: steps after which an episode is truncated, by default 1000; ``None``: never.
        assets: files that the XML text names: their contents, by name (with the model's ``meshdir``).
        seed: as ``set_seed(seed)`` right after construction.
        device: where outputs go, and where the functions find their inputs.
        from_pixels: as in :class:`~torchrl_pool.PoolEnv`.
        pixels_only: as in :class:`~torchrl_pool.PoolEnv`.
        **options: those of ``MJCF-v0`` (``python -m torchrl_pool info MJCF-v0``): ``kp``, ``kd``,
            ``target_scale``, ``unlimited_range``, ``action_delay``, ``fresh``, ``camera_name``, …, and those
            of :class:`~torchrl_pool.PoolEnv`: ``num_threads``, ``step_timeout``, ``env_options``,
            ``refuse_nan``, ``check_actions``, ``thread_affinity``.

    Raises:
        FileNotFoundError: there is no such model.
        TypeError: an argument of another type, or one of :class:`~torchrl_pool.PoolEnv` that has no meaning
            here.
        ValueError: the model does not compile, or has no array, body, joint, … of a name; the message
            suggests the nearest ones.
        EnvFailure: by a call: a simulation diverged, which leaves it in its state before the step; or its
            reward is not finite. The others have stepped.

    Examples:
        >>> from torchrl_pool import MujocoPool
        >>> env = MujocoPool("ant.xml", 4, frame_skip=5, reward=lambda state, action, new: new["qvel"][:, 0])
        >>> env.rollout(3)["next", "qpos"].shape
        torch.Size([4, 3, 15])
    """

    _writes_entries, _steps_at_once = False, True
    _has_frame_skip = True  # or TorchRL would add a transform for it
    rng: torch.Generator

    def __init__(
        self,
        xml: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        num_envs: int,
        *,
        frame_skip: int = 1,
        observation: Sequence[str] | Observe = ("qpos", "qvel"),
        fields: Sequence[str] = (),
        info_keys: Sequence[str] = (),
        reward: Reward | None = None,
        terminated: Terminated | None = None,
        reset: Reset | None = None,
        task: Any = None,
        keyframe: int | str | None = None,
        randomize: Sequence[str] = (),
        model_fields: Mapping[str, torch.Tensor] | Sequence[str] = (),
        dtype: torch.dtype | DTypeLike = torch.float32,
        max_episode_steps: int | None = 1000,
        assets: Mapping[str, bytes] | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        from_pixels: bool = False,
        pixels_only: bool = True,
        **options: Any,
    ) -> None:
        arguments = {k: v for k, v in locals().items() if k not in ("self", "options", "__class__")}
        arguments.update(options)
        own_dtype = check_float_dtype("dtype", dtype) or torch.float32
        if refused := [name for name in ("obs_dtype", "xml_file") if name in options]:
            raise TypeError(
                f"{', '.join(refused)}: not an argument of {type(self).__name__}; use dtype and xml"
            )
        observe = observation if callable(observation) else None
        functions = Functions.of(task, reward=reward, terminated=terminated, reset=reset, observe=observe)
        entries = () if callable(observation) else check_names("observation", observation)
        wanted = list(dict.fromkeys([*entries, *check_names("fields", fields)])) or ["qpos", "qvel"]
        terms = check_names("info_keys", info_keys)
        check_free(terms, [*wanted, "step_count", *RESERVED])
        pictures_alone = pixels_only and from_pixels
        given = model_fields if isinstance(model_fields, Mapping) else {}
        model_values = initial_values(given, num_envs, "model_fields")
        models = models_per_env(xml, assets, num_envs)
        if len(set(models)) > 1:
            options["env_options"] = with_models(models, options.get("env_options"))
        if assets:
            arguments["assets"] = {name: bytes(content) for name, content in assets.items()}
        else:
            arguments["xml"] = models if len(set(models)) > 1 else models[0]  # found from every folder
        super().__init__(
            PHYSICS,
            num_envs,
            xml_file=models[0],
            frame_skip=frame_skip,
            observation=wanted,
            info_keys=["step_count", *(f"previous:{name}" for name in wanted)],
            keyframe=keyframe,
            randomize=check_names("randomize", randomize),
            model_fields=check_names("model_fields", [*given] or model_fields or []),
            max_episode_steps=max_episode_steps,
            device=device,
            from_pixels=from_pixels,
            pixels_only=False,
            **options,
        )
        self._arguments = arguments
        self._model, self._mj_model = models[0], None  # of env 0
        self._supports_set_state = True
        self.frame_skip, self.dtype = frame_skip, own_dtype
        self._functions = functions
        self._model_values = {name: value.detach().cpu().clone() for name, value in model_values.items()}
        if model_values:
            every = range(num_envs)
            with in_own_words():
                self._source.reset_arguments(None, reset_options(model_values, {}, every, num_envs), None)
            self._check_shapes(model_values)
            arguments["model_fields"] = self._model_values  # whatever the caller writes to those it gave
        self._entries = () if pictures_alone else tuple(entries)
        self._observes = functions.observe is not None and not pictures_alone
        self._terms, self._pixels = tuple(terms), from_pixels
        # The columns of what functions see, after a step and before it.
        self._fields: dict[str, Key] = {name: key_named(name) for name in wanted}
        self._previous: dict[str, Key] = {name: key_named(f"previous:{name}") for name in wanted}
        self._make_task_specs()
        self.rng = torch.Generator()
        self.rng.seed()
        self._seeded = self.rng, self.rng.get_state()
        if seed is not None:
            self.set_seed(seed)

    def _check_shapes(self, model_values: Mapping[str, torch.Tensor]) -> None:
        """Where a value is more than a row of numbers, it is no other array of as many numbers."""
        for name, value in model_values.items():
            field = getattr(self.mj_model, name, None) if value.ndim > 2 else None
            if field is not None and value.shape[1:] != field.shape:
                raise ValueError(
                    f"model_fields: {name!r}: expected shape {[self.num_envs, *field.shape]}, "
                    f"got {list(value.shape)}"
                )

    # ---- specs

    def _make_task_specs(self) -> None:
        """Specs of the entries in the place of those of the columns."""
        blank = self._columns(self.full_observation_spec.zero())
        observation = Composite(shape=(self.num_envs,), device=self.device)
        for key, value in self._observation(blank, self._seen(blank)[1]).items():
            observation[key] = Unbounded(shape=value.shape, dtype=value.dtype, device=self.device)
        if self._pixels:
            observation["pixels"] = self.full_observation_spec["pixels"].clone()
        self.observation_spec = observation
        self.reward_spec = Unbounded(shape=(self.num_envs, 1), dtype=self.dtype, device=self.device)
        in_root = [*observation.keys(), *FLAGS]
        self._next_root = NextRoot(["reward", *in_root], in_root, ["action"], self.done_keys, {})
        self._stepper.next_root = self._next_root

    # ---- from columns to entries

    def _columns(self, written: TensorDictBase) -> dict[Key, torch.Tensor]:
        """What the executor has written, by the keys of its columns."""
        return dict(written.items(True, True) if self._nested else written.items())

    def _seen(self, columns: Mapping[Key, torch.Tensor]) -> tuple[TensorDict, TensorDict]:
        """What functions see: the arrays before a step and after it."""
        count = columns["step_count"]
        size = count.shape[:1]
        before: dict[Key, Any] = {name: columns[key] for name, key in self._previous.items()}
        after: dict[Key, Any] = {name: columns[key] for name, key in self._fields.items()}
        before["step_count"], after["step_count"] = count - 1, count
        return (
            unsafe_tensordict(before, size, self.device, nested=False),
            unsafe_tensordict(after, size, self.device, nested=False),
        )

    def _observation(self, columns: Mapping[Key, torch.Tensor], state: TensorDict) -> dict[Key, torch.Tensor]:
        """The entries of roots but for flags; terms of the reward are 0."""
        entries: dict[Key, torch.Tensor] = {name: state.get(name) for name in self._entries}
        if self._observes:
            assert self._functions.observe is not None
            with naming_fields(state):
                entries.update(observed(self._functions.observe(state), len(state)))
            check_free(self._terms, entries)
        if self._pixels and "pixels" in columns:
            entries["pixels"] = columns["pixels"]
        for key, value in entries.items():
            entries[key] = self._own(value.detach(), self.dtype if value.is_floating_point() else None)
        for term in self._terms:
            entries[term] = torch.zeros(len(state), dtype=self.dtype, device=self.device)
        return entries

    def _own(self, value: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A copy, which belongs to the caller: what functions have seen is never written again."""
        return value.to(device=self.device, dtype=dtype, copy=True)

    def _root(self, written: TensorDictBase) -> TensorDict:
        """What an episode begins with."""
        columns = self._columns(written)
        values = self._observation(columns, self._seen(columns)[1])
        values.update((flag, self._own(columns[flag])) for flag in FLAGS)
        return unsafe_tensordict(values, written.batch_size, self.device, nested=False)

    def _results(
        self,
        written: TensorDictBase,
        action: torch.Tensor,
        *,
        envs: Sequence[int],
        stepped: torch.Tensor | None = None,
        failure: EnvFailure | None = None,
    ) -> TensorDict:
        """The ``"next"`` entry of a step.

        Args:
            written: by the executor.
            action: what was done; a function may write into it.
            envs: the numbers of these envs.
            stepped: those that have moved; None: all.
            failure: what the executor says of some of them.

        Raises:
            EnvFailure: that, or a reward is not finite. Its ``tensordict`` has what the others' step gave.
        """
        columns = self._columns(written)
        state, following = self._seen(columns)
        count = len(envs)
        try:
            with naming_fields(following):
                reward, terms = reward_and_terms(
                    self._functions.reward(state, action, following), count, self._terms
                )
                terminated = self._own(flag_column(self._functions.terminated(state, following), count))
            values = self._observation(columns, following)
        except Exception as error:
            if failure is None:
                raise
            failure.tensordict = None
            raise failure from error
        reward, truncated = self._own(reward, self.dtype), self._own(columns["truncated"])
        values.update((key, self._own(term, self.dtype)) for key, term in terms.items())
        values.update(reward=reward, done=terminated | truncated, terminated=terminated, truncated=truncated)
        result = unsafe_tensordict(values, written.batch_size, self.device, nested=False)
        if failure is None and math.isfinite(reward.sum().item()):
            return result
        failures = [] if failure is None else [failure]
        unfit = ~reward.reshape(-1).isfinite()
        for row in (unfit if stepped is None else unfit & stepped).cpu().nonzero().flatten().tolist():
            if failure is None or envs[row] not in failure.env_index:
                message = f"the reward is {reward[row].item()}"
                step = int(following.get("step_count")[row])
                text = f"env {envs[row]} failed: {message}"
                failures.append(EnvFailure(text, [envs[row]], [message], [step]))
        if not failures:
            return result  # great ones, whose sum is not finite
        failed = joined(failures)
        for row, env in enumerate(envs):
            if env in failed.env_index:
                result[row].zero_()
        failed.tensordict = result
        raise failed from None

    # ---- steps

    @not_traced
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask, latest, failure = tensordict.get("_step", None), self._stepper.latest, None
        given: dict[Key, Any] = {key: tensordict.get(key) for key in ("action", "_step") if key in tensordict}
        try:
            columns = super()._step(self._stepper.unsafe(given))  # rows left out are as the pool knows them
        except EnvFailure as error:
            if error.tensordict is None:
                raise
            failure, columns = error, error.tensordict
            # A simulation that diverges stays where it was, and that is what functions see.
            rows = [env for env in failure.env_index if env not in failure.hung]
            for key, value in latest.items():
                columns.get(key)[rows] = value[rows].to(columns.get(key).device)
        stepped = None if mask is None else mask.reshape(-1)
        action = tensordict.get("action").clone()
        every = range(self.num_envs)
        try:
            result = self._results(columns, action, envs=every, stepped=stepped, failure=failure)
        except EnvFailure as error:
            if stepped is not None and error.tensordict is not None:
                error.tensordict = self._kept(error.tensordict, tensordict, stepped)
            raise
        return result if stepped is None else self._kept(result, tensordict, stepped)

    def _kept(self, result: TensorDict, root: TensorDictBase, stepped: torch.Tensor) -> TensorDict:
        """Rows that did not step show what their root shows, and earn nothing."""
        for key, value in result.items():
            old = None if key == "reward" else root.get(key, None)
            if old is None:
                old = torch.zeros_like(value) if key == "reward" or key in self._terms else value
            result.set(key, torch.where(stepped.reshape(-1, *[1] * (value.ndim - 1)), value, old))
        return result

    def _advance(self, tensordict: TensorDict, entries: Mapping[Key, Any]) -> tuple[TensorDict, TensorDict]:
        following = self._step(tensordict)
        following._td_dim_names = names = tensordict._td_dim_names
        values = dict(following.items())
        if self._run_type_checks:
            check_dtypes(self, values)
        done, begun = values["done"], values
        if done.any():
            begun = dict(self._reset(self._stepper.unsafe({"_reset": done})).items())
            begun.update((term, values[term].masked_fill(done.squeeze(-1), 0)) for term in self._terms)
        some = done if begun is not values and not done.all() else None
        return following, self._stepper.unsafe(self._next_root.following(entries, begun, some), names)

    # ---- resets

    @not_traced
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = mask_of_reset(tensordict, self.num_envs)
        # Rows left out are as the pool knows them.
        given = {} if mask is None else {**self._stepper.latest, "_reset": mask}
        rows = torch.arange(self.num_envs) if mask is None else mask.nonzero().flatten()
        restored = tensordict if kwargs.pop("set_state", False) else None
        seed, options = kwargs.pop("seed", None), kwargs.pop("options", None)
        try:
            with in_own_words():
                options = self._options(rows, seed, options, restored)
                columns = super()._reset(self._stepper.unsafe(given), seed=seed, options=options, **kwargs)
        except EnvFailure as failure:
            if failure.tensordict is not None:
                failure.tensordict = self._root(failure.tensordict)
            raise
        return self._root(columns)

    def _options(
        self, rows: torch.Tensor, seed: Any, given: ResetOptions, restored: TensorDictBase | None = None
    ) -> ResetOptions:
        """The options of a reset of these envs: what ``model_fields`` and ``reset`` give.

        Args:
            rows: their numbers.
            seed: what it is given; the generator of ``reset`` is seeded too.
            given: the caller's options.
            restored: where the envs go on from; None: they begin anew.
        """
        self._source.reset_arguments(seed, None, None)  # refuses what is no seed
        if seed is not None:
            self.rng.manual_seed(generator_seed(seed[0] if isinstance(seed, Sequence) else seed))
        values: dict[str, torch.Tensor] = {}
        if len(rows) and restored is not None:
            inputs = ("qpos", "qvel", "act", "mocap_pos", "mocap_quat")
            values = {name: restored[name].cpu()[rows] for name in inputs if name in restored}
        elif len(rows) and self._functions.reset is not None:
            values = initial_values(self._functions.reset(rows.clone(), self.rng), len(rows))
        if not len(rows) or not (values or self._model_values):
            return given
        if given is not None:
            raise TypeError(
                "options: expected none, because reset or model_fields give this env's resets values"
            )
        start = {name: value[rows] for name, value in self._model_values.items()}
        return reset_options(start, values, rows.tolist(), self.num_envs)

    # ---- asynchronous calls: functions see the envs that are received together

    def _finish_step(self, data: TensorDictBase, accept: Callable[[], None]) -> tuple[TensorDictBase, None]:
        written, action = data.get("next"), data.get("action").clone()
        try:
            result = self._results(written, action, envs=data.get("env_index").tolist())
        except EnvFailure as failure:
            if failure.tensordict is not None:
                failure.tensordict = data.set("next", failure.tensordict)
            raise
        own = {*result.keys(), *(key if isinstance(key, str) else key[0] for key in self.step_keys)}
        result.update(written.select(*(set(written.keys()) - own)))  # what the caller has sent along
        return data.set("next", result), None

    def _finish_reset(self, data: TensorDictBase, accept: Callable[[], None]) -> tuple[TensorDictBase, None]:
        return self._root(data).set("env_index", data.get("env_index")), None

    def async_reset_send(
        self,
        tensordict: TensorDictBase | None = None,
        env_index: EnvIndex = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: ResetOptions = None,
    ) -> None:
        """As :meth:`PoolEnv.async_reset_send`."""
        if tensordict is None and env_index is None:
            env_index = range(self.num_envs)
        with in_own_words():
            rows = torch.tensor(indices_of(self, tensordict, env_index), dtype=torch.long)
            options = self._options(rows, seed, options)
            super().async_reset_send(tensordict, env_index, seed=seed, options=options)

    def async_step_and_maybe_reset_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """As :meth:`PoolEnv.async_step_and_maybe_reset_send`."""
        self.async_step_send(tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.async_step_and_maybe_reset_recv`. The functions see the envs received together.

        Which episodes have ended is known when the functions have run: their envs begin anew then, and this
        waits for them. Until that reset an interrupt leaves the results to be received again.
        """
        wanted = min_get, env_index, max_get, timeout
        data, root = receive(self._stepper, STEP, *wanted, self._finish_step_and_reset)
        assert root is not None
        return data, root

    def _finish_step_and_reset(
        self, data: TensorDictBase, accept: Callable[[], None]
    ) -> tuple[TensorDictBase, TensorDictBase]:
        data, _ = self._finish_step(data, accept)
        root = self.step_mdp(data)
        done = root.get("done").reshape(-1)
        if not done.any():
            return data, root
        root = root.clone()  # the step keeps what it shows
        envs = root.get("env_index")[done]
        begins = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device).index_fill(0, envs, True)
        accept()
        try:
            begun = self._reset(self._stepper.unsafe({"_reset": begins}))[envs]
        except EnvFailure as failure:
            failure.tensordict = data
            raise
        for key, value in begun.items():
            root.get(key)[done] = value
        return data, root

    # ---- many steps in one call

    def open_loop_rollout(self, actions: torch.Tensor) -> TensorDict:
        """Steps by sequences of actions: T steps of each env in one call, with a record of what follows.

        The physics alone: the task's functions are not called and no episode is reset, so that no env waits
        for another between its steps. Functions that work on ``[N, T, …]`` may be called with the record. The
        next step, or the next call, continues from the last of these steps. ``step_timeout`` is a limit for
        all steps of an env together.

        Args:
            actions: float32 ``[N, T, nu]``.

        Returns:
            ``[N, T]``: after each step the arrays of ``observation`` and ``fields``, in MuJoCo's dtypes;
            ``"step_count"``; the flags, of which only ``max_episode_steps`` sets any.

        Raises:
            RuntimeError: before the first reset.
            TypeError, ValueError: actions that are not as above.
            EnvFailure: simulations diverged, and are as before their failing steps. Its ``tensordict`` is the
                record, with zeros from those on.

        Examples:
            >>> import torch
            >>> from torchrl_pool import MujocoPool
            >>> env = MujocoPool("ant.xml", 4, frame_skip=5)
            >>> _ = env.reset()
            >>> env.open_loop_rollout(torch.zeros(4, 10, 8))["qpos"].shape
            torch.Size([4, 10, 15])
        """
        names = {key: name for name, key in self._fields.items()}
        names.update((name, name) for name in ("step_count", "pixels", *FLAGS))
        return steps(self, actions, names)

    # ---- seeds and life

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds every env as :meth:`PoolEnv.set_seed`, and the generator that ``reset`` is given."""
        if seed is not None:
            self.rng.manual_seed(generator_seed(check_int("seed", seed, minimum=0)))
            self._seeded = self.rng, self.rng.get_state()
            self._arguments["seed"] = seed
        return super().set_seed(seed, static_seed=static_seed)

    def close(self, *, raise_if_closed: bool = False) -> None:
        """As :meth:`PoolEnv.close`. A later reset starts new simulations, seeded as first."""
        try:
            super().close(raise_if_closed=raise_if_closed)
        finally:  # an interrupted close may have closed it
            rng, first = self._seeded
            if rng is self.rng and self._simulators.was_closed:
                rng.set_state(first)

    @property
    def mj_model(self) -> Any:
        """The model as Python's ``mujoco`` has it, a copy; that of env 0 where they differ."""
        if self._mj_model is None:
            self._mj_model = python_model(self._model)
        return self._mj_model

    @property
    def _name(self) -> str:
        return f"{type(self).__name__}(num_envs={self.num_envs}, device={self.device})"
