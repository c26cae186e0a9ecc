"""HTTP for operators: the console, a JSON API, metrics, and what tools ask of an ActiveMQ broker.

`server` listens, in the broker's event loop, `application` puts the pages together, `identity` says who asks. Needs the
extra ``web``; nothing else of the package does.
"""
