"""A comparison says what a difference between pipelines on the same questions shows, and what it cannot show.

Questions come in clusters, tests in families, and one data set is looked at again and again: everything here counts all
three. What is decided how, with formulas and sources, is in docs/verdicts.md.
"""
