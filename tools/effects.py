"""Learn the effects and the weights of signals that ship with ragsmith.

    python tools/effects.py FOLDER CORPORA [--cache FILE] [--pipelines N] [--workers N] [--weights-only]
    python tools/effects.py FOLDER CORPORA --embedder sentence-transformers:all-MiniLM-L6-v2
    python tools/effects.py --own DATASET [DATASET ...] -o effects.json [--cache FILE] [--pipelines N] [--workers N]

Effects are learned on `law` and `workshop`, on published data sets and on small corpora of other kinds; weights on the
other bundled domains, too. FOLDER has the published sets, each in a folder: ``ragsmith_law_10`` and
``ragsmith_finance_10``, ``hotpotqa_100``, ``tatqa_dev`` (200 questions of it) and ``cranfield`` (which has no answers).
CORPORA is what ``benchmarks/other_corpora.py`` made. Of bundled data sets only search questions are learned from; the
others test nothing here, and teach with all of theirs. What the cache has is not computed again. Numbers are kept, no
texts.

``--own`` learns from other data sets instead, bundled names or folders, by their search questions and with the models
of ``--models FILE``: `ragsmith recommend --effects effects.json` goes by the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from effect_model import write
from learning import PIPELINES, learn
from weights import learn_weights

from ragsmith.api.resources import Resources
from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.datasets.importers import import_dataset
from ragsmith.datasets.splits import Split
from ragsmith.effects.knowledge import SHIPPED
from ragsmith.errors import RagsmithError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.general_weights import SHIPPED_FILES as SHIPPED_WEIGHTS
from ragsmith.evaluation.general_weights import embedder_class
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.types import Dataset, Document, Example, Span

BUNDLED = ("law", "workshop")
DOMAINS = ("computer_science", "defense", "finance", "mathematics", "medicine")
"""They are left to what is claimed about effects, of which none that ships was measured on them. Weights of signals
were learned on their search questions; a pipeline on one of them has weights that it did not teach."""

TOO_SLOW = ("hotpotqa_100", "cranfield", "changelogs", "german_guides", "french_guides")
"""What a transformer that knows English learns no weights from: it takes minutes for the large ones without a GPU."""

PUBLISHED = ("ragsmith_law_10", "ragsmith_finance_10", "hotpotqa_100", "tatqa_dev")
QUESTIONS = 200
"""Questions of a published data set, at most: the first by the hash of their ids."""


def published(folder: Path) -> Iterator[Dataset]:
    """Those that are published in ``folder``."""
    for name in PUBLISHED:
        data = import_dataset(folder / name).dataset
        drawn = sorted(data.examples, key=lambda example: sha256(example.id.encode()).hexdigest())[:QUESTIONS]
        yield make_dataset({"name": name, "language": data.language}, data.documents, drawn)
    yield cranfield(folder / "cranfield")


def corpora(folder: Path) -> Iterator[Dataset]:
    """Those that ``benchmarks/other_corpora.py`` made in ``folder``."""
    for path in sorted(folder.glob("*/dataset.yaml")):
        yield load_dataset(path.parent)


def with_all_questions(data: Dataset) -> Experiment:
    """A setup whose questions all teach."""
    return Experiment(data, faithfulness=False, fixed_split=Split(data.examples, (), "none is tested"))


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


def report_progress(name: str, done: int, total: int) -> None:
    """Print how many pipelines of a data set are done."""
    print(f"{process_time():6.0f} CPU s  {name}: {done} of {total}", flush=True)


def learn_own(given: argparse.Namespace) -> None:
    """Learn from the data sets that are named, and write the file."""
    setups = [Resources(models=given.models).setup(name) for name in given.own]
    with Store.open(given.cache) as store:
        learned = learn(
            setups,
            load_space(given.space),
            store,
            pipelines=given.pipelines,
            workers=given.workers,
            on_progress=report_progress,
        )
    write(learned, given.output)
    print(*learned.checked, given.output, sep="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, write the file, and print how what was named did on each data set that was left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("corpora", type=Path, nargs="?")
    parser.add_argument("--cache", type=Path, default=Path("effects.sqlite"))
    parser.add_argument("--pipelines", type=int, default=PIPELINES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--weights-only", action="store_true")
    parser.add_argument("--embedder", help="another than the embedded one: only its weights are learned")
    parser.add_argument("--own", nargs="+", metavar="DATASET", help="learn from these instead: two or more")
    parser.add_argument("--models", type=Path, metavar="FILE", help="with --own: the models file to learn with")
    parser.add_argument("--space", default="default", help="with --own: a bundled search space by name, or a YAML file")
    parser.add_argument("--output", "-o", type=Path, default=Path("effects.json"), help="with --own: file to write")
    given = parser.parse_args(arguments)
    if given.own:
        try:
            learn_own(given)
        except RagsmithError as error:
            sys.exit(str(error))
        return
    if not given.corpora:
        parser.error("name FOLDER and CORPORA, or data sets with --own")
    own = [Experiment(load_dataset(name), faithfulness=False) for name in BUNDLED]
    models = ModelNames().override({"embedder": given.embedder} if given.embedder else {})
    others = [with_all_questions(data) for data in (*published(given.folder), *corpora(given.corpora))]
    able = [setup for setup in others if not given.embedder or setup.dataset.name not in TOO_SLOW]
    with Store.open(given.cache) as store:
        domains = [Experiment(load_dataset(name)) for name in DOMAINS]
        weights = learn_weights([replace(setup, models=models) for setup in (*own, *domains, *able)], store)
        file = SHIPPED_WEIGHTS[embedder_class(models)]
        weights.write(file)
        print(f"{process_time():.0f} CPU seconds, {file}", flush=True)
        if given.weights_only or given.embedder:
            return
        learned = learn(
            [*own, *others],
            load_space("default"),
            store,
            pipelines=given.pipelines,
            workers=given.workers,
            ranking=weights,
            on_progress=report_progress,
        )
    write(replace(learned, ranking=None), SHIPPED)
    for check in learned.checked:
        print(check)
    print(f"{process_time():.0f} CPU seconds, {SHIPPED}")


if __name__ == "__main__":
    main()
