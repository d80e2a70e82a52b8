"""What a message says of an error that has crossed Python and the JVM."""

import pytest

from trilayer_core.runtime.session import first_cause

CAST = (
    '[CAST_INVALID_INPUT] The value \'N/A\' of the type "STRING" cannot be cast to "BIGINT"'
    " because it is malformed. SQLSTATE: 22018"
)
PLACE = "\n== SQL (line 1, position 8) ==\nSELECT (status = 200) FROM x\n       ^^^^^^^^^^^^^^\n"
PROXY = (
    "[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the"
    " Python Proxy. Return Message: Traceback (most recent call last):\n"
    '  File "/x/site-packages/py4j/clientserver.py", line 644, in _call_proxy\n    return a\n'
    '  File "/home/me/shop.py", line 7, in rows\n    return b\n'
)
ERRORS = {
    "Spark's error in a Python callback": (
        f"{PROXY}pyspark.errors.exceptions.captured.SparkX: {CAST}{PLACE}\n\n\tat x",
        f"{CAST} (in (status = 200))",
    ),
    "an error of a Python function": (
        f"{PROXY}ValueError: bad\n\n\tat org.apache.spark.X\n",
        "ValueError: bad (/home/me/shop.py:7)",
    ),
    "an error without a message": (
        f"{PROXY}AssertionError\n",
        "AssertionError (/home/me/shop.py:7)",
    ),
    "our own error": (
        f"{PROXY}trilayer_core.errors.LogError: stream 's': lost\n",
        "LogError: stream 's': lost",
    ),
    "Py4J's error in a callback": (
        f"{PROXY}py4j.protocol.Py4JJavaError: An error occurred while calling o1.x.\n"
        ": java.io.IOException: no space\n\tat x\nCaused by: java.io.IOException: disk full\n",
        "java.io.IOException: disk full",
    ),
    "Py4J's error": (
        "An error occurred while calling o88.parquet.\n: java.nio.AccessDeniedException: s3a://b:"
        " 403\n\tat x\n",
        "java.nio.AccessDeniedException: s3a://b: 403",
    ),
    "Spark's own error": (f"{CAST}{PLACE}", f"{CAST} (in (status = 200))"),
    "nothing": ("", "no reason given"),
}


@pytest.mark.parametrize(("text", "says"), ERRORS.values(), ids=ERRORS)
def test_condition_value_and_place_are_kept(text, says):
    assert first_cause(text) == says
