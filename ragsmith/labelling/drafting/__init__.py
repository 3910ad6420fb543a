"""A draft is a question that a chat model wrote about documents, with its answer and the quotations that show it.

methods    ->  what the model is asked about a passage: one file a method, with its prompt and its parser
filters    ->  what is wrong with a draft, in a fixed order
checks     ->  what the model is asked about a draft
drafting   ->  which passages are asked about, which drafts become rows of a data set
"""
