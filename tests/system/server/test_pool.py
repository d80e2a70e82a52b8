"""The pool gives each client its own answers, whatever happened to the query before."""

import asyncio
import gc
import shutil
import weakref
from pathlib import Path

import pytest
from psycopg import errors

from tests.support.published import SETTINGS, VIEW, run_once
from tests.support.sales import catalog_on
from tests.support.served import Served
from tests.support.waiting import until_in_loop
from trilayer import Catalog
from trilayer_core.project import Project
from trilayer_core.runtime.settings import Settings
from trilayer_core.store.files import Store
from trilayer_server.engine.pool import STARTS, Pool
from trilayer_server.engine.query import EngineLimits, Query
from trilayer_server.sql_error import SqlError
from trilayer_server.wire.client import Client

MANY = f"SELECT {', '.join(f'1 AS c{n}' for n in range(1_700))}"
ENDLESS = "SELECT count(*) FROM range(1_000_000_000_000)"


@pytest.fixture
def project(tmp_path):
    return Project(Settings(home=tmp_path), catalog_on("sales"), Store(str(tmp_path / "store")))


async def answer(pool, sql):
    async with pool.ask(Query(sql, output="json")) as found:
        return b"".join([chunk async for chunk in found.chunks()])


def test_an_answer_that_nobody_reads_is_not_another_client_s(project):
    async def run():
        async with Pool(project, EngineLimits(workers=1)) as pool:
            assert await answer(pool, "SELECT 'mine'") == b'[["mine"]]'
            for _ in range(3):
                with pytest.raises(ZeroDivisionError):
                    await _fail(pool)
                assert await answer(pool, "SELECT 'mine'") == b'[["mine"]]'
            with pytest.raises(SqlError, match="wanted"):
                async with pool.ask(Query("SELECT 'theirs'", output="json")):
                    raise SqlError("0A000", "not what was wanted")
            assert await answer(pool, "SELECT 'mine'") == b'[["mine"]]'

    asyncio.run(run())


async def _fail(pool):
    client = Client(pool, "me", None)
    try:
        async with client.worker():
            await client.open(Query("SELECT 'theirs'", output="wire"))
            raise ZeroDivisionError
    finally:
        client.settle()


def test_a_transaction_that_can_t_begin_takes_no_place(project, monkeypatch):
    async def run():
        async with Pool(project, EngineLimits(transactions=1)) as pool:
            client = Client(pool, "me", None)

            async def refused(who, version=None, *, fresh=True):
                raise SqlError("XX001", "the store can't be read")

            with monkeypatch.context() as patched:
                patched.setattr(pool, "lease", refused)
                with pytest.raises(SqlError, match="can't be read"):
                    await client.begin()
            await client.begin()  # the only place is free
            client.end()
            await client.begin()
            client.leave()

    asyncio.run(run())


def test_workers_that_were_killed_leave_no_descriptor(project):

    async def run():
        async with Pool(project) as pool:
            before = None
            for _ in range(6):
                await answer(pool, "SELECT 1")
                for worker in list(pool._workers):
                    pool.drop(worker)
                await pool.state()
                await asyncio.sleep(0)
                now = len(list(Path("/proc/self/fd").iterdir()))
                before = before or now
            assert now <= before + 1

    asyncio.run(run())


def test_a_loader_that_is_killed_twice_at_once_is_started_again(project):
    async def run():
        async with Pool(project) as pool:
            await pool.state()
            killed = []

            def is_killed():
                if pool._loader is None or pool._loader in killed:
                    return False
                pool._loader._process.kill()
                killed.append(pool._loader)
                return True

            assert is_killed()
            looking = asyncio.create_task(pool.state())
            await until_in_loop(is_killed)
            await looking
            assert pool._loader not in killed
            assert await answer(pool, "SELECT 1") == b"[[1]]"

    asyncio.run(run())


