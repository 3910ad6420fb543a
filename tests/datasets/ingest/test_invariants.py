"""Every entry of a random folder is reported once, and the written data set can be loaded."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixed_folder import entries

from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.ingest.ingest import FileOutcome, ingest_folder
from ragsmith.datasets.sources import read_sources
from ragsmith.errors import DatasetError

NAMES = st.builds(
    lambda stem, ending: f"{stem}{ending}",
    st.text("ab. _-#'\n\x1b\u00e9e\u0301\u6c34~", min_size=1, max_size=4).filter(lambda name: name not in (".", "..")),
    st.sampled_from(("", ".md", ".txt", ".MD", ".markdown", ".csv", ".tsv", ".json", ".jsonl", ".py", ".log", ".pdf")),
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.sampled_from(
        (b"", b" \n", b"One rule.\n", b"One rule.\r\n", b"a,b\n1,2\n", b"a;a\n1;2\n", b'{"a": [1, 2]}', b"%PDF-1.4")
    ),
    st.sampled_from(
        (b'[{"a": 1}, {"b": "x"}]', b"\xff\xfeh\0i\0", b"PK\x03\x04", b"\x7fELF", "é".encode("latin-1"), b"# A\n\nB")
    ),
    st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=30),
)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        if any(above.is_file() for above in path.parents if above != folder) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@settings(max_examples=60)
@given(st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=8), st.dictionaries(PATHS, CONTENTS, max_size=3))
@example({"a.md": b"One.", "a.txt": b"Two.", "a": b"Three.", "a.markdown": b"Four."}, {})
@example({"a.md/b.txt": b"One.", "A.md": b"Two."}, {"a.md/b.md": b"Three."})
@example({"a.csv": b"a\n\n1\n", "b.csv": b"x", "c.csv": b'a,b\n"1\n2",3\n'}, {"a.csv": b"a\n2\n"})
def test_counts_add_up_for_any_files(files: dict[str, bytes], later: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, output = Path(place, "files"), Path(place, "made")
        folder.mkdir()
        for step in (files, later):
            write(folder, step)
            was = sorted(output.rglob("*"))
            try:
                taken = ingest_folder(folder, output)
            except DatasetError as error:
                mistakes = error.mistakes
            else:
                mistakes = ()
            if mistakes:
                assert "has no file that can be read" in mistakes[0]
                assert len(mistakes) == 1 + len(entries(folder))
                assert sorted(output.rglob("*")) == was
                return
            assert [file.source for file in taken.files] == entries(folder)
            of = Counter(file.outcome for file in taken.files)
            assert of.total() == len(entries(folder))
            documents = {document.id for document in taken.documents}
            became = [doc for file in taken.files if file.outcome not in (FileOutcome.DUPLICATE,) for doc in file.docs]
            gone = {removed.doc for removed in taken.removed}
            assert not gone & documents
            assert Counter(became) == Counter(documents)
            repeated = {doc for file in taken.with_outcome(FileOutcome.DUPLICATE) for doc in file.docs}
            assert repeated <= documents
            assert all(file.reason for file in taken.files if not file.docs or file.outcome is FileOutcome.DUPLICATE)
            assert {row.doc for row in read_sources(output) if row.doc} == documents
            assert set(load_documents(output).documents) == set(taken.documents)
