"""Three quick questions at the end of a chapter: can its reader now do what it promised?

question (what one is), then a module for each chapter that has some, `ch12`. They are judged on the
page as exercises are, with hints for known slips, and are not counted among them.
"""
