"""HTTP of the controller: read-only, drawn from the record and from what the process says of itself.

`server` speaks HTTP and server-sent events for the page, `hub` remembers what was published and tells every reader,
`assets` puts the one page together; `live` adds metrics, health and answers to questions, `peer` asks another replica.
Nothing in here can change a decision, and nothing is fetched from elsewhere.
"""