def test_a_loader_that_can_t_start_is_not_started_for_ever(project, monkeypatch, caplog):
    async def run():
        async with Pool(project) as pool:
            for _ in range(2):
                with monkeypatch.context() as patched:
                    patched.setattr("sys.executable", shutil.which("false"))
                    with pytest.raises(SqlError, match="again and again") as refused:
                        await pool.state()
                assert refused.value.code == "57P03"
                assert caplog.messages.count("the loader has ended") == STARTS
                caplog.clear()
            await pool.state()

    asyncio.run(run())


def test_a_query_is_cancelled_that_a_worker_with_newer_data_answers(tmp_path):
    store = Store(str(tmp_path / "store"))
    run_once(store)

    async def run():
        async with Pool(
            Project(SETTINGS, Catalog(views=[VIEW]), store), EngineLimits(timeout_s=20)
        ) as pool:
            await answer(pool, "SELECT 1")
            older = set(pool.pids)
            run_once(store)
            client = Client(pool, "me", None)

            async def ask():
                async with client.worker():
                    await client.open(Query(ENDLESS, output="wire"))

            asking = asyncio.create_task(ask())
            await until_in_loop(lambda: set(pool.pids) - older)
            client.cancel()
            with pytest.raises(SqlError, match="user request"):
                await asking
            client.settle()
            assert await answer(pool, "SELECT 1") == b"[[1]]"

    asyncio.run(run())


def test_nothing_is_kept_of_queries_that_were_cancelled(project):
    async def run():
        async with Pool(project) as pool:
            workers = [await cancelled(pool) for _ in range(2)]
            await until_in_loop(lambda: gc.collect() >= 0 and not any(w() for w in workers))

    async def cancelled(pool):
        client = Client(pool, "me", None)

        async def ask():
            async with client.worker():
                await client.open(Query(ENDLESS, output="wire"))

        asking = asyncio.create_task(ask())
        await until_in_loop(lambda: client._at_work is not None)
        worker = weakref.ref(client._at_work)
        client.cancel()
        with pytest.raises(SqlError, match="user request"):
            await asking
        client.leave()
        return worker

    asyncio.run(run())


def test_the_limit_of_a_client_holds_on_newer_data(tmp_path):
    store = Store(str(tmp_path / "store"))
    run_once(store)
    with (
        Served(Catalog(views=[VIEW]), SETTINGS, store, EngineLimits(timeout_s=20)) as server,
        server.client(autocommit=True) as client,
    ):
        client.execute("SELECT 1")
        client.execute("SET statement_timeout = '300ms'")
        run_once(store)
        with pytest.raises(errors.QueryCanceled, match=r"0\.3 s"):
            client.execute(ENDLESS)


def test_too_many_columns_are_refused_and_nobody_else_notices(served):
    with (
        served.client(autocommit=True) as client,
        pytest.raises(errors.TooManyColumns, match="1,664"),
    ):
        client.execute(MANY)
    for number in range(6):
        with served.client(autocommit=True) as client:
            assert client.execute(f"SELECT 'answer-{number}'").fetchone() == (f"answer-{number}",)


async def leased(pool, who, number=1):
    return [await pool.lease(who) for _ in range(number)]


def test_as_many_workers_are_kept_idle_as_may_compute_at_once(project):
    async def run():
        async with Pool(project, EngineLimits(workers=2)) as pool:
            leased = [await pool.lease(who) for who in ("ann", "bob", "bob")]
            for worker in leased:
                pool.give_back(worker)
            assert pool._idle == leased[1:]
            assert leased[0].ended
            assert await pool.lease("cy") == leased[2]

    asyncio.run(run())


def test_a_client_that_leaves_before_its_worker_is_forked_keeps_its_slot_until_then(project):
    async def run():
        async with Pool(project, EngineLimits(workers=1, transactions=1)) as pool:
            await pool.state()
            async with pool._dialog:
                for _ in range(3):
                    gone = asyncio.create_task(pool.lease("bob", fresh=False))
                    for _ in range(5):
                        await asyncio.sleep(0)
                    gone.cancel()
                    await asyncio.gather(gone, return_exceptions=True)
                assert pool._slots._all._value == 0
            await until_in_loop(lambda: pool._slots._all._value == 2 and pool.pids == [])

    asyncio.run(run())
