"""A pre-embedding decides by which texts, its keys, a chunk is found.

What is read once it is found is the chunk itself, so nothing a key says ever reaches the generator.
"""
