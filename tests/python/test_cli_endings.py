"""`opbridge doctor` and `verify` of a Python function tell how its code ended the process, and end as one program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import IN_THIS_PYTHON, OPBRIDGE, opbridge

ENVIRONMENT = {**os.environ, **IN_THIS_PYTHON}

SCRIPT = """
import atexit, ctypes, os, signal, subprocess, time
from pathlib import Path

import torch

FOLDER = Path(__file__).parent


class Model(torch.nn.Module):
    def __init__(self, step=lambda: None):
        super().__init__()
        self.step = step

    def forward(self, x):
        self.step()
        return x + 1


def make_model():
    return Model(), (torch.zeros(2),)


def made_after(step):
    def make():
        step()
        return make_model()

    return make


exit_3 = made_after(lambda: os._exit(3))
exit_0 = made_after(lambda: os._exit(0))
segfault = made_after(lambda: ctypes.string_at(8))
abort = made_after(os.abort)
killed = made_after(lambda: os.kill(os.getpid(), signal.SIGKILL))
closes_files = made_after(lambda: os.closerange(3, 1024))


def forward_ends():
    return Model(lambda: os._exit(4)), (torch.zeros(2),)


@made_after
def subprocess_lives_on():
    process = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (FOLDER / "sleeper").write_text(str(process.pid))
    segfault()


@made_after
def fork_goes_on():
    if os.fork() != 0:
        os.wait()
        os._exit(5)


@made_after
def crashes_at_the_end():
    atexit.register(ctypes.string_at, 8)


@made_after
def writes_to_the_streams():
    assert os.readlink("/proc/self/fd/0") == os.devnull
    os.write(2, b"text of the model")


def cancelled():
    class Cancelled(BaseException):
        pass

    raise Cancelled("of a test framework")


@made_after
def waits():
    (FOLDER / "started").write_text(str(os.getpid()))
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("endings") / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        ("exit_3", "with exit status 3"),
        ("exit_0", "with exit status 0"),
        ("forward_ends", "with exit status 4"),
        ("fork_goes_on", "with exit status 5"),
        ("segfault", 'by the signal "Segmentation fault"'),
        ("abort", 'by the signal "Aborted"'),
        ("killed", 'by the signal "Killed", as the system does if it lacks memory'),
        ("subprocess_lives_on", 'by the signal "Segmentation fault"'),
    ],
)
def test_code_that_ends_the_process(function: str, ending: str, script: Path) -> None:
    model = f"{script}:{function}"
    command = "verify" if function in ("exit_3", "segfault") else "doctor"
    done = subprocess.run([OPBRIDGE, command, model], capture_output=True, env=ENVIRONMENT, text=True, timeout=50)
    assert done.stderr.splitlines()[-1] == (
        f"opbridge: {model}: the code of the model, or a library that it uses, ended the process {ending}"
    )
    assert done.returncode == 2
    sleeper = script.parent / "sleeper"
    if sleeper.exists():
        os.kill(int(sleeper.read_text()), signal.SIGKILL)
        sleeper.unlink()


def test_a_process_that_crashes_after_its_report(script: Path) -> None:
    done = opbridge("doctor", f"{script}:crashes_at_the_end", env=IN_THIS_PYTHON)
    assert done.stdout.endswith("\nNo link is missing.\n")
    assert "opbridge: after the report, " in done.stderr
    assert 'ended the process by the signal "Segmentation fault"' in done.stderr
    assert done.returncode == 0


def test_files_that_the_model_closes(script: Path) -> None:
    done = opbridge("doctor", f"{script}:closes_files", env=IN_THIS_PYTHON)
    assert (done.returncode, "ended the process" in done.stderr) == (2, False), done.stderr
    assert done.stderr.startswith("opbridge: cannot print: ")


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_closed_stream(closed: str, script: Path) -> None:
    """Its place is not taken by another file, which the code of the model could read or write."""
    line = f'exec "$0" doctor "$1" {closed}'
    command = ["sh", "-c", line, str(OPBRIDGE), f"{script}:writes_to_the_streams"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True)
    assert done.returncode == 0
    assert done.stdout.endswith("\nNo link is missing.\n")


