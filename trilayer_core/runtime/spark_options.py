"""The Spark options that change no answer.

What an expression, a cast or a time means depends on many of Spark's options, none of which is in a
fingerprint. Whoever changed one would mix two meanings in one answer. So only the options below may
be set, and what others have set (spark-submit, a Spark Connect server) is reset to Spark's default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("trilayer")

_SQL = "spark.sql."

# What ends with a dot is the beginning of names. Resources, deployment, security and monitoring:
_ENVIRONMENT = """
spark.acls. spark.admin. spark.app. spark.archives spark.authenticate spark.authenticate.
spark.barrier. spark.blockManager. spark.broadcast. spark.buffer. spark.checkpoint. spark.cleaner.
spark.connect. spark.cores.max spark.decommission. spark.default.parallelism spark.deploy.
spark.driver. spark.dynamicAllocation. spark.eventLog. spark.excludeOnFailure. spark.executor.
spark.executorEnv. spark.extraListeners spark.files spark.files. spark.hadoop. spark.history.
spark.io. spark.jars spark.jars. spark.kafka. spark.kerberos. spark.kryo. spark.kryoserializer.
spark.kubernetes. spark.launcher. spark.local.dir spark.locality. spark.log. spark.logConf
spark.master spark.memory. spark.metrics. spark.modify. spark.network. spark.plugins
spark.port.maxRetries spark.pyspark. spark.python. spark.r. spark.rdd. spark.reducer.
spark.redaction. spark.resources. spark.rpc. spark.scheduler. spark.security. spark.serializer
spark.serializer. spark.shuffle. spark.speculation spark.speculation. spark.ssl. spark.stage.
spark.standalone. spark.storage. spark.submit. spark.task. spark.ui. spark.unsafe. spark.user.
spark.worker. spark.yarn.
"""

# How, not what, is computed:
_EXECUTION = """
spark.sql.adaptive. spark.sql.artifact. spark.sql.autoBroadcastJoinThreshold
spark.sql.broadcastTimeout spark.sql.catalogImplementation spark.sql.cbo. spark.sql.codegen.
spark.sql.debug.maxToStringFields spark.sql.event. spark.sql.execution.arrow.compression.
spark.sql.execution.arrow.maxBytesPerBatch spark.sql.execution.arrow.maxRecordsPerBatch
spark.sql.execution.pyspark.udf.faulthandler.enabled
spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled
spark.sql.execution.sortBeforeRepartition spark.sql.files.maxPartitionBytes
spark.sql.files.maxPartitionNum spark.sql.files.maxRecordsPerFile spark.sql.files.minPartitionNum
spark.sql.files.openCostInBytes spark.sql.inMemoryColumnarStorage.
spark.sql.join.preferSortMergeJoin spark.sql.maxMetadataStringLength spark.sql.maxPlanStringLength
spark.sql.metadataCacheTTLSeconds spark.sql.objectHashAggregate.
spark.sql.parquet.columnarReaderBatchSize spark.sql.parquet.compression.codec
spark.sql.parquet.enableVectorizedReader spark.sql.parquet.filterPushdown
spark.sql.pyspark.jvmStacktrace.enabled spark.sql.queryExecutionListeners spark.sql.redaction.
spark.sql.shuffle.partitions spark.sql.sources.parallelPartitionDiscovery. spark.sql.statistics.
spark.sql.streaming.checkpointFileManagerClass spark.sql.streaming.metricsEnabled
spark.sql.streaming.minBatchesToRetain spark.sql.streaming.numRecentProgressUpdates
spark.sql.streaming.pollingDelay spark.sql.streaming.stateStore. spark.sql.streaming.ui.
spark.sql.streaming.streamingQueryListeners spark.sql.thriftServer. spark.sql.ui.
spark.sql.warehouse.dir spark.sql.windowExec.
"""

_HARMLESS = [*_ENVIRONMENT.split(), *_EXECUTION.split()]

# Python functions on executors would see times in that zone.
_HARMFUL = ("spark.executorEnv.TZ",)


def is_harmless(option: str) -> bool:
    """Whether no value of a Spark option can change an answer."""
    return option not in _HARMFUL and any(
        option.startswith(name) if name.endswith(".") else option == name for name in _HARMLESS
    )


def checked(option: str) -> str:
    """The name of an option that `spark_conf` may contain.

    Raises:
        ValueError: It may change answers.
    """
    if is_harmless(option):
        return option
    raise ValueError(
        "must be a Spark option that changes no answer, such as those of memory, cores, shuffles,"
        " files and credentials (spark.hadoop.), listed in docs/operations.md; remove it, or write"
        " what it does into the expressions of the views"
    )


def reset_inherited(spark: SparkSession, ours: Mapping[str, str]) -> None:
    """Resets the options of a session that may change answers and that we have not set.

    They come from spark-submit, a file of defaults or a Spark Connect server. Those that only a new
    server could change, such as its extensions, stay.

    Args:
        spark: The session.
        ours: The options that we have set.
    """
    for option in spark.conf.getAll:
        inherited = option.startswith(_SQL) and option not in ours and not is_harmless(option)
        if inherited and spark.conf.isModifiable(option):
            logger.warning("%s, which Spark was started with, is not used", option)
            spark.conf.unset(option)
