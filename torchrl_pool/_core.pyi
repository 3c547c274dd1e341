"""The compiled extension: the executor, the plugins and NumPy's random streams."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

ABI_VERSION: int

class EnvFailure(RuntimeError): ...

def available_cpus() -> int: ...
def load_plugin(path: str) -> Plugin: ...

class Spec:
    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def low(self) -> list[float]: ...
    @property
    def high(self) -> list[float]: ...
    @property
    def categories(self) -> list[int]: ...
    @property
    def one_hot(self) -> bool: ...
    @property
    def choices(self) -> list[int]: ...
    @property
    def one_hot_shape(self) -> list[int]: ...

class Plugin:
    @property
    def path(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def tasks(self) -> list[dict[str, Any]]: ...
    @property
    def packages(self) -> list[tuple[str, str | None]]: ...
    def locate(self, folders: Sequence[str]) -> None: ...

class LayoutOptions:
    def __init__(
        self,
        *,
        info_keys: Sequence[str],
        one_hot: bool,
        float_dtype: int,
        from_pixels: bool,
        pixels_only: bool,
        refuse_nan: bool,
    ) -> None: ...

class Config:
    def __init__(self, plugin: Plugin, task_id: str, values: list[Any]) -> None: ...
    @property
    def specs(self) -> list[Spec]: ...
    def outputs(self, layout: LayoutOptions) -> list[Spec]: ...
    def mismatch(self, other: Config) -> str: ...
    @property
    def native_keys(self) -> list[str]: ...

class ResetOptions:
    def __init__(self, config: Config, chosen: dict[str, Any]) -> None: ...

class Op:
    create: Op
    reset: Op
    step: Op
    step_and_reset: Op
    def __int__(self) -> int: ...

# (address, bytes from an env's row to the next env's, bytes from a step to the next)
RolloutColumn: TypeAlias = tuple[int, int, int]

class RolloutRows:
    def __init__(
        self,
        *,
        first: int,
        count: int,
        outputs: Sequence[RolloutColumn],
        recorded: Sequence[RolloutColumn],
        recorded_bytes: Sequence[int],
    ) -> None: ...

# (envs, how many have begun an episode) -> addresses of the outputs, of the root, of the envs' numbers
Allocate: TypeAlias = Callable[[list[int], int], tuple[list[int], list[int], int]]

class Flight:
    def __init__(self) -> None: ...
    @property
    def in_flight(self) -> bool: ...

def gather_rows(
    groups: Sequence[int], rows: Sequence[int], columns: Sequence[tuple[int, int, Sequence[int]]]
) -> None: ...

class Chain:
    def __init__(
        self,
        *,
        pool_columns: int,
        columns: Sequence[int],
        pool_actions: int,
        carried: Sequence[int],
        temps: Sequence[int],
    ) -> None: ...
    def add(self, phase: int, stage: object, *, at_steps: bool, at_resets: bool) -> None: ...
    def repeat(self, *, times: int, reward: int, size: int, dtype: str) -> None: ...
    @property
    def num_phases(self) -> int: ...

# namespace, name, object; of a list, a copy
def is_unchanged(watched: Sequence[tuple[Any, Any, Any, list[Any] | None]]) -> bool: ...

class stages:  # a module
    class Parameter:
        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(self, address: int, dtype: str, is_scalar: bool) -> None: ...

    affine: Callable[..., object]
    cast: Callable[..., object]
    cat_frames: Callable[..., object]
    clamp: Callable[..., object]
    copy: Callable[..., object]
    end_of_life: Callable[..., object]
    episode_value: Callable[..., object]
    gray_scale: Callable[..., object]
    init_tracker: Callable[..., object]
    is_positive: Callable[..., object]
    reward_sum: Callable[..., object]
    sign: Callable[..., object]
    step_counter: Callable[..., object]
    time_max_pool: Callable[..., object]
    traj_counter: Callable[..., object]
    vec_norm: Callable[..., object]
    vec_norm_v2: Callable[..., object]

class Pool:
    def __init__(
        self,
        *,
        configs: Sequence[Config],
        max_episode_steps: Sequence[int],
        num_threads: int,
        thread_affinity: Sequence[int],
        layout: LayoutOptions,
        step_timeout: float | None,
        workers: object | None = None,
    ) -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def outputs(self) -> list[Spec]: ...
    def reset(
        self,
        out: list[int],
        mask: int,
        entropy: Sequence[Sequence[int]],
        owner: object,
        options: Sequence[ResetOptions | None] = (),
        chain: Chain | None = None,
    ) -> None: ...
    def step(
        self, actions: list[int], out: list[int], mask: int, owner: object, chain: Chain | None = None
    ) -> None: ...
    def step_and_reset(
        self,
        actions: list[int],
        out: list[int],
        root: list[int],
        owner: object,
        meanwhile: Callable[[], object] | None = None,
        chain: Chain | None = None,
    ) -> int: ...
    def step_into(
        self,
        rows: RolloutRows,
        step: int,
        actions: list[int],
        root: list[int],
        sources: list[int],
        owner: object,
        chain: Chain | None = None,
        resets: bool = True,
    ) -> int: ...
    def submit_into(
        self,
        flight: Flight,
        rows: RolloutRows,
        step: int,
        actions: list[int],
        root: list[int],
        sources: list[int],
        owner: object,
        chain: Chain | None = None,
    ) -> None: ...
    def wait(self, flight: Flight) -> int: ...
    def prepare_async(self, out: list[int], root: list[int], owner: object) -> None: ...
    def send(self, op: Op, envs: Sequence[int], actions: list[int], alone: bool) -> None: ...
    def receive(self, op: Op, least: int, most: int, timeout: float | None, allocate: Allocate) -> bool: ...
    def receive_alone(self, op: Op, env: int, timeout: float | None, allocate: Allocate) -> bool: ...
    def save(self, env_index: int) -> bytes: ...
    def load(self, env_index: int, state: bytes) -> None: ...
    def render_size(self, env_index: int) -> tuple[int, int]: ...
    def render(self, env_index: int, rgb: int) -> None: ...
    def check_at_rest(self, env_index: int) -> None: ...
    def ended_workers(self) -> list[int]: ...
    def replace_worker(self, worker: int, process: int) -> None: ...
    def close(self) -> None: ...

def remote_config(id: str, entries: Sequence[object]) -> Config: ...

class Arena:
    def __init__(
        self, descriptor: int, first_env: Sequence[int], entries: Sequence[object], make: bool
    ) -> None: ...
    @property
    def action_offsets(self) -> list[int]: ...
    def send_word(self, worker: int) -> None: ...
    def is_at_work(self, worker: int) -> bool: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class PlainTensors:
    def __init__(
        self,
        *,
        tensor_type: type[Any],
        tensordict_type: type[Any],
        keys: Sequence[Sequence[str]],
        tensors: Sequence[tuple[Sequence[int], str]],
        required: Sequence[bool],
    ) -> None: ...
    def find(self, tensordict: object, num_rows: int | None = None) -> tuple[list[Any], list[int]] | None: ...

class TensorMemory:
    def __init__(
        self,
        *,
        tensor_type: type[Any],
        from_dlpack: Callable[[object], Any],
        keys: Sequence[str | tuple[str, ...]],
        tensors: Sequence[tuple[Sequence[int], str]],
        positions: Sequence[int],
        addresses: Sequence[int],
        keeps: bool,
    ) -> None: ...
    def make(self) -> tuple[dict[Any, Any], list[int]]: ...

class WorkerPort:
    def __init__(
        self,
        *,
        arena: Arena,
        worker: int,
        entries: Sequence[object],
        flags_lost: bool,
    ) -> None: ...
    def serve(
        self,
        adapters: dict[int, Any],
        unset: set[int],
        actions: list[Any],
        fail: Callable[[int, BaseException], BaseException | None],
        work: Callable[[int, int, int, bool], None],
        waits: bool,
    ) -> None: ...
    def seed_of(self, env: int) -> int | None: ...
    def stepped(
        self,
        env: int,
        leaves: Sequence[Any],
        reward: Any,
        terminated: Any,
        truncated: Any,
        may_reset: bool,
    ) -> bool: ...
    def was_reset(self, env: int, leaves: Sequence[Any]) -> None: ...
    def was_made(self, env: int) -> None: ...
    def lost(self, env: int, may_reset: bool) -> bool: ...
    def failed(self, env: int, message: str) -> None: ...

class BareLoop:
    def __init__(
        self, *, config: Config, num_envs: int, num_threads: int, max_episode_steps: int
    ) -> None: ...
    def run(self, steps: int, actions: Sequence[int], num_rows: int) -> int: ...

class Rng:
    def __init__(self, words: Sequence[int]) -> None: ...
    def random(self) -> float: ...
    def uniform(self, low: float, high: float) -> float: ...
    def integers(self, low: int, high: int) -> int: ...
    def choice(self, size: int) -> int: ...
    def standard_normal(self) -> float: ...
    def normal(self, mean: float, deviation: float) -> float: ...
    def next_uint32(self) -> int: ...

class LegacyRng:
    def __init__(self, words: Sequence[int]) -> None: ...
    def random(self) -> float: ...
    def uniform(self, low: float, high: float) -> float: ...
    def integer(self, count: int) -> int: ...
    def standard_normal(self) -> float: ...
    def next_uint32(self) -> int: ...
