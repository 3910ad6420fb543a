"""A retrieval finds candidates: for every query, one list of chunks, best first.

It decides which scores find them (words, vectors, relations between entities, or several together) and on which scale.
"""
