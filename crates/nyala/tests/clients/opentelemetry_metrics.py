"""OpenTelemetry's SDK and its exporter over HTTP: a counter, a gauge and a histogram. Argument: the URL."""

import sys

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

exporter = OTLPMetricExporter(endpoint=sys.argv[1], compression=Compression.Gzip)
reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
view = View(instrument_name="latency", aggregation=ExplicitBucketHistogramAggregation([5, 10]))
provider = MeterProvider([reader], Resource.create({"service.name": "shop"}), views=[view])
meter = provider.get_meter("test", "1.0")
meter.create_counter("requests").add(7, {"method": "GET"})
meter.create_observable_gauge("level", [lambda options: [Observation(2.5)]])
latency = meter.create_histogram("latency")
for value in (4, 6, 100):
    latency.record(value)
assert provider.force_flush()
provider.shutdown()
