"""The book: its pages, and the tools and extensions that build them."""
