"""How fast a task is on this machine, against its peers and the bare simulator.

``contenders`` are what can be measured, ``measure`` lets them take turns, ``command`` and ``report`` are what
``python -m torchrl_pool bench`` does, ``plot`` draws. The scripts of ``benchmarks/`` in a checkout ask
further questions with the same parts.
"""
