"""OpenTelemetry spans of traced messages. Only `tracing` imports OpenTelemetry, and only VELA_OTEL=1 imports it."""
