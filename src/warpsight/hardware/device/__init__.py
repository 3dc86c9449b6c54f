"""Kernels run on a GPU of this machine, through its driver: do they write what the emulator writes, and in what time?"""
