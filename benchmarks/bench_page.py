"""The report of a search in a browser: size, first paint, requests, console, width, keyboard, accessibility, markup.

python benchmarks/bench_page.py [--cache FILE] [--axe FILE] [--rounds N] [--questions N]

Without --cache a default search of `law` is made first. Needs Chromium with its driver, selenium and pillow. --axe is
axe.min.js of the package axe-core (`npm pack axe-core`), which then checks the page. First paint is that of the page
against the same page without its charts, alternating, the median of --rounds. Sixty texts that would act if a page took
them for markup stand in a page of their own, and so do --questions questions.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

from browser import Browser, browser  # noqa: E402
from markup import PAYLOADS  # noqa: E402

import ragsmith  # noqa: E402
from ragsmith.reporting import RunReport, load_report  # noqa: E402
from ragsmith.reporting.page import report_page  # noqa: E402
from ragsmith.reporting.values import QuestionOutcome, QuestionResult, Questions  # noqa: E402
from ragsmith.store.store import opened  # noqa: E402

FIRST_PAINT = """
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return paint ? paint.startTime : null;
"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth;"
REACHED = """
const all = "a[href], button, input, select, summary, [tabindex='0']";
return [...document.querySelectorAll(all)].filter(e => e.checkVisibility() && e.tabIndex < 0).length;
"""


def law(cache: Path | None, folder: Path) -> RunReport:
    """What a cache has of `law`; without one, what a default search finds."""
    if cache is None:
        return ragsmith.search("law", cache=folder / "cache.sqlite").domain
    with opened(cache, read_only=True) as store:
        return load_report(store, "law")


def written(folder: Path, name: str, html: str) -> Path:
    path = folder / name
    path.write_text(html, encoding="utf-8")
    return path


def without_charts(html: str) -> str:
    return re.sub(r"<figure>.*?</figure>", "", html, flags=re.DOTALL)


def many_questions(domain: RunReport, count: int) -> RunReport:
    """The same report with ``count`` questions in place of its own."""
    causes = ("answered well", "below k", "read and not used", "cut by the filter")

    def treated(place: int) -> QuestionOutcome:
        return QuestionOutcome({"fitness": (place * 37 % 101) / 100}, causes[place % 4], 1, place % 2)

    asked = tuple(
        QuestionResult(
            f"q{place:05}",
            ("factual", "long_answer", "interpretation")[place % 3],
            "test" if place % 4 == 0 else "search",
            f"Question {place}: who may do what, by when, and at which cost, where rule {place % 97} says so?",
            "An answer.",
            treated(place),
            treated(place * 7 + 1),
        )
        for place in range(count)
    )
    return replace(domain, questions=Questions(asked))


def acting(domain: RunReport) -> RunReport:
    """A report of which every question, note and option would act."""
    asked = tuple(
        QuestionResult(
            text,
            text,
            "search",
            text,
            text,
            QuestionOutcome({"fitness": place / 100}, text),
            QuestionOutcome({"fitness": 0.5}, text),
        )
        for place, text in enumerate(PAYLOADS)
    )
    rows = tuple(replace(row, label=text) for row, text in zip(domain.ranking, PAYLOADS, strict=False))
    about = replace(domain.about, data=replace(domain.about.data, title=PAYLOADS[0], description=PAYLOADS[-1]))
    options = tuple(replace(option, name=text) for option, text in zip(domain.options, PAYLOADS, strict=False))
    return replace(
        domain, about=about, notes=PAYLOADS, ranking=rows, front=rows[:5], options=options, questions=Questions(asked)
    )


def first_paints(b: Browser, pages: Sequence[Path], rounds: int) -> list[list[float]]:
    """Milliseconds to the first paint of each page, in turns."""
    found: list[list[float]] = [[] for _ in pages]
    for turn in range(rounds + 1):
        for place, page in enumerate(pages):
            b.show(page, 1280)
            deadline = time.monotonic() + 20
            while (paint := b.ask(FIRST_PAINT)) is None and time.monotonic() < deadline:
                time.sleep(0.02)
            if turn and paint is not None:  # the first of each warms up
                found[place].append(paint)
    return found


def accessible(b: Browser, page: Path, axe: Path) -> None:
    """What axe finds, by impact, in light and dark and on a telephone."""
    for width, dark in ((1280, False), (1280, True), (390, False)):
        b.show(page, width, dark=dark)
        b.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
        b.ask(axe.read_text(encoding="utf-8"))
        b.driver.set_script_timeout(300)
        found = b.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        listed = [f"{one['impact']} {one['id']} ({len(one['nodes'])})" for one in found["violations"]]
        print(
            f"axe, {width} px{', dark' * dark}: {', '.join(listed) or 'nothing'}; {len(found['passes'])} rules passed"
        )
        for one in found["violations"]:
            print(f"    {one['help']}: {one['nodes'][0]['html'][:160]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--questions", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, browser() as b:
        folder = Path(name)
        domain = law(given.cache, folder)
        html = report_page(domain)
        page, bare = written(folder, "page.html", html), written(folder, "bare.html", without_charts(html))
        print(f"page: {len(html.encode()):,} bytes, of them {len(html) - len(without_charts(html)):,} of charts")

        with_them, without = map(statistics.median, first_paints(b, (page, bare), given.rounds))
        print(f"first paint: {with_them:.0f} ms, without charts {without:.0f} ms: {with_them / without:.2f} times")

        for width, dark, media in ((1280, False, ""), (1280, True, ""), (390, False, ""), (718, False, "print")):
            b.show(page, width, dark=dark, media=media)
            how = ", ".join(filter(None, (f"{width} px", "dark" * dark, media)))
            print(f"{how}: {len(b.requests())} requests, {len(b.messages())} messages, {b.ask(WIDER)} px wider")
        print(f"out of reach of the keyboard: {b.ask(REACHED)}")

        b.show(written(folder, "acting.html", report_page(acting(domain))), 1280)
        b.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
        inert = b.ask("return window.acted === undefined")
        heard = f"{len(b.requests())} requests, {len(b.messages())} messages"
        print(f"{len(PAYLOADS)} texts of markup: inert {inert}, {heard}")

        started = time.perf_counter()
        many = report_page(many_questions(domain, given.questions))
        made = time.perf_counter() - started
        started = time.perf_counter()
        b.show(written(folder, "many.html", many), 1280)
        shown = time.perf_counter() - started
        rows = b.ask("return document.querySelectorAll('.questions tbody tr').length")
        started = time.perf_counter()
        b.ask(
            "const s = document.querySelector('.filters select'); s.value = 'factual';"
            "s.dispatchEvent(new Event('input', {bubbles: true})); document.body.offsetHeight;"
        )
        filtered = time.perf_counter() - started
        said = b.ask("return document.querySelector('.filters [role=status]').textContent")
        print(
            f"{given.questions:,} questions: written in {made:.1f} s, {len(many.encode()):,} bytes, loaded in "
            f"{shown:.1f} s with {rows} rows, filtered in {filtered:.2f} s ({said})"
        )
        if given.axe:
            accessible(b, page, given.axe)


if __name__ == "__main__":
    main()
