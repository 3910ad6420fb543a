"""Threads and processes: the same records, and a clear end when a worker is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.errors import ModelUnavailable, RagsmithError
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.processes import ProcessRunner
from ragsmith.evaluation.threads import FinishedQuestion, Runner, ThreadRunner, evaluate_job
from ragsmith.pipelines.genes import Candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Hits, Question

Build = Callable[..., Candidate]


def everything(
    runner: Runner, candidates: list[Candidate], setup: Experiment
) -> dict[tuple[int, str], FinishedQuestion]:
    jobs = [(position, question) for position in range(len(candidates)) for question in setup.examples]
    finished = [done for batch in runner.run(candidates, jobs) for done in batch]
    assert len(finished) == len(jobs)
    return {done.job: done for done in finished}


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    from ragsmith.pipelines.space_file import load_space  # noqa: PLC0415

    space = load_space("paper")
    genomes = [(0,) * 9, (1, 5, 2, 1, 1, 1, 0, 1, 0), (3, 2, 4, 3, 0, 2, 1, 0, 1), (2, 7, 3, 2, 0, 0, 2, 0, 0)]
    return [space.candidate(genome) for genome in genomes]


@pytest.fixture(scope="module")
def expected(tiny_setup: Experiment, candidates: list[Candidate]) -> dict[tuple[int, str], FinishedQuestion]:
    with ThreadRunner(tiny_setup, tiny_setup.engine(), 1) as runner:
        return everything(runner, candidates, tiny_setup)


def test_every_runner_gives_the_same_records(
    tiny_setup: Experiment, candidates: list[Candidate], expected: dict[tuple[int, str], FinishedQuestion]
) -> None:
    assert [done for done in expected.values() if not done.ok] == []
    assert len({done.value["answer"] for done in expected.values()}) > 20
    for runner in (Runner(tiny_setup, tiny_setup.engine()), ThreadRunner(tiny_setup, tiny_setup.engine(), 4)):
        with runner:
            assert everything(runner, candidates, tiny_setup) == expected
            work = runner.work()
        assert 0 < work.stages_computed <= work.stages_requested
        assert work.calls["language_model"].made == work.calls["language_model"].distinct > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_the_same_records(
    tiny_setup: Experiment, candidates: list[Candidate], expected: dict[tuple[int, str], FinishedQuestion], workers: int
) -> None:
    with ProcessRunner(tiny_setup, tiny_setup.engine(), workers) as runner:
        # in two portions, the second of which finds indexes and graph in place
        first = everything(runner, candidates[:2], tiny_setup)
        whole = everything(runner, candidates, tiny_setup)
        runner.settle()
        work = runner.work()
    assert first == {job: done for job, done in expected.items() if job[0] < 2}
    assert whole == expected
    assert work.calls["language_model"].made == work.calls["language_model"].distinct > 0


def test_processes_that_are_left_early_go_on_with_what_is_asked_next(
    tiny_setup: Experiment, candidates: list[Candidate], expected: dict[tuple[int, str], FinishedQuestion]
) -> None:
    jobs = [(position, question) for position in range(len(candidates)) for question in tiny_setup.examples]
    with ProcessRunner(tiny_setup, tiny_setup.engine(), 2) as runner:
        for left in ("closed", "not closed"):
            batches = runner.run(candidates, jobs)
            assert next(batches) is not None
            if left == "closed":
                batches.close()  # type: ignore[attr-defined]
            assert runner.work().stages_requested > 0
            del batches
            assert everything(runner, candidates[:2], tiny_setup) == {
                job: done for job, done in expected.items() if job[0] < 2
            }


class Unavailable:
    """Sees the answers of all questions but one, whose model is unavailable."""

    answers = True

    def __init__(self, question: str) -> None:
        self.question = question

    def __call__(self, engine: Any, setup: Any, candidate: Any, trace: Any, example: Any) -> str:
        if example.id == self.question:
            raise ModelUnavailable("the server is down")
        return str(trace.answer.text)


@pytest.mark.processes
@pytest.mark.timeout(60)
@pytest.mark.parametrize("slow", [0.0, 0.5], ids=["at once", "in one read"])
def test_an_error_of_a_worker_is_raised_after_the_answers_before_it(
    tiny_setup: Experiment, candidates: list[Candidate], slow: float
) -> None:
    jobs = sorted(((0, question) for question in tiny_setup.examples), key=lambda job: job[1])
    delivered: list[FinishedQuestion] = []

    def collect(runner: ProcessRunner) -> None:
        for batch in runner.run(candidates[:1], jobs, Unavailable(jobs[-1][1])):
            delivered.extend(batch)
            time.sleep(slow)

    with (
        ProcessRunner(tiny_setup, tiny_setup.engine(), 1) as runner,
        pytest.raises(ModelUnavailable, match="the server is down"),
    ):
        collect(runner)
    assert [done.job for done in delivered] == jobs[:-1]


def test_a_failure_is_a_state_with_stage_error_and_traceback(
    tiny_setup: Experiment, pipeline: Build, registered: Callable[..., Technique]
) -> None:
    def picky(question: Question, hits: Hits) -> Hits:
        """Fail on one question."""
        if question.text == tiny_setup.examples["market-2"].question:
            raise LookupError("not this one")
        return hits

    registered(passage_filter, picky)
    engine = tiny_setup.engine()
    failed = evaluate_job(engine, tiny_setup, pipeline(passage_filter="picky"), (0, "market-2"))
    assert not failed.ok
    assert failed.value["stage"] == "passage_filter.picky"
    assert failed.value["error"] == "LookupError: not this one"
    assert "in picky" in failed.value["traceback"]
    assert set(failed.value) == {"stage", "kind", "error", "traceback"}
    assert evaluate_job(engine, tiny_setup, pipeline(passage_filter="picky"), (0, "market-3")).ok


def workers_of(runner: Any) -> list[Any]:
    return [process for process, _ in runner._workers]


class Killing(Evaluator):
    """Kills the first of its workers after so many answers."""

    def __init__(self, setup: Experiment, store: Store, after: int) -> None:
        super().__init__(setup, store, 2, self._watch)
        self._after = after

    def _watch(self, done: int, total: int) -> None:
        if done >= self._after and (process := workers_of(self._runner)[0]).is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()


@pytest.mark.parametrize("after", [1, 9])
def test_a_killed_worker_is_one_clear_error_and_what_was_stored_is_kept(
    tiny_setup: Experiment, store: Store, candidates: list[Candidate], pipeline: Build, after: int
) -> None:
    examples = tiny_setup.dataset.examples
    evaluator = Killing(tiny_setup, store, after)
    with evaluator, pytest.raises(RagsmithError, match="a worker process ended unexpectedly") as raised:
        evaluator.evaluate(candidates, examples)
    assert "run the same command again" in str(raised.value)
    keys = [evaluation_key(tiny_setup, candidate) for candidate in candidates]
    kept = sum(map(len, store.results_many(keys).values()))
    assert kept == evaluator.computed >= after
    with Evaluator(tiny_setup, store, 1) as again:
        evaluations = again.evaluate(candidates, examples)
        assert all(evaluation.complete for evaluation in evaluations)
        assert again.reused == kept


def test_a_worker_killed_between_two_batches_is_the_same_clear_error(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    examples = tiny_setup.dataset.examples
    with Evaluator(tiny_setup, store, 2) as evaluator:
        assert evaluator.evaluate([pipeline()], examples)[0].complete
        for process in workers_of(evaluator._runner):
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        with pytest.raises(RagsmithError, match="a worker process ended unexpectedly"):
            evaluator.evaluate([pipeline(retrieval="bm25")], examples)


def test_leaving_stops_every_worker(tiny_setup: Experiment) -> None:
    with ProcessRunner(tiny_setup, tiny_setup.engine(), 2) as runner:
        processes = workers_of(runner)
        assert all(process.is_alive() for process in processes)
    assert not any(process.is_alive() for process in processes)


ALONE = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""With these variables libraries start no threads, and where there is none a process can be copied."""

