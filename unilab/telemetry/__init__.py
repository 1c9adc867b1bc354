"""What a run says about itself: spans, scalars, episodes, console lines, files. Knows no other part."""
