"""A starter kit is a folder with all that a pipeline needs to run elsewhere: its file, its documents, what starts it.

It stands alone: paths in it are relative to it, no key is in it, and the ragsmith that wrote it comes along as a wheel.
"""
