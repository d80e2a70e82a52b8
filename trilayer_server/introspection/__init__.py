"""PostgreSQL's catalogs, pg_catalog and information_schema, about a server's views.

`install` makes relations of PostgreSQL's shape in a database of DuckDB. A statement of a client of
PostgreSQL is `translated`, so that it keeps its meaning. One that `mentions` the catalog runs as
`rewrite` returns it, and `declared` gives its answer PostgreSQL's types.
"""

from trilayer_server.introspection.declared_types import declared
from trilayer_server.introspection.dialect import prepare, translated
from trilayer_server.introspection.install import install
from trilayer_server.introspection.rewriting import mentions, parameter_types, rewrite
from trilayer_server.introspection.session import SessionInfo

__all__ = [
    "SessionInfo",
    "declared",
    "install",
    "mentions",
    "parameter_types",
    "prepare",
    "rewrite",
    "translated",
]
