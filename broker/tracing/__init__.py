"""OpenTelemetry spans of traced messages. Only tracing.py imports it, and only with VELA_OTEL=1."""
