"""The management face of a running broker: what operators see of it, and what they may do. It knows no protocol.

`jdbcstore.management.management` is the face; `views` has what it shows, `observation` looks at the broker now and
then, `operations` works on very many messages in small commits, `filters` says which, `rights` says who may.
"""
