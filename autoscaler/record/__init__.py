"""What is written down of decisions: sentences, audit lines, the stream a page draws from, names of metrics."""
