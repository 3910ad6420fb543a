"""Checks whether a data set can distinguish good retrieval from bad. Each gate checks one property.

A gate is a function in a module of ``gates/``. It reads a `DatasetView` and returns a `GateFinding`: the measured
value, its limit, and advice. The limit is justified, with sources, in the docstring of the gate.
"""
