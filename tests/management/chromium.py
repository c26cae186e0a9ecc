"""A headless Chromium over its debugging pipe: open a page, ask it something, look at it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = ["Page", "chromium"]

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_TIMEOUT_S: Final = 90.0


class Page:
    """One tab. What the page logs as an error, or cannot load, is kept in `problems`."""

    def __init__(self, reads: int, writes: int) -> None:
        self._in = os.fdopen(reads, "rb", 0)
        self._writes = writes
        self._data = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> Any:
        """One call of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._data:
            more = self._in.read(1 << 16)
            if not more:
                raise AssertionError("Chromium has ended")
            self._data += more
        text, _, self._data = self._data.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(told["exceptionDetails"].get("exception", told["exceptionDetails"])))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.problems.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and told["type"] == "error":
            self.problems.append(str(told["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def open(self, url: str, text: str) -> None:
        """Go to an address, and wait until the page shows a text."""
        self.call("Page.navigate", url=url)
        self.wait_for(text)

    def wait_for(self, text: str) -> None:
        """Wait until the page shows a text."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while text not in (shown := str(self.evaluate("document.body ? document.body.innerText : ''"))):
            if time.monotonic() > deadline_s:
                raise AssertionError(f"waited in vain for {text!r} in:\n{shown}\n{self.problems}")
            time.sleep(0.05)

    def click(self, text: str, within: str = "body") -> None:
        """Click the button or link with this text."""
        expression = f"""(() => {{
            const all = [...document.querySelector({json.dumps(within)}).querySelectorAll("button, a")];
            const found = all.find((one) => one.innerText.trim().startsWith({json.dumps(text)}));
            if (found) found.click();
            return !!found;
        }})()"""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline_s:
                raise AssertionError(f"there is nothing to click with the text {text!r}")
            time.sleep(0.05)

    def fill(self, name: str, value: str) -> None:
        """Write into the field of this name."""
        selector = json.dumps(f"[name={name}]")
        self.evaluate(f"document.querySelector({selector}).value = {json.dumps(value)}")

    def size(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """How large the window is, and what the system prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if is_dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser with one tab, and a profile of its own."""
    to_browser, writes = os.pipe()
    reads, from_browser = os.pipe()
    command = ["bash", "-c", f'exec chromium "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *_FLAGS]
    command.append(f"--user-data-dir={profile}")
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), stdout=log, stderr=log)
        os.close(to_browser)
        os.close(from_browser)
        page = None
        try:
            page = Page(reads, writes)
            yield page
        finally:
            if page is not None:
                page._in.close()
            os.close(writes)
            process.terminate()
            process.wait(90)
