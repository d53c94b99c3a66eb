"""Drives a headless Chromium through its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


class Page:
    """A page of the browser."""

    def __init__(self, ask: Any, receive: Any, session: str) -> None:
        self._ask, self._receive, self._session = ask, receive, session
        self.errors: list[str] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._ask(method, parameters, self._session)
        while True:
            message = self._receive()
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", details).get("description", str(details)))
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return dict(message["result"])

    def open(self, path: Path) -> int:
        """Opens a page; returns the milliseconds after which it was drawn."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        script = """new Promise(done => {
            const look = () => {
                const ready = document.documentElement?.dataset.ready;
                if (ready) done(Number(ready)); else setTimeout(look, 20);
            };
            look();
        })"""
        return int(self.evaluate(script))

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, x: float, y: float, count: int = 1) -> None:
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)

    def size(self, width: int, height: int) -> None:
        """Sets the size of the window."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


@contextmanager
def chromium(folder: Path, width: int = 1500, height: int = 900) -> Iterator[Page]:
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    def pipes() -> None:
        read, write = os.dup(to_read), os.dup(from_write)
        os.dup2(read, 3)
        os.dup2(write, 4)

    process = subprocess.Popen(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", "--remote-debugging-pipe",
            "about:blank",
        ],
        preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_read)
    os.close(from_write)
    buffer, number = b"", 0

    def ask(method: str, parameters: dict[str, Any], session: str | None = None) -> int:
        nonlocal number
        number += 1
        message = {"id": number, "method": method, "params": parameters}
        os.write(to_write, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        return number

    def receive() -> dict[str, Any]:
        nonlocal buffer
        while b"\0" not in buffer:
            part = os.read(from_read, 1 << 16)
            assert part, "the browser has ended"
            buffer += part
        message, _, buffer = buffer.partition(b"\0")
        return dict(json.loads(message))

    def result(method: str, **parameters: Any) -> dict[str, Any]:
        wanted = ask(method, parameters)
        while (message := receive()).get("id") != wanted:
            pass
        return dict(message["result"])

    try:
        target = result("Target.createTarget", url="about:blank")["targetId"]
        session = result("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(ask, receive, session)
        page.send("Page.enable")
        page.send("Runtime.enable")
        page.size(width, height)
        yield page
    finally:
        process.kill()
        process.wait()
        os.close(to_write)
        os.close(from_read)
