"""Two servers with one ledger in PostgreSQL behind nginx, which speaks TLS; and TLS of the server itself."""

from __future__ import annotations

import hashlib
import shutil
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

import sidelight as sl
from analyst_server import patiently, serving, tokens_of, write_survey
from sidelight.errors import ProblemError, ReleaseFailedError, StorageError
from sidelight.server.budgets import Budgets
from sidelight.server.config_file import read_config
from sidelight.server.identity import _TABLES, DAY, IdentityStore

httpx = pytest.importorskip("httpx")
QUERY = sl.Count(by="job", epsilon="0.05")
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream replicas {{ {servers} }}
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/tls.pem; ssl_certificate_key {folder}/tls.key;
    location / {{
      proxy_pass http://replicas; proxy_set_header Host localhost; proxy_next_upstream off; gzip off;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_read_timeout 40s;
    }}
  }}
}}
"""


@pytest.fixture
def trusted(tmp_path):
    """A certificate for this machine, in the folder, and a context that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.pem"]
    subprocess.run(made, check=True, capture_output=True, cwd=tmp_path)
    return ssl.create_default_context(cafile=str(tmp_path / "tls.pem"))


@contextmanager
def nginx(folder, urls):
    """Run nginx in front of some servers; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = " ".join(f"server {url.removeprefix('http://')} max_fails=0;" for url in urls)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, servers=servers, port=port))
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


def asked(remote, key):
    try:
        return patiently(lambda: remote.release(QUERY, key=key))
    except ReleaseFailedError:  # so busy that the charge took a quarter of the slot: paid, and final
        return None


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: apt-get install nginx")
def test_two_replicas_charge_a_key_once(tmp_path, trusted):
    try:
        with temporary_server() as server, empty_database(server.address) as ledger:
            first, second = (replica(tmp_path / name, ledger, tmp_path / "head") for name in ("one", "two"))
            tokens = tokens_of(first)
            with serving(first) as (one, _), serving(second) as (two, _), nginx(tmp_path, [one, two]) as url:
                with sl.connect(url, token=tokens["ada"], verify=trusted) as remote:
                    found = {key: asked(remote, key) for key in ("a", "b", "c")}
                    again = {key: asked(remote, key) for key in found}
                    assert remote.remaining["people"] == {"epsilon": "0.85"}
                headers = {"Authorization": f"Bearer {tokens['ada']}", "Host": "localhost"}
                pages = [
                    httpx.get(f"{each}/v1/releases?table=people", headers=headers, timeout=60).json()["releases"]
                    for each in (one, two)
                ]
                assert pages[0] == pages[1]  # every replica answers from the ledger
                assert len(pages[0]) == 3
                store = IdentityStore(read_config(first).store)
                try:
                    store.pause("people", "ada", now=time.time())
                    for each in (one, two):
                        assert httpx.get(f"{each}/v1/tables/people", headers=headers, timeout=60).json()["paused"]
                    store.revoke("ada")
                finally:
                    store.close()
                for each in (one, two):  # at once, and on all of them
                    assert httpx.get(f"{each}/v1/me", headers=headers, timeout=60).status_code == 401
            texts = [[each and each.to_json() for each in answers.values()] for answers in (found, again)]
            assert texts[0] == texts[1]
            assert any(texts[0])
            budgets = Budgets(read_config(first))
            try:
                states = [each.state for each in budgets.ledger.entries()]
                assert states == ["failed" if each is None else "released" for each in found.values()]
                assert budgets.ledger.verify().ok
            finally:
                budgets.close()
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


def replica(folder, ledger, head):
    file = write_survey(folder)
    text = file.read_text().replace('url = "budget.db"', f'url = "{ledger}"').replace('"4 s"', '"12 s"')
    text = text.replace('"elsewhere/ledger.head"', f'"{head}"').replace('store = "identity.db"', f'store = "{ledger}"')
    file.write_text(text.replace("port = 0\n", 'port = 0\nbehind_proxy = ["127.0.0.1/32"]\n'))
    return file


@pytest.mark.slow
@pytest.mark.postgres
def test_a_store_of_tokens_is_shared_and_outlives_its_connections():
    try:
        with temporary_server() as server, empty_database(server.address) as database:
            with pytest.raises(StorageError, match="there is no store of tokens in this database"):
                IdentityStore(database, create=False)
            with ThreadPoolExecutor(4) as threads:  # replicas that start at once
                stores = list(threads.map(IdentityStore, [database] * 4))
            one, other = stores[:2]
            now = time.time()
            token = one.issue("ada", now=now, days=1, note="?")
            assert other.holder(f"Bearer {token}", now=now).analyst == "ada"
            assert [each["note"] for each in other.tokens()] == ["?"]
            server.crash()
            server.start()
            with pytest.raises(StorageError, match="nothing was done"):
                other.holder(f"Bearer {token}", now=now)
            assert other.holder(f"Bearer {token}", now=now).analyst == "ada"
            with pytest.raises(StorageError):
                one.revoke("ada")
            with ThreadPoolExecutor(1) as threads:
                with other.holding():  # as a worker does while its charge is decided
                    assert other.is_live(token.split("_")[1], now=now)
                    revoking = threads.submit(one.revoke, "ada")
                    time.sleep(0.5)
                    assert not revoking.done()
                assert revoking.result() == 1
            with pytest.raises(ProblemError):
                other.holder(f"Bearer {token}", now=now)
            assert not other.is_live(token.split("_")[1], now=now)
            one.pause("people", "ada", now=now)
            assert other.is_paused("people", "ada")
            one.latest(now + 2 * DAY)
            assert other.latest(now) == now + 2 * DAY  # a clock that one has seen no other sets back
            one.latest(now)
            assert other.latest(now) == now + 2 * DAY
            for each in stores:
                each.close()
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.mark.slow
@pytest.mark.postgres
def test_tables_of_the_same_name_elsewhere_hold_no_tokens(monkeypatch):
    """A pooler may drop the options of a connection, and others may make tables where names alone are looked up."""
    connect = pytest.importorskip("psycopg").connect
    timed = pytest.importorskip("sidelight.ledger.timed_connection").TimedConnection
    opened = timed.connect
    planted = "sl_aa_planted"
    try:
        with temporary_server() as server, empty_database(server.address) as database:
            with connect(database) as other:
                for statement in _TABLES:
                    other.execute(statement.replace("main.", "public."))
                values = ("aa", "ada", hashlib.sha256(planted.encode()).hexdigest(), "[]", '["ask"]', 1e12, "")
                other.execute("INSERT INTO public.token VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
            with monkeypatch.context() as patched:
                patched.setattr(timed, "connect", lambda address, options, **how: opened(address, **how))
                store = IdentityStore(database)
            try:
                assert store.tokens() == []
                with pytest.raises(ProblemError):
                    store.holder(f"Bearer {planted}", now=time.time())
                store.pause("people", now=time.time())
                token = store.issue("ada", now=time.time())
                assert store.holder(f"Bearer {token}", now=time.time()).analyst == "ada"
            finally:
                store.close()
            with connect(database) as other:
                assert other.execute(
                    "SELECT (SELECT COUNT(*) FROM public.token), (SELECT COUNT(*) FROM public.pause)"
                ).fetchone() == (1, 0)
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.mark.slow
def test_the_server_speaks_tls(tmp_path, trusted):
    file = write_survey(tmp_path)
    file.write_text(file.read_text().replace("port = 0\n", 'port = 0\ncertificate = "tls.pem"\nkey = "tls.key"\n'))
    tokens = tokens_of(file)
    with serving(file) as (url, _):
        assert url.startswith("https://")
        with sl.connect(url, token=tokens["ada"], verify=trusted) as remote:
            assert remote.remaining == {"people": {"epsilon": "1"}}
            assert remote.price(QUERY, forecast=False).fits
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/health/live")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/health/live")
