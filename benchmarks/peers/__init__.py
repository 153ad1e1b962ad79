"""Other libraries beside ours: environments for them, programs that run in these, and the page of the comparison."""
