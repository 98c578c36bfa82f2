#!/usr/bin/env python3
"""Writes the dashboards beside this file, or into the directory that is named.

Each panel is one entry below: what Grafana needs beside it is the same for all and is added here. Run it after a change
and commit what it writes; a test compares them.
"""

import json
import pathlib
import sys

INTO = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
DOCS = "docs/operations"
# Every panel is limited to the chosen servers.
CHOSEN = 'job=~"$job",instance=~"$instance"'

WRITES = 'path=~"/write|/api/v2/write|/api/v1/prom/write|/v1/metrics"'
QUERIES = 'path=~"/query|/api/sql|/api/v1/prom/read"'
SERIES_INDEX = 'component="series_index"'


def rate(metric, labels="", by="instance"):
    """The rate of a counter, of each server unless told otherwise."""
    return f"sum by ({by}) (rate({metric}{{{','.join(filter(None, [CHOSEN, labels]))}}}[$__rate_interval]))"


def value(metric, labels=""):
    return f"{metric}{{{','.join(filter(None, [CHOSEN, labels]))}}}"


def quantile(share, histogram, labels="", by="instance"):
    return f"histogram_quantile({share}, {rate(histogram + '_bucket', labels, 'le, ' + by)})"


def lines(title, unit, *targets, about="", stacked=False, highest=None, lowest=0):
    """A plot; each target is an expression and its legend."""
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10 if not stacked else 30, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults = {"unit": unit, "custom": custom}
    if lowest is not None:
        defaults["min"] = lowest
    if highest is not None:
        defaults["max"] = highest
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, targets, defaults, options, about)


def stat(title, unit, *targets, about="", steps=None, words=None, mode="value"):
    """A number, in the colour of the step that it has reached."""
    steps = steps or [(None, "text")]
    defaults = {
        "unit": unit,
        "thresholds": {"mode": "absolute", "steps": [{"value": at, "color": color} for at, color in steps]},
    }
    if words:
        options = {str(number): {"text": text, "index": index} for index, (number, text) in enumerate(words.items())}
        defaults["mappings"] = [{"type": "value", "options": options}]
    options = {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": mode,
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    return panel("stat", title, targets, defaults, options, about)


def panel(kind, title, targets, defaults, options, about):
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "editorMode": "code",
                "expr": expression,
                "legendFormat": legend,
                "instant": kind == "stat",
                "range": kind != "stat",
            }
            for number, (expression, legend) in enumerate(targets)
        ],
    }


def row(title, *panels, height=8):
    return title, height, panels


def placed(rows):
    """The panels of all rows, side by side on Grafana's 24 columns."""
    at, number = 0, 1
    for title, height, panels in rows:
        yield {
            "type": "row", "id": number, "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": at, "w": 24, "h": 1},
        }
        at, number = at + 1, number + 1
        width = 24 // len(panels)
        for place, each in enumerate(panels):
            yield {"id": number, "gridPos": {"x": place * width, "y": at, "w": width, "h": height}, **each}
            number += 1
        at += height


def variable(name, label, metric):
    """A choice among the values of a label of a metric."""
    query = f"label_values({metric}, {name})"
    return {
        "name": name, "label": label, "type": "query", "hide": 0, "refresh": 2, "sort": 1,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "definition": query, "query": {"query": query, "refId": "variable"},
        "multi": True, "includeAll": True, "allValue": ".+", "options": [],
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
    }


def dashboard(uid, title, other, rows):
    source = {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
        "refresh": 1, "multi": False, "includeAll": False, "options": [], "regex": "",
        "current": {"text": "default", "value": "default", "selected": False},
    }
    chosen = [
        variable("job", "Job", "nyala_memory_limit_bytes"),
        variable("instance", "Server", 'nyala_memory_limit_bytes{job=~"$job"}'),
    ]
    alerts = {
        "name": "Alerts", "enable": True, "hide": False, "iconColor": "red",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "expr": 'ALERTS{alertname=~"Nyala.+",alertstate="firing"}',
        "titleFormat": "{{alertname}}", "textFormat": "{{instance}}", "step": "1m",
    }
    return {
        "uid": uid, "title": title, "tags": ["nyala"], "schemaVersion": 39, "version": 1, "editable": True,
        "graphTooltip": 1, "refresh": "30s", "timezone": "browser", "time": {"from": "now-3h", "to": "now"},
        "annotations": {"list": [alerts]},
        "links": [{
            "title": other, "type": "dashboards", "tags": ["nyala"], "asDropdown": False, "icon": "external link",
            "includeVars": True, "keepTime": True, "targetBlank": False, "tooltip": "", "url": "",
        }],
        "templating": {"list": [source, *chosen]},
        "panels": list(placed(rows)),
    }


GOOD_TO_BAD = [(None, "green"), (1, "orange"), (2, "red")]

