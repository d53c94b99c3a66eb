"""Workers that are started once and again after a case that brings one down."""

from __future__ import annotations

import json
import os
import pathlib
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from conformance.case import CRASH

MOST_RESIDENT_MB = 3000  # a worker that has grown beyond is replaced between two tasks
START_TIMEOUT = 300.0
FINISHED = "finished"  # the last record of a task

Task = dict[str, Any]
Record = dict[str, Any]


class _Died(Exception):
    pass


class _Worker:
    def __init__(self) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conformance.worker"],
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

    def answer(self, timeout: float) -> dict[str, Any]:
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


def run_tasks(tasks: Iterable[Task], jobs: int, timeout: float, keep: Callable[[Record], None]) -> None:
    """Runs the tasks on ``jobs`` workers; ``keep`` is given the record of each case as it ends."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    lock = threading.Lock()

    def record(task: Task, answer: dict[str, Any]) -> None:
        with lock:
            keep({key: task[key] for key in ("op", "dtype", "exporter")} | answer)

    def work() -> None:
        worker = _Worker()
        try:
            while True:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                while not _run_task(worker, task, timeout, record):
                    worker.stop()
                    worker = _Worker()
                record(task, {"result": FINISHED})
                if worker.resident_mb() > MOST_RESIDENT_MB:
                    worker.stop()
                    worker = _Worker()
        finally:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run_task(worker: _Worker, task: Task, timeout: float, record: Callable[[Task, dict[str, Any]], None]) -> bool:
    """Whether the worker has done the task; where not, it died, and the task is what remains."""
    running = None
    try:
        worker.send(task)
        while True:
            answer = worker.answer(timeout)
            if "done" in answer:
                return True
            if "start" in answer:
                running = answer["start"]
                continue
            record(task, answer)
            task["from"] = answer["sample"] + 1
            running = None
    except _Died as death:
        # Outside a case: the samples themselves cannot be made.
        sample = task["from"] if running is None else running
        record(task, {"sample": sample, "result": CRASH, "detail": str(death), "by": "", "seconds": 0})
        task["from"] = sample + 1 if running is not None else 1 << 30
        return False
