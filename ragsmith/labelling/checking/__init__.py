"""Whether a data set can tell good retrieval from bad: gates, each of which asks one question of it.

A gate is a function in a file of its own under ``gates/``. It reads a prepared `View` of the data set and returns a
`Finding`: what was measured, the limit that it was measured against, and what to do. A limit is argued, with its
source, in the docstring of the gate.
"""
