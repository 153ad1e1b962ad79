"""What rows look like: the domain and its columns, workloads, the points of a distribution and their sums."""
