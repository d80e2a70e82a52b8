"""The command lines of child processes."""

import os
import sys
from collections.abc import Sequence

# Runs in the child before the command replaces it, with the same pid. Linux then sends SIGTERM when
# the parent dies; the parent may have died already. (Popen's preexec_fn could do this as well, but
# can deadlock a parent with threads.)
_EXEC = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has died")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def trilayer_command(*arguments: str) -> list[str]:
    """Returns the command that runs `trilayer ARGUMENTS` with this Python.

    With -P, the working directory is not searched for modules, so a project's own `cli.py` or
    `embedded.py` does not shadow another module. `load_catalog` adds the folder at the end.
    """
    return [sys.executable, "-P", "-m", "trilayer.cli", *arguments]


def with_parent(argv: Sequence[str]) -> list[str]:
    """Returns a command that runs `argv` and, on Linux, gets SIGTERM when its starter ends.

    The starter is the thread of this process that starts it.
    """
    return [sys.executable, "-I", "-S", "-c", _EXEC, str(os.getpid()), *argv]
