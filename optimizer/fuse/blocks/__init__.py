"""Beyond one machine: programs over operands that are held as blocks of rows, under Dask."""
