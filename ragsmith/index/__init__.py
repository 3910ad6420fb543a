"""Indexes over the entries of a pre-embedding: lexical, vector and graph search."""
