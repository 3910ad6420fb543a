"""Draft questions about documents with a chat model. A draft has a question, an answer and quotations as evidence.

methods    ->  prompts for passages, with parsers of replies
filters    ->  rules that reject drafts, in a fixed order
checks     ->  prompts that check a draft
drafting   ->  selection of passages, and of the drafts that become rows of a data set
"""
