# Short verbs; `just` alone runs what CI runs.

default: lint types test docs

test *args:
    python -m pytest {{args}}

lint:
    ruff check .
    ruff format --check .

types:
    mypy

docs:
    python -m ragsmith.documentation --check

# write the generated parts of README.md again
catalogue:
    python -m ragsmith.documentation

bench:
    for file in benchmarks/bench_*.py; do python $file; done
