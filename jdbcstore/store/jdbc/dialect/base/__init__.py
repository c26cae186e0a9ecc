"""What every database is asked, with a default where one works: the file names are those of a database's folder."""
