"""A forked child is refused whatever it asks of its parent's pool, and the parent goes on as before."""

import pytest
from cases import cases
from test_interrupt_table import PRELUDE, run_program

BODY = """
def counts(env, root):
    data, root = env.step_and_maybe_reset(env.rand_action(root))
    return data["next", "observation"].flatten().tolist(), root

def in_child(act):
    "What it leads to in a child, which is ended where it hangs."
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            act()
            said = "returned"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    said = os.read(ours, 4000).decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the child ended with {status}"
    os.close(ours)
    return said

env = MAKE
root = env.reset()
states = env.get_state()
_, root = counts(env, root)
env.async_step_send(env.rand_action(root)[:1], [0])
env.async_step_recv(1)
methods = {name: getattr(Calls, name) for name in METHODS}
for number, (name, act) in enumerate(methods.items()):
    print(name, end=": ", flush=True)
    stop = threading.Event()
    def work():
        "Another thread is within a call when the process forks."
        while not stop.is_set():
            try:
                env.get_state(0)
            except RuntimeError:
                pass
    thread = threading.Thread(target=work)
    thread.start()
    said = in_child(lambda: act(env, root))
    stop.set()
    thread.join()
    print(said.splitlines()[0], flush=True)
    expected = "returned" if name == "close" else "before the process forked"
    assert expected in said, said
    start = time.monotonic()
    root = env.reset()
    for step in range(1, 31):
        seen, root = counts(env, root)
        if "Hanging" in REPR:
            assert seen == [step, step], (step, seen)
    assert time.monotonic() - start < 20, "the parent has slowed down"
env.close()
env.reset()
# A child may close its parent's pool and begin one of its own, which is its own process's.
def anew():
    env.close()
    root = env.reset()
    assert counts(env, root)[0] is not None
    env.close()
assert in_child(anew) == "returned"
env.step(env.rand_action(env.reset()))
env.close()
print("all")
"""
MANY = ["step", "step_and_maybe_reset", "receive", "reset", "seed"]
MANY += ["get_state", "set_state", "render", "close"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("make", "methods"),
    cases(
        default=[
            ("PoolEnv('CartPole-v1', 2, num_threads=2)", MANY),
            ("PoolEnv('CartPole-v1', 2, num_threads=2, step_timeout=60.0)", MANY),
        ],
        also=[
            (
                "PoolEnv(partial(Hanging, 'nowhere'), 2, num_workers=2)",
                [*MANY, "call", "get_attr", "set_attr"],
            ),
            (
                "PoolEnv(partial(Hanging, 'nowhere'), 2, num_workers=0)",
                [*MANY, "call", "get_attr", "set_attr"],
            ),
        ],
    ),
)
def test_every_method_in_the_parent_and_in_a_child(make, methods):
    body = BODY.replace("MAKE", make).replace("METHODS", repr(methods)).replace("REPR", repr(make))
    result = run_program(PRELUDE + body, timeout=110)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert result.stdout.endswith("all\n")
