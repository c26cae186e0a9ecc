"""Who clients are and what they may do. Knows no protocol.

==================  =================================================================
``principal``       who somebody is: a name and groups
``passcodes``       hashes of passcodes, and how one is checked
``users``           users and groups, given or from files that are read again
``login``           login modules and how several decide together, as JAAS does
``slowness``        how long the next attempt has to wait after failed ones
``authentication``  logins as the broker does them: in threads, one after the other
``authorization``   who may read, write and create what
``jasypt``          ``ENC(…)``, as Java's tools write it
==================  =================================================================
"""
