"""A draft is a question that a program made of documents, with its answer and the quotations that show it.

methods   ->  drafts of each passage, one file a method
filters   ->  what is wrong with a draft, one file a filter, in a fixed order
drafting  ->  rows of a data set: which passages, which drafts are kept, what is written
"""
