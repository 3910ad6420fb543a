"""A technique is one function in one file, named after it, in the folder of its family; it registers itself.

It gets its models as arguments, reads values and returns new ones, and does nothing else.
"""
