"""A measure says how good one answer, ranking or set of passages is; each is a pure function of what it reads."""
