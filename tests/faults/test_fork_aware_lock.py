"""Locks that signals and forks leave unlocked."""

import os
import random
import signal
import threading

import pytest

from torchrl_pool._fork_aware_lock import fork_aware_lock


def test_whenever_a_signal_raises_the_lock_is_given_back():
    """Also at the very beginning of leaving the block."""
    lock, rng, raised = fork_aware_lock(), random.Random(0), 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(2000):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4))
                while True:
                    with lock:
                        pass
            except KeyboardInterrupt:
                raised += 1
            assert not lock._is_owned()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == 2000


def test_who_calls_what_it_has_interrupted_is_refused():
    lock = fork_aware_lock()
    with lock, pytest.raises(RuntimeError, match="what it has interrupted"), lock:
        pass
    assert not lock._is_owned()


def test_a_forked_child_has_it_unlocked():
    lock, held, done = fork_aware_lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    if (child := os.fork()) == 0:
        os._exit(0 if lock.acquire(timeout=10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not lock.acquire(blocking=False)
    done.set()
    thread.join()
