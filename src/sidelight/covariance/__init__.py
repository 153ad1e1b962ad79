"""Private second-moment and covariance matrices with predictions, and what is computed from them."""
