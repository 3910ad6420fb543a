"""Learn the effects that ship with ragsmith: from two bundled data sets, and from published ones that lie in a folder.

    python tools/effects.py FOLDER [-o FILE] [--cache FILE] [--pipelines N] [--workers N]

FOLDER has what the published data sets are, each in a folder: ``ragsmith_law_10`` and ``ragsmith_finance_10``,
``hotpotqa_100``, ``tatqa_dev`` (200 questions of it) and ``cranfield`` (which has no answers). What the cache has is
not computed again. Numbers are kept, no texts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.datasets.importers import import_dataset
from ragsmith.effects import learn
from ragsmith.effects.knowledge import SHIPPED
from ragsmith.effects.learning import PIPELINES
from ragsmith.evaluation.testbed import Setup
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.types import Dataset, Document, Example, Span

BUNDLED = ("law", "workshop")
"""The other bundled domains are left to what is claimed about effects: nothing that ships has seen them."""

PUBLISHED = ("ragsmith_law_10", "ragsmith_finance_10", "hotpotqa_100", "tatqa_dev")
QUESTIONS = 200
"""Questions of a published data set, at most: the first by the hash of their ids."""


def data_sets(folder: Path) -> Iterator[Dataset]:
    """Those that are bundled, and those that are published in ``folder``."""
    for name in BUNDLED:
        yield load_dataset(name)
    for name in PUBLISHED:
        data = import_dataset(folder / name).dataset
        drawn = sorted(data.examples, key=lambda example: sha256(example.id.encode()).hexdigest())[:QUESTIONS]
        yield make_dataset({"name": name, "language": data.language}, data.documents, drawn)
    yield cranfield(folder / "cranfield")


def cranfield(folder: Path) -> Dataset:
    """The abstracts and queries; the judgements number the queries in the order of the file."""
    documents = {}
    for number, record in enumerate((folder / "cran.all.1400").read_text("utf-8").split(".I ")[1:], start=1):
        title, _, rest = record.partition(".T\n")[2].partition(".A\n")
        if text := rest.partition(".W\n")[2].strip():
            documents[number] = Document(f"cran{number:04}", " ".join(title.split()).rstrip(" ."), text)
    judged: dict[int, set[int]] = {}
    for line in (folder / "cranqrel").read_text("utf-8").splitlines():
        query, document, code = map(int, line.split()[:3])
        if code != -1 and document in documents:
            judged.setdefault(query, set()).add(document)
    examples = []
    for number, record in enumerate((folder / "cran.qry").read_text("utf-8").split(".I ")[1:], start=1):
        gold = [documents[document] for document in sorted(judged.get(number, ()))]
        spans = tuple(Span(document.id, 0, len(document.text)) for document in gold)
        if spans:
            question = " ".join(record.partition(".W\n")[2].split())
            examples.append(Example(f"q{number:03}", question, "", "ad_hoc", spans))
    return make_dataset({"name": "cranfield"}, list(documents.values()), examples)


def main() -> None:
    """Learn, write the file, and print how what was named did on each data set that was left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=SHIPPED)
    parser.add_argument("--cache", default="effects.sqlite")
    parser.add_argument("--pipelines", type=int, default=PIPELINES)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    setups = [Setup(data, faithfulness=False) for data in data_sets(given.folder)]
    with Store.open(Path(given.cache)) as store:
        learned = learn(
            setups,
            load_space("default"),
            store,
            pipelines=given.pipelines,
            workers=given.workers,
            on_progress=lambda name, done, total: print(
                f"{process_time():6.0f} CPU s  {name}: {done} of {total}", flush=True
            ),
        )
    learned.write(given.output)
    for check in learned.checked:
        print(check)
    print(f"{process_time():.0f} CPU seconds, {given.output}")


if __name__ == "__main__":
    main()
