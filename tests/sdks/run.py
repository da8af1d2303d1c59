"""Runs published SDKs against a running server, and looks for what they sent.

    python3 tests/sdks/run.py PROGRAM MODULES [CHROMIUM]

Starts PROGRAM (fulmar) over a new folder and runs against it, with nothing changed but the
host: @openpanel/sdk and @segment/analytics-node out of MODULES/node_modules, the Python
packages `openpanel` and `segment-analytics-python` of the interpreter that runs this, and in
the browser CHROMIUM, where one is given, @openpanel/web.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from server import Server

HERE = pathlib.Path(__file__).parent
# Longest wait for what an SDK sends from a thread of its own, in seconds.
ARRIVAL_MAX = 30


class WithClient(Server):
    """A server with a client of SDKs."""

    def __init__(self, program, folder):
        super().__init__(program, folder)
        made = json.loads(self.run("clients", "create", "sdks"))
        self.client = made["client"]
        self.secret = pathlib.Path(made["file"]).read_text().strip()

    def run(self, *arguments):
        command = [self.program, *arguments, "--data", self.data]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def rows(self, sql):
        return json.loads(self.run("query", "--format", "json", sql))

    def expect(self, what, sql, expected):
        """The rows, once they are there: some SDKs do not say when they have sent."""
        end = time.monotonic() + ARRIVAL_MAX
        while (found := self.rows(sql)) != expected:
            if time.monotonic() > end:
                sys.exit(f"{what}: {sql}\nexpected {expected}\nfound    {found}")
        print(f"{what}: as expected")


def run_node(server, modules, script, **more):
    environment = dict(
        os.environ, MODULES=modules, URL=server.url, CLIENT=server.client, SECRET=server.secret
    )
    environment.update(more)
    done = subprocess.run(
        ["node", HERE / script], env=environment, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        sys.exit(f"{script}: {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def openpanel_js(server, modules):
    answers = run_node(server, modules, "openpanel.mjs")
    for answer in answers:
        if not (answer["answer"] or {}).get("deviceId"):
            sys.exit(f"@openpanel/sdk: {answer}")
    server.expect(
        "@openpanel/sdk",
        "select profile_id, properties['nested.a.1'] as second, sdk_name from events"
        " where name = 'js_signup'",
        [{"profile_id": "js-1", "second": "2", "sdk_name": "node"}],
    )
    server.expect(
        "@openpanel/sdk, profile",
        "select first_name, properties['tier'] as tier, properties['visits'] as visits,"
        " properties['credits'] as credits from profiles_latest where id = 'js-1'",
        [{"first_name": "Ada", "tier": "gold", "visits": "2", "credits": "-1"}],
    )


def segment_js(server, modules):
    run_node(server, modules, "segment.mjs")
    server.expect(
        "@segment/analytics-node",
        "select profile_id, device_id, properties['seats'] as seats from events"
        " where name = 'node_signup'",
        [{"profile_id": "node-1", "device_id": "node-device", "seats": "3"}],
    )
    server.expect(
        "@segment/analytics-node, profile",
        "select first_name, email, groups[1] as org from profiles_latest where id = 'node-1'",
        [{"first_name": "Grace Hopper", "email": "grace@shop.example", "org": "org_2"}],
    )


def openpanel_web(server, modules, chromium):
    # A browser shows no secret: its origin lets it in.
    made = json.loads(server.run("clients", "create", "web", "--cors", "http://localhost:*"))
    server.run("projects", "set", "--allow-unsafe-revenue", "true")
    sent = run_node(server, modules, "web.mjs", CLIENT=made["client"], CHROMIUM=chromium)
    refused = [one for one in sent if one["status"] != 200]
    if refused:
        sys.exit(f"@openpanel/web: {refused}")
    server.expect(
        "@openpanel/web",
        "select name, path, properties['plan'] as plan, revenue, browser, os, device from events"
        " where sdk_name = 'web' and name != 'session_start' order by created_at, event_id",
        [
            {"name": name, "path": path, "plan": plan, "revenue": revenue}
            | {"browser": "Chrome", "os": "Linux", "device": "desktop"}
            for name, path, plan, revenue in [
                ("screen_view", "/", None, 0),
                ("screen_view", "/pricing", None, 0),
                # What attributes and links cause, the tracker sends without a path.
                ("buy", "", "pro", 0),
                ("link_out", "", None, 0),
                ("revenue", "/pricing", "pro", 1999),
            ]
        ],
    )
    server.expect(
        "@openpanel/web, session",
        "select profile_id, entry_path, exit_path, screen_view_count as views, revenue,"
        " utm_source, (select count(*) > 0 from session_replay_chunks c where c.session_id = s.id)"
        " as recorded from sessions_latest s where device = 'desktop'",
        [
            {"profile_id": "web-1", "entry_path": "/", "exit_path": "/pricing", "views": 2}
            | {"revenue": 1999.0, "utm_source": "news", "recorded": True}
        ],
    )
    server.expect(
        "@openpanel/web, profile",
        "select first_name from profiles_latest where id = 'web-1'",
        [{"first_name": "Mary"}],
    )


def openpanel_python(server):
    from openpanel import OpenPanel

    sdk = OpenPanel(server.client, server.secret, server.url)
    # Without a profile it sends null.
    sdk.track("python_start", {"step": 1})
    sdk.identify("python-1", {"firstName": "Alan", "properties": {"tier": "free"}})
    sdk.increment("python-1", "visits")
    server.expect(
        "openpanel (Python)",
        "select properties['step'] as step, sdk_name from events where name = 'python_start'",
        [{"step": "1", "sdk_name": "python"}],
    )
    server.expect(
        "openpanel (Python), profile",
        "select first_name, properties['tier'] as tier, properties['visits'] as visits"
        " from profiles_latest where id = 'python-1'",
        [{"first_name": "Alan", "tier": "free", "visits": "1"}],
    )


def segment_python(server):
    import segment.analytics as analytics

    failures = []
    analytics.write_key = f"{server.client}:{server.secret}"
    analytics.host, analytics.gzip = server.url, True
    analytics.on_error = lambda error, _: failures.append(error)
    analytics.track("py-1", "py_order", {"total": 39.95}, anonymous_id="py-device")
    analytics.alias("py-device", "py-1")
    analytics.shutdown()
    if failures:
        sys.exit(f"segment-analytics-python: {failures[0]}")
    server.expect(
        "segment-analytics-python",
        "select profile_id, device_id, properties['total'] as total from events"
        " where name = 'py_order'",
        [{"profile_id": "py-1", "device_id": "py-device", "total": "39.95"}],
    )


def main(program, modules, chromium=None):
    with tempfile.TemporaryDirectory() as folder:
        server = WithClient(program, pathlib.Path(folder))
        try:
            openpanel_js(server, modules)
            segment_js(server, modules)
            openpanel_python(server)
            segment_python(server)
            if chromium:
                openpanel_web(server, modules, chromium)
            verdict = json.loads(server.run("verify", "--json"))["verdict"]
            if verdict != "ok":
                sys.exit(f"verify: {verdict}")
        finally:
            server.stop()


if __name__ == "__main__":
    main(*(str(pathlib.Path(path).resolve()) for path in sys.argv[1:]))
