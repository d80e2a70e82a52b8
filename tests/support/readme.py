"""The README and the code that it shows."""

import re

from tests.support.places import PROJECT

README = (PROJECT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """What stands between the fences of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
