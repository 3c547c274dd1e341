"""The faults that README's table lists, each in a process of its own and under a timer.

The process must end by itself, without an error and without a word. After a fault that is refused the pool
is used again.
"""

import pytest
from cases import cases
from processes import run

USABLE = """
root = env.rand_action(env.reset())
env.step_and_maybe_reset(root)
env.rollout(3)
env.close()
"""

PENDULUM = """
env = PoolEnv("Pendulum-v1", 4, num_threads=2)
root = env.rand_action(env.reset())
before = env.get_state()
"""


def choosing(task):
    return f"""
threads_before = len(os.listdir("/proc/self/task"))
env = PoolEnv("{task}", 4, num_threads=2, categorical_action_encoding=True)
root = env.rand_action(env.reset())
"""


# With a task whose actions are choices.
CHOOSING = {
    "a choice that there is not": """
before, key = env.get_state(), env.action_keys[0]
last = env.full_action_spec_unbatched[key].space.n - 1
for choice in (last + 1, -1, 2**62):
    bad = root.clone()
    bad[key][2] = choice
    for call in (env.step, env.step_and_maybe_reset, lambda bad: env.async_step_send(bad[1:3], [1, 2])):
        error = refused(ValueError, f"expected one of 0 to {last}", call, bad.clone())
        assert "action' of env 2" in str(error)
assert env.get_state() == before
""",
    "unknown env_index": """
for index in (4, -1, 2**40):
    refused(IndexError, "env_index", env.async_step_send, root[:1], [index])
    refused(IndexError, "env_index", env.async_step_recv, env_index=index)
    refused(IndexError, "env_index", env.get_state, index)
    refused(IndexError, "env_index", env.render, index)
""",
    "double send": """
env.async_step_send(root[:2], [0, 1])
refused(RuntimeError, "env 1 is in flight", env.async_step_send, root[1:3], [1, 2])
refused(ValueError, "named twice", env.async_step_send, root[2:], [3, 3])
refused(RuntimeError, "in flight", env.step, root.clone())
assert env.async_step_recv(2)["env_index"].tolist() == [0, 1]
""",
    "receive without send": """
refused(RuntimeError, "only 0 are outstanding", env.async_step_recv, 1)
refused(RuntimeError, "env 0 was not sent alone", env.async_step_recv, env_index=0)
refused(RuntimeError, "only 0 are outstanding", env.async_reset_recv, 1, timeout=0.01)
""",
    "use after close": """
env.close()
env.close()
assert len(os.listdir("/proc/self/task")) == threads_before
for use in (env.step, env.step_and_maybe_reset, env.async_step_and_maybe_reset_send):
    refused(RuntimeError, "was closed: reset() starts it again", use, root.clone())
refused(RuntimeError, "was closed", env.get_state)
refused(RuntimeError, "was closed", env.async_step_recv, 1)
""",
    "fork after creation": """
pid = os.fork()
if pid == 0:
    code = 1
    try:
        for call in (env.reset, env.get_state, lambda: env.step(root.clone())):
            refused(RuntimeError, "before the process forked", call)
        refused(RuntimeError, "before the process forked", env.async_step_send, root, [0, 1, 2, 3])
        env.close()
        PoolEnv(env.task, 4, num_threads=2).rollout(3)
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""",
}

