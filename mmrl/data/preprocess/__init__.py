"""`mmrl preprocess`: every picture and clip of a configuration opened once and stored, on as many processes as help."""