def test_a_closed_output(script: Path) -> None:
    command = ["sh", "-c", 'exec "$0" doctor "$1" >&-', str(OPBRIDGE), f"{script}:make_model"]
    done = subprocess.run(command, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)
    assert (done.returncode, done.stderr) == (2, "opbridge: cannot print: Bad file descriptor\n")


def test_an_exception_that_is_no_error(script: Path) -> None:
    done = opbridge("doctor", f"{script}:cancelled", env=IN_THIS_PYTHON)
    assert done.returncode == 2
    assert "cancelled fails with Cancelled: of a test framework\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_is_no_python(script: Path) -> None:
    done = opbridge("doctor", f"{script}:make_model", env={**IN_THIS_PYTHON, "OPBRIDGE_PYTHON": "/bin/false"})
    assert done.returncode == 2
    assert done.stderr == (
        "opbridge: /bin/false ended with exit status 1, before it could run opbridge; name another Python by "
        "OPBRIDGE_PYTHON\n"
    )
    done = opbridge("doctor", f"{script}:make_model", env={**IN_THIS_PYTHON, "OPBRIDGE_PYTHON": "/nowhere/python"})
    assert done.returncode == 2
    assert "this needs Python, and /nowhere/python cannot be started" in done.stderr


def running(script: Path, before: str = "pass", **options: Any) -> tuple[subprocess.Popen[str], int]:
    """The command in a session of its own while the code of the model runs, and the process of that code.

    ``before`` is Python code that runs in the process before it becomes the command.
    """
    started = script.parent / "started"
    started.unlink(missing_ok=True)
    program = f"import fcntl, os, signal, sys, termios; {before}; os.execv(sys.argv[1], sys.argv[1:])"
    command = subprocess.Popen(
        [sys.executable, "-c", program, OPBRIDGE, "doctor", f"{script}:waits"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    while not (started.exists() and started.read_text()):
        assert command.poll() is None, command.communicate()
        time.sleep(0.05)
    return command, int(started.read_text())


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def has_ended(process: int) -> bool:
    for _ in range(100):
        if is_gone(process):
            return True
        time.sleep(0.05)
    return False


def to_the_command(command: subprocess.Popen[str], number: signal.Signals) -> None:
    command.send_signal(number)


def to_the_group(command: subprocess.Popen[str], number: signal.Signals) -> None:
    os.killpg(command.pid, number)


@pytest.mark.parametrize("send", [to_the_command, to_the_group])
@pytest.mark.parametrize(
    ("number", "status", "told"),
    [
        (signal.SIGINT, 130, "opbridge: interrupted\n"),
        (signal.SIGTERM, -signal.SIGTERM, ""),
        (signal.SIGHUP, -signal.SIGHUP, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_signals(number: signal.Signals, status: int, told: str, send: Callable[..., None], script: Path) -> None:
    command, process = running(script)
    send(command, number)
    assert command.communicate(timeout=50)[1] == told
    assert command.returncode == status
    assert has_ended(process)


def test_control_c(script: Path) -> None:
    """A terminal sends its signal to both processes."""
    terminal, end = os.openpty()
    command, _ = running(script, "fcntl.ioctl(0, termios.TIOCSCTTY, 0)", stdin=end)
    os.write(terminal, b"\x03")
    assert command.communicate(timeout=50)[1] == "opbridge: interrupted\n"
    assert command.returncode == 130
    os.close(terminal)
    os.close(end)


def test_signals_that_nohup_ignores(script: Path) -> None:
    command, process = running(script, "signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    os.killpg(command.pid, signal.SIGHUP)
    time.sleep(0.5)
    assert command.poll() is None
    assert not is_gone(process)
    command.terminate()
    assert command.communicate(timeout=50)[1] == ""
    assert command.returncode == -signal.SIGTERM


def test_a_reader_that_stops_ends_the_command(script: Path) -> None:
    command = subprocess.Popen([OPBRIDGE, "doctor", f"{script}:make_model"], env=ENVIRONMENT, stdout=subprocess.PIPE)
    assert command.stdout is not None
    command.stdout.close()
    assert command.wait(timeout=50) == -signal.SIGPIPE
