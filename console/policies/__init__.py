"""The form for the policies of namespaces and topics."""
