"""What tests need and is no test: samples, damaged copies of them, cases, and the runner."""
