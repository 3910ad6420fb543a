"""Measures of answers, rankings and passages: pure functions of a `ragsmith.measures.case.Case`.

Measures are registered by `ragsmith.measures.registry.measure`. Only the composite values of
`ragsmith.evaluation.fitness` refer to measures by name.
"""
