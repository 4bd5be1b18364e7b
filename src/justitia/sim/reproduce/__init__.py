"""The paper's evaluation and more, by one command: experiments, their plays, and a report."""
