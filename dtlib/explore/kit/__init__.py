"""What all widgets are made of: a widget itself is a view of its state and a drawing of it.

In Python: `source`, scripts and sheets as texts; `controls`, what the reader moves; `widget`, the
base of all kinds; `still`, figures without a browser. In the page the scripts of `dtlib.drawing`
come first, then `dom`, `frame`, `controls`, `player`, `storage`, `widget`, `still`.
"""
