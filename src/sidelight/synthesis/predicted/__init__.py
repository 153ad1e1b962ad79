"""What is known beforehand: public rows and earlier releases, read, calibrated, doubted and pooled."""
