"""Worker processes, which are restarted after a case that crashes one.

A worker is a module that reads tasks, lines of JSON, from its standard input. It answers a task with {"start": index}
before each case, any other object after it, and {"done": true} after the last. {"stage": anything} in between reports
the progress of a case. A task that is passed on to another worker has the index of the next case as "from".
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

MOST_RESIDENT_MB = 3000  # a worker that exceeds this is replaced between two tasks
START_TIMEOUT = 300.0

Task = dict[str, Any]
Answer = dict[str, Any]

# Answers of run_tasks itself: after a task, and if a worker died. "case" is -1 if no case was running.
FINISHED: Answer = {"finished": True}


def _death(case: int | None, stage: Any, reason: str) -> Answer:
    return {"died": reason, "case": -1 if case is None else case, "stage": stage}


class _Died(Exception):
    pass


class _Worker:
    def __init__(self, module: str) -> None:
        # The seed makes the order of sets, in which the database has some arguments, the same each time.
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", PYTHONHASHSEED="0")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.buffer = b""
        self.fresh = True

    def send(self, task: Task) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise _Died("the process ended") from None

    def answer(self, timeout: float) -> Answer:
        assert self.process.stdout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT if self.fresh else timeout)
            if not ready:
                raise _Died(f"no result in {timeout:g} s")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise _Died(f"the process ended with status {self.process.wait()}")
            self.buffer += chunk
        self.fresh = False
        line, self.buffer = self.buffer.split(b"\n", 1)
        return dict(json.loads(line))

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def resident_mb(self) -> float:
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6


def run_tasks(
    module: str, tasks: Iterable[Task], jobs: int, timeout: float, keep: Callable[[Task, Answer], None]
) -> None:
    """Runs the tasks, which are taken one by one, on ``jobs`` workers; passes each answer to ``keep``."""
    waiting = iter(tasks)
    lock = threading.Lock()

    def next_task() -> Task | None:
        with lock:
            return next(waiting, None)

    def record(task: Task, answer: Answer) -> None:
        with lock:
            keep(task, answer)

    def work() -> None:
        worker = None
        try:
            while (task := next_task()) is not None:
                worker = worker or _Worker(module)
                while not _run_task(worker, task, timeout, record):
                    worker.stop()
                    worker = _Worker(module)
                record(task, FINISHED)
                if worker.resident_mb() > MOST_RESIDENT_MB:
                    worker.stop()
                    worker = None
        finally:
            if worker:
                worker.stop()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run_task(worker: _Worker, task: Task, timeout: float, record: Callable[[Task, Answer], None]) -> bool:
    """Whether the worker has finished the task. If not, it died, and ``task`` holds the remaining cases."""
    running, stage = None, None
    try:
        worker.send(task)
        while True:
            answer = worker.answer(timeout)
            if "done" in answer:
                return True
            if "start" in answer:
                running, stage = answer["start"], None
            elif "stage" in answer:
                stage = answer["stage"]
            else:
                record(task, answer)
                if running is not None:
                    task["from"] = running + 1
                running = None
    except _Died as death:
        record(task, _death(running, stage, str(death)))
        # It died outside of a case: the worker cannot generate the cases of this task.
        task["from"] = running + 1 if running is not None else 1 << 62
        return False
