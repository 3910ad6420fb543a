"""A reviewer accepts, mends or rejects each drafted question, the least certain first.

    decisions   ->  what a decision makes of a row
    journal     ->  decisions on disk, before they are confirmed
    review      ->  the drafted questions of a data set's folder
    uncertainty ->  how uncertain a draft is, and why
    passages    ->  the text around the evidence

``page`` shows it in a browser on this machine.
"""
