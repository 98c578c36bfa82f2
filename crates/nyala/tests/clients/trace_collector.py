"""A collector of traces: takes OTLP over HTTP as OpenTelemetry's own messages decode it, and prints a line per span.

Prints its port first. Ends at the end of its input. With the argument `refuse` it answers 503 to every batch.
"""

import base64
import http.server
import json
import sys
import threading

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def attributes(pairs):
    """Attributes as a dictionary; numbers of 64 bits are texts in JSON."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        refuses = "refuse" in sys.argv
        answer = b"out of order" if refuses else ExportTraceServiceResponse().SerializeToString()
        if not refuses:
            assert self.path == "/v1/traces", self.path
            assert self.headers["Content-Type"] == "application/x-protobuf", self.headers
            self.take(ExportTraceServiceRequest.FromString(body))
        self.send_response(503 if refuses else 200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def take(self, request):
        for resource in MessageToDict(request)["resourceSpans"]:
            of_resource = attributes(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    for name in ("traceId", "spanId", "parentSpanId"):
                        span[name] = base64.b64decode(span.get(name, "")).hex()
                    span["attributes"] = attributes(span.get("attributes", []))
                    span["resource"] = of_resource
                    print(json.dumps(span), flush=True)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