OVERVIEW = dashboard("nyala-overview", "nyala: overview", "nyala", [
    row("Health",
        stat("Up", "none", (f"min(up{{{CHOSEN}}})", ""), steps=[(None, "red"), (1, "green")], words={0: "down", 1: "up"},
             about="Whether all chosen servers can be scraped."),
        stat("Worst check", "none", (f"max({value('nyala_health')})", ""), steps=GOOD_TO_BAD,
             words={0: "well", 1: "warns", 2: "fails"}, about=f"See /health, and {DOCS}/monitoring.md#health."),
        stat("Version", "none", (value("nyala_build_info"), "{{version}}"), mode="name"),
        stat("Up for", "s", (f"time() - {value('process_start_time_seconds')}", "{{instance}}")),
        stat("Series", "short", (f"sum({value('nyala_series')})", ""),
             about="Series of the measurements that were read or written since the start."),
        stat("Damaged places", "none", (f"sum({value('nyala_recovery_damaged_places')})", ""),
             steps=[(None, "green"), (1, "red")], about=f"See {DOCS}/damage.md."),
        height=4),
    row("Checks",
        lines("Checks that warn (1) or fail (2)", "none", (value("nyala_health"), "{{instance}} {{check}}"), highest=2,
              about=f"What each check means: {DOCS}/monitoring.md#health."), height=5),
    row("Writes and queries",
        lines("Rows written", "wps", (rate("nyala_rows_written_total"), "{{instance}}"),
              about="The server's own rows (series, databases) included."),
        lines("Write requests", "reqps", (rate("nyala_http_requests_total", WRITES, "path, status"), "{{path}} {{status}}"),
              about=f"What a client does after each status: {DOCS}/durability.md."),
        lines("Queries", "reqps",
              (rate("nyala_http_requests_total", QUERIES, "path, status"), "{{path}} {{status}}"),
              (rate("nyala_postgres_statements_total"), "PostgreSQL {{instance}}"))),
    row("Latency: from the end of a request's header until its answer begins",
        lines("Writes", "s",
              *((quantile(share, "nyala_http_request_duration_seconds", WRITES), f"p{name} {{{{instance}}}}")
                for share, name in [(0.5, "50"), (0.99, "99")])),
        lines("Queries", "s",
              *((quantile(share, "nyala_http_request_duration_seconds", QUERIES), f"p{name} {{{{instance}}}}")
                for share, name in [(0.5, "50"), (0.99, "99")]),
              (quantile(0.99, "nyala_postgres_statement_duration_seconds"), "PostgreSQL p99 {{instance}}")),
        lines("Syncs of the log", "s",
              *((quantile(share, "nyala_log_sync_duration_seconds"), f"p{name} {{{{instance}}}}")
                for share, name in [(0.5, "50"), (0.99, "99")]),
              about="Each acknowledged write waits for one, unless wal-sync says otherwise. It shows how fast the disk is.")),
    row("Trouble",
        lines("Errors", "reqps", (rate("nyala_http_requests_total", 'status=~"4..|5.."', "path, status"), "{{path}} {{status}}"),
              (rate("nyala_postgres_failed_statements_total"), "PostgreSQL {{instance}}")),
        lines("Failed log-ins", "reqps",
              (rate("nyala_http_requests_total", 'status="401"'), "HTTP {{instance}}"),
              (rate("nyala_postgres_failed_log_ins_total"), "PostgreSQL {{instance}}"),
              about="The log names users and addresses."),
        lines("Writers that waited or were refused", "wps", (rate("nyala_write_stalls_total"), "waited {{instance}}"),
              (rate("nyala_writes_refused_total"), "refused {{instance}}"),
              about=f"See {DOCS}/memory.md#what-happens-when-it-is-full."),
        lines("Slow statements", "ops", (rate("nyala_slow_queries_total"), "{{instance}}"),
              about="Only with the setting slow-query-threshold; the log has their texts.")),
    row("Who may, and how much",
        lines("Log-ins slowed down, requests over a quota", "reqps",
              (rate("nyala_log_ins_slowed_down_total"), "log-ins {{instance}}"),
              (rate("nyala_quota_refused_total", by="quota"), "{{quota}}"),
              about=f"{DOCS}/security.md"),
        lines("Audit log", "ops", (rate("nyala_audit_lines_total"), "lines {{instance}}"),
              (rate("nyala_audit_lines_lost_total"), "lost {{instance}}"),
              about="Only with the setting audit-log.")),
    row("Traces",
        lines("Spans of traces", "ops", (rate("nyala_trace_spans_sent_total"), "sent {{instance}}"),
              (rate("nyala_trace_spans_lost_total"), "lost {{instance}}"),
              about="Only with the setting traces-endpoint.")),
    row("Backups",
        lines("Size of the last backup", "bytes", (value("nyala_backup_last_bytes"), "size {{instance}}"),
              (value("nyala_backup_last_new_bytes"), "new of it {{instance}}"), about=f"{DOCS}/backup.md"),
        lines("Age of the last backup", "s",
              (f"time() - ({value('nyala_backup_last_time_seconds')} > 0)", "{{instance}}")),
        lines("Backups finished and not finished", "none",
              (f"sum by (instance) (increase(nyala_backups_total{{{CHOSEN}}}[1h]))", "finished {{instance}}"),
              (f"sum by (instance) (increase(nyala_backup_failures_total{{{CHOSEN}}}[1h]))", "not finished {{instance}}")),
        lines("How long the last one took", "s", (value("nyala_backup_last_duration_seconds"), "{{instance}}"))),
    row("Arrow Flight SQL",
        lines("Calls and statements", "reqps", (rate("nyala_flight_calls_total"), "calls {{instance}}"),
              (rate("nyala_flight_statements_total"), "statements {{instance}}"),
              (rate("nyala_flight_failed_statements_total"), "failed {{instance}}"),
              (rate("nyala_flight_failed_log_ins_total"), "failed log-ins {{instance}}")),
        lines("Connections", "none", (value("nyala_flight_connections"), "{{instance}}"),
              (value("nyala_flight_connections_max"), "most {{instance}}"),
              (rate("nyala_flight_connections_closed_for_others_total"), "closed for others {{instance}}")),
        lines("How long calls took", "s", (quantile(0.5, "nyala_flight_call_duration_seconds"), "p50 {{instance}}"),
              (quantile(0.99, "nyala_flight_call_duration_seconds"), "p99 {{instance}}")),
        lines("What is kept for clients", "none", (value("nyala_flight_prepared_statements"), "statements {{instance}}"),
              (value("nyala_flight_transactions"), "transactions {{instance}}"))),
    row("UDP, Graphite, OpenTSDB, collectd, OpenTelemetry",
        lines("Points stored", "wps", (rate("nyala_input_points_written_total", by="input"), "{{input}}"),
              about="docs/inputs.md"),
        lines("Received", "Bps", (rate("nyala_input_received_bytes_total", by="input"), "{{input}}")),
        lines("Datagrams, lines and requests", "reqps", (rate("nyala_input_received_total", by="input"), "{{input}}")),
        lines("Received and not stored", "wps",
              (rate("nyala_input_rejected_total", by="input, reason"), "{{input}} {{reason}}"))),
    row("Memory",
        lines("Memory by component", "bytes", (f"sum by (component) ({value('nyala_memory_bytes')})", "{{component}}"),
              stacked=True, about=f"What each component is: {DOCS}/memory.md#what-uses-it."),
        lines("Share of the limit", "percentunit",
              (f"sum by (instance) ({value('nyala_memory_bytes')}) / on (instance) {value('nyala_memory_limit_bytes')}",
               "{{instance}}"), highest=1),
        lines("Resident memory", "bytes", (value("process_resident_memory_bytes"), "{{instance}}"),
              about="What the process really takes: at most 1.1 × memory-limit.")),
    row("Machine",
        lines("Processors", "none", (rate("process_cpu_seconds_total"), "{{instance}}"),
              about="How many of them the server keeps busy."),
        lines("Free disk space", "percentunit",
              (f"{value('nyala_disk_free_bytes')} / {value('nyala_disk_bytes')}", "{{instance}}"), highest=1,
              about=f"{DOCS}/durability.md#what-happens-when-the-disk-is-full"),
        lines("Open files", "percentunit", (f"{value('process_open_fds')} / {value('process_max_fds')}", "{{instance}}"),
              about="Share of what the system allows. Connections are open files, too.")),
    row("Connections",
        lines("HTTP", "none", (value("nyala_connections"), "{{listener}} {{instance}}"),
              (value("nyala_connections_max"), "most {{listener}} {{instance}}"),
              about=f"See {DOCS}/memory.md#how-many-connections."),
        lines("PostgreSQL", "none", (value("nyala_postgres_connections"), "{{instance}}"),
              (value("nyala_postgres_connections_max"), "most {{instance}}")),
        lines("Turned away", "cps",
              (rate("nyala_connections_closed_for_others_total", by="listener"), "closed for others {{listener}}"),
              (rate("nyala_postgres_connections_refused_total"), "PostgreSQL refused {{instance}}"))),
])

