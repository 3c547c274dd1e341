import os
import signal
from contextlib import closing

import pytest
import torch
from cases import LONG, runs_by_default
from tensordict.nn.probabilistic import interaction_type

pytest.register_assert_rewrite("comparing")


def pytest_configure(config):
    # One thread: tensors are tiny here, and the processors belong to the pools and to worker processes.
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    for warning in (
        "ignore:.*is out of date.*:DeprecationWarning:gymnasium",  # CartPole-v0, on purpose
        "ignore:.*is out of date.*:UserWarning:gymnasium",
        "ignore:.*WeightUpdaterBase is deprecated:DeprecationWarning",  # at torchrl's own import
    ):
        config.addinivalue_line("filterwarnings", warning)
    if LONG and config.option.markexpr == "not slow":
        config.option.markexpr = ""


def pytest_collection_modifyitems(items):
    for item in items:
        if not runs_by_default(item):
            item.add_marker("slow")


@pytest.hookimpl(trylast=True)  # when the processes of xdist have ended
def pytest_sessionfinish(session):
    seconds = sum(os.times()[:4])
    if seconds > float(os.environ.get("TORCHRL_POOL_TEST_SECONDS", "inf")):
        print(f"\nThe tests took {seconds:.0f} seconds of processors, more than TORCHRL_POOL_TEST_SECONDS")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _torch_threads_as_before():
    """Training programs set their number."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _exploration_type_as_before():
    """It is the whole process's, and the next test's draws would be others."""
    before = interaction_type()
    yield
    assert interaction_type() is before


@pytest.fixture(autouse=True)
def _fixed_torch_seed():
    torch.manual_seed(0)


@pytest.fixture
def make_pool():
    """Makes pools, of CartPole unless told otherwise, that are closed with the test."""
    from torchrl_pool import PoolEnv  # not before the warnings of its imports are filtered

    pools = []

    def make(task="CartPole-v1", num_envs=6, **kwargs):
        pools.append(PoolEnv(task, num_envs, device="cpu", **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close(raise_if_closed=False)


@pytest.fixture
def begin(tmp_path):
    """Begins small trainings of the programs, which are closed with the test."""
    from programs import Trainings  # here: it needs the packages of the examples

    with closing(Trainings(tmp_path)) as trainings:
        yield trainings.begin
