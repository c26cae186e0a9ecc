"""The recorder itself."""

from __future__ import annotations

import subprocess
import sys

#: The module outlives its names, and a file is opened after that.
INTERPRETER_THAT_ENDS = """
import os
import sys

from tests.power import recording


class Late:
    def __del__(self, open=open, write=os.write):
        open("/dev/null").close()
        write(2, b"opened")


os.late, sys.kept = Late(), recording
"""


def test_an_interpreter_that_ends_has_nothing_to_say_about_the_audit_hook() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERPRETER_THAT_ENDS], capture_output=True, text=True, check=True)
    assert ended.stderr == "opened"
