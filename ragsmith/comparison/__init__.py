"""A comparison says what two pipelines are worth against each other, and what may be claimed of that."""
