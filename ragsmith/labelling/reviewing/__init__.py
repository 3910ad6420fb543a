"""Review of drafted questions: a reviewer accepts, edits or rejects each draft, the least certain first.

    decisions   ->  decisions, and their application to rows
    journal     ->  write-ahead log of decisions
    review      ->  the drafted questions in the folder of a data set
    uncertainty ->  the uncertainty of a draft, with reasons
    passages    ->  the text around the evidence

``page`` serves the review to a browser on this machine.
"""
