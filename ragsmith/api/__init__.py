"""The public functions; the commands of the command line parse their options, call these functions and print.

Arguments may be names, paths or objects: a data set or space is a bundled name, a path or a loaded object; models are a
mapping by role or a file; prices are a mapping or a file; a cache is a file, a URL or an open store.
"""
