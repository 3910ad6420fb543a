"""A data set is documents, questions and the character spans that answer them.

Here they are read, checked, split and turned into chunks; nothing here calls a model.
"""
