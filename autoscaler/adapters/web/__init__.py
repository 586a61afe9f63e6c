"""The web page: read-only, on this machine only, drawn from the record stream and from nothing else.

`hub` remembers what was published and tells every reader; `server` speaks HTTP and server-sent events; `assets` puts
the one page together. Nothing in here can change a decision, and nothing is fetched from elsewhere.
"""
