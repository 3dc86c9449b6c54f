"""half"""