ENVIRONMENT = {**os.environ, **ALONE, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}

BEGINNING = """
    import sys, threading, time
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.evaluation.baselines import baseline
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.evaluation.processes import ProcessRunner
    from ragsmith.evaluation.threads import ANSWER, RANKING, Runner
    from ragsmith.pipelines.genes import make_gene
    from ragsmith.pipelines.space_file import load_space

    def all_of(runner, candidates, part=ANSWER, times=1):
        jobs = [(position, question) for position in range(len(candidates)) for question in setup.examples] * times
        found = [done for batch in runner.run(candidates, jobs, part) for done in batch]
        assert sorted(done.job for done in found) == sorted(jobs)
        return {done.job: done for done in found}

    def workers(runner):
        return [process for process, _ in runner._workers]

    def begin_a_thread():
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()

    if __name__ == "__main__":
        space = load_space("paper")
        setup = Experiment(load_dataset(sys.argv[1]), chunk_size=100)
        genomes = [(0,) * 9, (1, 5, 2, 1, 1, 1, 0, 1, 0), (3, 2, 4, 3, 0, 2, 1, 0, 1), (2, 7, 3, 2, 0, 0, 2, 0, 0)]
        candidates = [space.candidate(genome) for genome in genomes]
"""

SAME = """
        if sys.argv[3] == "early":
            begin_a_thread()
        with ProcessRunner(setup, setup.engine(), 2) as runner:
            if sys.argv[3] == "late":  # as libraries may, while the first index is built
                begin_a_thread()
            first = all_of(runner, candidates[:2])  # the indexes of the others are built when workers are there
            whole = all_of(runner, candidates)
            work = runner.work()
            kinds = {type(process).__name__ for process in workers(runner)}
        with Runner(setup, setup.engine()) as alone:
            expected = all_of(alone, candidates)
        assert kinds == {sys.argv[2]}, kinds
        assert whole == expected and first == {job: done for job, done in expected.items() if job[0] < 2}
        assert work.calls["language_model"].made == work.calls["language_model"].distinct > 0
        assert work.stages_computed == alone.work().stages_computed > 0
        assert work.calls["embedder"].asked == alone.work().calls["embedder"].asked, "an index was built twice"
"""


