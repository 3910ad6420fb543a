"""Query expansion techniques choose the queries: each gets the question and a search function, and returns a ranking.

The question itself is not changed; later stages get the original.
"""
