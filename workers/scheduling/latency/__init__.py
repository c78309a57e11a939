"""How long things take: the step of an engine, the length of an answer, the cost of a request."""
