"""Rerankers compare the question with each candidate and reorder the candidates.

The score of a reranker replaces that of the first stage, with its scale, and all later stages use it.
"""
