"""The pool in TorchRL's hydra configurations: ``hydra.searchpath: [pkg://torchrl_pool.configs]``.

Adds the choice ``pool`` to the group ``env``, beside TorchRL's ``gym`` and ``multi_threaded``.
"""
