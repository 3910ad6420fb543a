"""First steps: search a bundled data set, look at what was found, keep it, and ask it. It takes a few seconds.

Run it as a whole (``python docs/first_steps.py FOLDER``), or cell by cell where an editor knows ``# %%`` as a notebook.
Everything is written to FOLDER, which is made if it is not there. Tables need pandas (``pip install
'ragsmith[pandas]'``); without it that cell says so, and the rest goes on.
"""

# %% A data set is documents, and questions whose answers lie in them.
import sys
from pathlib import Path

import ragsmith
from ragsmith.errors import MissingExtra

GIVEN = [word for word in sys.argv[1:2] if not word.startswith("-")]  # a notebook is given options of its own
FOLDER = Path(GIVEN[0] if GIVEN else "first_steps")


def main() -> None:
    """Every cell below; the function is for processes, which import this file again."""
    law = ragsmith.load_dataset("law")
    print(f"{law.title}: {len(law.documents)} documents, {len(law.examples)} questions")

    # %% Search a small space. The same call again would go on, or answer from the cache.
    space = ragsmith.load_space("quick")
    found = ragsmith.search(
        law,
        space=space,
        max_evaluations=8,
        probes=False,
        seed=1,
        cache=FOLDER / "cache.sqlite",
    )
    print(f"{found.state}: {len(found.ranking)} pipelines that differ, of {space.feasible_size}")

    # %% The ranking is on the questions that chose the winner; the verdict is on others. They are looked at once: this
    # search shows its verdict again whenever it is repeated, and another search of law ends with estimates, unless it
    # has test=True.
    try:
        table = found.to_pandas()
        print(table[["place", "pipeline", "fitness", "calls"]].head(5).to_string(index=False))
    except MissingExtra as missing:
        print(missing)
    print(found.verdict)

    # %% Who is worth it: nobody else is as good for as few model calls.
    for row in found.front:
        print(f"  {row.scores['fitness'].mean:.3f} at {row.usage['calls']:.1f} calls a question: {row.label}")

    # %% Where the winner was wrong, question by question.
    worst = min(found.records(), key=lambda record: record.measures["fitness"])
    print(f"{worst.question}: fitness {worst.measures['fitness']:.2f}, answered {worst.answer!r}")

    # %% Keep it: a picture, the report, and the winner as a file that can be asked, evaluated and verified.
    found.plot(path=FOLDER / "convergence.html")
    found.report(FOLDER / "reports")
    winner = found.export(FOLDER / "winner.yaml")

    # %% Ask it.
    reply = ragsmith.Pipeline.load(winner).ask("When does the limitation period start?")
    print(reply.answer)
    for source in reply.sources[:2]:
        print(f"  {source.doc} [{source.start}:{source.end}] {source.title}")


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        sys.exit(print(__doc__))
    FOLDER.mkdir(parents=True, exist_ok=True)
    main()
