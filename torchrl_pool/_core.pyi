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
        obs_dtype: str | None,
        from_pixels: bool,
        pixels_only: bool,
        refuse_nan: bool,
        strict_actions: bool,
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
    steps: Op
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
        plain_recorded: PlainTensors,
        owner: object,
    ) -> None: ...

ResetArguments: TypeAlias = tuple[list[list[int]], list[ResetOptions | None], int]
# Tensors, in a dict or as they may be missing in a list, and the addresses of all columns; or arrays of
# NumPy, one for each column.
Given: TypeAlias = tuple[Any, list[int]] | list[Any]
# Tensors by key; the root that follows, where episodes have begun; how many have.
Results: TypeAlias = tuple[Any, Any, int]

class Flight:
    def __init__(self, pool: Pool) -> None: ...
    @property
    def in_flight(self) -> bool: ...
    def wait(self) -> Results: ...

class Calls:
    def __init__(
        self,
        *,
        inputs: PlainTensors | None = None,
        out: TensorMemory | None = None,
        root: TensorMemory | None = None,
        numbers: TensorMemory | None = None,
        chain: Chain | None = None,
        keep: object = None,
    ) -> None: ...
    # By key. `mask`: what holds a bool for each env, and where.
    def reset(
        self, pool: Pool, out: Given | None, mask: tuple[object, int] | None, given: ResetArguments
    ) -> Any: ...
    # None, and of submit and send False: an input is not just as the executor reads it.
    def step(
        self,
        pool: Pool,
        inputs: dict[Any, Any] | Given,
        out: Given | None = None,
        mask: tuple[object, int] | None = None,
        begins: object = None,  # of NumPy: bool [num_envs]; these envs are reset in place of their steps
    ) -> Results | None: ...
    def step_and_reset(
        self,
        pool: Pool,
        inputs: dict[Any, Any] | Given,
        out: Given | None = None,
        root: Given | None = None,
    ) -> Results | None: ...
    def steps(self, pool: Pool, inputs: Given, out: Given, num_steps: int) -> Results | None: ...
    # Without tensors to record, these are looked for in the inputs.
    def record(
        self,
        pool: Pool,
        inputs: dict[Any, Any] | Given,
        rows: RolloutRows,
        step: int,
        recorded: dict[Any, Any] | Given,
    ) -> Results | None: ...
    def submit(
        self,
        flight: Flight,
        inputs: dict[Any, Any] | Given,
        rows: RolloutRows,
        step: int,
        recorded: dict[Any, Any] | Given,
    ) -> bool: ...
    def send(
        self,
        pool: Pool,
        op: Op,
        inputs: dict[Any, Any] | Given | None,
        envs: Sequence[int],
        is_single: bool,
        cargo: object,
        given: ResetArguments | None = None,
    ) -> bool: ...
    # Tensors by key; the root that follows, where episodes have begun; the envs' numbers.
    def receive(
        self,
        received: Received,
        op: Op,
        least: int,
        most: int,
        timeout: float | None,
        env: int | None,
    ) -> tuple[Any, Any, Any] | None: ...

class Received:
    def __init__(self, pool: Pool) -> None: ...
    @property
    def cargo(self) -> list[tuple[Any, int]]: ...
    def accept(self) -> None: ...
    def put_back(self) -> None: ...

def gather_rows(
    groups: Sequence[int], rows: Sequence[int], columns: Sequence[tuple[int, int, Sequence[tuple[int, int]]]]
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

class ExclusiveAccess:
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

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
    def save(self, envs: Sequence[int]) -> list[bytes]: ...
    def load(self, envs: Sequence[int], states: Sequence[bytes]) -> None: ...
    def render_size(self, env: int) -> tuple[int, int]: ...
    def render(self, envs: Sequence[int], addresses: Sequence[int], owner: object) -> None: ...
    def exclusive_access(self, envs: Sequence[int]) -> ExclusiveAccess: ...
    def ended_workers(self) -> list[int]: ...
    def replace_worker(self, worker: int, process: int) -> None: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def check_not_within(self) -> None: ...

def remote_config(id: str, entries: Sequence[object]) -> Config: ...

class Arena:
    def __init__(
        self, descriptor: int, first_env: Sequence[int], entries: Sequence[object], make: bool
    ) -> None: ...
    @property
    def action_offsets(self) -> list[int]: ...
    @property
    def step_time(self) -> tuple[int, float]: ...
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

class TensorMemory:
    def __init__(
        self,
        *,
        tensor_type: type[Any],
        from_dlpack: Callable[[object], Any],
        keys: Sequence[str | tuple[str, ...]],
        tensors: Sequence[tuple[Sequence[int], str]],
        positions: Sequence[int],
        fixed: Sequence[tuple[int, int]],
        make: Callable[[int | None], dict[Any, Any]] | None = None,
    ) -> None: ...
    def make(self, num_rows: int | None = None) -> tuple[dict[Any, Any], list[int]]: ...
    def let_go(self) -> None: ...

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
    def disown(self) -> None: ...
    def seed_of(self, env: int) -> int | None: ...
    def note_of(self, env: int) -> int: ...
    def is_last(self, env: int) -> bool: ...
    def stepped(self, env: int, returned: Sequence[Any], may_reset: bool) -> bool: ...
    def was_reset(self, env: int, returned: Sequence[Any]) -> None: ...
    def was_made(self, env: int) -> None: ...
    def lost(self, env: int, may_reset: bool) -> bool: ...
    def failed(self, env: int, message: str) -> None: ...

class Rng:
    def __init__(self, words: Sequence[int]) -> None: ...
    def random(self) -> float: ...
    def uniform(self, low: float, high: float) -> float: ...
    def integers(self, low: int, high: int) -> int: ...
    def choice(self, size: int) -> int: ...
    def permutation(self, count: int) -> list[int]: ...
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
