"""Benchmarks: a folder is a question, a file in it is a rival's answer. See README.md."""
