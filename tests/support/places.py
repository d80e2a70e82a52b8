"""Where this project is, and the jars that its tests use."""

from pathlib import Path

from trilayer_core.runtime.settings import default_jars

PROJECT = Path(__file__).parents[2]
INSTALL = "run: make tools"
"""What to do about a program that a test needs and that is not installed."""
JARS = default_jars()
"""Those of whoever runs the tests: what `trilayer up` has fetched and archived is not made anew."""

PACKAGES = (
    *("trilayer", "trilayer_core", "batch_layer", "speed_layer", "serving_layer"),
    *("trilayer_server", "trilayer_local"),
)
"""The packages that are installed."""
