"""A container's health check: `healthy.py URL [COMPONENT]`.

It succeeds if URL answers and, if a component of Airflow is named, reports that it is healthy.
"""

import json
import sys
from urllib.request import urlopen


def healthy(url: str, component: str = "") -> bool:
    """Whether the service is healthy.

    Raises:
        OSError: It does not answer, or answers with an error.
    """
    with urlopen(url, timeout=5) as answer:
        return not component or json.load(answer)[component]["status"] == "healthy"


if __name__ == "__main__":
    sys.exit(0 if healthy(*sys.argv[1:]) else 1)
