"""The algorithms, each as the schedule that its docstring states.

`algorithms`, rings and trees; `rooted`; `grouped`, made of others; `all_to_all`;
`double_binary_tree`; `parameter_server`.
"""
