"""What a process may have of memory, threads, descriptors and files, used up at each moment in turn.

A pool is made, used and closed under limits that rise until it works. Below that there is an exception that
says what was missing: never a hang, an abort, or something left behind. After it all works again.
"""

import json
import re

import pytest
from cases import cases
from processes import printed

PROGRAM = """
import contextlib, ctypes, faulthandler, functools, json, os, resource, subprocess, sys, tempfile, time
import torch
from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv
from torchrl_pool import EnvFailure, PoolEnv, fuse
from python_envs import Sampled

PACKAGE = sys.modules["torchrl_pool"].__file__

def entries(folder):
    return len(os.listdir(f"/proc/self/{folder}"))


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def threads_of_user():
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += os.stat(f"/proc/{pid}").st_uid == os.getuid() and len(os.listdir(f"/proc/{pid}/task"))
    return count


class Limited:
    "A resource of which no more may be used than now, and so much more."

    def __init__(self, kind, now, more):
        self.kind, self.limit = kind, now + more

    def __enter__(self):
        self.before = resource.getrlimit(self.kind)
        resource.setrlimit(self.kind, (self.limit, self.before[1]))

    def __exit__(self, *error):
        resource.setrlimit(self.kind, self.before)


class Processes:
    "All of a user's count, and those that fork workers are limited with this one."

    def __init__(self, more):
        self.more = more

    def __enter__(self):
        self.limit = max(threads_of_user() + self.more, 0)
        self.before = resource.getrlimit(resource.RLIMIT_NPROC)
        self.pids = [os.getpid(), *children()]
        self.set((self.limit, self.before[1]))

    def __exit__(self, *error):
        self.set(self.before)

    def set(self, limits):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NPROC, limits)


def descriptors():
    for more in [*range(12), 16, 24, 200]:
        yield Limited(resource.RLIMIT_NOFILE, entries("fd") - 1, more)


def memory():
    for n in range(40, 67):  # below 1 MiB the C library itself may end the process, where a thread throws
        yield Limited(resource.RLIMIT_AS, size(), int(2 ** (n / 2)))


def processes():
    if os.getuid() == 0:  # which has no limit
        if sys.argv[1] != "workers":
            use()  # another user may not be able to read what this loads
        user = 100_000 + os.getpid()  # of no other process
        os.setresuid(user, user, user)
    python = os.path.realpath(sys.executable)
    if sys.argv[1] == "workers" and not (os.access(python, os.X_OK) and os.access(PACKAGE, os.R_OK)):
        return  # only root can start Python with this package
    for more in (-100, 0, 1, 2, 3, 4, 6, 8, 200):
        yield Processes(more)


def file_size():
    for size in (0, 1, 4096, 1 << 16, 1 << 20, 1 << 30):
        yield Limited(resource.RLIMIT_FSIZE, 0, size)


class AsItIs:
    "No limit but that of a mount."
    limit = "mounted"

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def mount(*arguments):
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        refused(result.stderr.strip())


def refused(why):
    print(json.dumps(why))
    sys.exit()


def mounts_of_its_own():
    "What is mounted from here on only this process sees, and those that it starts."
    new_mounts, new_user = 0x20000, 0x10000000
    if ctypes.CDLL(None, use_errno=True).unshare(new_mounts | (new_user if os.getuid() else 0)) != 0:
        refused("unshare: " + os.strerror(ctypes.get_errno()))
    mount("--make-rprivate", "/")


def full_shm():
    mounts_of_its_own()
    mount("-t", "tmpfs", "-o", "size=8k", "tmpfs", "/dev/shm")
    with contextlib.suppress(OSError), open("/dev/shm/full", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    yield AsItIs()


def missing_shm():
    mounts_of_its_own()
    with tempfile.TemporaryDirectory() as devices:
        mount("--bind", "/dev", devices)
        mount("-t", "tmpfs", "tmpfs", "/dev")
        for name in ("null", "zero", "full", "random", "urandom"):
            open(f"/dev/{name}", "w").close()
            mount("--bind", f"{devices}/{name}", f"/dev/{name}")
        subprocess.run(["umount", devices], check=True)
    assert not os.path.exists("/dev/shm")
    yield AsItIs()


class Shared(Sampled):
    "Has a tensor in common with all others."

    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor


def use():
    env = MAKES[sys.argv[1]]()
    try:
        root = env.reset()
        for _ in range(3):
            root = env.step_and_maybe_reset(env.rand_action(root))[1]
        if isinstance(env, PoolEnv):
            env.async_step_and_maybe_reset_send(env.rand_action(root))
            env.async_step_and_maybe_reset_recv(4)
            env.set_state(env.get_state())
    finally:
        env.close()


def fused():
    pool = PoolEnv("Pendulum-v1", 4, num_threads=3)
    return fuse(TransformedEnv(pool, Compose(StepCounter(), RewardSum())))


MAKES = {
    "threads": lambda: PoolEnv("CartPole-v1", 4, num_threads=3),
    "timed": lambda: PoolEnv("CartPole-v1", 4, num_threads=3, step_timeout=30.0),
    "pictures": lambda: PoolEnv("CartPole-v1", 4, num_threads=3, from_pixels=True),
    "games": lambda: PoolEnv("ALE/Pong-v5", 4, num_threads=3),
    "simulations": lambda: PoolEnv("Humanoid-v5", 4, num_threads=3),
    "fused": fused,
    "workers": lambda: PoolEnv(Sampled, 4, num_workers=2),
    "here": lambda: PoolEnv(Sampled, 4, num_workers=0),
    "shared": lambda: PoolEnv(functools.partial(Shared, torch.zeros(2).share_memory_()), 4, num_workers=2),
}
threads = entries("task") + 1  # that of faulthandler
outcomes = []
for limited in globals()[sys.argv[2]]():
    if not outcomes and sys.argv[1] != "shared":
        use()  # what is made once and kept
    faulthandler.dump_traceback_later(60, exit=True)
    files, started = entries("fd"), len(children())
    outcome = ""
    try:
        with limited:
            use()
    except (OSError, MemoryError, RuntimeError, EnvFailure) as error:
        outcome = f"{type(error).__name__}: {error}"
    end = time.monotonic() + 20
    if sys.argv[1] == "shared":  # where torch leaves a descriptor behind
        files += 1
    while max(left := (entries("task") - threads, entries("fd") - files, len(children()) - started)) > 0:
        assert time.monotonic() < end, (limited.limit, outcome, left)
        time.sleep(0.01)
    if sys.argv[1] != "shared":
        use()
    outcomes.append(outcome)
faulthandler.cancel_dump_traceback_later()
print(json.dumps(outcomes))
"""
LIMITS = ["descriptors", "memory", "processes", "file_size"]


