"""A review is a person's look at drafted questions: each is accepted, mended or rejected, the least certain first.

    decisions  ->  what a decision makes of a row
    journal    ->  decisions on disk, before anybody is told that they are kept
    review     ->  the drafted questions of a data set's folder, which several people may look at together
    doubt      ->  how uncertain a draft is, and why
    passages   ->  what a reviewer reads of the documents

and three ways to look: a page of one's own browser (`page`), the terminal (`terminal`), a file to edit (`sheet`).
"""
