import pytest
from building import build_plugin
from ways import WAYS

import torchrl_pool


@pytest.fixture(scope="session", autouse=True)
def _envs_whose_numbers_are_known():
    for name in ("counting", "spaces"):
        torchrl_pool.load_plugin(build_plugin(name))


@pytest.fixture(params=WAYS)
def way(request):
    """Gives an env to test: TorchRL's own, of which a case must be true too, or the fused one."""
    return WAYS[request.param]