FAULTS = {
    **{fault: choosing("CartPole-v1") + code + USABLE for fault, code in CHOOSING.items()},
    **{
        f"all of these, {task}": "".join(choosing(task) + code + USABLE for code in CHOOSING.values())
        for task in ("LunarLander-v3", "MiniGrid-DoorKey-5x5-v0", "mpe2/simple_spread_v3", "sisl/pursuit_v5")
    },
    "env throws": """
env = PoolEnv("Fault-v0", 4, num_threads=2, env_options=[{}, {"fault": "throw", "at": 2}, {}, {}])
root = env.step_and_maybe_reset(env.reset().set("action", zeros(env)))[1].set("action", zeros(env))
message = "env 1 (Fault-v0) failed in step 2: the simulator broke"
failure = refused(EnvFailure, message, env.step, root.clone())
assert failure.env_index == [1]
others = torch.tensor([True, False, True, True])
assert env._step(root.clone().set("_step", others))["observation"][:, 1].tolist() == [3, 1, 3, 3]
env.reset(root.select("done", "terminated", "truncated").set("_reset", ~others))
env.step(root)
""",
    "env loops for ever": """
env = PoolEnv(
    "Fault-v0", 4, num_threads=1, step_timeout=1.0, env_options=[{}, {"fault": "loop", "at": 40}, {}, {}]
)
root = env.reset().set("action", zeros(env))
for _ in range(39):  # so cheap that the calling thread would do them alone
    root = env.step_and_maybe_reset(root)[1].set("action", zeros(env))
failure = refused(EnvFailure, "failed in step 40: it has not come back within 1 s", env.step, root.clone())
assert failure.hung == [1] and failure.tensordict["observation"][:, 1].tolist() == [40, 0, 40, 40]
others = torch.tensor([True, False, True, True])
for step in range(41, 60):
    following = env._step(root.clone().set("_step", others))
    assert following["observation"][:, 1].tolist() == [step, 39, step, step]
refused(RuntimeError, "env 1 hangs", env.reset)
env.async_step_send(root[2:], [2, 3])
assert env.async_step_recv(2)["next", "observation"][:, 1].tolist() == [60, 60]
refused(RuntimeError, "env 1", env.async_step_send, root[:2], [0, 1])
env.close()
PoolEnv("CartPole-v1", 4).rollout(3)
""",
    "env loops for ever, without a time limit": """
def interrupt_soon():
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
env = PoolEnv("Fault-v0", 2, num_threads=2, fault="loop", at=1)
root = env.reset().set("action", torch.zeros(2, 2))
for call in (lambda: env.step(root.clone()), env.reset, env.close):
    interrupt_soon()
    refused(KeyboardInterrupt, "", call)
PoolEnv("CartPole-v1", 4).rollout(3)
""",
    "an env that sleeps beside others": """
env = PoolEnv("Fault-v0", 64, num_threads=2, env_options=[{"sleep": 6.0}] + 63 * [{}])
root = env.reset().set("action", zeros(env))
env.async_step_send(root)
others = env.async_step_recv(63, timeout=4.0)["env_index"]  # those of the busy thread's home among them
assert sorted(others.tolist()) == list(range(1, 64))
""",
    "steps that are cheap until all are slow": """
env = PoolEnv("Fault-v0", 512, num_threads=2, fault="sleep", at=40, seconds=0.003)
root = env.reset().set("action", zeros(env))
for step in range(1, 50):  # the calling thread begins step 40 alone, and shares the rest
    root = env.step_and_maybe_reset(root)[1].set("action", zeros(env))
    assert root["observation"][:, 1].tolist() == 512 * [step]
""",
    "env loops for ever in flight": """
env = PoolEnv("Fault-v0", 2, num_threads=2, step_timeout=1.0, env_options=[{}, {"fault": "loop", "at": 1}])
root = env.reset().set("action", torch.zeros(2, 2))
env.async_step_send(root, [0, 1])
try:
    assert env.async_step_recv(1)["env_index"].tolist() == [0]
    refused(EnvFailure, "env 1 (Fault-v0) failed in step 1", env.async_step_recv, 1)
except EnvFailure as failure:  # on a slow machine it comes first
    assert failure.hung == [1]
    assert env.async_step_recv(1)["env_index"].tolist() == [0]
""",
    "NaN or infinite action": PENDULUM
    + """
for value in (torch.nan, torch.inf, -torch.inf):
    bad = root["action"].clone()
    bad[2] = value
    message = f"'action' of env 2: expected a finite number, got {value}"
    for step in (env.step, env.step_and_maybe_reset):
        refused(ValueError, message, step, root.clone().set("action", bad))
    refused(ValueError, message, env.async_step_send, root[1:3].clone().set("action", bad[1:3]), [1, 2])
assert env.get_state() == before
"""
    + USABLE,
    "a number outside of its bounds": PENDULUM
    + """
strict = PoolEnv("Pendulum-v1", 4, num_threads=2, check_actions="strict")
strict_root = strict.reset()
for value in (2.5, -2.5, 1e30):
    outside = torch.full((4, 1), value)
    clipped = env.step(root.clone().set("action", outside.clamp(-2, 2)))
    env.set_state(before)
    assert (env.step(root.clone().set("action", outside))["next"] == clipped["next"]).all()
    env.set_state(before)
    message = "'action' of env 0: expected a number in [-2, 2]"
    refused(ValueError, message, strict.step, strict_root.clone().set("action", outside))
"""
    + USABLE,
    "action of another shape, dtype or device": PENDULUM
    + """
for error, message, bad in (
    (ValueError, "expected shape [4, 1], got [4]", torch.zeros(4)),
    (ValueError, "expected shape [4, 1], got [4, 3]", torch.zeros(4, 3)),
    (TypeError, "expected dtype torch.float32, got torch.float64", torch.zeros(4, 1).double()),
    (ValueError, "expected a tensor on cpu, got one on meta", torch.zeros(4, 1, device="meta")),
):
    for step in (env.step, env.step_and_maybe_reset):
        refused(error, message, step, root.clone().set("action", bad))
assert env.get_state() == before
"""
    + USABLE,
    "Ctrl-C while waiting": """
env = PoolEnv("Fault-v0", 2, num_threads=2, sleep=3.0)
root = env.reset().set("action", torch.zeros(2, 2))
signal.signal(signal.SIGALRM, signal.default_int_handler)
def send_and_receive():
    env.async_step_send(root, [0, 1])
    env.async_step_recv(2)
for wait in (send_and_receive, lambda: env.async_step_recv(2)):
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    refused(KeyboardInterrupt, "", wait)
assert env.async_step_recv(2)["env_index"].tolist() == [0, 1]
signal.setitimer(signal.ITIMER_REAL, 0.3)
refused(KeyboardInterrupt, "", env.step, root)
refused(RuntimeError, "interrupted while env 0", env.step, root)
env.reset()
""",
    "exit without close, envs in flight": """
env = PoolEnv("Fault-v0", 64, num_threads=4, sleep=0.01)
root = env.reset().set("action", torch.zeros(64, 2))
env.async_step_send(root, range(64))
other = PoolEnv("CartPole-v1", 64)
other.rollout(3)
""",
    "pickle": """
env = PoolEnv("CartPole-v1", 4, seed=3)
copy = pickle.loads(pickle.dumps(env))
assert (copy.reset() == env.reset()).all()
refused(TypeError, "cannot be pickled or copied while it runs", pickle.dumps, env)
env.close()
pickle.loads(pickle.dumps(env)).rollout(3)
"""
    + USABLE,
    "bad ROM": """
import pathlib, tempfile
from torchrl_pool._plugins import loading, registry
plugin, _ = registry.find_task("ALE/Pong-v5")
loading.locate_packages(plugin)
with tempfile.TemporaryDirectory() as folder:
    plugin.locate([folder])
    refused(FileNotFoundError, "pong.bin is missing", PoolEnv, "ALE/Pong-v5", 2)
    (pathlib.Path(folder) / "roms").mkdir()
    (pathlib.Path(folder) / "roms" / "pong.bin").write_bytes(b"no game at all")
    refused(ValueError, "pong.bin is corrupt", PoolEnv, "ALE/Pong-v5", 2)
PoolEnv("CartPole-v1", 4).rollout(3)
""",
    "missing or broken XML": """
import pathlib, tempfile
refused(FileNotFoundError, "/nowhere/robot.xml", PoolEnv, "Hopper-v5", 2, xml_file="/nowhere/robot.xml")
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "robot.xml"
    path.write_text("<mujoco")
    refused(ValueError, "XML parse error", PoolEnv, "Hopper-v5", 2, xml_file=str(path))
PoolEnv("Hopper-v5", 2).rollout(3)
""",
    "plugins that are none, or of another ABI version": """
import pathlib, tempfile
from building import SOURCES
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool import list_tasks
bad = str(compile_plugin(SOURCES.parent / "cpp" / "bad_plugin.cc", flags=("-O1",)))
for kind, message in (
    ("version", "ABI version"), ("refuses", "no licence found"), ("step", "Bad-v0"), ("negative tasks", "")
):
    os.environ["TORCHRL_POOL_TEST_BAD"] = kind
    refused((ValueError, RuntimeError), message, load_plugin, bad)
assert "Bad-v0" not in list_tasks()
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "text.so"
    refused(FileNotFoundError, "cannot load the plugin", load_plugin, path)
    path.write_text("no library")
    refused(FileNotFoundError, "cannot load the plugin", load_plugin, path)
PoolEnv("CartPole-v1", 4).rollout(3)
""",
    "unknown tasks and options, a step before the first reset": """
refused(ValueError, "did you mean 'CartPole-v1'", PoolEnv, "CartPole-v2", 4)
refused(TypeError, "it has: g, x_init, y_init", PoolEnv, "Pendulum-v1", 4, gravity=3.0)
refused(TypeError, "expected float", PoolEnv, "Pendulum-v1", 4, g="low")
env = PoolEnv("CartPole-v1", 4)
for step in (env.step, env.step_and_maybe_reset, env.async_step_send):
    refused(RuntimeError, "call reset() before the first step", step, env.rand_action())
"""
    + USABLE,
    "network, strangers' plugins": """
import torchrl_pool
from pathlib import Path
touched = []
def watch(event, arguments):
    if event.startswith("socket.") or event.endswith(("urlopen", ".Popen", ".system")):
        touched.append((event, arguments))
sys.addaudithook(watch)
os.mkdir(folder := sys.argv[1] + ".d" + str(os.getpid()))
os.chdir(folder)  # what lies in the working directory is nobody's choice
os.mkdir("_plugins")
for path in ("_plugins/torchrl_pool_x.so", "torchrl_pool_x.so"):
    Path(path).write_bytes(Path(sys.argv[1]).read_bytes())
TASKS = ["CartPole-v1", "Taxi-v4", "LunarLander-v3", "MiniGrid-DoorKey-5x5-v0", "Hopper-v5", "ALE/Pong-v5"]
for task in [*TASKS, "mpe2/simple_v3", "sisl/multiwalker_v9"]:
    PoolEnv(task, 2).rollout(3)
own = Path(torchrl_pool._core.__file__).parent
named = {sys.argv[1]}
loaded = {torchrl_pool.task_info(task).plugin_path for task in torchrl_pool.list_tasks()}
assert all(Path(path).parent == own / "_plugins" or path in named for path in loaded), loaded
mapped = Path("/proc/self/maps").read_text()
assert folder not in mapped
assert not touched, touched
for path in ("_plugins/torchrl_pool_x.so", "torchrl_pool_x.so"):
    os.remove(path)
os.rmdir("_plugins")
os.rmdir(folder)
""",
    "close while other threads are at work": """
env = PoolEnv("Fault-v0", 4, num_threads=2, sleep=1.0)
root = env.reset().set("action", torch.zeros(4, 2))
steps = []
def step():
    steps.append(env.step(root.clone())["next", "observation"][:, 1].tolist())
thread = threading.Thread(target=step)
thread.start()
def is_at_work():
    try:
        env.get_state()
    except RuntimeError as error:
        return "in flight" in str(error)
while not is_at_work():
    time.sleep(0.01)
env.close()
thread.join()
assert steps == [[1, 1, 1, 1]]
env.reset()
env.async_step_send(root, [0, 1, 2, 3])
thread = threading.Thread(target=refused, args=(RuntimeError, "closed", env.async_step_recv, 4))
thread.start()
time.sleep(0.2)
env.close()
thread.join()
env.reset()
""",
}


@pytest.mark.parametrize(
    "fault",
    cases(
        default=[
            "double send",
            "use after close",
            "env loops for ever",
            "env loops for ever, without a time limit",
            "env loops for ever in flight",
            "an env that sleeps beside others",
            "steps that are cheap until all are slow",
            "plugins that are none, or of another ABI version",
        ],
        also=FAULTS,
    ),
)
def test_a_fault_neither_ends_nor_hangs_the_process(fault):
    assert run(FAULTS[fault]) == ""
