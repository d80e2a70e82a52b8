"""What others have set in Spark does not change what an expression means."""

import pytest

from tests.support.places import JARS
from trilayer_core.runtime.session import driver_conf
from trilayer_core.runtime.settings import Settings
from trilayer_core.runtime.spark_options import reset_inherited

pytestmark = pytest.mark.spark

INHERITED = {
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}


def test_options_that_change_meaning_are_reset_and_others_kept(spark):
    other = spark.newSession()
    ours = driver_conf(Settings(jars=JARS), memory_mb=512, conf={})
    for option, value in (INHERITED | {"spark.sql.shuffle.partitions": "3"}).items():
        other.conf.set(option, value)
    reset_inherited(other, ours)
    defaults = spark.newSession().conf
    assert {o: other.conf.get(o) for o in INHERITED} == {o: defaults.get(o) for o in INHERITED}
    kept = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.shuffle.partitions")
    assert [other.conf.get(option) for option in kept] == ["UTC", "true", "3"]
