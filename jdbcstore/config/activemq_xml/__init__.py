"""ActiveMQ's configuration file, ``activemq.xml``, read into our options.

From the file to objects, a step in each module::

    document        bytes → elements with their lines; refuses what makes XML dangerous
    placeholders    ${name} → values of property files, system properties, the environment
    beans           elements of ActiveMQ and of Spring → beans with settings, whatever way they were written
    vocabulary      what each element and attribute of ActiveMQ becomes here: the table that docs/activemq-xml.md shows
    reader          the whole file → a `Configuration`, with what was found on the way

`settings` walks a bean along the vocabulary; `store`, `data_source`, `jdbc_url`, `connectors`, `broker`, `policies` and
`security` are the parts that need more than a table.
"""
