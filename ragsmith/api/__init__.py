"""What the command line does, from Python: the commands parse their flags, call these functions and print.

Names, paths and objects are taken alike: a data set or space by bundled name, by path or as loaded; models by name, as
a mapping by role, as a file or as objects; prices as a mapping or a file; a cache as a file, a URL or an open store.
"""
