"""Comparison of pipelines on the same questions, with verdicts.

Tests account for clusters of questions, families of comparisons, and repeated use of the same questions. Formulas and
sources are in docs/verdicts.md.
"""
