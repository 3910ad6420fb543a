# Short verbs; `just` alone runs what CI runs.

default: lint types test docs

test *args='-n 2 --dist worksteal':
    python -m pytest {{args}}

# what a pipeline is, how it is searched and scored: under a minute on two cores; or tests of rooms: just quick store cli
quick *rooms='text measures pipelines techniques strategies diagnosis evaluation serving':
    python -m pytest -n 2 --dist worksteal -m "not processes" tests/test_*digest*.py tests/test_fingerprint.py $(printf 'tests/%s ' {{rooms}})

lint:
    ruff check .
    ruff format --check .
    lint-imports

types:
    mypy

docs:
    python tools/documentation.py --check
    mkdocs build --quiet

# build the documentation site into site/, and fail on a link that leads nowhere
site:
    mkdocs build

# write the generated pages of docs/ again
catalogue:
    python tools/documentation.py

# counts, gates and mistakes of the bundled domains
domains *args:
    python tools/domains.py {{args}}

# search every bundled domain, and write docs/leaderboard.md: hours with a chat model, which has to be named
leaderboard *args:
    python tools/leaderboard.py {{args}}

# learn the effects and weights that ship again, on published data sets and other corpora (see tools/effects.py)
effects folder corpora:
    python tools/effects.py {{folder}} {{corpora}}

# search `law` once, and write what README shows of it again
examples:
    python tools/examples.py

# what each benchmark answers is in benchmarks/README.md: just bench verdicts level power
bench name *args:
    python benchmarks/bench_{{name}}.py {{args}}
