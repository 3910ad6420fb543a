"""Pre-embedding techniques choose the texts (keys) by which a chunk is indexed.

Retrieval returns the chunk itself, so the generator never sees keys.
"""
