"""The papers' figures, remade: the simulator and the models on a suite, as data that documents and pictures are made from."""
