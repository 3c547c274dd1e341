"""MujocoTask: the base for classes that were written for TorchRL's MujocoEnv."""

from __future__ import annotations

import inspect
import re
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
import torchrl.envs
from tensordict import TensorDictBase
from torchrl.data import Composite, Unbounded

from torchrl_pool._env.arguments import check_names
from torchrl_pool._mujoco.model_source import is_text, text_of
from torchrl_pool._mujoco.mujoco_pool import MujocoPool

# Arguments of TorchRL's class that mean nothing here: their defaults, and why.
_NOT_HERE: Mapping[str, tuple[Any, str]] = {
    "render_every": (1, "each step has a picture of its own"),
    "compile_step": (False, "the physics is MuJoCo's, not torch's"),
    "compile_kwargs": (None, "the physics is MuJoCo's, not torch's"),
    "num_workers": (1, "num_envs simulations share the executor's threads, not processes"),
    "parallel": (None, "num_envs simulations share the executor's threads, not processes"),
}


class MujocoTask(MujocoPool):
    """A :class:`MujocoPool` with the arguments, the hooks and the defaults of TorchRL's ``MujocoEnv``.

    A class that was written for that one moves over by changing its base: ``_compute_reward``,
    ``_compute_done``, ``_make_obs``, ``_build_obs_dict``, ``_make_obs_spec``, ``_sample_initial_state``,
    ``_prepare_ctrl``, ``_patch_xml``, ``_on_reset_all`` and ``_on_reset_mask`` are called as there, all envs
    at once, and ``self._backend`` has the model's sizes, bounds and ``timestep``.

    Its state holds ``FIELDS``: what they read of ``mjData``, in double precision.

    Keyword Args:
        xml_path: the model: a path, a URL or XML text. Default: the class's ``XML_PATH`` (in the folder of
            its file, or one of TorchRL's), then its ``XML_URL``.
        patch_xml: whether ``_patch_xml`` changes it. Without, meshes are read from the model's folder.
        num_envs: number of simulations.
        frame_skip: simulation steps per step. Default: the class's ``FRAME_SKIP``.
        reset_noise_scale: how far from the initial state an episode begins at most, drawn for each number,
            before what ``randomize`` draws. Default: the class's ``RESET_NOISE_SCALE``.
        backend: ``"mujoco"``, which is what this is.
        render_width: width of pictures, in pixels.
        render_height: height of pictures, in pixels.
        camera_id: the model's camera that takes them; -1: the free one. Default: 0 where it has one.
        pixels_only: as in :class:`~torchrl_pool.PoolEnv`; with ``from_pixels`` only.
        **options: those of :class:`MujocoPool`. Of TorchRL's class ``render_every``, ``compile_step``,
            ``compile_kwargs``, ``num_workers`` and ``parallel`` are taken at their defaults only.

    Raises:
        TypeError: one of these has another value.
        ValueError: ``pixels_only`` without ``from_pixels``, another backend, or no model.

    Examples:
        >>> from torchrl_pool import MujocoTask
        >>> class Slider(MujocoTask):
        ...     XML_PATH = "hopper.xml"
        ...
        ...     def _compute_reward(self, state, action, next_state):
        ...         return (next_state["qpos"] - state["qpos"])[..., 0]
        ...
        ...     def _compute_done(self, state, next_state):
        ...         return next_state["qpos"][..., 2].abs() > 0.2
        >>> Slider(num_envs=2).rollout(3, break_when_any_done=False)["observation"].shape
        torch.Size([2, 3, 12])
    """

    XML_PATH: ClassVar[str | Path | None] = None
    XML_URL: ClassVar[str | None] = None
    FRAME_SKIP: ClassVar[int] = 5
    RESET_NOISE_SCALE: ClassVar[float] = 0.01
    SKIP_QPOS: ClassVar[int] = 0
    FIELDS: ClassVar[tuple[str, ...]] = ("qpos", "qvel", "time")
    _HOOKS: ClassVar[Mapping[str, str]] = {**MujocoPool._HOOKS, "reset": "_sample_initial_state"}

    def __init__(
        self,
        *,
        xml_path: str | Path | None = None,
        patch_xml: bool = True,
        num_envs: int = 1,
        frame_skip: int | None = None,
        reset_noise_scale: float | None = None,
        backend: str = "mujoco",
        render_width: int = 64,
        render_height: int = 64,
        camera_id: int | None = None,
        pixels_only: bool = False,
        **options: Any,
    ) -> None:
        if backend != "mujoco":
            raise ValueError(
                f"backend: expected 'mujoco', which runs in the executor's threads, got {backend!r}"
            )
        for name, (default, reason) in _NOT_HERE.items():
            value = options.pop(name, default)
            if value is not default and value != default:
                raise TypeError(f"{name}: MujocoTask takes {default!r} alone, got {value!r}: {reason}")
        if pixels_only and not options.get("from_pixels"):
            raise ValueError("pixels_only=True requires from_pixels=True")
        scale = float(self.RESET_NOISE_SCALE if reset_noise_scale is None else reset_noise_scale)
        self.__dict__["reset_noise_scale"] = scale
        self.__dict__["_backend"] = Backend(self)
        noise = [f"{name} += uniform({-scale!r}, {scale!r})" for name in ("qpos", "qvel")]
        if not scale or self._gives_initial_states():
            noise = []
        options["randomize"] = [*noise, *check_names("randomize", options.get("randomize", ()))]
        options.setdefault("observation", ())
        self.__dict__.update(
            backend_name=backend,
            max_episode_steps=options.setdefault("max_episode_steps", 1000),
            from_pixels=bool(options.get("from_pixels")),
            pixels_only=pixels_only,
            render_width=render_width,
            render_height=render_height,
        )
        xml = self._load_xml(xml_path, patch_xml)
        if camera_id is None:
            text = str(xml).encode() if is_text(xml) else Path(xml).read_bytes()
            camera_id = 0 if b"<camera" in text else -1
        super().__init__(
            xml,
            num_envs,
            frame_skip=self.FRAME_SKIP if frame_skip is None else frame_skip,
            fields=[*self.FIELDS, *check_names("fields", options.pop("fields", ()))],
            width=render_width,
            height=render_height,
            camera_id=camera_id,
            pixels_only=pixels_only,
            **options,
        )

    def _load_xml(self, xml_path: str | Path | None, patch_xml: bool) -> str | Path:
        name = type(self).__name__
        source: str | Path | None = xml_path
        if source is None and self.XML_PATH is not None:
            source = self._find(Path(self.XML_PATH))
        if source is None:
            source = self.XML_URL
        if source is None:
            raise ValueError(f"{name} has no model: give xml_path, or the class an XML_PATH or XML_URL")
        text = str(source)
        if text.startswith(("http://", "https://")):
            with urllib.request.urlopen(text) as response:
                text = response.read().decode()
        elif not is_text(text):
            path = Path(source).expanduser()
            if not path.is_file():
                raise FileNotFoundError(f"{name}: there is no model {str(source)!r}")
            if not patch_xml:
                return path
            text = text_of(path)
        return self._patch_xml(text) if patch_xml else text

    @classmethod
    def _find(cls, path: Path) -> Path | None:
        """A class's own model: beside the file that the class, or one that it comes from, is written in."""
        folders = [Path(torchrl.envs.__file__).parent / "custom" / "mujoco" / "assets"]
        for base in reversed(cls.__mro__):
            if issubclass(base, MujocoTask):
                try:
                    folders.insert(0, Path(inspect.getfile(base)).parent)
                except (TypeError, OSError):  # written at a prompt
                    continue
        found = [folder / path for folder in folders if (folder / path).is_file()]
        if not found and cls.XML_URL is None:
            raise FileNotFoundError(f"{cls.__name__}: there is no model {str(path)!r} beside its file")
        return found[0] if found else None

    # ---- hooks, with what they do in TorchRL's class

    @classmethod
    def _patch_xml(cls, xml: str) -> str:
        """One camera and one light in place of the model's own, and a floor where it has none."""
        xml = re.sub(r"<(camera|light)\b[^/]*/>\s*", "", xml)
        added = (
            '<camera name="side" pos="0 -4 3" xyaxes="1 0 0 0 0.45 1" fovy="60"/>\n'
            '<light name="top" pos="0 0 4" dir="0 0 -1" diffuse="0.8 0.8 0.8" ambient="0.3 0.3 0.3" '
            'directional="true"/>\n'
        )
        if not re.search(r'<geom\b[^>]*type="plane"', xml):
            added += (
                '<geom name="floor" type="plane" size="10 10 0.1" rgba="0.8 0.85 0.8 1" conaffinity="1" '
                'condim="3"/>\n'
            )
        return xml.replace("<worldbody>", f"<worldbody>\n{added}")

    def _make_obs(self, state: TensorDictBase) -> torch.Tensor | Mapping[str, torch.Tensor]:
        qpos, qvel = state["qpos"].to(self.dtype), state["qvel"].to(self.dtype)
        return torch.cat([qpos[..., self.SKIP_QPOS :], qvel], dim=-1)

    def _build_obs_dict(self, state: TensorDictBase) -> dict[str, torch.Tensor]:
        """All that is observed, by name; pictures among it are the pool's own."""
        if self.pixels_only:
            return {}
        value = self._make_obs(state)
        return {"observation": value} if isinstance(value, torch.Tensor) else dict(value.items())

    def _render_pixels(self) -> torch.Tensor:
        """The latest pictures, which the pool has drawn."""
        pictures: torch.Tensor = (self._blank_state() if self._state is None else self._state)["pixels"]
        return pictures

    def _make_obs_spec(self) -> Composite:
        shape = (self.num_envs, self._backend.nq - self.SKIP_QPOS + self._backend.nv)
        spec = Unbounded(shape=shape, dtype=self.dtype, device=self.device)
        return Composite(observation=spec, shape=(self.num_envs,), device=self.device)

    def _sample_initial_state(
        self, n: int, tensordict: TensorDictBase | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        def noise(size: int) -> torch.Tensor:
            draw = torch.rand((n, size), generator=self.rng, dtype=torch.float64)
            scaled: torch.Tensor = (2 * draw - 1) * self.reset_noise_scale
            return scaled

        return self._backend.qpos0 + noise(self._backend.nq), self._backend.qvel0 + noise(self._backend.nv)

    def _on_reset_all(self, tensordict: TensorDictBase | None = None) -> None: ...

    def _on_reset_mask(self, mask: torch.Tensor, tensordict: TensorDictBase | None = None) -> None: ...

    # ---- how they are called

    def _observed(self, state: TensorDictBase) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self._build_obs_dict(state).items() if name != "pixels"}

    def _gives_initial_states(self) -> bool:
        return type(self)._sample_initial_state is not MujocoTask._sample_initial_state

    def _initial_state(self, rows: torch.Tensor) -> Mapping[str, torch.Tensor]:
        qpos, qvel = self._sample_initial_state(self.num_envs, self.__dict__.get("_reset_source"))
        return {"qpos": qpos.cpu()[rows], "qvel": qvel.cpu()[rows]}

    def _begun(self, rows: torch.Tensor) -> None:
        source = self.__dict__.get("_reset_source")
        if len(rows) == self.num_envs and (source is None or "_reset" not in source):
            self._on_reset_all(source)
            return
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self._on_reset_mask(mask.index_fill(0, rows.to(mask.device), True), source)

    def _observation_spec(self) -> Composite:
        """What the class says, or what its observations are, where these can be made already."""
        if type(self)._make_obs_spec is MujocoTask._make_obs_spec:
            with suppress(AttributeError):  # of what the class's constructor goes on to make
                return super()._observation_spec()
        spec = Composite(shape=(self.num_envs,), device=self.device)
        if self._observes:
            spec = self._make_obs_spec()
        if self._pixels:
            spec["pixels"] = self._physics.full_observation_spec["pixels"].clone()
        for key in (*self._entries, *self._terms):
            value = self._blank_state()[key]
            dtype = self.dtype if value.is_floating_point() else value.dtype
            spec[key] = Unbounded(shape=value.shape, dtype=dtype, device=self.device)
        return spec

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.__dict__["_reset_source"] = tensordict
        try:
            return super()._reset(tensordict, **kwargs)
        finally:
            self.__dict__["_reset_source"] = None

    def _state_td(self) -> TensorDictBase:
        return self._running().select(*self.FIELDS).clone()


