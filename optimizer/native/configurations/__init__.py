"""Configurations of generated kernels: which are legal, which are fast on this processor.

product_configuration  what may be chosen of a product, and the constants of C that it gives
processor              registers and caches, which these depend on
configurations.dl      which are legal, for a product's sizes and the processor
legal                  the same as Python: from facts to configurations
"""
