"""Ctrl-C, forks, threads and interpreter exit, each in a process of its own under a timer."""

import subprocess
import sys
import textwrap

import pytest
from cases import cases
from processes import run


def run_alone(body):
    """In an interpreter that has imported nothing yet."""
    program = [sys.executable, "-c", textwrap.dedent(body)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=True).stdout


def test_ctrl_c_between_the_envs_of_one_thread():
    out = run(
        """
        env = PoolEnv("Fault-v0", 100, num_threads=1, sleep=0.05)
        root = env.reset().set("action", zeros(env))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        start = time.monotonic()
        try:
            env.step_and_maybe_reset(root)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start < 5)
        print(env.reset()["observation"][:, 1].sum().item())
        """
    )
    assert out.split("\n")[:2] == ["interrupted True", "0.0"]


@pytest.mark.parametrize("end", cases(default=["pass", "sys.exit(0)"], also=["env.close()", "del env"]))
def test_exit_without_ceremony(end):
    run(
        f"""
        env = PoolEnv("CartPole-v1", 64, num_threads=4)
        env.rollout(50, break_when_any_done=False)
        {end}
        """
    )


@pytest.mark.parametrize(
    "wait",
    cases(default=["env.step(root)", "env.step_and_maybe_reset(root)"], also=["env.async_step_recv(2)"]),
)
@pytest.mark.parametrize("end", cases(["pass", "atexit.register(env.close)"]))
def test_exit_while_a_daemon_thread_waits(wait, end):
    """Nothing aborts: Python unwinds the stack of such a thread, or lets it sleep."""
    run(
        f"""
        import atexit
        env = PoolEnv("Fault-v0", 2, num_threads=2, sleep=0.4, seed=0)
        root = env.reset().set("action", zeros(env))
        if "recv" in {wait!r}:
            env.async_step_send(root)
        threading.Thread(target=lambda: {wait}, daemon=True).start()
        time.sleep(0.1)
        {end}
        """
    )


@pytest.mark.slow  # waits for threads
def test_functions_of_atexit_may_wait_for_threads():
    """Also those that were there before the package, and come after its own."""
    out = run_alone(
        """
        import atexit, threading, time
        threads, stop = [], threading.Event()

        def end():
            stop.set()
            threads[0].join()
            print("joined")

        atexit.register(end)
        from torchrl_pool import PoolEnv

        env = PoolEnv("CartPole-v1", 4, num_threads=2)

        def work():
            while not stop.is_set():
                env.rollout(5)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[0].start()
        time.sleep(0.3)
        """
    )
    assert out.split() == ["joined"]


def test_two_threads_never_share_a_call():
    """One of them is refused, or they take turns; no result is mixed up."""
    out = run(
        """
        env = PoolEnv("Fault-v0", 4, num_threads=2, sleep=0.1, seed=0)
        root = env.reset().set("action", zeros(env))
        results = []
        def step():
            try:
                results.append(env.step(root.clone())["next", "observation"][:, 1].unique().tolist())
            except RuntimeError as error:
                results.append("in flight" in str(error))
        threads = [threading.Thread(target=step) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(results.count(True), [1.0] in results)
        """
    )
    assert out.split() == ["2", "True"]


def test_create_and_close_leaks_no_threads_or_files():
    out = run(
        """
        def counts():
            return [len(os.listdir(f"/proc/self/{kind}")) for kind in ("task", "fd")]
        for i in range(300):
            env = PoolEnv("CartPole-v1", 8, num_threads=3)
            env.rollout(3)
            env.close()
            if i == 10:
                before = counts()
        print(before == counts())
        """
    )
    assert out.split() == ["True"]
