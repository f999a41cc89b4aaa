"""Quick questions: some on the way, and three at the end of a chapter, to see that its reader can.

question (what one is), then a module for each chapter that has some, `ch12`. They are judged on the
page as exercises are, with hints for known slips, and are not counted among them.
"""
