"""textures"""
