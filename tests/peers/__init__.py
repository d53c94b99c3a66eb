"""Runs the tests of other compilers, from checkouts beside this project, through opbridge."""
