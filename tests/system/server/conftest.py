"""Servers, and a PostgreSQL to compare them with: one of each for all files of a worker."""

from tests.support.server_fixtures import *  # noqa: F403
