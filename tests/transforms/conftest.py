import pytest
from building import build_plugin

import torchrl_pool


@pytest.fixture(scope="session", autouse=True)
def _envs_whose_numbers_are_known():
    for name in ("counting", "spaces"):
        torchrl_pool.load_plugin(build_plugin(name))
