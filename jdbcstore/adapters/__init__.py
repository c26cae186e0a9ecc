"""jdbcstore inside of other programs: one package for each host, which needs that host and is imported by nobody else.

============= ==========================================================================================
`celery`      a transport for kombu and Celery: a client of the broker, or a broker in the program
`coilmq`      a queue store for CoilMQ
`amqtt`       a persistence plug-in for amqtt
`producer`    messages for a store that is used without a broker
`stomp_link`  a blocking STOMP 1.2 connection, of which the transport is made; needs nobody
============= ==========================================================================================
"""
