"""From options, files and URLs to objects: the composition root."""
