"""The server: clients of PostgreSQL, HTTP and browsers query the merged views in SQL.

`serving` runs everything. `wire` and `http` speak to clients, each in its protocol. They hand a
query to `engine`, whose processes answer it, with `encoding` for values and `introspection` for
what PostgreSQL's catalog says. `console` has the built pages, whose sources are in the folder
`console` of the repository. docs/server.md follows a query through them.
"""
