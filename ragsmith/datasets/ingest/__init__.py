"""Ingest a folder of files of many types into the folder of a data set.

Every file becomes a document, is a duplicate of another file, or is reported with a reason. Ingesting the same folder
again updates the data set.
"""
