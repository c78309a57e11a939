"""`tokenyard`: the REST API on a command line. It knows the API and nothing else of the project."""

VERSION = "0.1.0"
