"""OpenTelemetry spans for traced messages. OpenTelemetry is imported only if VELA_OTEL is 1."""