class Backend:
    """What classes written for TorchRL's ``MujocoEnv`` ask of its ``_backend``."""

    def __init__(self, env: MujocoTask) -> None:
        self._env = env

    @property
    def mj_model(self) -> Any:
        """The model, as Python's ``mujoco`` has it."""
        return self._env.mj_model

    @cached_property
    def timestep(self) -> float:
        """Seconds of a simulation step."""
        return float(self.mj_model.opt.timestep)

    @cached_property
    def nq(self) -> int:
        """Number of positions."""
        return int(self.mj_model.nq)

    @cached_property
    def nv(self) -> int:
        """Number of velocities."""
        return int(self.mj_model.nv)

    @cached_property
    def nu(self) -> int:
        """Number of controls."""
        return int(self.mj_model.nu)

    @property
    def qpos0(self) -> torch.Tensor:
        """The initial positions."""
        return torch.tensor(self.mj_model.qpos0, dtype=torch.float64)

    @property
    def qvel0(self) -> torch.Tensor:
        """The initial velocities."""
        return torch.zeros(self.nv, dtype=torch.float64)

    @property
    def actuator_lo(self) -> torch.Tensor:
        """The least controls."""
        return torch.tensor(self.mj_model.actuator_ctrlrange[:, 0])

    @property
    def actuator_hi(self) -> torch.Tensor:
        """The greatest controls."""
        return torch.tensor(self.mj_model.actuator_ctrlrange[:, 1])

    @property
    def qpos(self) -> torch.Tensor:
        """The positions ``[N, nq]`` as they are now."""
        qpos: torch.Tensor = self._env._running()["qpos"].clone()
        return qpos

    @property
    def qvel(self) -> torch.Tensor:
        """The velocities ``[N, nv]`` as they are now."""
        qvel: torch.Tensor = self._env._running()["qvel"].clone()
        return qvel

    @property
    def time(self) -> torch.Tensor:
        """Simulated seconds ``[N]``."""
        time: torch.Tensor = self._env._running()["time"].clone()
        return time
