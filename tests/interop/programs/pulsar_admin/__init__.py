"""Apache's command `pulsar-admin` asks the questions about the Admin REST API.

`PulsarAdmin.java` runs its commands, and these modules check what they print.
"""
