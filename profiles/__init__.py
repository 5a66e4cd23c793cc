"""What it costs: kernels measured on this machine, and bounds for those not measured yet."""
