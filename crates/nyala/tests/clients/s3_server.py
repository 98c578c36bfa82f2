"""A server that speaks S3 (moto), with faults on demand. Prints its port, and stops when its standard input ends.

GET /__faults/KIND/COUNT/OTHERS makes the next COUNT requests after some others fail: 503 (asks to slow down), cut (half of an
answer), slow (a second late), 403, lost (no answer). GET /__uploads says how many uploads were begun and not ended, /__objects
what is in the bucket "archive", /__changes which objects requests changed since it was asked the last time. GET /__age/NAME makes
an object an hour older, /__damage/NAME changes a byte in its middle, /__remove/NAME removes it. /__hold/COUNT keeps requests that change
something waiting after COUNT others, /__held says how many wait, /__drop closes their connections and lets new ones pass.
"""

import datetime
import sys
import threading
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

ERROR = "<?xml version='1.0'?><Error><Code>{0}</Code><Message>{0} of a test</Message></Error>"
lock = threading.Lock()
faults = []
changes = []
gate = threading.Condition(lock)
# How many changes may still pass (None: all), how many wait, and how often those who waited were sent away.
passing, waiting, drops = None, 0, 0
inner = DomainDispatcherApplication(create_backend_app)


def uploads():
    backends = [backend for regions in s3_backends.values() for backend in regions.values()]
    return sum(len(bucket.multiparts) for backend in backends for bucket in backend.buckets.values())


def keys():
    """The objects of the bucket."""
    return s3_backends["123456789012"]["aws"].buckets["archive"].keys


def asked(path):
    """Answers what is asked of the test server itself; None: it is a request of S3."""
    if path == "/__uploads":
        return str(uploads())
    if path == "/__objects":
        return "".join(f"{key.size} {key.name}\n" for key in sorted(keys().values(), key=lambda key: key.name))
    if path == "/__changes":
        with lock:
            text = "".join(f"{name}\n" for name in changes)
            changes.clear()
        return text
    if path == "/__held":
        return str(waiting)
    if path == "/__drop":
        set_passing(None)
        return ""
    if path.startswith("/__") and path.count("/") > 1:
        how, name = path[3:].split("/", 1)
        if how == "hold":
            set_passing(int(name))
        elif how == "faults":
            kind, count, others = name.split("/")
            with lock:
                faults[:] = [None] * int(others) + [kind] * int(count)
        elif how == "age":
            keys()[name].last_modified -= datetime.timedelta(hours=1)
        elif how == "damage":
            bytes_ = bytearray(keys()[name].value)
            bytes_[len(bytes_) // 2] ^= 1
            keys()[name].value = bytes(bytes_)
        elif how == "remove":
            del keys()[name]
        return ""
    return None


def set_passing(count):
    """From now on so many changes pass, or all; those who wait are sent away."""
    global passing, drops
    with gate:
        passing = count
        drops += 1
        gate.notify_all()


def noted(environ):
    """Notes an object that a request changes; False: it was kept waiting, and changes nothing any more."""
    global passing, waiting
    name = environ["PATH_INFO"].partition("/archive/")[2]
    if not name or environ["REQUEST_METHOD"] in ("GET", "HEAD"):
        return True
    with gate:
        if passing == 0:
            before = drops
            waiting += 1
            gate.wait_for(lambda: drops != before)
            waiting -= 1
            return False
        if passing is not None:
            passing -= 1
        changes.append(name)
    return True


def application(environ, start_response):
    path = environ["PATH_INFO"]
    answer = asked(path)
    if answer is not None:
        start_response("200 OK", [])
        return [answer.encode()]
    with lock:
        fault = faults.pop(0) if faults else None
    # What a client sends must be read before it is answered.
    if fault in ("503", "403"):
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        code, status = {"503": ("SlowDown", "503 Slow Down"), "403": ("AccessDenied", "403 Forbidden")}[fault]
        start_response(status, [("Content-Type", "application/xml")])
        return [ERROR.format(code).encode()]
    if fault == "lost" or not noted(environ):
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
