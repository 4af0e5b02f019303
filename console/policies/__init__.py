"""The form that sets policies, for namespaces and topics alike."""
