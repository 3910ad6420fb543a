"""Intake: a folder of files of many kinds becomes a data set's folder of texts.

Every file ends as a document, as the duplicate of one, or as a line that says why it is neither; a second intake of the
same folder brings the data set up to date.
"""