def outcomes(subject, limit):
    """What was said at each level of a limit; nothing where all went well."""
    return json.loads(printed(PROGRAM, subject, limit, timeout=600))


@pytest.mark.timeout(700)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    "subject", cases(default=["pictures", "simulations", "here"], also=["threads", "timed", "games", "fused"])
)
def test_limits_of_a_pool_of_threads(subject, limit):
    assert outcomes(subject, limit)[-1] == ""


@pytest.mark.timeout(700)
@pytest.mark.parametrize("limit", cases(default=["memory", "processes", "file_size"], also=LIMITS))
def test_limits_of_a_pool_of_workers(limit):
    said = outcomes("workers", limit)
    if not said:
        pytest.skip("the user that has the limit cannot run Python")
    assert said[-1] == ""
    assert said[0] != ""


@pytest.mark.parametrize("shm", cases(["full_shm", "missing_shm"]))
@pytest.mark.parametrize("subject", ["here", "threads", "fused", "workers"])
def test_pools_do_without_the_folder_of_shared_memory(subject, shm):
    """What they share has no name there."""
    said = outcomes(subject, shm)
    if isinstance(said, str):
        pytest.skip(f"no mounts of its own: {said}")
    assert said == [""]


@pytest.mark.parametrize("shm", cases(["full_shm", "missing_shm"]))
def test_what_users_share_there_says_what_is_missing(shm):
    said = outcomes("shared", shm)
    if isinstance(said, str):
        pytest.skip(f"no mounts of its own: {said}")
    assert re.search("shared memory|/dev/shm|/torch_", said[0])
