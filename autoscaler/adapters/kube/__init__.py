"""The Kubernetes API server: one client, narrow objects, and caches that follow the server through any failure.

`api` sends requests and opens watches; `connection` finds the server and its credentials (the only user of
kubernetes-asyncio); `answers` words what went wrong; `informer` keeps the objects of one resource; `objects` says which
of their fields are read. Bytes come in from the wire and msgspec structs leave: no typed model of the vendor is made.
"""
