"""HTTP with the standard library's client.

Usage: web.py PATH_TO_ALLUVIA
"""

import csv
import http.client
import http.server
import io
import json
import pathlib
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import serving
from serving import check


@contextmanager
def served(binary, data, *settings):
    """A server on free ports; gives where HTTP is, and what it said."""
    with serving.server(binary, data, "127.0.0.1:0", *settings) as said:
        base = next(line.split(" on ")[1].strip() for line in said if "HTTP" in line)
        yield base, "".join(said)


def ask(base, path, body=None, **headers):
    """Status and body."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        headers.setdefault("Content-Type", "text/plain")
        body = body if isinstance(body, bytes) else body.encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, data=body, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def rows(base, sql):
    status, text = ask(base, "/query", sql)
    assert status == 200, text
    return json.loads(text)["rows"]


def with_trust(base):
    check(ask(base, "/query", "CREATE TABLE t (a INT, b TEXT)")[0], 200, "DDL")
    check(ask(base, "/query", "INSERT INTO t VALUES (1, 'ä'), (2, NULL)")[0], 200, "INSERT")
    check(rows(base, "SELECT * FROM t ORDER BY a"), [{"a": 1, "b": "ä"}, {"a": 2, "b": None}], "JSON")
    status, text = ask(base, "/query", "SELECT * FROM t ORDER BY a", Accept="text/csv")
    check((status, list(csv.reader(io.StringIO(text)))), (200, [["a", "b"], ["1", "ä"], ["2", ""]]), "CSV")
    body = json.dumps({"sql": "SELECT $1 || b AS c FROM t WHERE a = $2", "parameters": ["x", 1], "settings": {"freshness": "0s"}})
    status, text = ask(base, "/query", body, Content_Type="application/json")
    check((status, json.loads(text).get("rows")), (200, [{"c": "xä"}]), "parameters")
    status, text = ask(base, "/query", "SELECT * FROM nowhere")
    check((status, json.loads(text)["error"]["code"]), (404, "42P01"), "an error")
    first = json.loads(ask(base, "/ingest/t", "3,x\n4,y\n", Content_Type="text/csv", Idempotency_Key="k")[1])
    again = json.loads(ask(base, "/ingest/t", "3,x\n4,y\n", Content_Type="text/csv", Idempotency_Key="k")[1])
    check((first["rows"], first["duplicate"], again), (2, False, {**first, "duplicate": True}), "a key")
    status, text = ask(base, "/ingest/t", '{"a": 5}\n{"a": "five"}\n', Content_Type="application/x-ndjson")
    check((status, json.loads(text)["error"]["where"]), (400, "the body, line 2, column a"), "a bad row")
    check(rows(base, "SELECT count(*) AS n FROM t"), [{"n": 4}], "rows")
    check(ask(base, "/readyz")[0], 200, "ready")
    check("alluvia_rows_ingested_total 4" in ask(base, "/metrics")[1], True, "metrics")
    check(ask(base, "/openapi.yaml")[1].splitlines()[1].startswith("openapi: 3"), True, "the description")
    try:
        ask(base, "/query", "SELECT 10 / (150000 - value) AS n FROM generate_series(1, 1000000)", Accept="text/csv")
        raise AssertionError("an answer that was cut was taken for whole")
    except http.client.IncompleteRead:
        check(True, True, "an answer that is cut")
    status, text = ask(base, "/query", "SELECT 1 AS a", Accept="text/event-stream")
    check("event: end" in text, True, "events")


def with_cancel(base):
    answers = []
    long = "SELECT count(*) FROM generate_series(1, 1000000000000)"
    thread = threading.Thread(target=lambda: answers.append(ask(base, "/query", long)))
    thread.start()
    running = []
    while not running:
        running = rows(base, f"SELECT session_id AS id FROM alluvia.sessions WHERE sql = '{long}'")
    check(ask(base, "/query", f"CALL alluvia.cancel({running[0]['id']})")[0], 200, "cancel")
    thread.join()
    check(answers[0][0], 499, "a cancelled statement")


def with_passwords(binary, data):
    with served(binary, data, "authentication=password") as (base, said):
        password = said.split("shown this once: ")[1].split()[0]
        check(ask(base, "/query", "SELECT 1")[0], 401, "no password")
        for scheme in ("Basic", "Bearer"):
            right = f"{scheme} {b64encode(f'alluvia:{password}'.encode()).decode()}"
            check(ask(base, "/query", "SELECT 1", Authorization=right)[0], 200, scheme)
        wrong = f"Basic {b64encode(b'alluvia:wrong').decode()}"
        check(ask(base, "/query", "SELECT 1", Authorization=wrong)[0], 401, "a wrong password")
        check(ask(base, "/healthz")[0], 200, "health")


@contextmanager
def collector():
    """An OpenTelemetry collector that keeps what it is sent; gives its address and the spans, as the standard's own definitions read them."""
    spans = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            check((self.path, self.headers["Content-Type"]), ("/v1/traces", "application/x-protobuf"), "OTLP")
            for resource in request.resource_spans:
                check([(a.key, a.value.string_value) for a in resource.resource.attributes][0], ("service.name", "alluvia"), "resource")
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def with_traces(binary, data):
    """A request of a client that traces, from the wire to the scan; then one that nobody traces."""
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    sql = "SELECT b, count(*) AS n FROM t WHERE length(b) > 0 GROUP BY b"
    with collector() as (endpoint, spans):
        with served(binary, data, f"otlp_endpoint={endpoint}", "otlp_share=0") as (base, _):
            check(ask(base, "/query", "CALL alluvia.flush()")[0], 200, "flush")
            check(ask(base, "/query", sql, traceparent=f"00-{trace}-{parent}-01")[0], 200, "a traced query")
            check(ask(base, "/query", "SELECT nowhere", traceparent=f"00-{trace}-{parent}-01")[0], 400, "a traced error")
            check(ask(base, "/ingest/t", "9,z\n", Content_Type="text/csv", traceparent=f"00-{trace}-{parent}-01")[0], 200, "a traced batch")
        # The server has ended, and has sent what it had.
        check({span.trace_id.hex() for span in spans}, {trace}, "the client's trace alone")
        by_id = {span.span_id: span for span in spans}

        def path(span):
            above = by_id.get(span.parent_span_id)
            return (path(above) if above else []) + [span.name]

        paths = {"/".join(path(span)) for span in spans}
        wanted = ["request", "request/statement", "request/statement/planning", "request/statement/execution"]
        for one in [*wanted, "request/statement/table scan", "request/statement/commit"]:
            check(one in paths, True, f"{one} in {sorted(paths)}")
        roots = [span for span in spans if span.name == "request"]
        check({span.parent_span_id.hex() for span in roots}, {parent}, "the client's span")
        check(sorted(attributes(span)["http.response.status_code"] for span in roots), [200, 200, 400], "statuses")
        scans = [attributes(span) for span in spans if span.name == "table scan"]
        check([(scan["table"], scan["rows"] + scan["tail_rows"] >= 4, scan["bytes"] > 0) for scan in scans], [("t", True, True)], "the scan")
        statements = {attributes(span)["db.query.text"]: span for span in spans if span.name == "statement"}
        check((attributes(statements[sql])["rows"], statements[sql].status.code), (3, 0), "the statement")
        check(statements["SELECT nowhere"].status.code, 2, "a failed statement")
        for span in spans:
            above = by_id.get(span.parent_span_id)
            check(above is None or above.start_time_unix_nano <= span.start_time_unix_nano, True, "children begin later")


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "db"
        with served(binary, data) as (base, _):
            with_trust(base)
            with_cancel(base)
        with served(binary, data) as (base, _):
            check(rows(base, "SELECT count(*) AS n FROM t"), [{"n": 4}], "after a restart")
            again = json.loads(ask(base, "/ingest/t", "3,x\n4,y\n", Content_Type="text/csv", Idempotency_Key="k")[1])
            check((again["rows"], again["duplicate"]), (2, True), "a key after a restart")
        with_traces(binary, data)
        with_passwords(binary, data)
    print(f"http: {serving.passed} passed, 0 failed")


if __name__ == "__main__":
    main()
