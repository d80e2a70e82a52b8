"""A connection whose database has PostgreSQL's catalog."""

from tests.support.server_fixtures import connection

__all__ = ["connection"]
