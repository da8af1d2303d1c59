"""Verifies real deliveries with the published libraries of Standard Webhooks.

    python3 tests/sdks/receivers.py PROGRAM MODULES

Starts PROGRAM (fulmar) over a new folder with two receivers: one of this interpreter, with the
packages `standardwebhooks`, `svix` and, for v1a, `cryptography`; and one of node, with
`standardwebhooks` and `svix` out of MODULES/node_modules. Each delivery must verify with its
secret, and neither with another one nor with one byte more.
"""

import base64
import http.server
import json
import os
import pathlib
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import urllib.request

import standardwebhooks
import svix.webhooks
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from server import Server

HERE = pathlib.Path(__file__).parent
# Longest wait for a delivery, in seconds.
ARRIVAL_MAX = 30
PAYLOADS = ['{"n":1.10}', "[]", '"ünïcödé \\u2028 \\\\"', "null", '{"deep":{"er":[1,2,{"x":"y"}]}}', "1e400"]


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def verifies(library, secret, body, headers):
    try:
        library(secret).verify(body, headers)
    except (standardwebhooks.WebhookVerificationError, svix.webhooks.WebhookVerificationError):
        return False
    return True


def verifies_v1a(public, body, headers):
    """By hand: no published library does it."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body.encode()
    for text in headers["webhook-signature"].split(" "):
        version, signature = text.split(",", 1)
        if version == "v1a":
            try:
                key.verify(base64.b64decode(signature), signed)
                return True
            except InvalidSignature:
                continue
    return False


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.got.put((body, {name.lower(): text for name, text in self.headers.items()}))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def call(server, key, path, body):
    key = (server.data / f"keys/{key}.key").read_text().strip()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(server.url + path, body.encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: expected {wanted}, found {got}")


def check_python(got, count, living, dead, public):
    """Each delivery verifies with every living secret, and with nothing else."""
    for _ in range(count):
        body, headers = got.get(timeout=ARRIVAL_MAX)
        for library in (standardwebhooks.Webhook, svix.webhooks.Webhook):
            told = [verifies(library, secret, body, headers) for secret in living + dead]
            check(f"{library.__module__}", told, [True] * len(living) + [False] * len(dead))
            check("a byte more", verifies(library, living[0], body + " ", headers), False)
        check("v1a", verifies_v1a(public, body, headers), True)
        check("v1a of a byte more", verifies_v1a(public, body + " ", headers), False)


def main():
    program, modules = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(
            program,
            pathlib.Path(folder),
            "webhooks.allowed_networks=127.0.0.1/32",
            "webhooks.auto_register_event_types=true",
        )
        here = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        here.got = queue.Queue()
        threading.Thread(target=here.serve_forever, daemon=True).start()
        secret, other = new_secret(), new_secret()
        environment = dict(os.environ, MODULES=modules, SECRET=secret, OTHER=other)
        node = subprocess.Popen(
            ["node", HERE / "receiver.mjs"], env=environment, stdout=subprocess.PIPE, text=True
        )
        port = json.loads(node.stdout.readline())
        hooks = "/v1/consumers/acme/webhooks"
        fields = {"events": ["*"], "secret": secret}
        of_python = {**fields, "url": f"http://127.0.0.1:{here.server_port}/", "signature_type": "ed25519"}
        made = call(server, "admin", hooks, json.dumps(of_python))
        of_node = {**fields, "url": f"http://127.0.0.1:{port}/", "body": "payload"}
        call(server, "admin", hooks, json.dumps(of_node))
        publish = "/v1/consumers/acme/events?event=order.paid"
        for payload in PAYLOADS:
            call(server, "ingest", publish, f'{{"payload":{payload}}}')
        batch = ",".join(f'{{"payload":{payload}}}' for payload in PAYLOADS)
        call(server, "ingest", publish, f"[{batch}]")
        count = 2 * len(PAYLOADS)
        public = made["public_keys"][0]
        check_python(here.got, count, [secret], [other], public)
        for _ in range(count):
            told = json.loads(node.stdout.readline())["told"]
            check("node", told, [[True, False, False]] * 2)
        # While a secret is followed by another both sign, and so do both keys.
        rotated = call(server, "admin", f"{hooks}/{made['id']}:rotateSecret", "{}")
        check("keys", [len(rotated["public_keys"]), rotated["public_keys"][1]], [2, public])
        call(server, "ingest", publish, '{"payload":"after"}')
        check_python(here.got, 1, [secret, rotated["secret"]], [other], public)
        node.kill()
        server.stop()
    print(f"{2 * count + 2} deliveries verified by standardwebhooks and svix, of PyPI and of npm")


main()
