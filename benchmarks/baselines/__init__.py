"""What sidelight is compared with: published methods and simulators, beside the benchmarks and not in the product."""
