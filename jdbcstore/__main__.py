"""`python -m jdbcstore` is the `jdbcstore` program."""

from jdbcstore.program import main

if __name__ == "__main__":
    main()
