"""floats"""
