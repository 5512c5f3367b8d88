"""What holds a subject to the model: subjects, callers, the judge, the shrinker, the engines."""
