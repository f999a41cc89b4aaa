"""Architectures that keep and send less, and what each of them still has to move.

`cost`, the formulas; `cache`, what a model keeps of its text, by its spec; `decoding`, the step
that reads it; `latent`, attention from a latent in two orders; `windows`, sliding windows on ranks;
`states`, attention without softmax, and the scan that carries its state; `nodes`, experts of few
nodes; `further`, a module that predicts the token after the next.
"""
