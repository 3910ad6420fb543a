"""Retrieval techniques return, for every query, one ranking of chunks, best first.

They decide which scores rank the chunks (lexical, vector, entity graph, or a fusion) and on which scale.
"""
