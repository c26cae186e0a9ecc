"""Private database servers for the tests: each in a folder of its own, on a loopback port, gone when the tests are."""
