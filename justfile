# Short verbs; `just` alone runs what CI runs.

default: lint types test docs

test *args:
    python -m pytest {{args}}

# without the tests that start, kill and wait for processes
quick:
    python -m pytest -m "not processes"

lint:
    ruff check .
    ruff format --check .

types:
    mypy

docs:
    python tools/documentation.py --check

# write the generated parts of README.md again
catalogue:
    python tools/documentation.py

bench:
    for file in benchmarks/bench_*.py; do python $file; done
