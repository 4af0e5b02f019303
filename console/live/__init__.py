"""Live updates: streams of server-sent events that name the changed things, so that a page reads its blocks again.

feed.py passes PostgreSQL's notifications to groups of the channel layer, consumer.py sends them to a browser, and
routing.py wraps the consumer in the checks that run first.
"""
