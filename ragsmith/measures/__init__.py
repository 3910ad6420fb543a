"""Measures score one answer, ranking or set of passages; each is a pure function of a `ragsmith.measures.case.Case`.

A formula is next to its declaration (`ragsmith.measures.registry.measure`), and only the composite values of
`ragsmith.evaluation.fitness` refer to measures by name.
"""
