import pytest
import torch

pytest.register_assert_rewrite("comparing")


def pytest_configure(config):
    # One thread: tensors are tiny here, and the processors belong to the pools and to worker processes.
    torch.set_num_threads(1)
    for warning in (
        "ignore:.*is out of date.*:DeprecationWarning:gymnasium",  # CartPole-v0, on purpose
        "ignore:.*is out of date.*:UserWarning:gymnasium",
        "ignore:.*WeightUpdaterBase is deprecated:DeprecationWarning",  # at torchrl's own import
    ):
        config.addinivalue_line("filterwarnings", warning)


@pytest.fixture(autouse=True)
def _fixed_torch_seed():
    torch.manual_seed(0)
