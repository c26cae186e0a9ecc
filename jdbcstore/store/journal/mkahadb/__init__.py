"""Several KahaDB stores in one directory, by destination (``mKahaDB``).

`filters` says which destination is where, `outcomes` is the journal of transactions over several of the stores,
`adapter` is all of it.
"""
