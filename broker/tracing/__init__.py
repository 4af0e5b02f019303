"""OpenTelemetry spans of traced messages. Only tracing.py imports OpenTelemetry; VELA_OTEL=1 loads tracing.py."""