def test_a_script_that_calls_without_a_guard_is_told_to_add_one(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import threading, time\n"
        "from ragsmith.datasets.dataset import load_dataset\n"
        "from ragsmith.evaluation.experiment import Experiment\n"
        "from ragsmith.evaluation.processes import ProcessRunner\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()  # so that workers cannot be forks\n"
        "setup = Experiment(load_dataset('law'))\n"
        "ProcessRunner(setup, setup.engine(), 1)\n"
    )
    ran = subprocess.run([sys.executable, script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert 'put the call of ragsmith under `if __name__ == "__main__":`' in ran.stderr.splitlines()[-1]


def run_script(tmp_path: Path, body: str, *arguments: object) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(BEGINNING + body))
    ran = subprocess.run(
        [sys.executable, "-W", "error", script, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
@pytest.mark.parametrize(("kind", "thread"), [("ForkProcess", ""), ("SpawnProcess", "early"), ("SpawnProcess", "late")])
def test_a_process_without_threads_is_copied_and_no_other(
    tmp_path: Path, tiny_folder: Path, kind: str, thread: str
) -> None:
    run_script(tmp_path, SAME, tiny_folder, kind, thread)


FAILING_AGAIN = """
        from pathlib import Path
        from ragsmith.errors import RagsmithError
        from ragsmith.plugins import load_file
        file = Path(__file__).with_name("only_once.py")
        file.write_text(
            "from pathlib import Path\\n"
            "marker = Path(__file__).with_suffix('.loaded')\\n"
            "if marker.exists():\\n"
            "    raise RuntimeError('loaded twice')\\n"
            "marker.touch()\\n"
        )
        load_file(file)
        begin_a_thread()  # so that workers are new interpreters
        try:
            with ProcessRunner(setup, setup.engine(), 2) as runner:
                all_of(runner, candidates[:1])
        except RagsmithError as error:
            assert "only_once.py cannot be imported" in str(error) and "loaded twice" in str(error), error
        else:
            raise AssertionError("the workers answered")
"""


def test_a_user_file_that_workers_cannot_load_ends_the_run_with_its_error(tmp_path: Path, tiny_folder: Path) -> None:
    run_script(tmp_path, FAILING_AGAIN, tiny_folder)


LARGE = """
        def asked_here(runner):
            return sum(engine.requested for engine in runner.engines)

        with ProcessRunner(setup, setup.engine(), 2, large_from=10) as runner:
            ranked = all_of(runner, candidates[:2], RANKING)
            before = asked_here(runner)
            assert before, "nothing was answered by the parent"
            first = all_of(runner, candidates[:2], times=2)
            assert asked_here(runner) > before, "what reads and generates had not run yet"
            copies, before = workers(runner), asked_here(runner)
            again = all_of(runner, candidates[:2])
            assert (workers(runner), asked_here(runner)) == (copies, before), "nothing was new"
            whole = all_of(runner, candidates)
            assert not any(process.is_alive() for process in copies)
            assert not {process.pid for process in copies} & {process.pid for process in workers(runner)}
            assert {type(process).__name__ for process in workers(runner)} == {"ForkProcess"}
            work = runner.work()
        with Runner(setup, setup.engine()) as alone:
            assert ranked == all_of(alone, candidates[:2], RANKING)
            asked = all_of(alone, candidates[:2]) | all_of(alone, candidates[:2]) | all_of(alone, candidates[:2])
            expected = all_of(alone, candidates)
        assert whole == expected and first == again == asked
        assert work.stages_requested == alone.work().stages_requested, "what ended workers did is counted"
        headers = make_gene("pre_embedding", "contextual_chunk_headers")
        naive, bm25 = baseline("naive"), baseline("bm25")
        with ProcessRunner(setup, setup.engine(), 2, large_from=10) as runner:
            for candidate in (naive, (headers, *naive[1:]), bm25, (headers, *bm25[1:])):
                all_of(runner, [candidate])
                engine, _ = runner.engines.get(candidate)
                built = "_bm25" in vars(engine.index(candidate[0]))
                assert built == (str(candidate[2]) == "bm25"), "each worker builds it"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_of_a_large_collection_others_are_made_when_something_new_was_built(tmp_path: Path, tiny_folder: Path) -> None:
    run_script(tmp_path, LARGE, tiny_folder)


PARENT = """
        if sys.argv[2] == "SpawnProcess":
            begin_a_thread()
        with ProcessRunner(setup, setup.engine(), 2) as runner:
            jobs = [(position, question) for position in (0, 1) for question in setup.examples]
            next(filter(None, runner.run(candidates, jobs)))  # until something has ended
            time.sleep(0.5)  # the workers end their work, and what they send is not read
            print(*(process.pid for process in workers(runner)), flush=True)
            time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("kind", ["ForkProcess", "SpawnProcess"])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, tiny_folder: Path, kind: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(BEGINNING + PARENT))
    with (tmp_path / "err").open("w") as errors:
        parent = subprocess.Popen(
            [sys.executable, script, tiny_folder, kind],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert parent.stdout is not None
            pids = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(pids) == 2
        finally:
            parent.kill()
            parent.wait()
            if parent.stdout is not None:
                parent.stdout.close()  # workers have the other end, too: to read all of it would be to wait for them
    ended = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < ended:
        time.sleep(0.02)
    assert not any(map(alive, pids))
    assert (tmp_path / "err").read_text() == ""
