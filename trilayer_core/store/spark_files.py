"""Files of the store that Spark writes."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from pyspark.sql import DataFrame

from trilayer_core.errors import StoreError
from trilayer_core.store.files import Store, StoredFile

_REFUSALS = {
    os.strerror(number): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES)
}


def write_files(store: Store, rows: DataFrame, folder: str) -> list[StoredFile]:
    """Writes rows as Parquet files into a new folder of the store, durably.

    Args:
        rows: The rows.
        folder: A folder that does not exist yet.
        store: The store, which Spark's executors must be able to reach.

    Returns:
        The files that have rows.

    Raises:
        StoreError: The operating system refused, on this machine or an executor's. After any
            failure the folder is deleted.
    """
    try:
        rows.write.parquet(store.uri(folder))
        return store.describe_folder(folder)
    except Exception as error:
        with suppress(StoreError):
            store.delete(folder)
        for line in str(error).splitlines():
            for reason, number in _REFUSALS.items():
                if reason in line:
                    raise store.fault(
                        OSError(number, reason), "have Spark write", folder
                    ) from error
        raise
