"""The paper's experiments, run again: settings, contenders, measurements, judgement and report."""
