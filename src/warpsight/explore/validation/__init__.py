"""Figures of the papers again: the referee and the models on a suite, as data that documents and pictures are made from."""
