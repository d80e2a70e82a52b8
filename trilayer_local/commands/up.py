"""`trilayer up`: runs broker, speed layer and Airflow on this machine, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from trilayer.cli.context import out
from trilayer_core.project import project
from trilayer_local.doctor.all_checks import require
from trilayer_local.stack import Stack

NoAirflow = Annotated[
    bool, typer.Option("--no-airflow", help="do not start Airflow, and start batch runs yourself")
]


def up(
    no_airflow: NoAirflow = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="rebuild the speed layer, as `speed run --rebuild` does"),
    ] = False,
) -> None:
    """Runs the local stack until Ctrl-C.

    It consists of a Kafka broker (unless bootstrap_servers is set), Spark Connect, the speed layer,
    the server for SQL clients and browsers, Airflow, and a process each for the catalog's alerts
    and changelogs. If the speed layer ends by itself, its reason is reported and it is restarted,
    while everything else keeps running.
    """
    p = project()
    require(p, with_airflow=not no_airflow)
    stack = Stack(p, with_airflow=not no_airflow)
    stack.run(rebuild=rebuild, started=lambda: _announce(stack))


def _announce(stack: Stack) -> None:
    p, airflow, server = stack.project, stack.airflow, stack.server()
    out.print(f"Kafka         {p.settings.bootstrap_servers}")
    out.print(f"speed layer   {', '.join(stream.name for stream in p.catalog.streams)}")
    if p.catalog.alerts:
        names = ", ".join(alert.name for alert in p.catalog.alerts)
        out.print(f"alerts        {names}, once their process runs; trilayer alerts tail NAME")
    if server:
        out.print(f"console       {server.console}")
        out.print(f"SQL clients   {server.psql}")
        for note in server.notes:
            out.print(note, soft_wrap=True)
    if airflow:
        out.print(f"Airflow       {airflow.url}   user {airflow.user}, password {airflow.password}")
        every_min = p.settings.batch.every_s // 60
        out.print(
            f"batch layer   DAG lambda_batch, every {every_min} min; the others are paused"
            " until you start them"
        )
    out.print(f"logs          {p.settings.home.resolve() / 'logs'}")
    out.print(
        "now           trilayer replay FILE --stream NAME · trilayer batch run · trilayer sql"
        " QUERY · Ctrl-C ends it"
    )
