"""The published RAGSmith data, law and finance, imported and searched into one cache, with the cross-domain report."""

import sys
import tempfile
from pathlib import Path

from commands import ragsmith

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
if not DATA.is_dir():
    sys.exit("the published data is not beside this checkout: nothing to measure")
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for domain in ("ragsmith_law_10", "ragsmith_finance_10"):
        print(ragsmith("dataset", "import", str(DATA / domain), "-o", domain, folder=folder).out, end="")
        done = ragsmith("search", "--dataset", domain, "--preset", "paper", folder=folder)
        assert done.code == 0, done.err
        print(done.out)
    print(
        (folder / "reports/index.md").read_text()
        if (folder / "reports/index.md").exists()
        else ragsmith("report", folder=folder).out
    )
    print((folder / "reports/index.md").read_text())
