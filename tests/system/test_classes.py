"""The archive of Spark's classes: used where it is, done without where it is not, or is no archive
at all.
"""

import subprocess

from trilayer_core.runtime import class_archive
from trilayer_core.runtime.java import java_executable
from trilayer_core.runtime.settings import Settings


def test_no_archive_means_no_option(tmp_path):
    assert class_archive.java_option(Settings(jars=tmp_path)) == ""


def test_an_archive_that_does_not_fit_is_left_aside_without_a_word(tmp_path):
    settings = Settings(jars=tmp_path)
    class_archive.archive(settings).parent.mkdir(parents=True)
    class_archive.archive(settings).write_bytes(b"no archive")
    options = class_archive.java_option(settings).split()
    assert len(options) == 2
    plain, with_it = (
        subprocess.run(
            [java_executable(), *more, "-version"], capture_output=True, text=True, check=True
        )
        for more in ((), options)
    )
    assert with_it.stdout == plain.stdout == ""
    assert with_it.stderr == plain.stderr.replace(", sharing", "")
