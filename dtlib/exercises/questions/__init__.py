"""Quick questions: some on the way, and three at the end of a chapter, to see that its reader can.

A room for each part, a module for each chapter that has some; what one is says
`declarations/question`. They are judged on the page as exercises are, with hints for known slips,
and are not counted among them.
"""
