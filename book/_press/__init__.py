"""What is made of the built pages: entries for the search, the addresses of the site, a PDF.

In reading order: entries, search, addresses.
"""
