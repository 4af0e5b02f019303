"""Live updates: streams of server-sent events that name what has changed, so that a page reads those blocks again.

feed.py passes PostgreSQL's notifications to groups of the channel layer, and watch.py finds problems of the broker,
Celery and the database. consumer.py sends both to one browser tab. routing.py checks each request before that.
"""
