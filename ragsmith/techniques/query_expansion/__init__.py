"""A query expansion decides what is searched with: it gets the question and a search, and returns one list of hits.

The question itself never changes; later families read it as it was asked.
"""
