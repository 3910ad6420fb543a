"""A measure says how good one answer, ranking or set of passages is; each is a pure function of what it reads.

Its file holds the formula and its declaration (`ragsmith.measures.registry.measure`), and nothing else knows it by name
but the composite values of `ragsmith.evaluation.fitness`.
"""
