"""Convolutions over blocks of channels as kernels: sliding, by minimal filtering, or in pairs."""
