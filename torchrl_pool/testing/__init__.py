"""What an env's author runs in its tests: a pool against a Gymnasium twin, and against the contract.

The helpers raise ``AssertionError`` with a message that says where the difference is, and leave torch's
generator as it was.
"""

from torchrl_pool.testing._conformance import check_pool
from torchrl_pool.testing._plugin_checks import check_plugin
from torchrl_pool.testing._trajectories import assert_same_trajectories

__all__ = ["assert_same_trajectories", "check_plugin", "check_pool"]
