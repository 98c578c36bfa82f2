"""A server that speaks S3 (moto), with faults on demand. Prints its port, and stops when its standard input ends.

GET /__faults/KIND/COUNT makes the next COUNT requests fail: 503 (asks to slow down), cut (half of an answer), slow (a second
late), 403, lost (no answer). GET /__uploads says how many uploads were begun and not ended.
"""

import sys
import threading
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>{0} of a test</Message></Error>"
lock = threading.Lock()
faults = []
inner = DomainDispatcherApplication(create_backend_app)


def uploads():
    backends = [backend for regions in s3_backends.values() for backend in regions.values()]
    return sum(len(bucket.multiparts) for backend in backends for bucket in backend.buckets.values())


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/__faults/"):
        kind, count = path.split("/")[2:]
        with lock:
            faults[:] = [kind] * int(count)
        start_response("200 OK", [])
        return [b""]
    if path == "/__uploads":
        start_response("200 OK", [])
        return [str(uploads()).encode()]
    with lock:
        fault = faults.pop(0) if faults else None
    # What a client sends must be read before it is answered.
    if fault in ("503", "403"):
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        code, status = {"503": ("SlowDown", "503 Slow Down"), "403": ("AccessDenied", "403 Forbidden")}[fault]
        start_response(status, [("Content-Type", "application/xml")])
        return [ERROR.format(code).encode()]
    if fault == "lost":
        environ["werkzeug.socket"].close()
        return [b""]
    if fault == "slow":
        time.sleep(1)
    if fault != "cut":
        return inner(environ, start_response)
    answered = []
    body = b"".join(inner(environ, lambda status, headers, error=None: answered.append((status, headers))))
    start_response(*answered[0])

    def half():
        yield body[: len(body) // 2]
        environ["werkzeug.socket"].close()

    return half()


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass

    def log(self, *_):
        pass


server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
# Answers that are cut off are errors to it.
server.log = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