STORAGE = dashboard("nyala-storage", "nyala: storage", "nyala", [
    row("Now",
        stat("Rowsets", "short", (f"sum({value('nyala_rowsets')})", "")),
        stat("Rows in them", "short", (f"sum({value('nyala_rowset_rows')})", ""),
             about="Versions of an overwritten row count until they are merged."),
        stat("On disk", "bytes", (f"sum({value('nyala_rowset_bytes')})", "")),
        stat("Bytes per row", "bytes", (f"sum({value('nyala_rowset_bytes')}) / (sum({value('nyala_rowset_rows')}) > 0)", "")),
        stat("Log", "bytes", (f"sum({value('nyala_log_bytes')})", ""), about="What a recovery would read at most."),
        stat("Disk full in", "s",
             (f"min(({value('nyala_disk_free_bytes')}) / (-deriv(nyala_disk_free_bytes{{{CHOSEN}}}[6h]) > 0))", ""),
             steps=[(None, "red"), (86400, "orange"), (604800, "green")],
             about="If the free space keeps shrinking as in the last six hours. Empty if it does not shrink."),
        height=4),
    row("Rows on their way to files",
        lines("Rows in memory", "short", (value("nyala_memtable_rows"), "{{instance}}"),
              about="Rows that are in the log, and in no rowset yet."),
        lines("Size of the log", "bytes", (value("nyala_log_bytes"), "{{instance}}"),
              about="Rows are flushed when wal-limit is reached; at twice that, writes wait."),
        lines("Flushes", "ops", (rate("nyala_flushes_total"), "{{instance}}"),
              (rate("nyala_flush_failures_total"), "failed {{instance}}"))),
    row("Log",
        lines("Bytes written", "Bps", (rate("nyala_log_bytes_total"), "{{instance}}")),
        lines("Syncs and batches", "ops", (rate("nyala_log_syncs_total"), "syncs {{instance}}"),
              (rate("nyala_batches_total"), "batches {{instance}}"),
              about="Fewer syncs than batches: writers share them."),
        lines("Failures", "ops", (rate("nyala_log_write_failures_total"), "writes {{instance}}"),
              (rate("nyala_log_sync_failures_total"), "syncs {{instance}}"),
              (rate("nyala_catalog_failures_total"), "changes of the catalog {{instance}}"))),
    row("Files",
        lines("Rowsets", "short", (value("nyala_rowsets"), "{{instance}}"),
              about="A number that only grows means that compaction does not keep up."),
        lines("Size of files", "bytes", (value("nyala_rowset_bytes"), "rowsets {{instance}}"),
              (value("nyala_history_bytes"), "only for reading the past {{instance}}"),
              about=f"The past: {DOCS}/retention.md."),
        lines("Free disk space", "bytes", (value("nyala_disk_free_bytes"), "{{instance}}"))),
    row("Maintenance",
        lines("Compactions", "ops", (rate("nyala_compactions_total"), "{{instance}}"),
              (rate("nyala_compaction_failures_total"), "failed {{instance}}")),
        lines("Bytes written", "Bps", (rate("nyala_flushed_bytes_total"), "by flushes {{instance}}"),
              (rate("nyala_compacted_bytes_total"), "by compactions {{instance}}")),
        lines("Bytes written per byte flushed", "none",
              (f"1 + {rate('nyala_compacted_bytes_total')} / ({rate('nyala_flushed_bytes_total')} > 0)", "{{instance}}"),
              about="Write amplification of compaction.")),
    row("Reading",
        lines("Blocks", "ops", (rate("nyala_cache_hits_total"), "from the cache {{instance}}"),
              (rate("nyala_cache_misses_total"), "from files {{instance}}")),
        lines("Hits of the cache", "percentunit",
              (f"{rate('nyala_cache_hits_total')} / ({rate('nyala_cache_hits_total')} + "
               f"{rate('nyala_cache_misses_total')} > 0)", "{{instance}}"), highest=1),
        lines("Bloom filters", "ops", (rate("nyala_filter_lookups_total"), "questions {{instance}}"),
              (rate("nyala_filter_rejections_total"), "answered with no {{instance}}"),
              about="Whether a rowset may have the row of a key of a table."),
        lines("Spilled by SQL", "bytes", (value("nyala_sql_spilled_bytes"), "{{instance}}"),
              about="Rows on the disk that statements sort or group and have no memory for (setting spill-limit).")),
    row("Series",
        lines("Series", "short", (value("nyala_series"), "{{instance}}"), (value("nyala_series_away"), "idle {{instance}}"),
              about=f"Idle series are on disk and not in memory: {DOCS}/memory.md#idle-series."),
        lines("Memory of the series index", "percentunit",
              (f"{value('nyala_memory_bytes', SERIES_INDEX)} / ignoring (component) "
               f"{value('nyala_memory_limit_bytes')}", "{{instance}}"),
              about="New series are rejected at a half."),
        lines("Memory of files", "bytes",
              (value("nyala_memory_bytes", 'component=~"block_cache|rowset_index|maintenance"'), "{{component}} {{instance}}"))),
])

for name, content in [("overview", OVERVIEW), ("storage", STORAGE)]:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (INTO / f"{name}.json").write_text(text, encoding="utf-8")
