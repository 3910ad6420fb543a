"""Whether a data set can tell good retrieval from bad: gates, each of which asks one question of it.

A gate is a function in a module of ``gates/``. It reads a `DatasetView` and returns a `GateFinding`: the measured
value, its limit, and advice. The limit is justified, with sources, in the docstring of the gate.
"""
