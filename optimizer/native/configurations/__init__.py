"""Configurations of generated kernels: which are legal, which are fast on this processor.

chosen                     a configuration that a kernel has instead of the default
product_configuration      what may be chosen of a product, and the constants of C that it gives
convolution_configuration  what may be chosen of a convolution by minimal filtering
attention_configuration    what may be chosen of an attention
loop_configuration         what may be chosen of a kernel over rows, columns, or single cells
fused_configuration        what may be chosen of a fused NumPy program's kernel
pair_configuration         what may be chosen of a pair of convolutions
processor                  registers and caches, which these depend on
configurations.dl          which are legal, for a kernel's sizes and the processor
legal                      the same as Python: from facts to configurations
product_features           what a product comes to in one: fullness of tiles, caches, cycles
ranking                    which are probably fast, and what is measured next
samples.json.xz            what that is predicted from (benchmarks/tiles.py)
timed                      what was measured, in the catalog
"""
